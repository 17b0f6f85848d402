// One column of the MAC array: its weights, and the sum of their products with the activations.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights and activations come as the multipliers take them: int8 arrays 16 bits (element minus
// zero point), bf16 arrays 16, fp32 arrays 32. Integers are summed modulo 2^32; a float product is
// rounded and the sums are a balanced tree over all rows, neighbours first, each rounded.
//
// Timing contract: valid_i[0] in cycle t: activations_i are at the multipliers in t, and their sum
// is at sum_o in t + Cycles; valid_i[k] is valid_i[0] of k cycles ago. Integer products and sums
// are one step (Cycles = 1; tw_tensor keeps the rest of the latency in registers behind it, for
// synthesis to balance), float products and each tree level take their own cycles. A shadow write
// and a swap are visible one cycle later; a swap takes the weights as they were before a write in
// the same cycle.
module tw_mac_column #(
    parameter int unsigned Column = 0,
    localparam int unsigned P = tw_machine_pkg::PreloadRows,
    localparam int unsigned Rows = tw_machine_pkg::Rows,
    localparam int unsigned Side = Rows > tw_machine_pkg::Cols ? Rows : tw_machine_pkg::Cols,
    localparam bit IsInteger = tw_machine_pkg::ArrayType == tw_pkg::ArrayInt8,
    localparam int unsigned WeightBits = IsInteger ? 16 : tw_pkg::ElementBytes * 8,
    localparam int unsigned Levels = $clog2(Rows),
    localparam int unsigned MultiplyCycles = tw_machine_pkg::TensorMultiplyFloatCycles,
    localparam int unsigned AddCycles = tw_machine_pkg::TensorAddFloatCycles,
    localparam int unsigned Cycles = IsInteger ? 1 : MultiplyCycles + Levels * AddCycles
) (
    input  logic                            clk_i,
    input  logic                            rst_ni,
    input  logic                            shadow_write_i,
    input  logic                            shadow_first_i,
    input  logic                            shadow_transpose_i,
    input  logic [P-1:0]                    shadow_valid_i,
    input  logic [9:0]                      shadow_index_i,
    input  logic [P*Side*WeightBits-1:0]    shadow_data_i,
    input  logic                            swap_i,
    input  logic [Cycles-1:0]               valid_i,
    input  logic [Rows*WeightBits-1:0]      activations_i,
    output logic [31:0]                     sum_o
);

  localparam int unsigned ColumnBits = Rows * WeightBits;

  logic [ColumnBits-1:0] shadow_q, active_q;

  // Shadow weights after one step of a preload.
  function automatic logic [ColumnBits-1:0] written(
      input logic [ColumnBits-1:0] weights, input logic first, input logic transpose,
      input logic [P-1:0] valid, input logic [9:0] index,
      input logic [P*Side*WeightBits-1:0] data);
    written = first ? '0 : weights;
    for (int unsigned j = 0; j < P; j++) begin
      if (valid[j]) begin
        if (!transpose) begin
          written[WeightBits*(32'(index)+j) +: WeightBits] =
              data[WeightBits*(Side*j+Column) +: WeightBits];
        end else if (32'(index) + j == Column) begin
          written = data[WeightBits*Side*j +: ColumnBits];
        end
      end
    end
  endfunction

  // Weights are 0 before the first swap, too.
  always_ff @(posedge clk_i) begin
    if (!rst_ni) active_q <= '0;
    else if (swap_i) active_q <= shadow_q;
    if (shadow_write_i)
      shadow_q <= written(shadow_q, shadow_first_i, shadow_transpose_i, shadow_valid_i,
                          shadow_index_i, shadow_data_i);
  end

  if (IsInteger) begin : gen_integer
    function automatic logic [31:0] dot(input logic [ColumnBits-1:0] a,
                                        input logic [ColumnBits-1:0] w);
      /*verilator no_inline_task*/
      dot = '0;
      for (int unsigned k = 0; k < Rows; k++) begin
        dot = dot + $signed({{16{a[16*k+15]}}, a[16*k +: 16]}) *
                    $signed({{16{w[16*k+15]}}, w[16*k +: 16]});
      end
    endfunction

    always_ff @(posedge clk_i) if (valid_i[0]) sum_o <= dot(activations_i, active_q);
  end else begin : gen_float
    // The products, then the sums of each level, lowest word first.
    logic [Rows*32-1:0] product_q, product;
    always_ff @(posedge clk_i) begin
      if (valid_i[0]) begin
        for (int unsigned k = 0; k < Rows; k++) begin
          if (WeightBits == 16)
            product_q[32*k +: 32] <= tw_fp_pkg::fp_mul(
                tw_fp_pkg::bf16_to_fp(activations_i[WeightBits*k +: 16]),
                tw_fp_pkg::bf16_to_fp(active_q[WeightBits*k +: 16]));
          else
            product_q[32*k +: 32] <= tw_fp_pkg::fp_mul(
                32'(activations_i[WeightBits*k +: WeightBits]),
                32'(active_q[WeightBits*k +: WeightBits]));
        end
      end
    end
    if (MultiplyCycles > 1) begin : gen_product_delay
      tw_pipe #(.Width(Rows * 32), .Stages(MultiplyCycles - 1)) u_delay (
          .clk_i,
          .valid_i(valid_i[MultiplyCycles-1:1]),
          .data_i(product_q),
          .data_o(product)
      );
    end else begin : gen_product
      assign product = product_q;
    end

    for (genvar l = 0; l < Levels; l++) begin : gen_level
      localparam int unsigned Sums = Rows >> (l + 1);
      localparam int unsigned First = MultiplyCycles + l * AddCycles;
      logic [2*Sums*32-1:0] terms;
      logic [Sums*32-1:0] sums_q, sums;
      if (l == 0) begin : gen_first
        assign terms = product;
      end else begin : gen_next
        assign terms = gen_level[l-1].sums;
      end
      always_ff @(posedge clk_i) begin
        if (valid_i[First]) begin
          for (int unsigned k = 0; k < Sums; k++)
            sums_q[32*k +: 32] <= tw_fp_pkg::fp_add(terms[64*k +: 32], terms[64*k+32 +: 32]);
        end
      end
      if (AddCycles > 1) begin : gen_delay
        tw_pipe #(.Width(Sums * 32), .Stages(AddCycles - 1)) u_delay (
            .clk_i,
            .valid_i(valid_i[First+1 +: AddCycles-1]),
            .data_i(sums_q),
            .data_o(sums)
        );
      end else begin : gen_wire
        assign sums = sums_q;
      end
    end
    if (Levels == 0) begin : gen_single
      assign sum_o = product;
    end else begin : gen_tree
      assign sum_o = gen_level[Levels-1].sums;
    end
  end

endmodule
