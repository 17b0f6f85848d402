// Counting semaphores.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: `count_o` in cycle t holds every post visible in t and no take of t. The arbiter hands
// back what its takes of t leave (`left_i`); the posts at the inputs in t become visible in t + 1.
// A count beyond the maximum then is a fault of the posting engine, reported in t + 1.
module tw_semaphores #(
    localparam int unsigned CountBits = $clog2(tw_machine_pkg::SemaphoreMax + 1),
    localparam int unsigned Bits = CountBits * tw_machine_pkg::Semaphores,
    localparam int unsigned PostBits = 30
) (
    input logic clk_i,
    input logic rst_ni,

    output logic [Bits-1:0] count_o,
    input  logic            take_i,  // some count is taken in this cycle
    input  logic [Bits-1:0] left_i,

    input logic [         tw_pkg::NumQueues-1:0] post_valid_i,
    input logic [PostBits*tw_pkg::NumQueues-1:0] post_i,
    input logic [      32*tw_pkg::NumQueues-1:0] post_pc_i,

    output logic        overflow_o,
    output logic [ 3:0] overflow_engine_o,
    output logic [31:0] overflow_pc_o
);

  // Wide enough for the maximum and one more post.
  localparam int unsigned SumBits = (CountBits > 4 ? CountBits : 4) + 1;

  logic [Bits-1:0] count_d, count_q;
  logic overflow_d, overflow_q;
  logic [3:0] overflow_engine_d, overflow_engine_q;
  logic [31:0] overflow_pc_d, overflow_pc_q;

  // In the order of engines: the first that passes the maximum is the one to blame.
  always_comb begin : add_posts
    logic [5:0] which;
    logic [3:0] posts;
    logic [SumBits-1:0] sum;
    count_d = left_i;
    overflow_d = 1'b0;
    overflow_engine_d = '0;
    overflow_pc_d = '0;
    which = '0;
    posts = '0;
    sum = '0;
    if (|post_valid_i) begin
      for (int unsigned e = 0; e < tw_pkg::NumQueues; e++) begin
        if (post_valid_i[e]) begin
          for (int unsigned i = 0; i < 3; i++) begin
            which = post_i[PostBits*e+6*i+:6];
            posts = post_i[PostBits*e+18+4*i+:4];
            if (posts != '0) begin
              sum = SumBits'(count_d[CountBits*32'(which)+:CountBits]) + SumBits'(posts);
              count_d[CountBits*32'(which)+:CountBits] = sum[CountBits-1:0];
              if (sum > SumBits'(tw_machine_pkg::SemaphoreMax) && !overflow_d) begin
                overflow_d = 1'b1;
                overflow_engine_d = 4'(e);
                overflow_pc_d = post_pc_i[32*e+:32];
              end
            end
          end
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      count_q <= '0;
      overflow_q <= 1'b0;
    end else begin
      if (take_i || |post_valid_i) count_q <= count_d;
      overflow_q <= overflow_d;
      if (overflow_d) begin
        overflow_engine_q <= overflow_engine_d;
        overflow_pc_q <= overflow_pc_d;
      end
    end
  end

  assign count_o = count_q;
  assign overflow_o = overflow_q;
  assign overflow_engine_o = overflow_engine_q;
  assign overflow_pc_o = overflow_pc_q;

endmodule
