// What every engine does in every cycle: labels, their counters, and events for a trace.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: all inputs tell about cycle t, except `bus_busy_i`, which tells about t - 1. Trace
// outputs show the events of t from the edge after t on. Counters hold cycle t from t + 2 on.
module tw_monitor
#(
    localparam int unsigned NumQueues = tw_pkg::NumQueues,
    localparam int unsigned NumEngines = tw_pkg::NumEngines
) (
    input logic clk_i,
    input logic rst_ni,
    input logic valid_i,  // the cycle belongs to the run

    // Of the sequencer and the DMA engines.
    input logic [  NumEngines-1:0] busy_i,
    input logic [  NumEngines-1:0] dram_wait_i,
    input logic [  NumEngines-1:0] dram_latency_i,
    input logic [6*NumEngines-1:0] dram_channel_i,
    input logic [  NumEngines-1:0] full_i,
    // Of the arbiter.
    input logic [   NumQueues-1:0] operand_i,
    input logic [   NumQueues-1:0] interlock_i,
    input logic [   NumQueues-1:0] bank_conflict_i,
    input logic [   NumQueues-1:0] start_i,
    input logic [   NumQueues-1:0] ready_i,
    input logic [   NumQueues-1:0] retire_i,

    input logic        dispatch_valid_i,
    input logic [ 3:0] dispatch_engine_i,
    input logic [31:0] dispatch_pc_i,

    input logic [tw_machine_pkg::DramChannels-1:0] bus_busy_i,

    input  logic [ 3:0] counter_engine_i,
    input  logic [ 3:0] counter_label_i,
    output logic [63:0] counter_o,

    output logic                 trace_dispatch_o,
    output logic [          3:0] trace_dispatch_engine_o,
    output logic [         31:0] trace_dispatch_pc_o,
    output logic [NumQueues-1:0] trace_start_o,
    output logic [NumQueues-1:0] trace_issue_free_o,
    output logic [NumQueues-1:0] trace_retire_o
);

  // Engines that are busy from start to issue-free, and not by what they move.
  localparam logic [NumEngines-1:0] Compute = NumEngines'(1) << tw_pkg::EngineVector |
                                              NumEngines'(1) << tw_pkg::EngineTensor |
                                              NumEngines'(1) << tw_pkg::EnginePreload;

  logic [NumEngines-1:0] busy;
  assign busy = (busy_i & ~Compute) | ({1'b0, start_i | ~ready_i} & Compute);

  logic [64*NumEngines-1:0] counts;

  for (genvar e = 0; e < NumEngines; e++) begin : gen_engine
    logic operand, interlock, bank_conflict;
    if (e < NumQueues) begin : gen_queue
      assign operand = operand_i[e];
      assign interlock = interlock_i[e];
      assign bank_conflict = bank_conflict_i[e];
    end else begin : gen_sequencer
      assign operand = 1'b0;
      assign interlock = 1'b0;
      assign bank_conflict = 1'b0;
    end
    tw_engine_monitor u_monitor (
        .clk_i,
        .rst_ni,
        .valid_i,
        .busy_i(busy[e]),
        .operand_i(operand),
        .interlock_i(interlock),
        .bank_conflict_i(bank_conflict),
        .dram_wait_i(dram_wait_i[e]),
        .dram_latency_i(dram_latency_i[e]),
        .dram_channel_i(dram_channel_i[6*e+:6]),
        .full_i(full_i[e]),
        .fed_i(dispatch_valid_i && dispatch_engine_i == 4'(e)),
        .bus_busy_i,
        .label_i(counter_label_i),
        .count_o(counts[64*e+:64])
    );
  end

  assign counter_o = counts[64*32'(counter_engine_i)+:64];

  // An engine becomes issue-free once after each start.
  logic [NumQueues-1:0] issuing_q, issue_free;
  assign issue_free = issuing_q & ready_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      issuing_q <= '0;
      trace_dispatch_o <= 1'b0;
      trace_start_o <= '0;
      trace_issue_free_o <= '0;
      trace_retire_o <= '0;
    end else begin
      issuing_q <= (issuing_q & ~issue_free) | start_i;
      trace_dispatch_o <= dispatch_valid_i;
      trace_start_o <= start_i;
      trace_issue_free_o <= issue_free;
      trace_retire_o <= retire_i;
      if (dispatch_valid_i) begin
        trace_dispatch_engine_o <= dispatch_engine_i;
        trace_dispatch_pc_o <= dispatch_pc_i;
      end
    end
  end

endmodule
