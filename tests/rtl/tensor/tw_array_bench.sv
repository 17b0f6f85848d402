// Test bench: the preload engine and the tensor engine with the array between them; memories and
// starts are the test's.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
module tw_array_bench #(
    localparam int unsigned P = tw_machine_pkg::PreloadRows,
    localparam int unsigned ReadBits = tw_pkg::RowBytes * 8,
    localparam int unsigned AccBits = tw_pkg::AccRowBytes * 8,
    localparam int unsigned Side =
        tw_machine_pkg::Rows > tw_machine_pkg::Cols ? tw_machine_pkg::Rows : tw_machine_pkg::Cols,
    localparam int unsigned WeightBits =
        tw_machine_pkg::ArrayType == tw_pkg::ArrayInt8 ? 16 : tw_pkg::ElementBytes * 8
) (
    input  logic                  clk_i,
    input  logic                  rst_ni,
    input  logic                  preload_start_i,
    input  logic [255:0]          preload_operands_i,
    output logic                  preload_ready_o,
    output logic                  preload_retire_o,
    output logic [P-1:0]          preload_rd_valid_o,
    output logic [2:0]            preload_rd_memory_o,
    output logic [P*28-1:0]       preload_rd_address_o,
    input  logic [P*ReadBits-1:0] preload_rd_data_i,
    input  logic                  tensor_start_i,
    input  logic [511:0]          tensor_operands_i,
    output logic                  tensor_ready_o,
    output logic                  tensor_retire_o,
    output logic                  tensor_rd_valid_o,
    output logic [2:0]            tensor_rd_memory_o,
    output logic [27:0]           tensor_rd_address_o,
    input  logic [ReadBits-1:0]   tensor_rd_data_i,
    output logic                  acc_rd_valid_o,
    output logic [27:0]           acc_rd_address_o,
    input  logic [AccBits-1:0]    acc_rd_data_i,
    output logic                  acc_wr_valid_o,
    output logic [27:0]           acc_wr_address_o,
    output logic [AccBits-1:0]    acc_wr_data_o
);

  logic                         shadow_write, shadow_first, shadow_transpose;
  logic [P-1:0]                 shadow_valid;
  logic [9:0]                   shadow_index;
  logic [P*Side*WeightBits-1:0] shadow_data;
  tw_isa_pkg::memory_e          preload_memory, tensor_memory;

  assign preload_rd_memory_o = preload_memory;
  assign tensor_rd_memory_o = tensor_memory;

  tw_preload u_preload (
      .clk_i,
      .rst_ni,
      .start_i(preload_start_i),
      .operands_i(preload_operands_i),
      .ready_o(preload_ready_o),
      .retire_o(preload_retire_o),
      .rd_valid_o(preload_rd_valid_o),
      .rd_memory_o(preload_memory),
      .rd_address_o(preload_rd_address_o),
      .rd_data_i(preload_rd_data_i),
      .shadow_write_o(shadow_write),
      .shadow_first_o(shadow_first),
      .shadow_transpose_o(shadow_transpose),
      .shadow_valid_o(shadow_valid),
      .shadow_index_o(shadow_index),
      .shadow_data_o(shadow_data)
  );

  tw_tensor u_tensor (
      .clk_i,
      .rst_ni,
      .start_i(tensor_start_i),
      .operands_i(tensor_operands_i),
      .ready_o(tensor_ready_o),
      .retire_o(tensor_retire_o),
      .rd_valid_o(tensor_rd_valid_o),
      .rd_memory_o(tensor_memory),
      .rd_address_o(tensor_rd_address_o),
      .rd_data_i(tensor_rd_data_i),
      .acc_rd_valid_o,
      .acc_rd_address_o,
      .acc_rd_data_i,
      .acc_wr_valid_o,
      .acc_wr_address_o,
      .acc_wr_data_o,
      .shadow_write_i(shadow_write),
      .shadow_first_i(shadow_first),
      .shadow_transpose_i(shadow_transpose),
      .shadow_valid_i(shadow_valid),
      .shadow_index_i(shadow_index),
      .shadow_data_i(shadow_data)
  );

endmodule
