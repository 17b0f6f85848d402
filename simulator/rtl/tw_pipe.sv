// Pipeline registers: a value of `Width` bits delayed by `Stages` cycles (0: a wire).
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing contract: data_i of cycle t is data_o of cycle t + Stages, provided that valid_i[k] was 1
// in cycle t + k for all k. A stage whose valid_i is 0 keeps its value.
module tw_pipe #(
    parameter int unsigned Width = 32,
    parameter int unsigned Stages = 1,
    localparam int unsigned ValidBits = Stages == 0 ? 1 : Stages
) (
    input  logic                 clk_i,
    input  logic [ValidBits-1:0] valid_i,
    input  logic [Width-1:0]     data_i,
    output logic [Width-1:0]     data_o
);

  if (Stages == 0) begin : gen_wire
    logic unused;
    assign unused = ^{clk_i, valid_i};
    assign data_o = data_i;
  end else begin : gen_registers
    logic [Width-1:0] stage_q [Stages];
    for (genvar k = 0; k < Stages; k++) begin : gen_stage
      if (k == 0) begin : gen_first
        always_ff @(posedge clk_i) if (valid_i[k]) stage_q[k] <= data_i;
      end else begin : gen_next
        always_ff @(posedge clk_i) if (valid_i[k]) stage_q[k] <= stage_q[k-1];
      end
    end
    assign data_o = stage_q[Stages-1];
  end

endmodule
