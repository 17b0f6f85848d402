// A line that hands on what enters it a constant number of cycles later: a circular buffer, so that
// nothing moves but the pointer.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: data_o in cycle c + Cycles is data_i of cycle c, if valid_i was 1 in c.
module tw_vector_delay #(
  parameter int unsigned Width = 32,
  parameter int unsigned Cycles = 2
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             valid_i,
  input  logic [Width-1:0] data_i,
  output logic [Width-1:0] data_o
);

  if (Cycles == 0) begin : gen_wire
    logic unused;
    assign unused = ^{clk_i, rst_ni, valid_i};
    assign data_o = data_i;
  end else if (Cycles == 1) begin : gen_register
    logic unused;
    assign unused = rst_ni;
    always_ff @(posedge clk_i) if (valid_i) data_o <= data_i;
  end else begin : gen_ring
    localparam int unsigned Bits = $clog2(Cycles);
    localparam logic [Bits-1:0] Last = Bits'(Cycles - 1);
    // Holds Cycles - 1 entries, the output register one.
    logic [Width-1:0]  ring_q [1 << Bits];
    logic [Bits-1:0]   at_q;
    logic [Cycles-2:0] valid_q;
    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        at_q <= '0;
        valid_q <= '0;
      end else begin
        at_q <= at_q + 1'b1;
        valid_q <= (Cycles - 1)'({valid_q, valid_i});
      end
      if (valid_i) ring_q[at_q] <= data_i;
      if (valid_q[Cycles-2]) data_o <= ring_q[at_q - Last];
    end
  end

endmodule
