// What the arbiter knows of one engine: its oldest instruction and those that it has started.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: the head's fields pass through; for the rest see tw_in_flight and tw_bank_owner.
// `boxes_full_o` counts retirements before this cycle: a box that retires in r makes room in r + 1.
module tw_engine_state #(
    parameter int unsigned Drain = 16,  // instructions that may be in flight at once
    parameter int unsigned BoxLimit = 0  // 0: none
) (
    input logic clk_i,
    input logic rst_ni,

    input tw_pkg::control_t head_i,
    input logic             start_i,
    input logic             retire_i,

    output logic [                17:0] wait_semaphores_o,
    output logic [                11:0] wait_counts_o,
    output logic [tw_pkg::NumBanks-1:0] banks_o,
    output logic [                31:0] pc_o,
    output logic                        out_of_range_o,

    output logic                        boxes_full_o,
    output logic                        post_valid_o,
    output logic [                29:0] post_o,
    output logic [                31:0] post_pc_o,
    output logic [tw_pkg::NumBanks-1:0] owned_o,
    output logic                        in_flight_o,   // started, not retired
    output logic                        pending_o      // in flight, or a post or bank to be seen
);

  localparam int unsigned ReleaseCycles =
      tw_machine_pkg::SemaphoreCycles > tw_machine_pkg::BankReleaseCycles ?
      tw_machine_pkg::SemaphoreCycles : tw_machine_pkg::BankReleaseCycles;
  localparam int unsigned Depth = 1 << $clog2(Drain + ReleaseCycles + 2);
  localparam int unsigned CountBits = $clog2(Depth + 1);

  logic [CountBits-1:0] count;
  logic in_flight_pending, owner_pending;

  assign wait_semaphores_o = head_i.wait_semaphore;
  assign wait_counts_o = head_i.wait_count;
  assign banks_o = head_i.banks;
  assign pc_o = head_i.pc;
  assign out_of_range_o = head_i.out_of_range;

  tw_in_flight #(
      .Depth(Depth)
  ) u_in_flight (
      .clk_i,
      .rst_ni,
      .start_i,
      .post_i({head_i.post_count, head_i.post_semaphore}),
      .pc_i(head_i.pc),
      .retire_i,
      .post_valid_o,
      .post_o,
      .pc_o(post_pc_o),
      .count_o(count),
      .pending_o(in_flight_pending)
  );

  tw_bank_owner #(
      .Depth(Depth)
  ) u_bank_owner (
      .clk_i,
      .rst_ni,
      .start_i,
      .banks_i(head_i.banks),
      .retire_i,
      .owned_o,
      .pending_o(owner_pending)
  );

  assign in_flight_o = count != '0;
  assign pending_o = in_flight_pending || owner_pending;

  if (BoxLimit != 0) begin : gen_limit
    assign boxes_full_o = count >= CountBits'(BoxLimit);
  end else begin : gen_no_limit
    assign boxes_full_o = 1'b0;
  end

endmodule
