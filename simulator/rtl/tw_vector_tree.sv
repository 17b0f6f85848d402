// Reduction over lanes: a balanced tree, neighbours first; every lane gets the result. Vectors that
// are not reduced go round it.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: x_o and b_o hold in cycle c + Cycles what came in in c.
module tw_vector_tree #(
  // At least $clog2(Lanes) * VectorStageCycles.
  parameter  int unsigned Cycles =
      $clog2(tw_machine_pkg::Lanes) * tw_machine_pkg::VectorStageCycles,
  localparam int unsigned Width = tw_machine_pkg::Lanes * 32
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             valid_i,        // x_i is a vector
  input  logic             b_valid_i,      // b_i is one
  input  logic             reduce_i,
  input  logic             is_max_i,
  input  logic             is_float_i,
  input  logic [Width-1:0] x_i,
  input  logic [Width-1:0] b_i,
  output logic [Width-1:0] x_o,
  output logic [Width-1:0] b_o
);

  localparam int unsigned Lanes = tw_machine_pkg::Lanes;
  localparam int unsigned Levels = $clog2(Lanes);
  localparam int unsigned LevelCycles = tw_machine_pkg::VectorStageCycles;

  tw_vector_delay #(.Width(Width), .Cycles(Cycles)) u_delay_b (
    .clk_i, .rst_ni, .valid_i(b_valid_i), .data_i(b_i), .data_o(b_o)
  );

  logic [Width-1:0] x_round;
  tw_vector_delay #(.Width(Width), .Cycles(Cycles)) u_delay_x (
    .clk_i, .rst_ni, .valid_i(valid_i && !reduce_i), .data_i(x_i), .data_o(x_round)
  );

  if (Levels == 0) begin : gen_one_lane
    logic unused;
    assign unused = ^{is_max_i, is_float_i};
    // The one lane's sum is the lane itself.
    logic [Width-1:0] x_same;
    tw_vector_delay #(.Width(Width), .Cycles(Cycles)) u_delay_same (
      .clk_i, .rst_ni, .valid_i(valid_i && reduce_i), .data_i(x_i), .data_o(x_same)
    );
    logic reduced;
    tw_vector_delay #(.Width(1), .Cycles(Cycles)) u_delay_reduced (
      .clk_i, .rst_ni, .valid_i, .data_i(reduce_i), .data_o(reduced)
    );
    assign x_o = reduced ? x_same : x_round;
  end else begin : gen_tree
    for (genvar l = 0; l < Levels; l++) begin : gen_level
      logic             valid, is_max, is_float, out_valid, out_is_max, out_is_float;
      logic [Width-1:0] x, out_x;
      if (l == 0) begin : gen_first
        assign valid = valid_i && reduce_i;
        assign is_max = is_max_i;
        assign is_float = is_float_i;
        assign x = x_i;
      end else begin : gen_next
        assign valid = gen_level[l-1].out_valid;
        assign is_max = gen_level[l-1].out_is_max;
        assign is_float = gen_level[l-1].out_is_float;
        assign x = gen_level[l-1].out_x;
      end
      tw_vector_level #(.Count(Lanes >> l), .Cycles(LevelCycles)) u_level (
        .clk_i, .rst_ni, .valid_i(valid), .is_max_i(is_max), .is_float_i(is_float), .x_i(x),
        .valid_o(out_valid), .is_max_o(out_is_max), .is_float_o(out_is_float), .x_o(out_x)
      );
    end

    // In the cycle in which it leaves, a vector was reduced or not.
    logic        reduced;
    logic [31:0] result;
    tw_vector_delay #(.Width(32), .Cycles(Cycles - Levels * LevelCycles)) u_delay_result (
      .clk_i, .rst_ni, .valid_i(gen_level[Levels-1].out_valid),
      .data_i(gen_level[Levels-1].out_x[31:0]), .data_o(result)
    );
    tw_vector_delay #(.Width(1), .Cycles(Cycles)) u_delay_reduced (
      .clk_i, .rst_ni, .valid_i, .data_i(reduce_i), .data_o(reduced)
    );
    always_comb begin
      x_o = x_round;
      if (reduced) x_o = {Lanes{result}};
    end
    logic unused;
    assign unused = ^{gen_level[Levels-1].out_x[Width-1:32], gen_level[Levels-1].out_is_max,
                      gen_level[Levels-1].out_is_float};
  end

endmodule
