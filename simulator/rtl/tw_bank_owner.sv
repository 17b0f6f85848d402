// The memory banks that an engine's instructions own.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: an instruction that starts in s and retires in r owns its banks from s (`owned_o`: from
// s + 1; the arbiter adds the starts of the current cycle) until r + BankReleaseCycles - 1.
module tw_bank_owner #(
    parameter int unsigned Depth = 16  // a power of two
) (
    input logic clk_i,
    input logic rst_ni,

    input logic                        start_i,
    input logic [tw_pkg::NumBanks-1:0] banks_i,
    input logic                        retire_i,

    output logic [tw_pkg::NumBanks-1:0] owned_o,
    output logic                        pending_o  // started, not yet released
);

  localparam int unsigned PointerBits = $clog2(Depth);

  logic [tw_pkg::NumBanks-1:0] banks_q[Depth];
  logic [Depth-1:0] valid_q;
  logic [PointerBits-1:0] head_q, tail_q;
  logic [tw_pkg::NumBanks-1:0] owned_d, owned_q;
  logic release_now, unused_pending;

  tw_delay #(
      .Cycles(tw_machine_pkg::BankReleaseCycles - 1)
  ) u_release (
      .clk_i,
      .rst_ni,
      .pulse_i(retire_i),
      .pulse_o(release_now),
      .pending_o(unused_pending)
  );

  // Two instructions of one engine may own one bank, so a release looks at all that are left.
  always_comb begin
    owned_d = owned_q;
    if (release_now) begin
      owned_d = '0;
      for (int i = 0; i < Depth; i++) begin
        if (valid_q[i] && PointerBits'(i) != tail_q) owned_d = owned_d | banks_q[i];
      end
    end
    if (start_i) owned_d = owned_d | banks_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      head_q  <= '0;
      tail_q  <= '0;
      valid_q <= '0;
      owned_q <= '0;
    end else if (start_i || release_now) begin
      owned_q <= owned_d;
      if (start_i) begin
        banks_q[head_q] <= banks_i;
        valid_q[head_q] <= 1'b1;
        head_q <= head_q + 1'b1;
      end
      if (release_now) begin
        valid_q[tail_q] <= 1'b0;
        tail_q <= tail_q + 1'b1;
      end
    end
  end

  assign owned_o = owned_q;
  assign pending_o = |valid_q;

endmodule
