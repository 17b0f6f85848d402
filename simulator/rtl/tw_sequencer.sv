// Takes the program's words, runs its loops, and dispatches its instructions to the queues.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: one word per cycle. The first time a word comes from fetch and, inside a loop, goes to
// the loop buffer as well; later iterations take it from there. An instruction is decoded, resolved
// and dispatched in the cycle in which its last word is taken; if its queue is full that word is
// held, and what was found out in its first cycle is kept in registers. Jumping back costs nothing.
// An illegal instruction is a fault in the cycle in which its last word could be taken, the missing
// halt in the cycle after the last word of the code. start_i is cycle 0; code_address_i and
// code_words_i keep still from then on.
module tw_sequencer (
    input  logic                                          clk_i,
    input  logic                                          rst_ni,
    input  logic                                          start_i,
    input  logic [39:0]                                   code_address_i,
    input  logic [31:0]                                   code_words_i,
    input  logic                                          stop_i,
    // Fetch.
    output logic [tw_machine_pkg::BurstsPerCycle-1:0]     fetch_valid_o,
    output logic [tw_machine_pkg::BurstsPerCycle*40-1:0]  fetch_address_o,
    output logic [tw_machine_pkg::BurstsPerCycle*12-1:0]  fetch_slot_o,
    input  logic [tw_machine_pkg::BurstsPerCycle-1:0]     fetch_grant_i,
    input  logic [tw_machine_pkg::DramResponses-1:0]      rsp_valid_i,
    input  logic [tw_machine_pkg::DramResponses*12-1:0]   rsp_slot_i,
    input  logic [tw_machine_pkg::DramResponses*tw_machine_pkg::BurstBytes*8-1:0] rsp_data_i,
    // Dispatch.
    output logic                                          dispatch_valid_o,
    output logic [3:0]                                    dispatch_engine_o,
    output tw_pkg::control_t                              dispatch_control_o,
    output logic [5*tw_isa_pkg::WordBits-1:0]             dispatch_operands_o,
    input  logic [tw_pkg::NumQueues-1:0]                  queue_full_i,
    // End.
    output logic                                          fault_o,
    output logic [31:0]                                   fault_pc_o,
    output logic                                          halt_o,
    output logic                                          halted_o,
    // Labels of this cycle.
    output logic                                          busy_o,
    output logic                                          full_o,
    output logic                                          dram_wait_o,
    output logic [5:0]                                    dram_channel_o
);

  localparam int unsigned WordBits = tw_isa_pkg::WordBits;
  localparam int unsigned MaxWords = 8;
  localparam int unsigned Depth = tw_isa_pkg::MaxLoopDepth;
  localparam int unsigned DepthBits = $clog2(Depth + 1);
  localparam int unsigned BufferWords = tw_machine_pkg::LoopBufferWords;
  localparam int unsigned BufferBits = BufferWords > 1 ? $clog2(BufferWords) : 1;
  localparam int unsigned StateBits = tw_isa_pkg::MaxLevels * 24;

  logic running_q, halted_q;
  logic [31:0] pc_q;      // first word of the current instruction
  logic [31:0] word_q;    // next word to be taken
  logic [3:0] taken_q;    // words of the current instruction that have been taken
  logic [3:0] length_q;   // its length, once one has
  logic truncated_q;      // the code ends inside it
  logic [WordBits-1:0] words_q[MaxWords];

  // Loops, the outermost one lowest: begin and end of the body, and how often it runs again.
  logic [DepthBits-1:0] depth_q, depth_d;
  logic [Depth*32-1:0] begin_q;
  logic [Depth*33-1:0] end_q;
  logic [Depth*20-1:0] left_q, left_d;

  // Words of the outermost body, and the odometers of the instructions that begin there.
  logic [WordBits-1:0] buffer[BufferWords];
  logic [StateBits-1:0] odometers[BufferWords];
  logic [BufferWords-1:0] turned_q;  // the odometer has turned since the outermost loop was entered

  // An instruction that waits for room in its queue.
  logic held_q;
  logic [3:0] held_engine_q;
  logic [tw_pkg::ControlBits-1:0] held_control_q;
  logic [5*WordBits-1:0] held_operands_q;

  // The next word.
  logic fetch_word_valid, fetch_take, is_new, word_valid, at_end, in_loop;
  logic [WordBits-1:0] fetch_word, word;
  logic [31:0] fetch_word_index, buffer_word;
  logic [BufferBits-1:0] buffer_pc;
  logic take;
  assign in_loop = depth_q != '0;
  assign is_new = word_q == fetch_word_index;
  assign at_end = taken_q == '0 && pc_q >= code_words_i;
  assign word_valid = running_q && !at_end && (!is_new || fetch_word_valid);
  assign buffer_word = word_q - begin_q[31:0];
  assign buffer_pc = BufferBits'(pc_q - begin_q[31:0]);
  assign word = is_new ? fetch_word : buffer[buffer_word[BufferBits-1:0]];
  assign fetch_take = take && is_new;

  tw_fetch u_fetch (
      .clk_i,
      .rst_ni,
      .start_i,
      .stop_i,
      .code_address_i,
      .code_words_i,
      .fetch_valid_o,
      .fetch_address_o,
      .fetch_slot_o,
      .fetch_grant_i,
      .rsp_valid_i,
      .rsp_slot_i,
      .rsp_data_i,
      .word_valid_o(fetch_word_valid),
      .word_o(fetch_word),
      .word_index_o(fetch_word_index),
      .take_i(fetch_take),
      .channel_o(dram_channel_o)
  );

  // Its length stands in the first word. An instruction that the code's end cuts off is looked at,
  // and refused, with its first word.
  // Of this header only the length is looked at.
  /* verilator lint_off UNUSEDSIGNAL */
  tw_isa_pkg::header_t word_header;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [3:0] length;
  logic truncated, is_last;
  assign word_header = word[$bits(word_header)-1:0];
  always_comb begin
    length = length_q;
    truncated = truncated_q;
    if (taken_q == '0) begin
      truncated = word_header.words == '0 || 32'(word_header.words) > code_words_i - pc_q;
      length = truncated ? 4'd1 : word_header.words;
    end
  end
  assign is_last = taken_q + 4'd1 == length;

  // The whole instruction, in the first cycle in which its last word could be taken.
  logic evaluate;
  logic [MaxWords*WordBits-1:0] words;
  assign evaluate = word_valid && is_last && !held_q;
  always_comb begin
    words = '0;
    if (evaluate) begin
      for (int i = 0; i < MaxWords; i++) begin
        words[WordBits*i+:WordBits] = taken_q == 4'(i) ? word : words_q[i];
      end
    end
  end

  // Of a header these modules look at the rest.
  /* verilator lint_off UNUSEDSIGNAL */
  tw_isa_pkg::header_t header;
  tw_isa_pkg::loop_t loop;
  /* verilator lint_on UNUSEDSIGNAL */
  logic decoder_illegal, is_loop, is_halt, operates;
  logic [3:0] engine;
  logic [tw_isa_pkg::MaxLevels*tw_isa_pkg::LevelBits-1:0] levels;
  assign header = words[$bits(header)-1:0];
  assign loop = words[$bits(loop)-1:0];
  assign is_loop = evaluate && header.opcode == tw_isa_pkg::OpcodeLoop;
  assign is_halt = evaluate && header.opcode == tw_isa_pkg::OpcodeHalt;

  tw_decoder u_decoder (
      .valid_i(evaluate),
      .words_i(words),
      .illegal_o(decoder_illegal),
      .engine_o(engine),
      .levels_o(levels)
  );

  // Where loops and the end of the code make it illegal.
  logic [32:0] after, body_end, top_end;
  logic placement_illegal, illegal;
  assign after = 33'(pc_q) + 33'(length);
  assign body_end = after + 33'(loop.body_words);
  always_comb begin
    top_end = '0;
    for (int i = 0; i < Depth; i++) begin
      if (depth_q == DepthBits'(i + 1)) top_end = end_q[33*i+:33];
    end
  end
  always_comb begin
    placement_illegal = in_loop && after > top_end;
    if (is_loop && (depth_q == DepthBits'(Depth) || (in_loop && body_end > top_end))) begin
      placement_illegal = 1'b1;
    end
    if (is_halt && (in_loop || after != 33'(code_words_i))) placement_illegal = 1'b1;
  end
  assign illegal = evaluate && (truncated || decoder_illegal || placement_illegal);
  assign operates = evaluate && !illegal && !is_loop && !is_halt;

  logic [StateBits-1:0] state, state_next;
  logic runs, waits, posts, out_of_range;
  logic [5*WordBits-1:0] operands;
  logic [63:0] address_a, address_b, address_c, address_d;
  logic [tw_pkg::NumBanks-1:0] banks;
  always_comb begin
    state = '0;
    if (operates && in_loop && turned_q[buffer_pc]) state = odometers[buffer_pc];
  end

  tw_odometer u_odometer (
      .valid_i(operates),
      .operands_i(words[5*WordBits-1:0]),
      .levels_i(levels),
      .state_i(state),
      .state_o(state_next),
      .runs_o(runs),
      .waits_o(waits),
      .posts_o(posts),
      .operands_o(operands),
      .address_a_o(address_a),
      .address_b_o(address_b),
      .address_c_o(address_c),
      .address_d_o(address_d)
  );

  tw_range_check u_range_check (
      .valid_i(operates),
      .operands_i(operands),
      .address_a_i(address_a),
      .address_b_i(address_b),
      .address_c_i(address_c),
      .address_d_i(address_d),
      .out_of_range_o(out_of_range),
      .banks_o(banks)
  );

  tw_pkg::control_t control;
  always_comb begin
    control = '0;
    if (operates) begin
      control.out_of_range = out_of_range;
      control.banks = banks;
      control.pc = pc_q;
      if (waits) begin
        control.wait_semaphore = header.wait_semaphore;
        control.wait_count = header.wait_count;
      end
      if (posts) begin
        control.post_semaphore = header.post_semaphore;
        control.post_count = header.post_count;
      end
    end
  end

  // Dispatch, fault, halt.
  logic blocked, finish;
  assign dispatch_engine_o = held_q ? held_engine_q : engine;
  assign dispatch_control_o = held_q ? held_control_q : control;
  assign dispatch_operands_o = held_q ? held_operands_q : operands;
  assign blocked = (held_q || (operates && runs)) && queue_full_i[dispatch_engine_o];
  assign dispatch_valid_o = (held_q || (operates && runs)) && !blocked && !stop_i;
  assign take = word_valid && !stop_i && !illegal && !blocked;
  assign finish = take && is_last;

  assign fault_o = start_i ? code_words_i == '0 : illegal || (running_q && at_end);
  assign fault_pc_o = start_i ? '0 : pc_q;
  assign halt_o = finish && is_halt;
  assign halted_o = halted_q;

  assign busy_o = take || fetch_grant_i != '0;
  assign full_o = blocked;
  assign dram_wait_o = !busy_o && (start_i || (running_q && !blocked));

  // The word that follows: a body that ends here and runs again begins anew; one that does not is
  // left.
  logic [31:0] next_pc;
  logic jumped;
  always_comb begin
    next_pc = after[31:0];
    depth_d = depth_q;
    left_d = left_q;
    jumped = 1'b0;
    if (finish) begin
      if (is_loop) begin
        depth_d = depth_q + DepthBits'(1);
        for (int i = 0; i < Depth; i++) begin
          if (depth_q == DepthBits'(i)) left_d[20*i+:20] = loop.count - 20'd1;
        end
      end else begin
        for (int i = Depth - 1; i >= 0; i--) begin
          if (!jumped && depth_d == DepthBits'(i + 1) && end_q[33*i+:33] == after) begin
            if (left_q[20*i+:20] != '0) begin
              left_d[20*i+:20] = left_q[20*i+:20] - 20'd1;
              next_pc = begin_q[32*i+:32];
              jumped = 1'b1;
            end else begin
              depth_d = DepthBits'(i);
            end
          end
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || start_i) begin
      running_q <= rst_ni && start_i;
      halted_q <= 1'b0;
      pc_q <= '0;
      word_q <= '0;
      taken_q <= '0;
      length_q <= '0;
      truncated_q <= 1'b0;
      depth_q <= '0;
      held_q <= 1'b0;
    end else if (!stop_i) begin
      if (take) begin
        length_q <= length;
        truncated_q <= truncated;
        if (is_last) begin
          pc_q <= next_pc;
          word_q <= next_pc;
          taken_q <= '0;
          held_q <= 1'b0;
          depth_q <= depth_d;
        end else begin
          word_q <= word_q + 32'd1;
          taken_q <= taken_q + 4'd1;
        end
      end else if (evaluate && blocked) begin
        held_q <= 1'b1;
      end
      if (halt_o) begin
        running_q <= 1'b0;
        halted_q <= 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      // What is longer than any instruction is illegal: its further words do not matter.
      if (32'(taken_q) < MaxWords) words_q[taken_q[2:0]] <= word;
      // An instruction that reaches beyond the body is illegal too.
      if (is_new && in_loop && buffer_word < BufferWords) begin
        buffer[buffer_word[BufferBits-1:0]] <= word;
      end
    end
    if (finish) begin
      left_q <= left_d;
      if (is_loop) begin
        for (int i = 0; i < Depth; i++) begin
          if (depth_q == DepthBits'(i)) begin
            begin_q[32*i+:32] <= after[31:0];
            end_q[33*i+:33] <= body_end;
          end
        end
        if (!in_loop) turned_q <= '0;
      end
    end
    // The odometer turns when the instruction is resolved, even if its queue is full.
    if (operates && in_loop && header.num_levels != '0) begin
      odometers[buffer_pc] <= state_next;
      turned_q[buffer_pc] <= 1'b1;
    end
    if (evaluate && blocked) begin
      held_engine_q <= engine;
      held_control_q <= control;
      held_operands_q <= operands;
    end
  end

endmodule
