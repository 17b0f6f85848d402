// Beginning and end of a run: cycle count, faults, deadlock, done.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: the cycle of `start_i` is cycle 0; `run_o` holds from cycle 1 until the run ends. A fault
// of cycle t ends the run in t: of several the lowest engine's counts, the sequencer's comes last.
// A run without a fault ends DoneCycles after the latest of halt taken, last retirement and last
// write completed: `done_o` is visible from that cycle on, `fault_o` from the one after the fault
// on. `count_o` in t: cycle t is one of the run's.
module tw_control (
    input logic clk_i,
    input logic rst_ni,

    input  logic start_i,
    output logic run_o,
    output logic stopped_o,
    output logic count_o,

    // What happens in this cycle.
    input logic        issue_fault_i,
    input logic [ 3:0] issue_fault_kind_i,
    input logic [ 3:0] issue_fault_engine_i,
    input logic [31:0] issue_fault_pc_i,
    input logic        sequencer_fault_i,
    input logic [31:0] sequencer_fault_pc_i,
    input logic        halt_i,
    input logic        retire_i,
    input logic        write_done_i,
    input logic        dispatch_i,

    // What holds in this cycle.
    input logic                            halted_i,
    input logic                            queue_full_i,  // the sequencer waits for a slot
    input logic                            settled_i,
    input logic                            retired_i,
    input logic                            drained_i,
    input logic [   tw_pkg::NumQueues-1:0] pending_i,
    input logic [   tw_pkg::NumQueues-1:0] head_valid_i,
    input logic [32*tw_pkg::NumQueues-1:0] head_pc_i,

    output logic        done_o,
    output logic        fault_o,
    output logic [ 3:0] fault_kind_o,
    output logic [ 3:0] fault_engine_o,
    output logic [31:0] fault_pc_o,
    output logic [63:0] cycles_o
);

  // What ends a run is known in the cycle after it.
  if (tw_machine_pkg::DoneCycles < 2) begin : gen_bad_latency
    $error("the end of a run takes two cycles to be seen");
  end

  logic run_q, stopped_q, fault_q, done_q;
  logic [63:0] cycle_q, last_q, total_q;
  logic [3:0] fault_kind_q, fault_engine_q;
  logic [31:0] fault_pc_q;

  // ---- Deadlock: nothing moves, nothing will, and there are instructions left. A dispatch counts
  // as moving until its instruction is visible.
  logic feeding, unused_fed;
  tw_delay #(
      .Cycles(tw_machine_pkg::DispatchCycles - 1)
  ) u_feeding (
      .clk_i,
      .rst_ni,
      .pulse_i(dispatch_i),
      .pulse_o(unused_fed),
      .pending_o(feeding)
  );

  logic deadlock;
  logic [3:0] deadlock_engine;
  logic [31:0] deadlock_pc;
  assign deadlock = settled_i && !dispatch_i && !feeding && (halted_i || queue_full_i) &&
                    pending_i != '0;

  always_comb begin : first_head
    deadlock_engine = '0;
    deadlock_pc = '0;
    if (deadlock) begin
      for (int i = 10; i >= 0; i--) begin
        if (head_valid_i[i]) begin
          deadlock_engine = 4'(i);
          deadlock_pc = head_pc_i[32*i+:32];
        end
      end
    end
  end

  // ---- End
  logic quiet, fault_now, done_now;
  logic [63:0] total;
  // The write buffer may be drained by a completion of this cycle, which is an event.
  assign quiet = halted_i && pending_i == '0 && retired_i && drained_i && !write_done_i;
  assign total = last_q + 64'(tw_machine_pkg::DoneCycles);
  assign fault_now = run_q && (issue_fault_i || sequencer_fault_i || deadlock);
  assign done_now = run_q && quiet && !fault_now && cycle_q + 64'd1 >= total;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      run_q <= 1'b0;
      stopped_q <= 1'b0;
      fault_q <= 1'b0;
      done_q <= 1'b0;
      cycle_q <= '0;
      last_q <= '0;
    end else begin
      if (start_i || run_q) cycle_q <= cycle_q + 64'd1;
      if (start_i && !stopped_q) run_q <= 1'b1;
      if (run_q && (halt_i || retire_i || write_done_i)) last_q <= cycle_q;
      if (fault_now) begin
        run_q <= 1'b0;
        stopped_q <= 1'b1;
        fault_q <= 1'b1;
        total_q <= cycle_q;
        if (issue_fault_i) begin
          fault_kind_q <= issue_fault_kind_i;
          fault_engine_q <= issue_fault_engine_i;
          fault_pc_q <= issue_fault_pc_i;
        end else if (sequencer_fault_i) begin
          fault_kind_q <= 4'(tw_pkg::FaultIllegal);
          fault_engine_q <= 4'(tw_pkg::EngineSequencer);
          fault_pc_q <= sequencer_fault_pc_i;
        end else begin
          fault_kind_q <= 4'(tw_pkg::FaultDeadlock);
          fault_engine_q <= deadlock_engine;
          fault_pc_q <= deadlock_pc;
        end
      end else if (done_now) begin
        run_q <= 1'b0;
        stopped_q <= 1'b1;
        done_q <= 1'b1;
        total_q <= total;
      end
    end
  end

  assign run_o = run_q;
  assign stopped_o = stopped_q;
  assign count_o = (start_i && !stopped_q) || (run_q && !fault_now && !(quiet && cycle_q >= total));

  assign done_o = done_q;
  assign fault_o = fault_q;
  assign fault_kind_o = fault_kind_q;
  assign fault_engine_o = fault_engine_q;
  assign fault_pc_o = fault_pc_q;
  assign cycles_o = total_q;

endmodule
