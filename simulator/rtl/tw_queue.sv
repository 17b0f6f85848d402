// The queue of instructions in front of one engine.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: an instruction pushed in cycle t is visible at the head from t + DispatchCycles on. One
// that is popped in s makes room for a push in s + QueueFreeCycles. full_o speaks of a push in this
// cycle. A push while full_o or a pop while !head_valid_o is not allowed.
module tw_queue #(
    // Bits of the operands that the engine looks at.
    parameter int unsigned Width = 256
) (
    input  logic              clk_i,
    input  logic              rst_ni,
    input  logic              push_i,
    input  tw_pkg::control_t  control_i,
    input  logic [Width-1:0]  operands_i,
    output logic              full_o,
    output logic              head_valid_o,
    output tw_pkg::control_t  head_control_o,
    output logic [Width-1:0]  head_operands_o,
    input  logic              pop_i,
    output logic              pending_o
);

  localparam int unsigned Depth = tw_machine_pkg::QueueDepth;
  localparam int unsigned CountBits = $clog2(Depth + 1);
  // The head lies in a register of its own, the others behind it in a ring.
  localparam int unsigned RingDepth = Depth > 1 ? Depth - 1 : 1;
  localparam int unsigned IndexBits = RingDepth > 1 ? $clog2(RingDepth) : 1;
  localparam int unsigned PushDelay = tw_machine_pkg::DispatchCycles - 1;
  localparam int unsigned FreeDelay = tw_machine_pkg::QueueFreeCycles - 1;

  logic [tw_pkg::ControlBits-1:0] ring_control[RingDepth];
  logic [Width-1:0] ring_operands[RingDepth];
  logic [tw_pkg::ControlBits-1:0] head_control_q;
  logic [Width-1:0] head_operands_q;
  logic [IndexBits-1:0] read_q, write_q;
  // Entries here, those of them that are visible, and slots that are not free.
  logic [CountBits-1:0] entries_q, visible_q, used_q;
  logic shown, freed;

  if (PushDelay == 0) begin : gen_no_push_delay
    assign shown = push_i;
  end else begin : gen_push_delay
    logic [PushDelay-1:0] pushes_q;
    assign shown = pushes_q[PushDelay-1];
    always_ff @(posedge clk_i) begin
      if (!rst_ni) pushes_q <= '0;
      else pushes_q <= PushDelay'({pushes_q, push_i});
    end
  end

  if (FreeDelay == 0) begin : gen_no_free_delay
    assign freed = pop_i;
  end else begin : gen_free_delay
    logic [FreeDelay-1:0] pops_q;
    assign freed = pops_q[FreeDelay-1];
    always_ff @(posedge clk_i) begin
      if (!rst_ni) pops_q <= '0;
      else pops_q <= FreeDelay'({pops_q, pop_i});
    end
  end

  assign full_o = used_q == CountBits'(Depth);
  assign head_valid_o = visible_q != '0;
  assign head_control_o = head_control_q;
  assign head_operands_o = head_operands_q;
  assign pending_o = entries_q != '0;

  function automatic logic [IndexBits-1:0] following(input logic [IndexBits-1:0] index);
    if (32'(index) == RingDepth - 1) following = '0;
    else following = index + IndexBits'(1);
  endfunction

  function automatic logic [CountBits-1:0] moved(input logic [CountBits-1:0] count, input logic up,
                                                 input logic down);
    if (up == down) moved = count;
    else if (up) moved = count + CountBits'(1);
    else moved = count - CountBits'(1);
  endfunction

  logic to_head, to_ring, from_ring;
  assign to_head = push_i && (entries_q == '0 || (entries_q == CountBits'(1) && pop_i));
  assign to_ring = push_i && !to_head;
  assign from_ring = pop_i && entries_q != CountBits'(1);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      entries_q <= '0;
      visible_q <= '0;
      used_q <= '0;
      read_q <= '0;
      write_q <= '0;
    end else begin
      entries_q <= moved(entries_q, push_i, pop_i);
      visible_q <= moved(visible_q, shown, pop_i);
      used_q <= moved(used_q, push_i, freed);
      if (to_ring) write_q <= following(write_q);
      if (from_ring) read_q <= following(read_q);
    end
  end

  always_ff @(posedge clk_i) begin
    if (to_ring) begin
      ring_control[write_q] <= control_i;
      ring_operands[write_q] <= operands_i;
    end
    if (to_head) begin
      head_control_q <= control_i;
      head_operands_q <= operands_i;
    end else if (from_ring) begin
      head_control_q <= ring_control[read_q];
      head_operands_q <= ring_operands[read_q];
    end
  end

`ifdef VERILATOR
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(push_i && full_o));
      assert (!(pop_i && !head_valid_o));
    end
  end
`endif

endmodule
