// What an engine's instructions post when they retire: a FIFO from start to retirement.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: an instruction that starts in s (`start_i`) and retires in r (`retire_i`) has its posts
// at the output in cycle r + SemaphoreCycles - 1, so that a counter that adds them there shows them
// from r + SemaphoreCycles on. `count_o` counts starts before and retirements before this cycle.
// An engine retires in order and never has more than Depth instructions in here.
module tw_in_flight #(
    parameter int unsigned Depth = 16,  // a power of two
    localparam int unsigned PostBits = 30,
    localparam int unsigned CountBits = $clog2(Depth + 1)
) (
    input logic clk_i,
    input logic rst_ni,

    input logic                start_i,
    input logic [PostBits-1:0] post_i,  // three semaphores, above them three counts
    input logic [        31:0] pc_i,
    input logic                retire_i,

    output logic                 post_valid_o,  // something to post in this cycle
    output logic [ PostBits-1:0] post_o,
    output logic [         31:0] pc_o,
    output logic [CountBits-1:0] count_o,      // started, not retired
    output logic                 pending_o     // in flight, or posts still on their way
);

  localparam int unsigned PointerBits = $clog2(Depth);

  logic [PostBits+31:0] entry_q[Depth];
  logic [PointerBits-1:0] head_q, tail_q;
  logic [CountBits-1:0] count_q;
  logic post, line_pending;

  tw_delay #(
      .Cycles(tw_machine_pkg::SemaphoreCycles - 1)
  ) u_post (
      .clk_i,
      .rst_ni,
      .pulse_i(retire_i),
      .pulse_o(post),
      .pending_o(line_pending)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      head_q  <= '0;
      tail_q  <= '0;
      count_q <= '0;
    end else begin
      if (start_i) begin
        entry_q[head_q] <= {pc_i, post_i};
        head_q <= head_q + 1'b1;
      end
      if (post) tail_q <= tail_q + 1'b1;
      if (start_i && !retire_i) count_q <= count_q + 1'b1;
      if (!start_i && retire_i) count_q <= count_q - 1'b1;
    end
  end

  assign {pc_o, post_o} = entry_q[tail_q];
  assign post_valid_o = post && post_o[PostBits-1-:12] != '0;
  assign count_o = count_q;
  assign pending_o = count_q != '0 || line_pending;

`ifdef VERILATOR
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(retire_i && count_q == '0)) else $error("retirement without an instruction");
      assert (!(start_i && count_q == CountBits'(Depth))) else $error("too many in flight");
    end
  end
`endif

endmodule
