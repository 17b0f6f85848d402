// One label for every cycle of an engine, and how many cycles have each.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: the inputs tell about cycle t; the label is settled in t + 1, when `bus_busy_i` tells
// about t, and counted from t + 2 on. Cycles without a label are counted as idle until the next
// dispatch to the engine turns them into starved ones.
module tw_engine_monitor (
    input logic clk_i,
    input logic rst_ni,

    input logic       valid_i,         // cycle t counts
    input logic       busy_i,
    input logic       operand_i,
    input logic       interlock_i,
    input logic       bank_conflict_i,
    input logic       dram_wait_i,
    input logic       dram_latency_i,  // such a wait is latency whatever the bus does
    input logic [5:0] dram_channel_i,
    input logic       full_i,
    input logic       fed_i,           // an instruction is dispatched to the engine

    input logic [tw_machine_pkg::DramChannels-1:0] bus_busy_i,

    input  logic [ 3:0] label_i,
    output logic [63:0] count_o
);

  localparam int unsigned ChannelBits =
      tw_machine_pkg::DramChannels > 1 ? $clog2(tw_machine_pkg::DramChannels) : 1;

  logic [3:0] label_d, label_q, label;
  logic valid_q, fed_q, bus_q;
  logic [5:0] channel_q;
  logic [63:0] count_q[tw_pkg::NumLabels];

  always_comb begin
    label_d = 4'(tw_pkg::LabelIdle);
    if (busy_i) label_d = 4'(tw_pkg::LabelBusy);
    else if (operand_i) label_d = 4'(tw_pkg::LabelOperand);
    else if (interlock_i) label_d = 4'(tw_pkg::LabelInterlock);
    else if (bank_conflict_i) label_d = 4'(tw_pkg::LabelBankConflict);
    else if (dram_wait_i) label_d = 4'(tw_pkg::LabelDramLatency);
    else if (full_i) label_d = 4'(tw_pkg::LabelBufferFull);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
    end else begin
      valid_q <= valid_i;
      if (valid_i) begin
        label_q <= label_d;
        bus_q <= label_d == 4'(tw_pkg::LabelDramLatency) && !dram_latency_i;
        channel_q <= dram_channel_i;
        fed_q <= fed_i;
      end
    end
  end

  if (tw_machine_pkg::DramChannels > 1) begin : gen_channels
    assign label = bus_q && bus_busy_i[channel_q[ChannelBits-1:0]] ?
                   4'(tw_pkg::LabelDramBandwidth) : label_q;
    if (ChannelBits < 6) begin : gen_unused
      logic unused_channel;
      assign unused_channel = ^channel_q[5:ChannelBits];
    end
  end else begin : gen_channel
    assign label = bus_q && bus_busy_i[0] ? 4'(tw_pkg::LabelDramBandwidth) : label_q;
    logic unused_channel;
    assign unused_channel = ^channel_q;
  end

  // From a dispatch until it is visible, cycles without a label are starved at once.
  logic feeding;
  if (tw_machine_pkg::DispatchCycles > 1) begin : gen_feeding
    localparam int unsigned FeedBits = $clog2(tw_machine_pkg::DispatchCycles);
    logic [FeedBits-1:0] feeding_q;
    always_ff @(posedge clk_i) begin
      if (!rst_ni) feeding_q <= '0;
      else if (valid_q && fed_q) feeding_q <= FeedBits'(tw_machine_pkg::DispatchCycles - 1);
      else if (valid_q && feeding_q != '0) feeding_q <= feeding_q - 1'b1;
    end
    assign feeding = feeding_q != '0;
  end else begin : gen_at_once
    assign feeding = 1'b0;
  end

  logic rest;
  assign rest = label == 4'(tw_pkg::LabelIdle);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      for (int i = 0; i < tw_pkg::NumLabels; i++) count_q[i] <= '0;
    end else if (valid_q) begin
      if (fed_q) begin
        count_q[tw_pkg::LabelStarved] <=
            count_q[tw_pkg::LabelStarved] + count_q[tw_pkg::LabelIdle] + 64'(rest);
        count_q[tw_pkg::LabelIdle] <= '0;
        if (!rest) count_q[label] <= count_q[label] + 64'd1;
      end else if (rest && feeding) begin
        count_q[tw_pkg::LabelStarved] <= count_q[tw_pkg::LabelStarved] + 64'd1;
      end else begin
        count_q[label] <= count_q[label] + 64'd1;
      end
    end
  end

  assign count_o = count_q[label_i];

endmodule
