// Load engine: copies boxes from DRAM to a scratchpad, with fills and broadcasts.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing contract, P = BurstsPerCycle, for a start in s and f = s + DmaSetupCycles:
// - from f on the request side passes P segments per cycle; a segment that opens a burst is passed
//   in the cycle in which the burst is granted, which needs a free slot (one is free from the cycle
//   after the last segment of its burst has moved). ready_o from the cycle after the last segment;
// - the scratchpad side moves P segments per cycle in order across boxes: fills from f on, others
//   from the cycle after the return of their burst. What moves in t is on the write ports in t + 1;
// - retire_o DmaDrainCycles after the last segment has moved, once per cycle.
// At most DmaBoxes boxes are in flight; the arbiter of starts sees to it.
module tw_load #(
    // The number of this engine among the loads, for messages.
    parameter  int unsigned Unit = 0,
    localparam int unsigned P = tw_machine_pkg::BurstsPerCycle,
    localparam int unsigned R = tw_machine_pkg::DramResponses,
    localparam int unsigned BurstBytes = tw_machine_pkg::BurstBytes,
    localparam int unsigned B8 = 8 * BurstBytes
) (
    input  logic                      clk_i,
    input  logic                      rst_ni,
    // Engine.
    input  logic                      start_i,
    input  tw_isa_pkg::load_t         operands_i,
    output logic                      ready_o,
    output logic                      retire_o,
    // Requests: a prefix asks, a prefix of those is granted.
    output logic [             P-1:0] req_valid_o,
    output logic [          P*40-1:0] req_address_o,
    output logic [          P*12-1:0] req_slot_o,
    input  logic [             P-1:0] req_grant_i,
    // Bytes of granted bursts that are newer than those in DRAM.
    input  logic [  P*BurstBytes-1:0] fwd_mask_i,
    input  logic [          P*B8-1:0] fwd_data_i,
    // Responses.
    input  logic [             R-1:0] rsp_valid_i,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [          R*12-1:0] rsp_slot_i,    // there are fewer slots than a tag can name
    // verilator lint_on UNUSEDSIGNAL
    input  logic [          R*B8-1:0] rsp_data_i,
    // Scratchpad.
    output logic [             P-1:0] wr_valid_o,
    output logic [           P*3-1:0] wr_memory_o,   // memory_e
    output logic [          P*28-1:0] wr_address_o,
    output logic [          P*B8-1:0] wr_data_o,
    output logic [  P*BurstBytes-1:0] wr_mask_o,
    // Labels of this cycle; busy goes before the others.
    output logic                      busy_o,
    output logic                      dram_wait_o,
    output logic [               5:0] dram_channel_o,
    output logic                      dram_latency_o
);

  localparam int unsigned N = tw_machine_pkg::OutstandingBursts;
  localparam int unsigned SlotBits = N > 1 ? $clog2(N) : 1;
  localparam int unsigned CountBits = $clog2(N + P + 1);
  localparam int unsigned Boxes = tw_machine_pkg::DmaBoxes;
  localparam int unsigned BoxIndexBits = Boxes > 1 ? $clog2(Boxes) : 1;
  localparam int unsigned BoxCountBits = $clog2(Boxes + P + 1);
  localparam int unsigned BoxBits = 3 * tw_isa_pkg::WordBits;
  localparam int unsigned OffsetBits = $clog2(BurstBytes);
  localparam int unsigned SelectBits = P > 1 ? $clog2(P) : 1;
  localparam int unsigned EndBits = $clog2(P + 1);
  localparam int unsigned WaitBits = $clog2(tw_machine_pkg::DmaSetupCycles + 1);
  localparam int unsigned Drain = tw_machine_pkg::DmaDrainCycles;
  localparam int unsigned ChannelBits =
      tw_machine_pkg::DramChannels > 1 ? $clog2(tw_machine_pkg::DramChannels) : 1;

  // The slot `by` behind `slot`.
  function automatic logic [SlotBits-1:0] slot_after(input logic [SlotBits-1:0] slot,
                                                     input logic [CountBits-1:0] by);
    logic [CountBits:0] sum;
    sum = (CountBits + 1)'(slot) + (CountBits + 1)'(by);
    if (sum >= (CountBits + 1)'(N)) sum = sum - (CountBits + 1)'(N);
    slot_after = sum[SlotBits-1:0];
  endfunction

  function automatic logic [BoxIndexBits-1:0] box_after(input logic [BoxIndexBits-1:0] box,
                                                        input logic [BoxCountBits-1:0] by);
    logic [BoxCountBits:0] sum;
    sum = (BoxCountBits + 1)'(box) + (BoxCountBits + 1)'(by);
    if (sum >= (BoxCountBits + 1)'(Boxes)) sum = sum - (BoxCountBits + 1)'(Boxes);
    box_after = sum[BoxIndexBits-1:0];
  endfunction

  // Step k of bytes_of leaves groups of 2^k bits, 8 * 2^k apart.
  function automatic logic [OffsetBits*B8-1:0] group_masks();
    group_masks = '0;
    for (int k = 0; k < OffsetBits; k++)
    for (int b = 0; b < B8; b++) if ((b & (8 << k) - 1) < (1 << k)) group_masks[k*B8+b] = 1'b1;
  endfunction

  localparam logic [OffsetBits*B8-1:0] GroupMasks = group_masks();

  // Whole bytes of a byte mask, in steps that move all bits at once.
  function automatic logic [B8-1:0] bytes_of(input logic [BurstBytes-1:0] mask);
    bytes_of = B8'(mask);
    for (int k = OffsetBits - 1; k >= 0; k--)
    bytes_of = (bytes_of | (bytes_of << (7 << k))) & GroupMasks[k*B8+:B8];
    for (int k = 0; k < 3; k++) bytes_of = bytes_of | (bytes_of << (1 << k));
  endfunction

  // A burst full of one element.
  function automatic logic [B8-1:0] spread(input logic [31:0] element,
                                           input logic [1:0] element_log2);
    case (element_log2)
      2'd0: spread = {BurstBytes{element[7:0]}};
      2'd1: spread = {BurstBytes / 2{element[15:0]}};
      default: spread = {BurstBytes / 4{element}};
    endcase
  endfunction

  // The box whose bursts are asked for.
  tw_isa_pkg::load_t box_q;
  logic active_q;
  logic [WaitBits-1:0] wait_q;

  // Boxes whose segments have not all moved, the one above included.
  logic [BoxBits-1:0] boxes_q[Boxes];
  logic [BoxIndexBits-1:0] box_head_q;
  logic [BoxCountBits-1:0] box_count_q;

  // Bursts requested whose segments have not all moved: a ring of slots.
  logic [B8-1:0] data_q[N];
  logic [BurstBytes-1:0] forwarded_q[N];
  logic [N-1:0] returned_q;
  logic [SlotBits-1:0] slot_head_q;
  logic [SlotBits-1:0] slot_tail_q;
  logic [CountBits-1:0] slot_count_q;

  // Request side.
  logic [P-1:0] ask_valid;
  logic [P-1:0] ask_opens;
  logic [P*40-1:0] ask_burst;
  logic [P-1:0] ask_last;
  logic [P-1:0] pass;
  logic [P*BoxBits-1:0] ask_box;
  logic setting_up;
  logic [CountBits-1:0] grants;

  assign setting_up = wait_q != '0;
  assign ask_box = (P * BoxBits)'(box_q);

  // Each side needs a part of what a walker shows.
  // verilator lint_off PINCONNECTEMPTY
  tw_box_walker #(
      .Segments(P)
  ) u_ask (
      .clk_i,
      .rst_ni,
      .box_valid_i(P'(active_q && !setting_up)),
      .box_i(ask_box),
      .valid_o(ask_valid),
      .box_select_o(),
      .fill_o(),
      .opens_o(ask_opens),
      .burst_o(ask_burst),
      .offset_o(),
      .length_o(),
      .address_o(),
      .last_o(ask_last),
      .closes_o(),
      .take_i(pass)
  );
  // verilator lint_on PINCONNECTEMPTY

  always_comb begin : p_ask
    logic [CountBits-1:0] asked;
    asked = '0;
    req_valid_o = '0;
    req_address_o = '0;
    req_slot_o = '0;
    for (int s = 0; s < P; s++) begin
      if (ask_opens[s]) begin
        for (int n = 0; n <= s; n++) begin
          if (asked == CountBits'(n) && slot_count_q + CountBits'(n) < CountBits'(N)) begin
            req_valid_o[n] = 1'b1;
            req_address_o[n*40+:40] = ask_burst[s*40+:40];
            req_slot_o[n*12+:12] = 12'(slot_after(slot_tail_q, CountBits'(n)));
          end
        end
        asked = asked + CountBits'(1);
      end
    end
  end

  // A segment is passed unless it, or one in front of it, opens a burst that is not granted.
  always_comb begin : p_pass
    logic [CountBits-1:0] opened;
    opened = '0;
    grants = '0;
    pass = '0;
    for (int n = 0; n < P; n++) grants = grants + CountBits'(req_grant_i[n]);
    for (int s = 0; s < P; s++) begin
      opened = opened + CountBits'(ask_opens[s]);
      pass[s] = ask_valid[s] && opened <= grants;
    end
  end

  // Scratchpad side.
  logic [P-1:0] window_valid;
  logic [P*BoxBits-1:0] window;
  logic [P-1:0] move_valid;
  logic [P*SelectBits-1:0] move_select;
  logic [P-1:0] move_fill;
  // verilator lint_off UNUSEDSIGNAL
  logic [P*40-1:0] move_burst;  // its channel bits are for a label
  // verilator lint_on UNUSEDSIGNAL
  logic [P*OffsetBits-1:0] move_offset;
  logic [P*(OffsetBits+1)-1:0] move_length;
  logic [P*28-1:0] move_address;
  logic [P-1:0] move_last;
  logic [P-1:0] move_closes;
  logic [P-1:0] closed_before;
  logic [P-1:0] move;
  logic [P*SlotBits-1:0] move_slot;
  logic [BoxCountBits-1:0] box_ready;
  logic [CountBits-1:0] closes;
  logic [BoxCountBits-1:0] ends;

  // Without an older box the one that starts is shown: the label of this cycle depends on it.
  always_comb begin : p_window
    for (int b = 0; b < P; b++) begin
      window_valid[b] = BoxCountBits'(b) < box_count_q || (b == 0 && start_i);
      if (BoxCountBits'(b) < box_count_q)
        window[b*BoxBits+:BoxBits] = boxes_q[box_after(box_head_q, BoxCountBits'(b))];
      else window[b*BoxBits+:BoxBits] = operands_i;
    end
  end

  // verilator lint_off PINCONNECTEMPTY
  tw_box_walker #(
      .Segments(P)
  ) u_move (
      .clk_i,
      .rst_ni,
      .box_valid_i(window_valid),
      .box_i(window),
      .valid_o(move_valid),
      .box_select_o(move_select),
      .fill_o(move_fill),
      .opens_o(),
      .burst_o(move_burst),
      .offset_o(move_offset),
      .length_o(move_length),
      .address_o(move_address),
      .last_o(move_last),
      .closes_o(move_closes),
      .take_i(move)
  );
  // verilator lint_on PINCONNECTEMPTY

  // Boxes that are set up.
  assign box_ready = box_count_q - BoxCountBits'(setting_up);

  if (P == 1) begin : gen_one_segment
    assign closed_before = '0;
  end else begin : gen_segments
    assign closed_before = {move_closes[P-2:0], 1'b0};
  end

  always_comb begin : p_move
    logic [SlotBits-1:0] slot;
    logic go;
    slot = slot_head_q;
    go = 1'b1;
    for (int s = 0; s < P; s++) begin
      if (closed_before[s]) slot = slot_after(slot, CountBits'(1));
      go = go && move_valid[s] &&
          BoxCountBits'(move_select[s*SelectBits+:SelectBits]) < box_ready &&
          (move_fill[s] || returned_q[slot]);
      move[s] = go;
      move_slot[s*SlotBits+:SlotBits] = slot;
    end
  end

  always_comb begin : p_moved
    closes = '0;
    ends = '0;
    for (int s = 0; s < P; s++) begin
      closes = closes + CountBits'(move[s] && move_closes[s]);
      ends = ends + BoxCountBits'(move[s] && move_last[s]);
    end
  end

  // Request side and queue of boxes.
  assign ready_o = !active_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      active_q <= 1'b0;
      wait_q <= '0;
      box_head_q <= '0;
      box_count_q <= '0;
      slot_head_q <= '0;
      slot_tail_q <= '0;
      slot_count_q <= '0;
    end else begin
      if (start_i) begin
        active_q <= 1'b1;
        wait_q <= WaitBits'(tw_machine_pkg::DmaSetupCycles - 1);
      end else begin
        if ((pass & ask_last) != '0) active_q <= 1'b0;
        if (setting_up) wait_q <= wait_q - WaitBits'(1);
      end
      box_count_q <= box_count_q + BoxCountBits'(start_i) - ends;
      if (ends != '0) box_head_q <= box_after(box_head_q, ends);
      slot_count_q <= slot_count_q + grants - closes;
      if (grants != '0) slot_tail_q <= slot_after(slot_tail_q, grants);
      if (closes != '0) slot_head_q <= slot_after(slot_head_q, closes);
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      box_q <= operands_i;
      boxes_q[box_after(box_head_q, box_count_q)] <= operands_i;
    end
  end

  // Burst buffer.
  logic [N-1:0] returns;
  logic [N-1:0] leaves;

  always_comb begin : p_returned
    returns = '0;
    leaves = '0;
    for (int r = 0; r < R; r++) if (rsp_valid_i[r]) returns[rsp_slot_i[r*12+:SlotBits]] = 1'b1;
    for (int s = 0; s < P; s++)
    if (move[s] && move_closes[s]) leaves[move_slot[s*SlotBits+:SlotBits]] = 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) returned_q <= '0;
    else returned_q <= (returned_q | returns) & ~leaves;
  end

  always_ff @(posedge clk_i) begin : p_buffer
    logic [B8-1:0] newer;
    for (int n = 0; n < P; n++) begin
      if (req_grant_i[n]) begin
        forwarded_q[req_slot_o[n*12+:SlotBits]] <= fwd_mask_i[n*BurstBytes+:BurstBytes];
        if (fwd_mask_i[n*BurstBytes+:BurstBytes] != '0)
          data_q[req_slot_o[n*12+:SlotBits]] <= fwd_data_i[n*B8+:B8];
      end
    end
    for (int r = 0; r < R; r++) begin
      if (rsp_valid_i[r]) begin
        newer = '0;
        if (forwarded_q[rsp_slot_i[r*12+:SlotBits]] != '0) begin
          newer = bytes_of(forwarded_q[rsp_slot_i[r*12+:SlotBits]]);
          data_q[rsp_slot_i[r*12+:SlotBits]] <=
              (data_q[rsp_slot_i[r*12+:SlotBits]] & newer) | (rsp_data_i[r*B8+:B8] & ~newer);
        end else begin
          data_q[rsp_slot_i[r*12+:SlotBits]] <= rsp_data_i[r*B8+:B8];
        end
      end
    end
  end

  // Segments that move turn to their place in a register in front of the write ports.
  always_ff @(posedge clk_i) begin
    if (!rst_ni) wr_valid_o <= '0;
    else wr_valid_o <= move;
  end

  for (genvar s = 0; s < P; s++) begin : gen_write
    // verilator lint_off UNUSEDSIGNAL
    tw_isa_pkg::load_t box;
    // verilator lint_on UNUSEDSIGNAL
    logic [B8-1:0] turned;
    logic [B8-1:0] data;

    assign box = window[move_select[s*SelectBits+:SelectBits]*BoxBits+:BoxBits];

    always_comb begin : p_turn
      turned = '0;
      data = '0;
      if (move[s]) begin
        if (!move_fill[s])
          turned = data_q[move_slot[s*SlotBits+:SlotBits]] >>
              {move_offset[s*OffsetBits+:OffsetBits], 3'd0};
        data = turned;
        if (move_fill[s]) data = spread(box.fill, box.element_log2);
        else if (box.broadcast) data = spread(turned[31:0], box.element_log2);
      end
    end

    always_ff @(posedge clk_i) begin
      if (move[s]) begin
        wr_memory_o[s*3+:3] <= box.memory;
        wr_address_o[s*28+:28] <= move_address[s*28+:28];
        wr_data_o[s*B8+:B8] <= data;
        wr_mask_o[s*BurstBytes+:BurstBytes] <=
            ~({BurstBytes{1'b1}} << move_length[s*(OffsetBits+1)+:OffsetBits+1]);
      end
    end
  end

  // Retirement: boxes that ended DmaDrainCycles ago, one per cycle.
  logic [Drain*EndBits-1:0] ends_q;
  logic [BoxCountBits-1:0] retiring;
  logic [BoxCountBits-1:0] retiring_q;

  assign retiring = retiring_q + BoxCountBits'(ends_q[(Drain-1)*EndBits+:EndBits]);
  assign retire_o = retiring != '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      ends_q <= '0;
      retiring_q <= '0;
    end else begin
      ends_q <= (Drain * EndBits)'({ends_q, EndBits'(ends)});
      retiring_q <= retiring - BoxCountBits'(retire_o);
    end
  end

  assign busy_o = req_grant_i != '0 || move != '0;
  assign dram_wait_o = window_valid[0];
  assign dram_latency_o = dram_wait_o && move_fill[0];
  assign dram_channel_o =
      tw_machine_pkg::DramChannels > 1 ? 6'(move_burst[OffsetBits+:ChannelBits]) : 6'd0;

`ifdef VERILATOR
  initial begin
    assert (tw_machine_pkg::DmaSetupCycles >= 1 && tw_machine_pkg::DmaDrainCycles >= 2)
    else $error("load %0d: constants that this pipeline cannot have", Unit);
  end
  always_ff @(posedge clk_i) begin
    if (rst_ni && start_i) begin
      assert (ready_o && box_count_q < BoxCountBits'(Boxes))
      else $error("load %0d: started while not free", Unit);
    end
  end
`endif

endmodule
