// Store engine: copies boxes from a scratchpad to the write buffer, one burst after the other.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing contract, P = BurstsPerCycle, for a start in s and f = s + DmaSetupCycles:
// - from f on P segments per cycle are read from the scratchpad, in order, while fewer than
//   OutstandingBursts whole bursts wait to be accepted; segments of one burst are combined;
// - a burst whose last segment is read in G is offered from G + 1 on (its last bytes come from the
//   read port in that cycle);
// - the last burst of a box accepted in A: ready_o from A + 1 on, retire_o in A + DmaDrainCycles.
module tw_store #(
    // The number of this engine among the stores, for messages.
    parameter  int unsigned Unit = 0,
    localparam int unsigned P = tw_machine_pkg::BurstsPerCycle,
    localparam int unsigned BurstBytes = tw_machine_pkg::BurstBytes,
    localparam int unsigned B8 = 8 * BurstBytes,
    localparam int unsigned W8 = 8 * tw_pkg::RowBytes
) (
    input  logic                    clk_i,
    input  logic                    rst_ni,
    // Engine.
    input  logic                    start_i,
    // verilator lint_off UNUSEDSIGNAL
    input  tw_isa_pkg::store_t      operands_i,  // the header has had its effect
    // verilator lint_on UNUSEDSIGNAL
    output logic                    ready_o,
    output logic                    retire_o,
    // Scratchpad; data in the next cycle.
    output logic [           P-1:0] rd_valid_o,
    output tw_isa_pkg::memory_e     rd_memory_o,
    output logic [        P*28-1:0] rd_address_o,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [        P*W8-1:0] rd_data_i,   // a row may be longer than a burst
    // verilator lint_on UNUSEDSIGNAL
    // Bursts for the write buffer: a prefix is offered, a prefix of those accepted.
    output logic [           P-1:0] offer_valid_o,
    output logic [        P*40-1:0] offer_address_o,
    output logic [        P*B8-1:0] offer_data_o,
    output logic [P*BurstBytes-1:0] offer_mask_o,
    input  logic [           P-1:0] accept_i,
    // Labels of this cycle, in the order of their precedence.
    output logic                    busy_o,
    output logic                    setup_o,
    output logic                    blocked_o
);

  localparam int unsigned N = tw_machine_pkg::OutstandingBursts;
  localparam int unsigned SlotBits = N > 1 ? $clog2(N) : 1;
  localparam int unsigned CountBits = $clog2(N + P + 1);
  localparam int unsigned BoxBits = 3 * tw_isa_pkg::WordBits;
  localparam int unsigned OffsetBits = $clog2(BurstBytes);
  localparam int unsigned WaitBits = $clog2(tw_machine_pkg::DmaSetupCycles + 1);
  localparam int unsigned Drain = tw_machine_pkg::DmaDrainCycles;

  // The slot `by` behind `slot`.
  function automatic logic [SlotBits-1:0] slot_after(input logic [SlotBits-1:0] slot,
                                                     input logic [CountBits-1:0] by);
    logic [CountBits:0] sum;
    sum = (CountBits + 1)'(slot) + (CountBits + 1)'(by);
    if (sum >= (CountBits + 1)'(N)) sum = sum - (CountBits + 1)'(N);
    slot_after = sum[SlotBits-1:0];
  endfunction

  tw_isa_pkg::load_t box_q;  // a store is a load without fills to a walker
  tw_isa_pkg::load_t box;
  logic active_q;            // bursts are left to be accepted
  logic gathering_q;         // segments are left to be read
  logic [WaitBits-1:0] wait_q;
  logic setting_up;

  // Bursts whose last segment has been read: a ring, and how many are not accepted.
  logic [B8-1:0] data_q[N];
  logic [BurstBytes-1:0] mask_q[N];
  logic [39:0] address_q[N];
  logic [SlotBits-1:0] head_q;
  logic [CountBits-1:0] staged_q;
  logic [CountBits-1:0] accepts;
  logic [CountBits-1:0] closes;

  // Segments.
  logic [P-1:0] valid;
  logic [P-1:0] opens;
  logic [P*40-1:0] burst;
  logic [P*OffsetBits-1:0] offset;
  logic [P*(OffsetBits+1)-1:0] length;
  logic [P*28-1:0] address;
  logic [P-1:0] last;
  logic [P-1:0] closing;
  logic [P-1:0] closed_before;
  logic [P-1:0] gather;
  logic [P*BoxBits-1:0] window;

  assign setting_up = wait_q != '0;
  assign window = (P * BoxBits)'(box_q);

  // A store has no fills and one box at a time.
  // verilator lint_off PINCONNECTEMPTY
  tw_box_walker #(
      .Segments(P)
  ) u_gather (
      .clk_i,
      .rst_ni,
      .box_valid_i(P'(gathering_q && !setting_up)),
      .box_i(window),
      .valid_o(valid),
      .box_select_o(),
      .fill_o(),
      .opens_o(opens),
      .burst_o(burst),
      .offset_o(offset),
      .length_o(length),
      .address_o(address),
      .last_o(last),
      .closes_o(closing),
      .take_i(gather)
  );
  // verilator lint_on PINCONNECTEMPTY

  if (P == 1) begin : gen_one_segment
    assign closed_before = '0;
  end else begin : gen_segments
    assign closed_before = {closing[P-2:0], 1'b0};
  end

  always_comb begin : p_gather
    logic [CountBits-1:0] staged;
    logic go;
    staged = staged_q;
    go = 1'b1;
    for (int s = 0; s < P; s++) begin
      staged = staged + CountBits'(closed_before[s]);
      go = go && valid[s] && staged < CountBits'(N);
      gather[s] = go;
    end
  end

  always_comb begin : p_counts
    closes = '0;
    accepts = '0;
    for (int s = 0; s < P; s++) begin
      closes = closes + CountBits'(gather[s] && closing[s]);
      accepts = accepts + CountBits'(accept_i[s]);
    end
  end

  assign rd_valid_o = gather;
  assign rd_memory_o = box_q.memory;
  assign rd_address_o = address;

  // What is read in this cycle.
  logic [P-1:0] read_valid_q;
  logic [P-1:0] read_opens_q;
  logic [P-1:0] read_closes_q;
  logic [P*40-1:0] read_burst_q;
  logic [P*OffsetBits-1:0] read_offset_q;
  logic [P*(OffsetBits+1)-1:0] read_length_q;
  // The burst that is being put together.
  logic [B8-1:0] part_q;
  logic [BurstBytes-1:0] part_mask_q;
  // The same with the data of this cycle, behind every segment.
  logic [P*B8-1:0] part;
  logic [P*BurstBytes-1:0] part_mask;

  always_comb begin : p_combine
    logic [B8-1:0] bits;
    logic [B8-1:0] data;
    logic [BurstBytes-1:0] mask;
    part = '0;
    part_mask = '0;
    bits = '0;
    data = '0;
    mask = '0;
    if (read_valid_q != '0) begin
      data = part_q;
      mask = part_mask_q;
      for (int s = 0; s < P; s++) begin
        if (read_valid_q[s]) begin
          if (read_opens_q[s]) mask = '0;
          bits = ~({B8{1'b1}} << {read_length_q[s*(OffsetBits+1)+:OffsetBits+1], 3'd0}) <<
              {read_offset_q[s*OffsetBits+:OffsetBits], 3'd0};
          data = (data & ~bits) | ((rd_data_i[s*W8+:B8] <<
              {read_offset_q[s*OffsetBits+:OffsetBits], 3'd0}) & bits);
          mask = mask | (~({BurstBytes{1'b1}} << read_length_q[s*(OffsetBits+1)+:OffsetBits+1]) <<
              read_offset_q[s*OffsetBits+:OffsetBits]);
          part[s*B8+:B8] = data;
          part_mask[s*BurstBytes+:BurstBytes] = mask;
        end
      end
    end
  end

  // Bursts that become whole in this cycle lie behind those in the ring; they are offered at once.
  logic [CountBits-1:0] arriving;

  always_comb begin : p_arriving
    arriving = '0;
    for (int s = 0; s < P; s++)
    arriving = arriving + CountBits'(read_valid_q[s] && read_closes_q[s]);
  end

  always_comb begin : p_offer
    logic [CountBits-1:0] at;
    offer_valid_o = '0;
    offer_address_o = '0;
    offer_data_o = '0;
    offer_mask_o = '0;
    at = '0;
    for (int n = 0; n < P; n++) begin
      if (CountBits'(n) < staged_q) begin
        offer_valid_o[n] = 1'b1;
        if (CountBits'(n) + arriving < staged_q) begin
          offer_address_o[n*40+:40] = address_q[slot_after(head_q, CountBits'(n))];
          offer_data_o[n*B8+:B8] = data_q[slot_after(head_q, CountBits'(n))];
          offer_mask_o[n*BurstBytes+:BurstBytes] = mask_q[slot_after(head_q, CountBits'(n))];
        end else begin
          at = staged_q - arriving;
          for (int s = 0; s < P; s++) begin
            if (read_valid_q[s] && read_closes_q[s]) begin
              if (at == CountBits'(n)) begin
                offer_address_o[n*40+:40] = read_burst_q[s*40+:40];
                offer_data_o[n*B8+:B8] = part[s*B8+:B8];
                offer_mask_o[n*BurstBytes+:BurstBytes] = part_mask[s*BurstBytes+:BurstBytes];
              end
              at = at + CountBits'(1);
            end
          end
        end
      end
    end
  end

  // Slot of the first burst that becomes whole in this cycle.
  logic [SlotBits-1:0] write_q;

  always_ff @(posedge clk_i) begin : p_stage
    logic [CountBits-1:0] at;
    at = '0;
    for (int s = 0; s < P; s++) begin
      if (read_valid_q[s]) begin
        part_q <= part[s*B8+:B8];
        part_mask_q <= part_mask[s*BurstBytes+:BurstBytes];
        if (read_closes_q[s]) begin
          data_q[slot_after(write_q, at)] <= part[s*B8+:B8];
          mask_q[slot_after(write_q, at)] <= part_mask[s*BurstBytes+:BurstBytes];
          address_q[slot_after(write_q, at)] <= read_burst_q[s*40+:40];
          at = at + CountBits'(1);
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin
    for (int s = 0; s < P; s++) begin
      if (gather[s]) begin
        read_opens_q[s] <= opens[s];
        read_closes_q[s] <= closing[s];
        read_burst_q[s*40+:40] <= burst[s*40+:40];
        read_offset_q[s*OffsetBits+:OffsetBits] <= offset[s*OffsetBits+:OffsetBits];
        read_length_q[s*(OffsetBits+1)+:OffsetBits+1] <= length[s*(OffsetBits+1)+:OffsetBits+1];
      end
    end
  end

  // The last burst of the box is accepted.
  logic finished;
  logic [Drain-1:0] finished_q;

  assign finished = accepts != '0 && accepts == staged_q && !gathering_q;
  assign ready_o = !active_q;
  assign retire_o = finished_q[Drain-1];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      active_q <= 1'b0;
      gathering_q <= 1'b0;
      wait_q <= '0;
      head_q <= '0;
      write_q <= '0;
      staged_q <= '0;
      read_valid_q <= '0;
      finished_q <= '0;
    end else begin
      if (start_i) begin
        active_q <= 1'b1;
        gathering_q <= 1'b1;
        wait_q <= WaitBits'(tw_machine_pkg::DmaSetupCycles - 1);
      end else begin
        if ((gather & last) != '0) gathering_q <= 1'b0;
        if (finished) active_q <= 1'b0;
        if (setting_up) wait_q <= wait_q - WaitBits'(1);
      end
      staged_q <= staged_q + closes - accepts;
      if (accepts != '0) head_q <= slot_after(head_q, accepts);
      if (arriving != '0) write_q <= slot_after(write_q, arriving);
      read_valid_q <= gather;
      finished_q <= Drain'({finished_q, finished});
    end
  end

  always_comb begin : p_box
    box = '0;
    box.memory = operands_i.memory;
    box.address = operands_i.address;
    box.dram_address = operands_i.dram_address;
    box.element_log2 = operands_i.element_log2;
    box.counts = operands_i.counts;
    box.strides = operands_i.strides;
    box.dram_strides = operands_i.dram_strides;
  end

  always_ff @(posedge clk_i) begin
    if (start_i) box_q <= box;
  end

  assign busy_o = gather != '0 || accept_i != '0;
  assign setup_o = start_i || setting_up;
  assign blocked_o = staged_q != '0;

`ifdef VERILATOR
  initial begin
    assert (tw_machine_pkg::DmaSetupCycles >= 1 && tw_machine_pkg::DmaDrainCycles >= 1)
    else $error("store %0d: constants that this pipeline cannot have", Unit);
  end
  always_ff @(posedge clk_i) begin
    if (rst_ni && start_i) begin
      assert (ready_o)
      else $error("store %0d: started while not free", Unit);
    end
  end
`endif

endmodule
