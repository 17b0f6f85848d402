// A pulse, a number of cycles later.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: a pulse in cycle t comes out in t + Cycles; Cycles = 0 is a wire. `pending_o` holds in
// the cycles between (pulse in, not out yet).
module tw_delay #(
    parameter int unsigned Cycles = 1
) (
    input  logic clk_i,
    input  logic rst_ni,
    input  logic pulse_i,
    output logic pulse_o,
    output logic pending_o
);

  if (Cycles == 0) begin : gen_wire
    assign pulse_o = pulse_i;
    assign pending_o = 1'b0;
    logic unused;
    assign unused = ^{clk_i, rst_ni};
  end else if (Cycles == 1) begin : gen_one
    logic pulse_q;
    always_ff @(posedge clk_i) begin
      if (!rst_ni) pulse_q <= 1'b0;
      else pulse_q <= pulse_i;
    end
    assign pulse_o = pulse_q;
    assign pending_o = pulse_q;
  end else begin : gen_line
    logic [Cycles-1:0] pulse_q;
    always_ff @(posedge clk_i) begin
      if (!rst_ni) pulse_q <= '0;
      else pulse_q <= {pulse_q[Cycles-2:0], pulse_i};
    end
    assign pulse_o = pulse_q[Cycles-1];
    assign pending_o = |pulse_q;
  end

endmodule
