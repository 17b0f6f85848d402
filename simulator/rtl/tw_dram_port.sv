// The one way to DRAM that load engines, program fetch and the write buffer share.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing contract: in every cycle one requester is granted, combinationally, up to P bursts in
// distinct channels; they are on the DRAM ports after the edge. The search goes through the write
// buffer while it drains, loads by unit, fetch, and the write buffer while nothing is read. The
// requester granted in the cycle before keeps its grant for GrantBursts requests; if it asks for
// more, the search begins behind it. Writes that only go because nothing is read keep no grant.
// Responses pass through in the cycle they come.
module tw_dram_port #(
    localparam int unsigned P = tw_machine_pkg::BurstsPerCycle,
    localparam int unsigned R = tw_machine_pkg::DramResponses,
    localparam int unsigned L = tw_machine_pkg::LoadEngines,
    localparam int unsigned S = tw_machine_pkg::StoreEngines,
    localparam int unsigned BurstBytes = tw_machine_pkg::BurstBytes,
    localparam int unsigned B8 = 8 * BurstBytes
) (
    input  logic                      clk_i,
    input  logic                      rst_ni,
    // Loads, by unit.
    input  logic [           L*P-1:0] load_req_valid_i,
    input  logic [        L*P*40-1:0] load_req_address_i,
    input  logic [        L*P*12-1:0] load_req_slot_i,
    output logic [           L*P-1:0] load_req_grant_o,
    // For the load that is granted.
    output logic [  P*BurstBytes-1:0] load_fwd_mask_o,
    output logic [          P*B8-1:0] load_fwd_data_o,
    // Program fetch.
    input  logic [             P-1:0] fetch_valid_i,
    input  logic [          P*40-1:0] fetch_address_i,
    input  logic [          P*12-1:0] fetch_slot_i,
    output logic [             P-1:0] fetch_grant_o,
    // Stores, by unit.
    input  logic [           S*P-1:0] store_offer_valid_i,
    input  logic [        S*P*40-1:0] store_offer_address_i,
    input  logic [        S*P*B8-1:0] store_offer_data_i,
    input  logic [S*P*BurstBytes-1:0] store_offer_mask_i,
    output logic [           S*P-1:0] store_accept_o,
    // Responses by requester; slots are common, data go from the DRAM ports to all.
    output logic [           L*R-1:0] load_rsp_valid_o,
    output logic [             R-1:0] fetch_rsp_valid_o,
    output logic [          R*12-1:0] rsp_slot_o,
    // DRAM.
    output logic [             P-1:0] dram_req_valid_o,
    output logic                      dram_req_write_o,
    output logic [          P*40-1:0] dram_req_address_o,
    output logic [          P*16-1:0] dram_req_tag_o,
    output logic [          P*B8-1:0] dram_req_data_o,
    output logic [  P*BurstBytes-1:0] dram_req_mask_o,
    input  logic [             R-1:0] dram_rsp_valid_i,
    input  logic [          R*16-1:0] dram_rsp_tag_i,
    input  logic [             R-1:0] dram_done_valid_i,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [          R*16-1:0] dram_done_tag_i,    // only the write buffer writes
    // verilator lint_on UNUSEDSIGNAL
    // Every write accepted before this cycle is completed, in this cycle at the latest.
    output logic                      drained_o
);

  // Requesters in the order of the search.
  localparam int unsigned Drain = 0;
  localparam int unsigned Load0 = 1;
  localparam int unsigned Fetch = Load0 + L;
  localparam int unsigned IdleWrites = Fetch + 1;
  localparam int unsigned Requesters = IdleWrites + 1;
  localparam int unsigned RequesterBits = $clog2(Requesters);
  localparam int unsigned OffsetBits = $clog2(BurstBytes);
  // The lowest bits of a burst's number are its channel.
  localparam logic [39:0] ChannelMask = (40'(tw_machine_pkg::DramChannels) - 40'd1) << OffsetBits;
  localparam int unsigned ReadBits = 16;
  localparam int unsigned HeldBits = $clog2(tw_machine_pkg::GrantBursts + P + 1);

  logic [P-1:0] write_valid;
  logic [P*40-1:0] write_address;
  logic [P*12-1:0] write_slot;
  logic [P*B8-1:0] write_data;
  logic [P*BurstBytes-1:0] write_mask;
  logic [P-1:0] write_grant;
  logic draining;

  // Reads requested and not returned.
  logic [ReadBits-1:0] reads_q;

  // The requester granted in the cycle before, unless it may not keep its grant.
  logic holds_q;
  logic [RequesterBits-1:0] holder_q;
  logic [HeldBits-1:0] held_q;  // requests of its grant

  // Who asks, and who is granted.
  logic [Requesters-1:0] asks;
  logic granted;
  logic kept;
  logic [RequesterBits-1:0] choice;

  always_comb begin : p_asks
    asks = '0;
    asks[Drain] = draining && write_valid[0];
    for (int unit = 0; unit < L; unit++) asks[Load0+unit] = load_req_valid_i[unit*P];
    asks[Fetch] = fetch_valid_i[0];
    asks[IdleWrites] = reads_q == '0 && write_valid[0];
  end

  always_comb begin : p_choose
    logic holder_asks;
    granted = asks != '0;
    kept = 1'b0;
    choice = '0;
    holder_asks = holds_q && asks[holder_q];
    if (holder_asks && held_q < HeldBits'(tw_machine_pkg::GrantBursts)) begin
      kept = 1'b1;
      choice = holder_q;
    end else begin
      for (int who = Requesters - 1; who >= 0; who--)
      if (asks[who]) choice = RequesterBits'(who);
      if (holder_asks) begin
        // Round from the one behind the holder; those up to it come last.
        for (int who = Requesters - 1; who >= 0; who--)
        if (asks[who] && RequesterBits'(who) > holder_q) choice = RequesterBits'(who);
      end
    end
  end

  // Bursts of the one that is granted.
  logic is_write;
  logic [P-1:0] valid;
  logic [P*40-1:0] address;
  logic [P*16-1:0] tag;
  logic [P-1:0] grant;
  logic [HeldBits-1:0] grants;

  assign is_write = choice == RequesterBits'(Drain) || choice == RequesterBits'(IdleWrites);

  always_comb begin : p_select
    valid = '0;
    address = '0;
    tag = '0;
    if (granted) begin
      if (is_write) begin
        valid = write_valid;
        address = write_address;
        for (int n = 0; n < P; n++)
        tag[n*16+:16] = {4'(tw_pkg::RequesterWrites), write_slot[n*12+:12]};
      end else if (choice == RequesterBits'(Fetch)) begin
        valid = fetch_valid_i;
        address = fetch_address_i;
        for (int n = 0; n < P; n++)
        tag[n*16+:16] = {4'(tw_pkg::RequesterFetch), fetch_slot_i[n*12+:12]};
      end else begin
        for (int unit = 0; unit < L; unit++) begin
          if (choice == RequesterBits'(Load0 + unit)) begin
            valid = load_req_valid_i[unit*P+:P];
            address = load_req_address_i[unit*P*40+:P*40];
            for (int n = 0; n < P; n++)
            tag[n*16+:16] = {4'(unit), load_req_slot_i[(unit*P+n)*12+:12]};
          end
        end
      end
    end
  end

  // As many as lie in channels of their own.
  always_comb begin : p_grant
    logic go;
    go = 1'b1;
    grant = '0;
    grants = '0;
    if (granted) begin
      for (int n = 0; n < P; n++) begin
        go = go && valid[n];
        for (int m = 0; m < n; m++) begin
          if (((address[n*40+:40] ^ address[m*40+:40]) & ChannelMask) == '0) go = 1'b0;
        end
        grant[n] = go;
        grants = grants + HeldBits'(go);
      end
    end
  end

  always_comb begin : p_grants
    load_req_grant_o = '0;
    for (int unit = 0; unit < L; unit++)
    if (choice == RequesterBits'(Load0 + unit)) load_req_grant_o[unit*P+:P] = grant;
    fetch_grant_o = choice == RequesterBits'(Fetch) ? grant : '0;
    write_grant = is_write ? grant : '0;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      holds_q <= 1'b0;
      holder_q <= '0;
      held_q <= '0;
    end else begin
      holds_q <= granted && choice != RequesterBits'(IdleWrites);
      holder_q <= choice;
      held_q <= kept ? held_q + grants : grants;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) dram_req_valid_o <= '0;
    else dram_req_valid_o <= grant;
  end

  always_ff @(posedge clk_i) begin
    if (granted) begin
      dram_req_write_o <= is_write;
      dram_req_address_o <= address;
      dram_req_tag_o <= tag;
    end
    if (write_grant != '0) begin
      dram_req_data_o <= write_data;
      dram_req_mask_o <= write_mask;
    end
  end

  // Responses.
  logic [ReadBits-1:0] returns;

  always_comb begin : p_responses
    returns = '0;
    load_rsp_valid_o = '0;
    fetch_rsp_valid_o = '0;
    for (int r = 0; r < R; r++) begin
      rsp_slot_o[r*12+:12] = dram_rsp_tag_i[r*16+:12];
      if (dram_rsp_valid_i[r]) begin
        returns = returns + ReadBits'(1);
        for (int unit = 0; unit < L; unit++)
        load_rsp_valid_o[unit*R+r] = dram_rsp_tag_i[r*16+12+:4] == 4'(unit);
        fetch_rsp_valid_o[r] = dram_rsp_tag_i[r*16+12+:4] == 4'(tw_pkg::RequesterFetch);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) reads_q <= '0;
    else reads_q <= reads_q - returns + (is_write ? '0 : ReadBits'(grants));
  end

  // Writes.
  logic [R*12-1:0] done_slot;
  logic [P-1:0] find_valid;

  for (genvar r = 0; r < R; r++) begin : gen_done
    assign done_slot[r*12+:12] = dram_done_tag_i[r*16+:12];
  end

  assign find_valid = is_write || choice == RequesterBits'(Fetch) ? '0 : grant;

  tw_write_buffer u_write_buffer (
      .clk_i,
      .rst_ni,
      .offer_valid_i(store_offer_valid_i),
      .offer_address_i(store_offer_address_i),
      .offer_data_i(store_offer_data_i),
      .offer_mask_i(store_offer_mask_i),
      .accept_o(store_accept_o),
      .req_valid_o(write_valid),
      .req_address_o(write_address),
      .req_slot_o(write_slot),
      .req_data_o(write_data),
      .req_mask_o(write_mask),
      .req_grant_i(write_grant),
      .done_valid_i(dram_done_valid_i),
      .done_slot_i(done_slot),
      .find_valid_i(find_valid),
      .find_address_i(address),
      .find_mask_o(load_fwd_mask_o),
      .find_data_o(load_fwd_data_o),
      .draining_o(draining),
      .empty_o(drained_o)
  );

endmodule
