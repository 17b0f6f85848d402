// Test bench: a memory of 8 banks with 16 rows of 16 bytes each, three read and two write ports.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
module tw_memory_bench (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic [2:0]   rd_valid_i,
    input  logic [83:0]  rd_address_i,
    output logic [383:0] rd_data_o,
    input  logic [1:0]   wr_valid_i,
    input  logic [55:0]  wr_address_i,
    input  logic [255:0] wr_data_i,
    input  logic [31:0]  wr_mask_i
);

  tw_memory #(
      .Bytes(2048),
      .Banks(8),
      .RowBytes(16),
      .ReadPorts(3),
      .WritePorts(2)
  ) u_memory (
      .clk_i,
      .rst_ni,
      .rd_valid_i,
      .rd_address_i,
      .rd_data_o,
      .wr_valid_i,
      .wr_address_i,
      .wr_data_i,
      .wr_mask_i
  );

endmodule
