// One stage of the vector chain: an operation on every lane, with its operand.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: what enters in cycle c leaves in c + VectorStageCycles. The operation of instruction `id`
// is written in the cycle of its start. A parameter that passes by is kept by the stages that use
// it: parameters of a block come before its vectors and after those of the block before.
module tw_vector_stage #(
  parameter  int unsigned IdBits = 6,
  localparam int unsigned Width = tw_machine_pkg::Lanes * 32,
  localparam int unsigned ImmediatesWidth = 32 * tw_isa_pkg::MaxImmediates
) (
  input  logic                       clk_i,
  input  logic                       rst_ni,
  // The instruction that starts.
  input  logic                       start_i,
  input  logic [IdBits-1:0]          start_id_i,
  input  logic [5:0]                 op_i,
  input  logic [5:0]                 operand_i,
  input  logic [ImmediatesWidth-1:0] immediates_i,
  input  logic                       needs_b_i,       // a stage behind this one uses B
  input  logic                       needs_saved_i,   // a stage behind this one uses what is saved

  input  logic                       valid_i,         // x_i is a vector, with its B and saved value
  input  logic                       param_i,         // b_i is a parameter
  input  logic [1:0]                 param_index_i,
  input  logic [IdBits-1:0]          id_i,
  input  logic [Width-1:0]           x_i,
  input  logic [Width-1:0]           b_i,
  input  logic [Width-1:0]           saved_i,
  output logic                       valid_o,
  output logic                       param_o,
  output logic [1:0]                 param_index_o,
  output logic [IdBits-1:0]          id_o,
  output logic [Width-1:0]           x_o,
  output logic [Width-1:0]           b_o,
  output logic [Width-1:0]           saved_o
);

  localparam int unsigned Lanes = tw_machine_pkg::Lanes;
  localparam int unsigned Cycles = tw_machine_pkg::VectorStageCycles;

  function automatic logic [Width-1:0] results(input logic [5:0] op, input logic [5:0] operand,
                                               input logic [Width-1:0] x,
                                               input logic [Width-1:0] b,
                                               input logic [Width-1:0] saved,
                                               input logic [Width-1:0] param,
                                               input logic [31:0] imm0, input logic [31:0] imm1);
    logic [31:0] y;
    for (int i = 0; i < Lanes; i++) begin
      case (operand)
        tw_isa_pkg::StageOperandB: y = b[32*i +: 32];
        tw_isa_pkg::StageOperandSaved: y = saved[32*i +: 32];
        tw_isa_pkg::StageOperandP0, tw_isa_pkg::StageOperandP1,
        tw_isa_pkg::StageOperandP2, tw_isa_pkg::StageOperandP3: y = param[32*i +: 32];
        default: y = imm0;
      endcase
      results[32*i +: 32] = tw_fp_pkg::alu(op, x[32*i +: 32], y, b[32*i +: 32], imm0, imm1);
    end
  endfunction

  // ------------------------------------------------------------------------------------------
  // What the stage does for each instruction in the pipe
  // ------------------------------------------------------------------------------------------
  localparam int unsigned ConfigBits = 78;
  logic [ConfigBits-1:0] config_q [1 << IdBits];
  logic [2:0] immediate, immediate_next;
  assign immediate = 3'(operand_i - tw_isa_pkg::StageOperandImm0);
  assign immediate_next = immediate + 3'd1;
  always_ff @(posedge clk_i) begin
    if (start_i)
      config_q[start_id_i] <= {
          needs_saved_i, needs_b_i, op_i, operand_i,
          immediates_i[32 * immediate_next +: 32], immediates_i[32 * immediate +: 32]};
  end

  logic        needs_saved, needs_b;
  logic [5:0]  op, operand;
  logic [31:0] imm0, imm1;
  logic        takes_param;
  always_comb begin
    {needs_saved, needs_b, op, operand, imm1, imm0} = '0;
    if (valid_i || param_i)
      {needs_saved, needs_b, op, operand, imm1, imm0} = config_q[id_i];
  end
  assign takes_param =
      param_i && operand == 6'(tw_isa_pkg::StageOperandP0) + {4'd0, param_index_i};

  // ------------------------------------------------------------------------------------------
  // Computed in one cycle, carried for the others
  // ------------------------------------------------------------------------------------------
  logic [Width-1:0] param_q;
  always_ff @(posedge clk_i) if (takes_param) param_q <= b_i;

  logic [Cycles-1:0] valid_q, param_valid_q;
  logic [2*Cycles-1:0] param_index_q;
  logic [IdBits*Cycles-1:0] id_q;
  logic has_b_q, has_saved_q;
  logic [Width-1:0] x_q, b_q, saved_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= '0;
      param_valid_q <= '0;
    end else begin
      valid_q <= Cycles'({valid_q, valid_i});
      param_valid_q <= Cycles'({param_valid_q, param_i});
    end
    param_index_q <= (2 * Cycles)'({param_index_q, param_index_i});
    id_q <= (IdBits * Cycles)'({id_q, id_i});
    has_b_q <= param_i || (valid_i && needs_b);
    has_saved_q <= valid_i && needs_saved;
    if (valid_i) begin
      case (op)
        tw_isa_pkg::StageOpNop, tw_isa_pkg::StageOpSave: x_q <= x_i;
        tw_isa_pkg::StageOpLoadB: x_q <= b_i;
        tw_isa_pkg::StageOpLoadSaved: x_q <= saved_i;
        default: x_q <= results(op, operand, x_i, b_i, saved_i, param_q, imm0, imm1);
      endcase
      if (needs_saved) saved_q <= op == tw_isa_pkg::StageOpSave ? x_i : saved_i;
    end
    if (param_i || (valid_i && needs_b)) b_q <= b_i;
  end

  tw_vector_delay #(.Width(Width), .Cycles(Cycles - 1)) u_delay_x (
    .clk_i, .rst_ni, .valid_i(valid_q[0]), .data_i(x_q), .data_o(x_o)
  );
  tw_vector_delay #(.Width(Width), .Cycles(Cycles - 1)) u_delay_b (
    .clk_i, .rst_ni, .valid_i(has_b_q), .data_i(b_q), .data_o(b_o)
  );
  tw_vector_delay #(.Width(Width), .Cycles(Cycles - 1)) u_delay_saved (
    .clk_i, .rst_ni, .valid_i(has_saved_q), .data_i(saved_q), .data_o(saved_o)
  );
  assign valid_o = valid_q[Cycles-1];
  assign param_o = param_valid_q[Cycles-1];
  assign param_index_o = param_index_q[2*(Cycles-1) +: 2];
  assign id_o = id_q[IdBits*(Cycles-1) +: IdBits];

endmodule
