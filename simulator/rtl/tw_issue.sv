// Decides which instructions start in a cycle.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: everything in cycle t. `start_o` depends on the heads of the queues, on `ready_i` and on
// registers. Engines are looked at in the order of their numbers: a higher one sees the semaphores
// and banks that lower ones take in this cycle. Posts and banks of an instruction that retires in
// r are seen from r + SemaphoreCycles and r + BankReleaseCycles on. `settled_o` in t: nothing is
// in flight, nothing starts, and no time that would let something start later is running.
module tw_issue
#(
    localparam int unsigned NumQueues = tw_pkg::NumQueues
) (
    input logic clk_i,
    input logic rst_ni,
    input logic run_i,  // the machine runs

    input logic [NumQueues-1:0] head_valid_i,
    input logic [NumQueues*tw_pkg::ControlBits-1:0] head_control_i,
    // Of the tensor queue's head.
    input logic tensor_swap_i,
    input logic [19:0] tensor_acc_address_i,
    input logic [19:0] tensor_acc_span_i,
    input logic [NumQueues-1:0] ready_i,
    input logic [NumQueues-1:0] retire_i,
    output logic [NumQueues-1:0] start_o,
    output logic [32*NumQueues-1:0] head_pc_o,

    // What holds a visible head back whose engine is ready.
    output logic [NumQueues-1:0] operand_o,
    output logic [NumQueues-1:0] interlock_o,
    output logic [NumQueues-1:0] bank_conflict_o,

    output logic settled_o,
    output logic retired_o,  // everything that has started in earlier cycles

    output logic        fault_o,
    output logic [ 3:0] fault_kind_o,
    output logic [ 3:0] fault_engine_o,
    output logic [31:0] fault_pc_o
);

  localparam int unsigned ControlBits = tw_pkg::ControlBits;
  localparam int unsigned NumBanks = tw_pkg::NumBanks;
  localparam int unsigned CountBits = $clog2(tw_machine_pkg::SemaphoreMax + 1);
  localparam int unsigned SemaphoreBits = CountBits * tw_machine_pkg::Semaphores;
  localparam int unsigned PostBits = 30;
  // A need is at most the sum of three waits.
  localparam int unsigned NeedBits = CountBits > 6 ? CountBits : 6;

  localparam bit IsInt = tw_machine_pkg::ArrayType == tw_pkg::ArrayInt8;
  // From one tensor instruction to the next whose accumulator rows overlap.
  localparam int unsigned AccDistance =
      IsInt ? tw_machine_pkg::AccRmwIntCycles : tw_machine_pkg::AccRmwFloatCycles;
  localparam int unsigned TensorDrain = tw_machine_pkg::TensorReadCycles +
      (IsInt ? tw_machine_pkg::TensorMultiplyIntCycles :
               tw_machine_pkg::TensorMultiplyFloatCycles) +
      $clog2(tw_machine_pkg::Rows) *
      (IsInt ? tw_machine_pkg::TensorAddIntCycles : tw_machine_pkg::TensorAddFloatCycles) +
      AccDistance;
  localparam int unsigned VectorDrain = tw_machine_pkg::VectorBaseCycles +
      (tw_machine_pkg::VectorStages + 1 + $clog2(tw_machine_pkg::Lanes)) *
      tw_machine_pkg::VectorStageCycles;

  // ---- Fields of the heads
  logic [NumQueues*18-1:0] wait_semaphores;
  logic [NumQueues*12-1:0] wait_counts;
  logic [NumQueues*NumBanks-1:0] banks;
  logic [NumQueues*32-1:0] pcs;
  logic [NumQueues-1:0] out_of_range;

  // ---- State of each engine's instructions
  logic [NumQueues-1:0] boxes_full, in_flight, pending, post_valid;
  logic [NumQueues*NumBanks-1:0] owned;
  logic [NumQueues*PostBits-1:0] posts;
  logic [NumQueues*32-1:0] post_pcs;

  for (genvar e = 0; e < NumQueues; e++) begin : gen_engine
    // An instruction per cycle may start and stays for the drain; DMA engines have a limit.
    localparam bit IsDma = e < tw_pkg::EngineVector || e >= tw_pkg::EngineLoad0;
    tw_engine_state #(
        .Drain(IsDma ? tw_machine_pkg::DmaBoxes :
               e == tw_pkg::EngineVector ? VectorDrain :
               e == tw_pkg::EngineTensor ? TensorDrain : tw_machine_pkg::PreloadDrainCycles),
        .BoxLimit(IsDma ? tw_machine_pkg::DmaBoxes : 0)
    ) u_state (
        .clk_i,
        .rst_ni,
        .head_i(head_control_i[ControlBits*e+:ControlBits]),
        .start_i(start_o[e]),
        .retire_i(retire_i[e]),
        .wait_semaphores_o(wait_semaphores[18*e+:18]),
        .wait_counts_o(wait_counts[12*e+:12]),
        .banks_o(banks[NumBanks*e+:NumBanks]),
        .pc_o(pcs[32*e+:32]),
        .out_of_range_o(out_of_range[e]),
        .boxes_full_o(boxes_full[e]),
        .post_valid_o(post_valid[e]),
        .post_o(posts[PostBits*e+:PostBits]),
        .post_pc_o(post_pcs[32*e+:32]),
        .owned_o(owned[NumBanks*e+:NumBanks]),
        .in_flight_o(in_flight[e]),
        .pending_o(pending[e])
    );
  end

  // ---- Shadow registers of the array
  logic shadow_full_q, shadow_ready_q;
  logic shadow_ready_set, shadow_ready_pending;
  localparam int unsigned FreeBits = $clog2(tw_machine_pkg::ShadowFreeCycles + 1);
  logic [FreeBits-1:0] shadow_free_q;  // cycles until a freed shadow may be taken
  logic swap_start, preload_start;

  assign swap_start = start_o[tw_pkg::EngineTensor] && tensor_swap_i;
  assign preload_start = start_o[tw_pkg::EnginePreload];

  tw_delay #(
      .Cycles(tw_machine_pkg::ShadowReadyCycles - 1)
  ) u_shadow_ready (
      .clk_i,
      .rst_ni,
      .pulse_i(retire_i[tw_pkg::EnginePreload]),
      .pulse_o(shadow_ready_set),
      .pending_o(shadow_ready_pending)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      shadow_full_q  <= 1'b0;
      shadow_ready_q <= 1'b0;
      shadow_free_q  <= '0;
    end else begin
      if (swap_start) begin
        shadow_full_q  <= 1'b0;
        shadow_ready_q <= 1'b0;
        shadow_free_q  <= FreeBits'(tw_machine_pkg::ShadowFreeCycles - 1);
      end else begin
        if (shadow_free_q != '0) shadow_free_q <= shadow_free_q - 1'b1;
        if (preload_start) shadow_full_q <= 1'b1;
        if (shadow_ready_set) shadow_ready_q <= 1'b1;
      end
    end
  end

  // ---- Accumulator rows of the tensor instructions of the last cycles
  localparam int unsigned History = AccDistance - 1;
  logic history_pending, rows_overlap;
  logic [20:0] rows_end;
  assign rows_end = 21'(tensor_acc_address_i) + 21'(tensor_acc_span_i);

  if (History == 0) begin : gen_no_history
    assign history_pending = 1'b0;
    assign rows_overlap = 1'b0;
    logic unused_rows;
    assign unused_rows = ^rows_end;
  end else begin : gen_history
    logic [History-1:0] valid_q;  // bit i: a start i + 1 cycles ago
    logic [History*20-1:0] begin_q;
    logic [History*21-1:0] end_q;
    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        valid_q <= '0;
      end else if (start_o[tw_pkg::EngineTensor] || valid_q != '0) begin
        valid_q <= History'({valid_q, start_o[tw_pkg::EngineTensor]});
        begin_q <= (History * 20)'({begin_q, tensor_acc_address_i});
        end_q   <= (History * 21)'({end_q, rows_end});
      end
    end
    always_comb begin
      rows_overlap = 1'b0;
      if (valid_q != '0) begin
        for (int unsigned i = 0; i < History; i++) begin
          if (valid_q[i] && 21'(begin_q[20*i+:20]) < rows_end &&
              21'(tensor_acc_address_i) < end_q[21*i+:21])
            rows_overlap = 1'b1;
        end
      end
    end
    assign history_pending = valid_q != '0;
  end

  logic [NumQueues-1:0] interlock;
  always_comb begin
    interlock = boxes_full;
    interlock[tw_pkg::EnginePreload] = shadow_full_q || shadow_free_q != '0;
    interlock[tw_pkg::EngineTensor] = rows_overlap ||
        (tensor_swap_i && !(shadow_full_q && shadow_ready_q));
  end

  // ---- The decision
  logic [SemaphoreBits-1:0] count, left;
  logic fault_range;
  logic [3:0] fault_range_engine;
  logic [31:0] fault_range_pc;

  always_comb begin : decide
    logic missing;
    logic [5:0] which;
    logic [NeedBits-1:0] need, available;
    logic [NumBanks-1:0] taken;  // by anybody, the starts of this cycle included
    left = count;
    start_o = '0;
    operand_o = '0;
    interlock_o = '0;
    bank_conflict_o = '0;
    fault_range = 1'b0;
    fault_range_engine = '0;
    fault_range_pc = '0;
    missing = 1'b0;
    which = '0;
    need = '0;
    available = '0;
    taken = '0;
    if (run_i && (head_valid_i & ready_i) != '0) begin
      for (int unsigned e = 0; e < NumQueues; e++) taken = taken | owned[NumBanks*e+:NumBanks];
      for (int unsigned e = 0; e < NumQueues; e++) begin
        if (head_valid_i[e] && ready_i[e]) begin
          // Two waits for one semaphore need the sum.
          missing = 1'b0;
          for (int unsigned i = 0; i < 3; i++) begin
            if (wait_counts[12*e+4*i+:4] != '0) begin
              which = wait_semaphores[18*e+6*i+:6];
              need = '0;
              for (int unsigned j = 0; j <= i; j++) begin
                if (wait_semaphores[18*e+6*j+:6] == which)
                  need = need + NeedBits'(wait_counts[12*e+4*j+:4]);
              end
              available = NeedBits'(left[CountBits*32'(which)+:CountBits]);
              if (available < need) missing = 1'b1;
            end
          end
          // A bank has one owner at a time: what is taken and not its own is somebody else's.
          if (missing) begin
            operand_o[e] = 1'b1;
          end else if (interlock[e]) begin
            interlock_o[e] = 1'b1;
          end else if ((banks[NumBanks*e+:NumBanks] & taken & ~owned[NumBanks*e+:NumBanks]) != '0)
          begin
            bank_conflict_o[e] = 1'b1;
          end else if (out_of_range[e]) begin
            if (!fault_range) begin
              fault_range = 1'b1;
              fault_range_engine = 4'(e);
              fault_range_pc = pcs[32*e+:32];
            end
          end else begin
            start_o[e] = 1'b1;
            taken = taken | banks[NumBanks*e+:NumBanks];
            for (int unsigned i = 0; i < 3; i++) begin
              if (wait_counts[12*e+4*i+:4] != '0) begin
                which = wait_semaphores[18*e+6*i+:6];
                left[CountBits*32'(which)+:CountBits] =
                    left[CountBits*32'(which)+:CountBits] -
                    CountBits'(wait_counts[12*e+4*i+:4]);
              end
            end
          end
        end
      end
    end
  end

  logic overflow;
  logic [3:0] overflow_engine;
  logic [31:0] overflow_pc;

  tw_semaphores u_semaphores (
      .clk_i,
      .rst_ni,
      .count_o(count),
      .take_i(start_o != '0),
      .left_i(left),
      .post_valid_i(post_valid),
      .post_i(posts),
      .post_pc_i(post_pcs),
      .overflow_o(overflow),
      .overflow_engine_o(overflow_engine),
      .overflow_pc_o(overflow_pc)
  );

  // ---- Faults: the lowest engine of a cycle; a post of its own comes before a start.
  always_comb begin
    fault_o = run_i && (overflow || fault_range);
    if (overflow && !(fault_range && fault_range_engine < overflow_engine)) begin
      fault_kind_o = 4'(tw_pkg::FaultOverflow);
      fault_engine_o = overflow_engine;
      fault_pc_o = overflow_pc;
    end else begin
      fault_kind_o = 4'(tw_pkg::FaultOutOfRange);
      fault_engine_o = fault_range_engine;
      fault_pc_o = fault_range_pc;
    end
  end

  // ---- A slot of a queue is free QueueFreeCycles after a start: the sequencer may then go on.
  logic slot_pending, unused_slot;
  tw_delay #(
      .Cycles(tw_machine_pkg::QueueFreeCycles - 1)
  ) u_slot (
      .clk_i,
      .rst_ni,
      .pulse_i(start_o != '0),
      .pulse_o(unused_slot),
      .pending_o(slot_pending)
  );

  assign retired_o = in_flight == '0;
  assign head_pc_o = pcs;
  assign settled_o = pending == '0 && start_o == '0 && shadow_free_q == '0 &&
                     !shadow_ready_pending && !history_pending && !slot_pending;

endmodule
