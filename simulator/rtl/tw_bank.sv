// One bank of an on-chip memory: rows of even number in one array, of odd number in another.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One read port and one write port for each array; two neighbouring rows are one access. The arrays
// start as zeros and are public, so that a harness can read a memory's image.
//
// Timing contract: a pair read in cycle t is at *_data_o from t + 1 until the next read. What is
// written in t is read from t + 1 on; a read in t itself sees the old bytes.
module tw_bank #(
    parameter int unsigned RowBytes = 64,
    parameter int unsigned Pairs = 128,      // rows of each array
    parameter int unsigned WritePorts = 1,   // ports of the memory, one of which writes
    localparam int unsigned RowBits = RowBytes * 8,
    localparam int unsigned PairBits = Pairs > 1 ? $clog2(Pairs) : 1,
    localparam int unsigned PortBits = WritePorts > 1 ? $clog2(WritePorts) : 1
) (
    input  logic                            clk_i,
    input  logic                            even_read_i,
    input  logic [PairBits-1:0]             even_read_pair_i,
    output logic [RowBits-1:0]              even_data_o,
    input  logic                            odd_read_i,
    input  logic [PairBits-1:0]             odd_read_pair_i,
    output logic [RowBits-1:0]              odd_data_o,
    input  logic                            even_write_i,
    input  logic [PairBits-1:0]             even_write_pair_i,
    input  logic [PortBits-1:0]             even_write_port_i,
    input  logic [WritePorts*RowBits-1:0]   even_write_data_i,   // of every port
    input  logic [WritePorts*RowBytes-1:0]  even_write_mask_i,
    input  logic                            odd_write_i,
    input  logic [PairBits-1:0]             odd_write_pair_i,
    input  logic [PortBits-1:0]             odd_write_port_i,
    input  logic [WritePorts*RowBits-1:0]   odd_write_data_i,
    input  logic [WritePorts*RowBytes-1:0]  odd_write_mask_i
);

  logic [RowBits-1:0] even_q [Pairs] /*verilator public_flat_rd*/;
  logic [RowBits-1:0] odd_q [Pairs] /*verilator public_flat_rd*/;

  // A row after a write of the bytes in `mask`.
  task automatic merge(input logic [RowBits-1:0] row, input logic [RowBits-1:0] data,
                       input logic [RowBytes-1:0] mask, output logic [RowBits-1:0] merged);
    /*verilator no_inline_task*/
    merged = data;
    if (!(&mask)) begin
      for (int unsigned i = 0; i < RowBytes; i++) begin
        if (!mask[i]) merged[8*i +: 8] = row[8*i +: 8];
      end
    end
  endtask

  always_ff @(posedge clk_i) begin : access_even
    logic [RowBits-1:0] merged;
    if (even_read_i) even_data_o <= even_q[even_read_pair_i];
    if (even_write_i) begin
      merge(even_q[even_write_pair_i], even_write_data_i[RowBits*even_write_port_i +: RowBits],
            even_write_mask_i[RowBytes*even_write_port_i +: RowBytes], merged);
      even_q[even_write_pair_i] <= merged;
    end
  end

  always_ff @(posedge clk_i) begin : access_odd
    logic [RowBits-1:0] merged;
    if (odd_read_i) odd_data_o <= odd_q[odd_read_pair_i];
    if (odd_write_i) begin
      merge(odd_q[odd_write_pair_i], odd_write_data_i[RowBits*odd_write_port_i +: RowBits],
            odd_write_mask_i[RowBytes*odd_write_port_i +: RowBytes], merged);
      odd_q[odd_write_pair_i] <= merged;
    end
  end

`ifndef SYNTHESIS
  initial begin
    for (int i = 0; i < Pairs; i++) begin
      even_q[i] = '0;
      odd_q[i] = '0;
    end
  end
`endif

endmodule
