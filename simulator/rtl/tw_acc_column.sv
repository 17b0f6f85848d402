// The adder of one accumulator column: what a position leaves in its row.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Combinational. Without valid_i the result is 0: nothing is computed.
module tw_acc_column (
    input  logic        valid_i,
    input  logic        accumulate_i,  // add to the old value, else overwrite it
    input  logic [31:0] old_i,
    input  logic [31:0] sum_i,
    output logic [31:0] total_o
);

  always_comb begin
    total_o = '0;
    if (valid_i) begin
      if (tw_machine_pkg::ArrayType == tw_pkg::ArrayInt8)
        total_o = accumulate_i ? old_i + sum_i : sum_i;
      else
        total_o = tw_fp_pkg::fp_canonical(accumulate_i ? tw_fp_pkg::fp_add(old_i, sum_i) : sum_i);
    end
  end

endmodule
