// Walks boxes of DMA instructions: cuts them into segments, one DRAM burst's or one fill's piece each.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing contract: shows in every cycle the next `Segments` segments of the boxes it is given, in
// order and across boxes; take_i (a prefix) moves behind those taken at the end of the cycle. A box
// shows its first segment in the cycle it becomes the oldest one: entering it costs no cycle.
//
// The boxes given must begin with the one whose segments have not all been taken, and keep their
// contents until then. closes_o is only right for segments that are taken.
module tw_box_walker #(
    parameter  int unsigned Segments = 1,
    // Bytes at most of one segment, and of a DRAM burst; a power of two.
    localparam int unsigned BurstBytes = tw_machine_pkg::BurstBytes,
    localparam int unsigned OffsetBits = $clog2(BurstBytes),
    localparam int unsigned BoxBits = 3 * tw_isa_pkg::WordBits,
    localparam int unsigned SelectBits = Segments > 1 ? $clog2(Segments) : 1,
    localparam int unsigned WalkBits = 4 * (20 + 40 + 28) + 2 + 22 + 40 + 28 + 1 + 40 - OffsetBits
) (
    input  logic                               clk_i,
    input  logic                               rst_ni,
    // Window of boxes in the encoding of a load, oldest first; valid is a prefix.
    input  logic [               Segments-1:0] box_valid_i,
    input  logic [       Segments*BoxBits-1:0] box_i,
    // Segments.
    output logic [               Segments-1:0] valid_o,
    output logic [    Segments*SelectBits-1:0] box_select_o, // which box of the window
    output logic [               Segments-1:0] fill_o,       // the fill pattern, no DRAM
    output logic [               Segments-1:0] opens_o,      // the first segment of a burst
    output logic [            Segments*40-1:0] burst_o,      // address of the segment's burst
    output logic [    Segments*OffsetBits-1:0] offset_o,     // first byte in the burst
    output logic [Segments*(OffsetBits+1)-1:0] length_o,     // bytes in the scratchpad, at least 1
    output logic [            Segments*28-1:0] address_o,    // first byte in the scratchpad
    output logic [               Segments-1:0] last_o,       // of its box
    output logic [               Segments-1:0] closes_o,     // the last segment of a burst
    input  logic [               Segments-1:0] take_i
);

  // State behind every segment, if it is taken and if not.
  logic [Segments*WalkBits-1:0] walk /*verilator split_var*/;
  logic [Segments*WalkBits-1:0] picked /*verilator split_var*/;
  logic [Segments:0] started /*verilator split_var*/;
  logic [Segments:0] picked_started /*verilator split_var*/;
  // Of one bit there is nothing to split.
  // verilator lint_off SPLITVAR
  logic [Segments-1:0] valid /*verilator split_var*/;
  logic [Segments-1:0] last /*verilator split_var*/;
  logic [Segments*SelectBits-1:0] select /*verilator split_var*/;
  // verilator lint_on SPLITVAR
  logic [WalkBits-1:0] walk_q;
  logic started_q;

  assign valid_o = valid;
  assign last_o = last;
  assign box_select_o = select;
  assign started[0] = started_q;
  assign picked_started[0] = started_q;

  for (genvar s = 0; s < Segments; s++) begin : gen_segment
    logic [WalkBits-1:0] walk_from;
    logic [WalkBits-1:0] picked_from;
    logic [BoxBits-1:0] box;

    if (s == 0) begin : gen_first
      assign walk_from = walk_q;
      assign picked_from = walk_q;
      assign box = box_i[BoxBits-1:0];
      assign valid[s] = box_valid_i[0];
      assign select[0+:SelectBits] = '0;
    end else begin : gen_next
      assign walk_from = walk[(s-1)*WalkBits+:WalkBits];
      assign picked_from = picked[(s-1)*WalkBits+:WalkBits];
      assign select[s*SelectBits+:SelectBits] =
          select[(s-1)*SelectBits+:SelectBits] + SelectBits'(valid[s-1] && last[s-1]);
      assign box = box_i[select[s*SelectBits+:SelectBits]*BoxBits+:BoxBits];
      assign valid[s] = box_valid_i[select[s*SelectBits+:SelectBits]];
    end

    tw_box_step u_step (
        .valid_i(valid[s]),
        // With one segment per cycle the next state is only needed if that is taken.
        .step_i(valid[s] && (Segments > 1 || take_i[s])),
        .box_i(box),
        .started_i(started[s]),
        .walk_i(walk_from),
        .walk_o(walk[s*WalkBits+:WalkBits]),
        .fill_o(fill_o[s]),
        .opens_o(opens_o[s]),
        .burst_o(burst_o[s*40+:40]),
        .offset_o(offset_o[s*OffsetBits+:OffsetBits]),
        .length_o(length_o[s*(OffsetBits+1)+:OffsetBits+1]),
        .address_o(address_o[s*28+:28]),
        .last_o(last[s]),
        .closes_o(closes_o[s])
    );

    assign started[s+1] = valid[s] ? !last[s] : started[s];
    assign picked_started[s+1] = take_i[s] ? started[s+1] : picked_started[s];
    assign picked[s*WalkBits+:WalkBits] = take_i[s] ? walk[s*WalkBits+:WalkBits] : picked_from;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) started_q <= 1'b0;
    else started_q <= picked_started[Segments];
  end

  always_ff @(posedge clk_i) begin
    if (take_i[0]) walk_q <= picked[(Segments-1)*WalkBits+:WalkBits];
  end

endmodule
