// Every function of tw_fp_pkg on several operand sets at once, chosen by number: for FpTest.cpp.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: combinational.
module tw_fp_harness #(
    parameter int unsigned Lanes = 16
) (
    // What group_i applies: 0 alu() with operation number_i, 1 function number_i (see apply()),
    // 2 convert_in() with type number_i and zero point y, 3 convert_out() with type number_i,
    // 4 convert_b() with type number_i[2:0], conversion number_i[4:3] and scale y.
    input  logic [         2:0] group_i,
    input  logic [         5:0] number_i,
    input  logic [32*Lanes-1:0] x_i,
    input  logic [32*Lanes-1:0] y_i,
    input  logic [32*Lanes-1:0] b_i,
    input  logic [32*Lanes-1:0] imm0_i,
    input  logic [32*Lanes-1:0] imm1_i,
    output logic [32*Lanes-1:0] result_o,
    output logic [        63:0] digest_o
);

  assign digest_o = tw_tables_pkg::Digest;

  function automatic logic [31:0] apply(input logic [5:0] number, input logic [31:0] x,
                                        input logic [31:0] y, input logic [31:0] b);
    case (number)
      6'd0: apply = tw_fp_pkg::fp_add(x, y);
      6'd1: apply = tw_fp_pkg::fp_sub(x, y);
      6'd2: apply = tw_fp_pkg::fp_mul(x, y);
      6'd3: apply = tw_fp_pkg::fp_fma(x, y, b);
      6'd4: apply = tw_fp_pkg::fp_div(x, y);
      6'd5: apply = tw_fp_pkg::fp_sqrt(x);
      6'd6: apply = tw_fp_pkg::fp_rsqrt(x);
      6'd7: apply = tw_fp_pkg::fp_max(x, y);
      6'd8: apply = tw_fp_pkg::fp_min(x, y);
      6'd9: apply = tw_fp_pkg::fp_floor(x);
      6'd10: apply = {31'd0, tw_fp_pkg::fp_lt(x, y)};
      6'd11: apply = tw_fp_pkg::fp_canonical(x);
      6'd12: apply = tw_fp_pkg::i32_to_fp(x);
      6'd13: apply = tw_fp_pkg::fp_to_i32(x);
      6'd14: apply = tw_fp_pkg::fp_to_i32_trunc(x);
      6'd15: apply = {16'd0, tw_fp_pkg::fp_to_bf16(x)};
      6'd16: apply = tw_fp_pkg::bf16_to_fp(x[15:0]);
      6'd17: apply = tw_fp_pkg::fp_exp(x);
      6'd18: apply = tw_fp_pkg::fp_sigmoid(x);
      6'd19: apply = tw_fp_pkg::fp_tanh(x);
      6'd20: apply = tw_fp_pkg::fp_erf(x);
      6'd21: apply = tw_fp_pkg::fp_log(x);
      6'd22: apply = tw_fp_pkg::i32_div(x, y);
      6'd23: apply = tw_fp_pkg::quantize(x, y);
      6'd24: apply = tw_fp_pkg::dequantize(x, y, b);
      6'd25: apply = {24'd0, tw_fp_pkg::saturate_i8(x)};
      6'd26: apply = {24'd0, tw_fp_pkg::saturate_u8(x)};
      6'd27: apply = tw_fp_pkg::window_max(1'b1, x, y);
      6'd28: apply = tw_fp_pkg::window_max(1'b0, x, y);
      6'd29: apply = tw_fp_pkg::window_plus(1'b1, x, y);
      6'd30: apply = tw_fp_pkg::window_plus(1'b0, x, y);
      6'd31: apply = tw_fp_pkg::window_times(1'b1, x, y);
      6'd32: apply = tw_fp_pkg::window_times(1'b0, x, y);
      default: apply = 32'd0;
    endcase
  endfunction

  function automatic logic [31:0] lane(input logic [2:0] group, input logic [5:0] number,
                                       input logic [31:0] x, input logic [31:0] y,
                                       input logic [31:0] b, input logic [31:0] imm0,
                                       input logic [31:0] imm1);
    /*verilator no_inline_task*/
    case (group)
      3'd0: lane = tw_fp_pkg::alu(number, x, y, b, imm0, imm1);
      3'd1: lane = apply(number, x, y, b);
      3'd2: lane = tw_fp_pkg::convert_in(number[2:0], x, y[8:0]);
      3'd3: lane = tw_fp_pkg::convert_out(number[2:0], x);
      3'd4: lane = tw_fp_pkg::convert_b(number[4:3], number[2:0], x, y);
      default: lane = 32'd0;
    endcase
  endfunction

  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    assign result_o[32*i+:32] = lane(group_i, number_i, x_i[32*i+:32], y_i[32*i+:32],
                                     b_i[32*i+:32], imm0_i[32*i+:32], imm1_i[32*i+:32]);
  end

endmodule
