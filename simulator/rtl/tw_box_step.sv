// One step of a box walker: the segment at a state, and the state behind it.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing contract: combinational. walk_o and closes_o are only right with step_i, the segment
// itself does not depend on it.
//
// Addresses are kept in one base register per dimension: a carry into dimension d adds its stride
// to its base, which becomes the base of all dimensions below.
module tw_box_step #(
    localparam int unsigned BurstBytes = tw_machine_pkg::BurstBytes,
    localparam int unsigned OffsetBits = $clog2(BurstBytes),
    localparam int unsigned BurstBits = 40 - OffsetBits,
    localparam int unsigned WalkBits = 4 * (20 + 40 + 28) + 2 + 22 + 40 + 28 + 1 + BurstBits
) (
    input  logic                 valid_i,    // there is a box
    input  logic                 step_i,     // walk_o is needed
    // A walker needs a part of an instruction's fields.
    // verilator lint_off UNUSEDSIGNAL
    input  tw_isa_pkg::load_t    box_i,
    // verilator lint_on UNUSEDSIGNAL
    input  logic                 started_i,  // walk_i is a state of this box; else: its first one
    input  logic [ WalkBits-1:0] walk_i,
    output logic [ WalkBits-1:0] walk_o,
    // The segment.
    output logic                 fill_o,     // the fill pattern, no DRAM
    output logic                 opens_o,    // the first segment of a burst
    output logic [         39:0] burst_o,    // address of the segment's burst
    output logic [OffsetBits-1:0] offset_o,  // first byte in the burst
    output logic [ OffsetBits:0] length_o,   // bytes in the scratchpad, at least 1
    output logic [         27:0] address_o,  // first byte in the scratchpad
    output logic                 last_o,     // of its box
    output logic                 closes_o    // the last segment of a burst
);

  // Parts of a run. PartLast is a trailing fill, or a run that is filled as a whole.
  localparam logic [1:0] PartLeadingFill = 2'd0;
  localparam logic [1:0] PartDram = 2'd1;
  localparam logic [1:0] PartLast = 2'd2;

  typedef struct packed {
    logic [3:0][19:0]     index;      // of dimensions 1 to 4
    logic [3:0][39:0]     dram_base;  // of dimensions 1 to 4
    logic [3:0][27:0]     base;       // the same in the scratchpad
    logic [1:0]           part;
    logic [21:0]          rest;       // bytes left of the part
    logic [39:0]          dram;       // next byte in DRAM
    logic [27:0]          address;    // next byte in the scratchpad
    logic                 open;       // the box has a burst
    logic [BurstBits-1:0] burst;      // the last one
  } walk_t;

  walk_t at;
  walk_t after;
  logic last;
  logic run_done;
  logic [OffsetBits-1:0] offset;
  logic [OffsetBits:0] length;
  logic [21:0] run_bytes;
  logic [21:0] leading_bytes;
  logic [21:0] dram_bytes;
  logic [21:0] trailing_bytes;

  // The segment.
  always_comb begin : p_segment
    logic filled;
    logic [OffsetBits:0] room;
    filled = 1'b0;
    room = '0;
    at = walk_i;
    run_bytes = '0;
    leading_bytes = '0;
    dram_bytes = '0;
    trailing_bytes = '0;
    offset = '0;
    length = '0;
    run_done = 1'b0;
    last = 1'b0;
    if (valid_i) begin
      run_bytes = 22'(box_i.counts[0]) << box_i.element_log2;
      leading_bytes = 22'(box_i.low[0]) << box_i.element_log2;
      trailing_bytes = 22'(box_i.high[0]) << box_i.element_log2;
      dram_bytes = run_bytes - leading_bytes - trailing_bytes;
      if (!started_i) begin
        at.dram = box_i.dram_address;
        at.address = box_i.address;
        at.open = 1'b0;
        at.burst = '0;
        for (int d = 0; d < 4; d++) begin
          at.index[d] = '0;
          at.dram_base[d] = box_i.dram_address;
          at.base[d] = box_i.address;
          if (box_i.low[d+1] != '0 || 20'(box_i.high[d+1]) >= box_i.counts[d+1]) filled = 1'b1;
        end
        if (filled || dram_bytes == '0) begin
          at.part = PartLast;
          at.rest = run_bytes;
        end else if (leading_bytes != '0) begin
          at.part = PartLeadingFill;
          at.rest = leading_bytes;
        end else begin
          at.part = PartDram;
          at.rest = dram_bytes;
        end
      end
      room = (OffsetBits + 1)'(BurstBytes);
      if (at.part == PartDram) begin
        offset = at.dram[OffsetBits-1:0];
        if (!box_i.broadcast) room = (OffsetBits + 1)'(BurstBytes) - (OffsetBits + 1)'(offset);
      end
      length = at.rest < 22'(room) ? at.rest[OffsetBits:0] : room;
      run_done = at.rest == 22'(length) &&
          (at.part == PartLast || (at.part == PartDram && trailing_bytes == '0));
      last = run_done;
      for (int d = 0; d < 4; d++) if (at.index[d] + 20'd1 != box_i.counts[d+1]) last = 1'b0;
    end
  end

  // The state behind it.
  always_comb begin : p_step
    logic moved;
    logic filled;
    logic [39:0] dram_base;
    logic [27:0] base;
    moved = 1'b0;
    filled = 1'b0;
    dram_base = '0;
    base = '0;
    after = at;
    if (step_i) begin
      after.rest = at.rest - 22'(length);
      after.address = at.address + 28'(length);
      if (at.part == PartDram) begin
        after.open = 1'b1;
        after.burst = at.dram[39:OffsetBits];
        if (!box_i.broadcast) after.dram = at.dram + 40'(length);
      end
      if (run_done) begin
        for (int d = 0; d < 4; d++) begin
          if (!moved) begin
            if (at.index[d] + 20'd1 != box_i.counts[d+1]) begin
              moved = 1'b1;
              after.index[d] = at.index[d] + 20'd1;
              base = at.base[d] + 28'($signed(box_i.strides[d]));
              dram_base = at.dram_base[d];
              // The first index that is read lies at dram_address.
              if (at.index[d] >= 20'(box_i.low[d+1]))
                dram_base = at.dram_base[d] + 40'($signed(box_i.dram_strides[d]));
              for (int below = 0; below <= d; below++) begin
                after.base[below] = base;
                after.dram_base[below] = dram_base;
              end
            end else begin
              after.index[d] = '0;
            end
          end
        end
        after.address = base;
        after.dram = dram_base;
        for (int d = 0; d < 4; d++) begin
          if (after.index[d] < 20'(box_i.low[d+1]) ||
              after.index[d] + 20'(box_i.high[d+1]) >= box_i.counts[d+1])
            filled = 1'b1;
        end
        if (filled || dram_bytes == '0) begin
          after.part = PartLast;
          after.rest = run_bytes;
        end else if (leading_bytes != '0) begin
          after.part = PartLeadingFill;
          after.rest = leading_bytes;
        end else begin
          after.part = PartDram;
          after.rest = dram_bytes;
        end
      end else if (at.rest == 22'(length)) begin
        if (at.part == PartLeadingFill) begin
          after.part = PartDram;
          after.rest = dram_bytes;
        end else begin
          after.part = PartLast;
          after.rest = trailing_bytes;
        end
      end
    end
  end

  assign walk_o = after;
  assign fill_o = at.part != PartDram;
  assign opens_o = valid_i && at.part == PartDram &&
      (!at.open || at.burst != at.dram[39:OffsetBits]);
  assign burst_o = {at.dram[39:OffsetBits], OffsetBits'(0)};
  assign offset_o = offset;
  assign length_o = length;
  assign address_o = at.address;
  assign last_o = last;
  assign closes_o = after.open &&
      (last || (after.part == PartDram && after.burst != after.dram[39:OffsetBits]));

endmodule
