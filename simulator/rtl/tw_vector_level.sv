// One level of the reduction over lanes: neighbours become one, an odd one out moves up unchanged.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: x_o holds in cycle c + Cycles what x_i gave in c.
module tw_vector_level #(
  parameter  int unsigned Count = 2,       // lanes that hold something at the entrance
  parameter  int unsigned Cycles = 2,
  localparam int unsigned Width = tw_machine_pkg::Lanes * 32
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             valid_i,
  input  logic             is_max_i,
  input  logic             is_float_i,
  input  logic [Width-1:0] x_i,
  output logic             valid_o,
  output logic             is_max_o,
  output logic             is_float_o,
  output logic [Width-1:0] x_o
);

  localparam int unsigned Half = (Count + 1) / 2;

  function automatic logic [32*Half-1:0] halved(input logic is_max, input logic is_float,
                                                input logic [32*Count-1:0] x);
    halved = '0;
    for (int i = 0; i < Half; i++) begin
      if (2 * i + 1 >= Count)
        halved[32*i +: 32] = x[64*i +: 32];
      else if (is_max)
        halved[32*i +: 32] = tw_fp_pkg::window_max(is_float, x[64*i +: 32], x[64*i+32 +: 32]);
      else
        halved[32*i +: 32] = tw_fp_pkg::window_plus(is_float, x[64*i +: 32], x[64*i+32 +: 32]);
    end
  endfunction

  // Computed in one cycle, carried for the others.
  logic [Cycles-1:0] valid_q, is_max_q, is_float_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= Cycles'({valid_q, valid_i});
    is_max_q <= Cycles'({is_max_q, is_max_i});
    is_float_q <= Cycles'({is_float_q, is_float_i});
  end
  logic [32*Half-1:0] half_q, half;
  always_ff @(posedge clk_i) if (valid_i) half_q <= halved(is_max_i, is_float_i, x_i[32*Count-1:0]);
  tw_vector_delay #(.Width(32 * Half), .Cycles(Cycles - 1)) u_delay (
    .clk_i, .rst_ni, .valid_i(valid_q[0]), .data_i(half_q), .data_o(half)
  );

  assign valid_o = valid_q[Cycles-1];
  assign is_max_o = is_max_q[Cycles-1];
  assign is_float_o = is_float_q[Cycles-1];
  assign x_o = Width'(half);

  if (32 * Count < Width) begin : gen_unused
    logic unused;
    assign unused = ^x_i[Width-1:32*Count];
  end

endmodule
