// Collects the bursts that stores post until DRAM has them.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing contract: first in, first out. Accepts up to P bursts per cycle by store unit while an
// entry is free, counting those that become free in this cycle. A burst accepted in t asks to be
// requested from t + 1 on, and is found by the look-up of reads from t + 1 until the cycle it is
// requested in. Entries become free in order, each from the completion cycle of its write on.
// draining_o changes in the cycle after the number of bursts that wait to be requested has reached
// a watermark.
module tw_write_buffer #(
    localparam int unsigned P = tw_machine_pkg::BurstsPerCycle,
    localparam int unsigned R = tw_machine_pkg::DramResponses,
    localparam int unsigned S = tw_machine_pkg::StoreEngines,
    localparam int unsigned BurstBytes = tw_machine_pkg::BurstBytes,
    localparam int unsigned B8 = 8 * BurstBytes
) (
    input  logic                      clk_i,
    input  logic                      rst_ni,
    // Offers of all stores.
    input  logic [           S*P-1:0] offer_valid_i,
    input  logic [        S*P*40-1:0] offer_address_i,
    input  logic [        S*P*B8-1:0] offer_data_i,
    input  logic [S*P*BurstBytes-1:0] offer_mask_i,
    output logic [           S*P-1:0] accept_o,
    // The oldest bursts that wait: a prefix asks, a prefix of those is granted.
    output logic [             P-1:0] req_valid_o,
    output logic [          P*40-1:0] req_address_o,
    output logic [          P*12-1:0] req_slot_o,
    output logic [          P*B8-1:0] req_data_o,     // of granted bursts
    output logic [  P*BurstBytes-1:0] req_mask_o,     // of granted bursts
    input  logic [             P-1:0] req_grant_i,
    // Completions.
    input  logic [             R-1:0] done_valid_i,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [          R*12-1:0] done_slot_i,    // there are fewer entries than a tag can name
    // verilator lint_on UNUSEDSIGNAL
    // Bytes of bursts that wait, for reads.
    input  logic [             P-1:0] find_valid_i,
    input  logic [          P*40-1:0] find_address_i,
    output logic [  P*BurstBytes-1:0] find_mask_o,
    output logic [          P*B8-1:0] find_data_o,
    output logic                      draining_o,
    output logic                      empty_o         // with the completions of this cycle
);

  localparam int unsigned N = tw_machine_pkg::WriteBufferBursts;
  localparam int unsigned Log2Bytes = $clog2(BurstBytes);
  localparam int unsigned SlotBits = N > 1 ? $clog2(N) : 1;
  localparam int unsigned CountBits = $clog2(N + P + 1);

  // The entry `by` behind `slot`.
  function automatic logic [SlotBits-1:0] slot_after(input logic [SlotBits-1:0] slot,
                                                     input logic [CountBits-1:0] by);
    logic [CountBits:0] sum;
    sum = (CountBits + 1)'(slot) + (CountBits + 1)'(by);
    if (sum >= (CountBits + 1)'(N)) sum = sum - (CountBits + 1)'(N);
    slot_after = sum[SlotBits-1:0];
  endfunction

  // Step k of bytes_of leaves groups of 2^k bits, 8 * 2^k apart.
  function automatic logic [Log2Bytes*B8-1:0] group_masks();
    group_masks = '0;
    for (int k = 0; k < Log2Bytes; k++)
    for (int b = 0; b < B8; b++) if ((b & (8 << k) - 1) < (1 << k)) group_masks[k*B8+b] = 1'b1;
  endfunction

  localparam logic [Log2Bytes*B8-1:0] GroupMasks = group_masks();

  // Whole bytes of a byte mask, in steps that move all bits at once.
  function automatic logic [B8-1:0] bytes_of(input logic [BurstBytes-1:0] mask);
    bytes_of = B8'(mask);
    for (int k = Log2Bytes - 1; k >= 0; k--)
    bytes_of = (bytes_of | (bytes_of << (7 << k))) & GroupMasks[k*B8+:B8];
    for (int k = 0; k < 3; k++) bytes_of = bytes_of | (bytes_of << (1 << k));
  endfunction

  logic [B8-1:0] data_q[N];
  logic [BurstBytes-1:0] mask_q[N];
  logic [39:0] address_q[N];
  logic [N-1:0] done_q;

  // Entries in use begin at head_q, those of them that wait to be requested at next_q.
  logic [SlotBits-1:0] head_q;
  logic [SlotBits-1:0] next_q;
  logic [CountBits-1:0] used_q;
  logic [CountBits-1:0] waiting_q;

  // Entries that become free. Without a completion there is none: it became free before.
  logic [N-1:0] done;
  logic [N-1:0] done_left;
  logic [CountBits-1:0] freed;

  always_comb begin : p_free
    logic go;
    done = done_q;
    done_left = done_q;
    freed = '0;
    go = 1'b1;
    if (done_valid_i != '0) begin
      for (int r = 0; r < R; r++)
      if (done_valid_i[r]) done[done_slot_i[r*12+:SlotBits]] = 1'b1;
      done_left = done;
      for (int n = 0; n < N; n++) begin
        go = go && done[slot_after(head_q, CountBits'(n))];
        if (go) begin
          done_left[slot_after(head_q, CountBits'(n))] = 1'b0;
          freed = freed + CountBits'(1);
        end
      end
    end
  end

  // Accepts.
  logic [CountBits-1:0] accepts;

  always_comb begin : p_accept
    logic go;
    accepts = '0;
    accept_o = '0;
    go = 1'b0;
    if (offer_valid_i != '0) begin
      for (int unit = 0; unit < S; unit++) begin
        for (int n = 0; n < P; n++) begin
          go = offer_valid_i[unit*P+n] && accepts < CountBits'(P) &&
              used_q - freed + accepts < CountBits'(N);
          accept_o[unit*P+n] = go;
          accepts = accepts + CountBits'(go);
        end
      end
    end
  end

  // Of all bursts that wait, every byte of DRAM is in the youngest that has it: a burst that is
  // accepted takes its bytes from those before it. Bytes that are not in the mask are 0.
  logic [S*P*BurstBytes-1:0] mask;
  logic [S*P*B8-1:0] bytes;
  // Of all bursts for the same address that are accepted in this cycle.
  logic [S*P*BurstBytes-1:0] taken;
  logic [S*P*B8-1:0] taken_bytes;
  logic [N-1:0] waits_q;

  always_comb begin : p_new
    mask = '0;
    bytes = '0;
    for (int o = 0; o < S * P; o++) begin
      if (accept_o[o]) begin
        mask[o*BurstBytes+:BurstBytes] = offer_mask_i[o*BurstBytes+:BurstBytes];
        for (int younger = o + 1; younger < S * P; younger++) begin
          if (accept_o[younger] && offer_address_i[younger*40+:40] == offer_address_i[o*40+:40])
            mask[o*BurstBytes+:BurstBytes] =
                mask[o*BurstBytes+:BurstBytes] & ~offer_mask_i[younger*BurstBytes+:BurstBytes];
        end
        bytes[o*B8+:B8] = bytes_of(mask[o*BurstBytes+:BurstBytes]);
      end
    end
  end

  if (S * P == 1) begin : gen_one_offer
    assign taken = mask;
    assign taken_bytes = bytes;
  end else begin : gen_offers
    always_comb begin : p_taken
      taken = '0;
      taken_bytes = '0;
      for (int o = 0; o < S * P; o++) begin
        for (int other = 0; other < S * P; other++) begin
          if (accept_o[o] && accept_o[other] &&
              offer_address_i[other*40+:40] == offer_address_i[o*40+:40]) begin
            taken[o*BurstBytes+:BurstBytes] =
                taken[o*BurstBytes+:BurstBytes] | mask[other*BurstBytes+:BurstBytes];
            taken_bytes[o*B8+:B8] = taken_bytes[o*B8+:B8] | bytes[other*B8+:B8];
          end
        end
      end
    end
  end

  // The entries of the bursts that are accepted.
  logic [S*P*SlotBits-1:0] slots;

  always_comb begin : p_slots
    logic [SlotBits-1:0] slot;
    slot = slot_after(head_q, used_q);
    slots = '0;
    for (int o = 0; o < S * P; o++) begin
      slots[o*SlotBits+:SlotBits] = slot;
      if (accept_o[o]) slot = slot_after(slot, CountBits'(1));
    end
  end

  // A process for each entry: Verilator takes no long loop over entries in one.
  for (genvar n = 0; n < N; n++) begin : gen_write
    always_ff @(posedge clk_i) begin : p_write
      if (accepts != '0) begin
        for (int o = 0; o < S * P; o++) begin
          if (accept_o[o] && waits_q[n] && address_q[n] == offer_address_i[o*40+:40]) begin
            mask_q[n] <= mask_q[n] & ~taken[o*BurstBytes+:BurstBytes];
            data_q[n] <= data_q[n] & ~taken_bytes[o*B8+:B8];
          end
          if (accept_o[o] && slots[o*SlotBits+:SlotBits] == SlotBits'(n)) begin
            data_q[n] <= offer_data_i[o*B8+:B8] & bytes[o*B8+:B8];
            mask_q[n] <= mask[o*BurstBytes+:BurstBytes];
            address_q[n] <= offer_address_i[o*40+:40];
          end
        end
      end
    end
  end

  always_ff @(posedge clk_i) begin : p_waits
    if (!rst_ni) begin
      waits_q <= '0;
    end else begin
      for (int o = 0; o < S * P; o++)
        if (accept_o[o]) waits_q[slots[o*SlotBits+:SlotBits]] <= 1'b1;
      for (int n = 0; n < P; n++) begin
        if (req_grant_i[n]) waits_q[slot_after(next_q, CountBits'(n))] <= 1'b0;
      end
    end
  end

  // Requests.
  logic [CountBits-1:0] grants;

  always_comb begin : p_ask
    for (int n = 0; n < P; n++) begin
      req_valid_o[n] = CountBits'(n) < waiting_q;
      req_address_o[n*40+:40] = address_q[slot_after(next_q, CountBits'(n))];
      req_slot_o[n*12+:12] = 12'(slot_after(next_q, CountBits'(n)));
    end
  end

  always_comb begin : p_granted
    grants = '0;
    req_data_o = '0;
    req_mask_o = '0;
    for (int n = 0; n < P; n++) begin
      if (req_grant_i[n]) begin
        grants = grants + CountBits'(1);
        req_data_o[n*B8+:B8] = data_q[slot_after(next_q, CountBits'(n))];
        req_mask_o[n*BurstBytes+:BurstBytes] = mask_q[slot_after(next_q, CountBits'(n))];
      end
    end
  end

  always_comb begin : p_find
    find_mask_o = '0;
    find_data_o = '0;
    if (find_valid_i != '0 && waits_q != '0) begin
      for (int p = 0; p < P; p++) begin
        for (int n = 0; n < N; n++) begin
          if (waits_q[n] && find_valid_i[p] && address_q[n] == find_address_i[p*40+:40]) begin
            find_mask_o[p*BurstBytes+:BurstBytes] =
                find_mask_o[p*BurstBytes+:BurstBytes] | mask_q[n];
            find_data_o[p*B8+:B8] = find_data_o[p*B8+:B8] | data_q[n];
          end
        end
      end
    end
  end

  logic [CountBits-1:0] used;
  logic [CountBits-1:0] waiting;

  assign used = used_q - freed + accepts;
  assign waiting = waiting_q - grants + accepts;
  assign empty_o = used_q == freed;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      head_q <= '0;
      next_q <= '0;
      used_q <= '0;
      waiting_q <= '0;
      done_q <= '0;
      draining_o <= 1'b0;
    end else begin
      if (freed != '0) head_q <= slot_after(head_q, freed);
      if (grants != '0) next_q <= slot_after(next_q, grants);
      used_q <= used;
      waiting_q <= waiting;
      done_q <= done_left;
      if (waiting >= CountBits'(tw_machine_pkg::WriteHighWatermark)) draining_o <= 1'b1;
      else if (waiting <= CountBits'(tw_machine_pkg::WriteLowWatermark)) draining_o <= 1'b0;
    end
  end

endmodule
