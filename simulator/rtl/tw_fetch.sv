// Fetch of the program: asks for its bursts in ascending order, each once, and hands out its words.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: requests from cycle StartCycles on (start_i is cycle 0), as long as every word that a
// burst completes has room among PrefetchWords; a word taken in t makes room in t + 1. The words of
// a burst that arrives in cycle t may be taken from t + FetchCycles on. Bursts may arrive in any
// order: words are taken in order, which makes their return one in order. The code's address is a
// multiple of a word's bytes; it and the length keep still while the program runs.
module tw_fetch (
    input  logic                                          clk_i,
    input  logic                                          rst_ni,
    input  logic                                          start_i,
    input  logic                                          stop_i,
    input  logic [39:0]                                   code_address_i,
    input  logic [31:0]                                   code_words_i,
    output logic [tw_machine_pkg::BurstsPerCycle-1:0]     fetch_valid_o,
    output logic [tw_machine_pkg::BurstsPerCycle*40-1:0]  fetch_address_o,
    output logic [tw_machine_pkg::BurstsPerCycle*12-1:0]  fetch_slot_o,
    input  logic [tw_machine_pkg::BurstsPerCycle-1:0]     fetch_grant_i,
    input  logic [tw_machine_pkg::DramResponses-1:0]      rsp_valid_i,
    input  logic [tw_machine_pkg::DramResponses*12-1:0]   rsp_slot_i,
    input  logic [tw_machine_pkg::DramResponses*tw_machine_pkg::BurstBytes*8-1:0] rsp_data_i,
    // The next word that was never taken, its index, and whether it is here.
    output logic                                          word_valid_o,
    output logic [tw_isa_pkg::WordBits-1:0]               word_o,
    output logic [31:0]                                   word_index_o,
    input  logic                                          take_i,
    // DRAM channel of the burst that completes that word.
    output logic [5:0]                                    channel_o
);

  localparam int unsigned P = tw_machine_pkg::BurstsPerCycle;
  localparam int unsigned R = tw_machine_pkg::DramResponses;
  localparam int unsigned BurstBytes = tw_machine_pkg::BurstBytes;
  localparam int unsigned BurstBits = $clog2(BurstBytes);
  localparam int unsigned DataBits = BurstBytes * 8;
  localparam int unsigned WordBytes = tw_isa_pkg::WordBits / 8;
  localparam int unsigned WordShift = $clog2(WordBytes);
  localparam int unsigned Prefetch = tw_machine_pkg::PrefetchWords;
  // Slots for the words of the FIFO and for one burst partly taken at either end; a burst may hold
  // more words than the FIFO.
  localparam int unsigned FifoBytes = Prefetch * WordBytes > BurstBytes ?
      Prefetch * WordBytes : BurstBytes;
  localparam int unsigned EndBytes = WordBytes > BurstBytes ? WordBytes : BurstBytes;
  localparam int unsigned SlotBits = $clog2((FifoBytes + 2 * EndBytes) / BurstBytes);
  localparam int unsigned Slots = 1 << SlotBits;
  localparam int unsigned PositionBits = SlotBits + BurstBits;
  // Bytes of code, its first burst counted from its begin.
  localparam int unsigned ByteBits = 41;
  localparam int unsigned CountBits = $clog2(tw_machine_pkg::StartCycles + 1);

  logic [DataBits-1:0] data[Slots];
  logic [Slots-1:0] arrived_q;
  logic running_q;
  logic [CountBits-1:0] countdown_q;
  logic [ByteBits-1:0] requested_q;   // bytes of all bursts asked for
  logic [31:0] completed_q;           // words that they complete
  logic [31:0] taken_q;
  logic [PositionBits-1:0] position_q;  // of the next word among the slots

  logic [ByteBits-1:0] lead, total;
  assign lead = ByteBits'(code_address_i[BurstBits-1:0]);
  assign total = lead + (ByteBits'(code_words_i) << WordShift);

  // Words completed once `bytes` of the bursts, more than those before the code, are here.
  function automatic logic [31:0] words_in(input logic [ByteBits-1:0] bytes,
                                           input logic [ByteBits-1:0] lead_bytes,
                                           input logic [31:0] limit);
    logic [ByteBits-1:0] words;
    words = (bytes - lead_bytes) >> WordShift;
    words_in = words > ByteBits'(limit) ? limit : words[31:0];
  endfunction

  // Requests of this cycle, each as if those before it were granted.
  logic [P-1:0] asks;
  logic [P*32-1:0] completes;     // words completed with it
  logic [P*ByteBits-1:0] passes;  // bytes of all bursts with it
  for (genvar i = 0; i < P; i++) begin : gen_request
    logic [ByteBits-1:0] first;
    logic [31:0] already, after, needed;
    always_comb begin
      asks[i] = 1'b0;
      first = '0;
      already = '0;
      after = '0;
      needed = '0;
      completes[32*i+:32] = '0;
      passes[ByteBits*i+:ByteBits] = '0;
      fetch_address_o[40*i+:40] = '0;
      fetch_slot_o[12*i+:12] = '0;
      if (running_q && !stop_i && countdown_q == '0 && requested_q < total) begin
        first = requested_q + ByteBits'(i * BurstBytes);
        already = i == 0 ? completed_q : words_in(first, lead, code_words_i);
        after = words_in(first + ByteBits'(BurstBytes), lead, code_words_i);
        // So many words must have been taken; a burst larger than the FIFO needs it empty.
        needed = after > Prefetch ? after - Prefetch : '0;
        if (needed > already) needed = already;
        asks[i] = first < total && taken_q >= needed;
        completes[32*i+:32] = after;
        passes[ByteBits*i+:ByteBits] = first + ByteBits'(BurstBytes);
        fetch_address_o[40*i+:40] = {code_address_i[39:BurstBits], BurstBits'(0)} + first[39:0];
        fetch_slot_o[12*i+:12] = 12'(first[BurstBits+:SlotBits]);
      end
    end
  end
  always_comb begin
    fetch_valid_o = asks;
    for (int i = 1; i < P; i++) begin
      if (!fetch_valid_o[i-1]) fetch_valid_o[i] = 1'b0;
    end
  end

  logic [Slots-1:0] arriving, arriving_late, granted;
  always_comb begin
    arriving = '0;
    for (int i = 0; i < R; i++) begin
      if (rsp_valid_i[i]) arriving[rsp_slot_i[12*i+:SlotBits]] = 1'b1;
    end
  end
  always_comb begin
    granted = '0;
    for (int i = 0; i < P; i++) begin
      if (fetch_grant_i[i]) granted[fetch_slot_o[12*i+:SlotBits]] = 1'b1;
    end
  end

  localparam int unsigned ArrivalDelay = tw_machine_pkg::FetchCycles - 1;
  if (ArrivalDelay == 0) begin : gen_no_arrival_delay
    assign arriving_late = arriving;
  end else begin : gen_arrival_delay
    logic [ArrivalDelay*Slots-1:0] arriving_q;
    assign arriving_late = arriving_q[(ArrivalDelay-1)*Slots+:Slots];
    always_ff @(posedge clk_i) begin
      if (!rst_ni || start_i) arriving_q <= '0;
      else arriving_q <= (ArrivalDelay * Slots)'({arriving_q, arriving});
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      running_q <= 1'b0;
      arrived_q <= '0;
      countdown_q <= '0;
      requested_q <= '0;
      completed_q <= '0;
      taken_q <= '0;
      position_q <= '0;
    end else if (start_i) begin
      running_q <= 1'b1;
      arrived_q <= '0;
      countdown_q <= CountBits'(tw_machine_pkg::StartCycles - 1);
      requested_q <= '0;
      completed_q <= '0;
      taken_q <= '0;
      position_q <= PositionBits'(lead);
    end else if (running_q && !stop_i) begin
      if (countdown_q != '0) countdown_q <= countdown_q - CountBits'(1);
      arrived_q <= (arrived_q | arriving_late) & ~granted;
      for (int i = 0; i < P; i++) begin
        if (fetch_grant_i[i]) begin
          requested_q <= passes[ByteBits*i+:ByteBits];
          completed_q <= completes[32*i+:32];
        end
      end
      if (take_i) begin
        taken_q <= taken_q + 32'd1;
        position_q <= position_q + PositionBits'(WordBytes);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    for (int i = 0; i < R; i++) begin
      if (rsp_valid_i[i]) data[rsp_slot_i[12*i+:SlotBits]] <= rsp_data_i[DataBits*i+:DataBits];
    end
  end

  logic [SlotBits-1:0] slot;
  assign slot = position_q[BurstBits+:SlotBits];
  assign word_index_o = taken_q;
  // Until its burst is asked for, the slot tells of an older one.
  logic asked;
  assign asked = running_q && taken_q != completed_q;
  if (BurstBytes > WordBytes) begin : gen_words_in_burst
    logic [DataBits-1:0] burst;
    assign burst = data[slot];
    assign word_o =
        burst[tw_isa_pkg::WordBits*position_q[BurstBits-1:WordShift]+:tw_isa_pkg::WordBits];
    assign word_valid_o = asked && arrived_q[slot];
  end else begin : gen_bursts_in_word
    localparam int unsigned Parts = WordBytes / BurstBytes;
    logic [Parts-1:0] here;
    for (genvar i = 0; i < Parts; i++) begin : gen_part
      logic [SlotBits-1:0] part_slot;
      assign part_slot = slot + SlotBits'(i);
      assign here[i] = arrived_q[part_slot];
      assign word_o[DataBits*i+:DataBits] = data[part_slot];
    end
    assign word_valid_o = asked && here == '1;
  end

  // Last byte of the next word; only its channel matters.
  /* verilator lint_off UNUSEDSIGNAL */
  logic [39:0] word_end;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [31:0] next_word;
  assign next_word = start_i ? '0 : taken_q;
  assign word_end = code_address_i + {3'd0, next_word, WordShift'(WordBytes - 1)};
  assign channel_o = word_end[BurstBits+:6] & 6'(tw_machine_pkg::DramChannels - 1);

`ifdef VERILATOR
  always_ff @(posedge clk_i) begin
    if (rst_ni) assert (!(take_i && !word_valid_o));
  end
`endif

endmodule
