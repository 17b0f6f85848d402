// Combines the taps of a window, in tap order, into one vector: maximum, sum, sum of products or of squares.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: a tap in cycle c is multiplied in c and added in c + 1; x_o holds it in c + 2 and stays
// until the tap after it is added. Weights written in c serve taps from c + 1 on. Up to three taps
// are combined in one cycle: with reuse, old columns of the tap's row lie in registers.
module tw_vector_window #(
  localparam int unsigned Width = tw_machine_pkg::Lanes * 32
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  // Cycle c.
  input  logic             tap_i,          // a_i is a tap
  input  logic             use_i,          // of this output, not of a row's fill
  input  logic             first_i,        // the first that was read for the output
  input  logic [1:0]       old_i,          // so many before it in its row come from the registers
  input  logic             keep_i,         // it goes into the registers
  input  logic [1:0]       row_i,          // its row there
  input  logic             edge_i,         // of the last column
  input  logic [7:0]       index_i,        // of the tap or the weight
  input  logic             weight_i,       // b_i is a weight
  input  logic [Width-1:0] a_i,
  input  logic [Width-1:0] b_i,
  input  logic [2:0]       op_i,
  input  logic             is_float_i,
  input  logic [8:0]       tail_lanes_i,   // lanes that count in the last column; 0: all
  // Cycle c + 2.
  output logic [Width-1:0] x_o
);

  localparam int unsigned Lanes = tw_machine_pkg::Lanes;

  // Bits that leave any other operand as it is.
  localparam logic [31:0] LeastInteger = 32'h8000_0000;
  localparam logic [31:0] MinusInfinity = 32'hff80_0000;
  localparam logic [31:0] MinusZero = 32'h8000_0000;

  function automatic logic [Width-1:0] products(input logic is_float, input logic [Width-1:0] x,
                                                input logic [Width-1:0] y);
    for (int i = 0; i < Lanes; i++)
      products[32*i +: 32] = tw_fp_pkg::window_times(is_float, x[32*i +: 32], y[32*i +: 32]);
  endfunction

  function automatic logic [Width-1:0] sums(input logic is_float, input logic [Width-1:0] x,
                                            input logic [Width-1:0] y);
    for (int i = 0; i < Lanes; i++)
      sums[32*i +: 32] = tw_fp_pkg::window_plus(is_float, x[32*i +: 32], y[32*i +: 32]);
  endfunction

  function automatic logic [Width-1:0] maxima(input logic is_float, input logic [Width-1:0] x,
                                              input logic [Width-1:0] y);
    for (int i = 0; i < Lanes; i++)
      maxima[32*i +: 32] = tw_fp_pkg::window_max(is_float, x[32*i +: 32], y[32*i +: 32]);
  endfunction

  function automatic logic sums_products(input logic [2:0] op);
    sums_products = op == tw_isa_pkg::WindowOpMac || op == tw_isa_pkg::WindowOpSumSquares;
  endfunction

  // `y` added to `x`, or in place of it where nothing was before. Sums of products begin with +0.
  function automatic logic [Width-1:0] combined(input logic [2:0] op, input logic is_float,
                                                input logic first, input logic [Width-1:0] x,
                                                input logic [Width-1:0] y);
    if (first && !sums_products(op)) combined = y;
    else if (op == tw_isa_pkg::WindowOpMax) combined = maxima(is_float, x, y);
    else combined = sums(is_float, first ? '0 : x, y);
  endfunction

  // Lanes from `lanes` on hold no value.
  function automatic logic [Width-1:0] cut(input logic [2:0] op, input logic is_float,
                                           input logic [8:0] lanes, input logic [Width-1:0] x);
    logic [31:0] nothing;
    nothing = is_float ? MinusZero : 32'd0;
    if (op == tw_isa_pkg::WindowOpMax) nothing = is_float ? MinusInfinity : LeastInteger;
    cut = x;
    for (int i = 0; i < Lanes; i++) if (9'(i) >= lanes) cut[32*i +: 32] = nothing;
  endfunction

  // ------------------------------------------------------------------------------------------
  // Cycle c: registers and products
  // ------------------------------------------------------------------------------------------

  // The newest column of each row and the one before it.
  logic [Width-1:0] newest_q [3];
  logic [Width-1:0] older_q [3];
  always_ff @(posedge clk_i) begin
    if (tap_i && keep_i) begin
      newest_q[row_i] <= a_i;
      older_q[row_i] <= newest_q[row_i];
    end
  end

  logic [Width-1:0] weights_q [256];
  always_ff @(posedge clk_i) begin
    if (weight_i) weights_q[index_i] <= b_i;
  end

  // Lanes of the last column that count; mac takes all.
  logic             is_mac;
  logic [Width-1:0] tap;
  assign is_mac = op_i == tw_isa_pkg::WindowOpMac;
  assign tap = edge_i && tail_lanes_i != 9'd0 ? cut(op_i, is_float_i, tail_lanes_i, a_i) : a_i;

  logic             used_q, first_q, is_float_q;
  logic [1:0]       old_q;
  logic [2:0]       op_q;
  // In tap order: two columns before, one before, this one.
  logic [Width-1:0] value0_q, value1_q, value2_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) used_q <= 1'b0;
    else used_q <= tap_i && use_i;
    if (tap_i && use_i) begin
      first_q <= first_i;
      old_q <= old_i;
      op_q <= op_i;
      is_float_q <= is_float_i;
      if (sums_products(op_i)) begin
        value2_q <= products(is_float_i, tap, is_mac ? weights_q[index_i] : tap);
        if (old_i != 2'd0)
          value1_q <= products(is_float_i, newest_q[row_i],
                               is_mac ? weights_q[index_i - 8'd1] : newest_q[row_i]);
        if (old_i == 2'd2)
          value0_q <= products(is_float_i, older_q[row_i],
                               is_mac ? weights_q[index_i - 8'd2] : older_q[row_i]);
      end else begin
        value2_q <= tap;
        if (old_i != 2'd0) value1_q <= newest_q[row_i];
        if (old_i == 2'd2) value0_q <= older_q[row_i];
      end
    end
  end

  // ------------------------------------------------------------------------------------------
  // Cycle c + 1: sums
  // ------------------------------------------------------------------------------------------
  logic [Width-1:0] x_q;
  always_ff @(posedge clk_i) begin
    if (used_q) begin
      case (old_q)
        2'd0: x_q <= combined(op_q, is_float_q, first_q, x_q, value2_q);
        2'd1:
          x_q <= combined(op_q, is_float_q, 1'b0,
                          combined(op_q, is_float_q, first_q, x_q, value1_q), value2_q);
        default:
          x_q <= combined(op_q, is_float_q, 1'b0,
                          combined(op_q, is_float_q, 1'b0,
                                   combined(op_q, is_float_q, first_q, x_q, value0_q), value1_q),
                          value2_q);
      endcase
    end
  end
  assign x_o = x_q;

endmodule
