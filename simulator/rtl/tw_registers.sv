// The registers that the host sees.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: a write in cycle t takes effect in t + 1, except that of the start register: its cycle is
// cycle 0 of the run (`start_o`). A read shows in t + 1 what the register named in t held.
//
// 0x000 start: write 1 (once after each reset)   0x018 status: fault kind [7:4], its engine [15:8],
// 0x008 code address, bytes                            fault [1], done [0]
// 0x010 code length, words                       0x020 word index of the fault's instruction
// 0x028 cycles of the run                        0x400 + 8 * (engine * 9 + label) cycle counters
module tw_registers (
    input logic clk_i,
    input logic rst_ni,

    input  logic        write_i,
    input  logic [11:0] address_i,
    input  logic [63:0] wdata_i,
    output logic [63:0] rdata_o,

    output logic        start_o,
    output logic [39:0] code_address_o,
    output logic [31:0] code_words_o,

    input  logic        done_i,
    input  logic        fault_i,
    input  logic [ 3:0] fault_kind_i,
    input  logic [ 3:0] fault_engine_i,
    input  logic [31:0] fault_pc_i,
    input  logic [63:0] cycles_i,
    output logic [ 3:0] counter_engine_o,
    output logic [ 3:0] counter_label_o,
    input  logic [63:0] counter_i
);

  localparam logic [11:0] Start = 12'h000;
  localparam logic [11:0] CodeAddress = 12'h008;
  localparam logic [11:0] CodeWords = 12'h010;
  localparam logic [11:0] Status = 12'h018;
  localparam logic [11:0] FaultPc = 12'h020;
  localparam logic [11:0] Cycles = 12'h028;
  localparam logic [11:0] Counters = 12'h400;
  localparam logic [11:0] CountersEnd =
      Counters + 12'(8 * tw_pkg::NumEngines * tw_pkg::NumLabels);

  logic [39:0] code_address_q;
  logic [31:0] code_words_q;
  logic [63:0] rdata_q;

  assign start_o = write_i && address_i == Start && wdata_i[0];
  assign code_address_o = code_address_q;
  assign code_words_o = code_words_q;

  // Which counter: a constant division of a small number.
  logic is_counter;
  logic [11:0] offset;
  logic [8:0] index;
  assign is_counter = address_i >= Counters && address_i < CountersEnd;
  assign offset = address_i - Counters;
  assign index = offset[11:3];
  assign counter_engine_o = is_counter ? 4'(index / 9'(tw_pkg::NumLabels)) : '0;
  assign counter_label_o = is_counter ? 4'(index % 9'(tw_pkg::NumLabels)) : '0;
  logic unused;
  assign unused = ^{offset[2:0], wdata_i[63:40]};

  always_ff @(posedge clk_i) begin
    if (write_i && address_i == CodeAddress) code_address_q <= wdata_i[39:0];
    if (write_i && address_i == CodeWords) code_words_q <= wdata_i[31:0];
    if (is_counter) begin
      rdata_q <= counter_i;
    end else begin
      case (address_i)
        CodeAddress: rdata_q <= 64'(code_address_q);
        CodeWords: rdata_q <= 64'(code_words_q);
        Status: rdata_q <= {48'd0, 4'd0, fault_engine_i, fault_kind_i, 2'd0, fault_i, done_i};
        FaultPc: rdata_q <= 64'(fault_pc_i);
        Cycles: rdata_q <= cycles_i;
        default: rdata_q <= '0;
      endcase
    end
    if (!rst_ni) rdata_q <= '0;
  end

  assign rdata_o = rdata_q;

endmodule
