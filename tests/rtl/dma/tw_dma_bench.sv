// Load engines, store engines and the DRAM port, as a test drives them.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing contract: wires only; every port is one of the modules'.
module tw_dma_bench #(
    localparam int unsigned P = tw_machine_pkg::BurstsPerCycle,
    localparam int unsigned R = tw_machine_pkg::DramResponses,
    localparam int unsigned L = tw_machine_pkg::LoadEngines,
    localparam int unsigned S = tw_machine_pkg::StoreEngines,
    localparam int unsigned BurstBytes = tw_machine_pkg::BurstBytes,
    localparam int unsigned B8 = 8 * BurstBytes,
    localparam int unsigned W8 = 8 * tw_pkg::RowBytes
) (
    input  logic                      clk_i,
    input  logic                      rst_ni,
    input  logic [             L-1:0] load_start_i,
    input  logic [         L*768-1:0] load_operands_i,
    output logic [             L-1:0] load_ready_o,
    output logic [             L-1:0] load_retire_o,
    output logic [             L-1:0] load_busy_o,
    output logic [             L-1:0] load_wait_o,
    output logic [             L-1:0] load_latency_o,
    output logic [           L*6-1:0] load_channel_o,
    output logic [           L*P-1:0] wr_valid_o,
    output logic [         L*P*3-1:0] wr_memory_o,
    output logic [        L*P*28-1:0] wr_address_o,
    output logic [        L*P*B8-1:0] wr_data_o,
    output logic [L*P*BurstBytes-1:0] wr_mask_o,
    input  logic [             S-1:0] store_start_i,
    input  logic [         S*768-1:0] store_operands_i,
    output logic [             S-1:0] store_ready_o,
    output logic [             S-1:0] store_retire_o,
    output logic [             S-1:0] store_busy_o,
    output logic [             S-1:0] store_setup_o,
    output logic [             S-1:0] store_blocked_o,
    output logic [           S*P-1:0] rd_valid_o,
    output logic [           S*3-1:0] rd_memory_o,
    output logic [        S*P*28-1:0] rd_address_o,
    input  logic [        S*P*W8-1:0] rd_data_i,
    output logic [           S*P-1:0] accept_o,
    input  logic [             P-1:0] fetch_valid_i,
    input  logic [          P*40-1:0] fetch_address_i,
    input  logic [          P*12-1:0] fetch_slot_i,
    output logic [             P-1:0] fetch_grant_o,
    output logic [             R-1:0] fetch_rsp_valid_o,
    output logic [             P-1:0] dram_req_valid_o,
    output logic                      dram_req_write_o,
    output logic [          P*40-1:0] dram_req_address_o,
    output logic [          P*16-1:0] dram_req_tag_o,
    output logic [          P*B8-1:0] dram_req_data_o,
    output logic [  P*BurstBytes-1:0] dram_req_mask_o,
    input  logic [             R-1:0] dram_rsp_valid_i,
    input  logic [          R*16-1:0] dram_rsp_tag_i,
    input  logic [          R*B8-1:0] dram_rsp_data_i,
    input  logic [             R-1:0] dram_done_valid_i,
    input  logic [          R*16-1:0] dram_done_tag_i,
    output logic                      drained_o
);

  logic [L*P-1:0] req_valid;
  logic [L*P*40-1:0] req_address;
  logic [L*P*12-1:0] req_slot;
  logic [L*P-1:0] req_grant;
  logic [P*BurstBytes-1:0] fwd_mask;
  logic [P*B8-1:0] fwd_data;
  logic [L*R-1:0] rsp_valid;
  logic [R*12-1:0] rsp_slot;
  logic [S*P-1:0] offer_valid;
  logic [S*P*40-1:0] offer_address;
  logic [S*P*B8-1:0] offer_data;
  logic [S*P*BurstBytes-1:0] offer_mask;

  for (genvar u = 0; u < L; u++) begin : gen_load
    tw_load #(
        .Unit(u)
    ) u_load (
        .clk_i,
        .rst_ni,
        .start_i(load_start_i[u]),
        .operands_i(load_operands_i[768*u+:768]),
        .ready_o(load_ready_o[u]),
        .retire_o(load_retire_o[u]),
        .req_valid_o(req_valid[P*u+:P]),
        .req_address_o(req_address[40*P*u+:40*P]),
        .req_slot_o(req_slot[12*P*u+:12*P]),
        .req_grant_i(req_grant[P*u+:P]),
        .fwd_mask_i(fwd_mask),
        .fwd_data_i(fwd_data),
        .rsp_valid_i(rsp_valid[R*u+:R]),
        .rsp_slot_i(rsp_slot),
        .rsp_data_i(dram_rsp_data_i),
        .wr_valid_o(wr_valid_o[P*u+:P]),
        .wr_memory_o(wr_memory_o[3*P*u+:3*P]),
        .wr_address_o(wr_address_o[28*P*u+:28*P]),
        .wr_data_o(wr_data_o[B8*P*u+:B8*P]),
        .wr_mask_o(wr_mask_o[BurstBytes*P*u+:BurstBytes*P]),
        .busy_o(load_busy_o[u]),
        .dram_wait_o(load_wait_o[u]),
        .dram_channel_o(load_channel_o[6*u+:6]),
        .dram_latency_o(load_latency_o[u])
    );
  end

  for (genvar u = 0; u < S; u++) begin : gen_store
    tw_isa_pkg::memory_e rd_memory;
    assign rd_memory_o[3*u+:3] = rd_memory;
    tw_store #(
        .Unit(u)
    ) u_store (
        .clk_i,
        .rst_ni,
        .start_i(store_start_i[u]),
        .operands_i(store_operands_i[768*u+:768]),
        .ready_o(store_ready_o[u]),
        .retire_o(store_retire_o[u]),
        .rd_valid_o(rd_valid_o[P*u+:P]),
        .rd_memory_o(rd_memory),
        .rd_address_o(rd_address_o[28*P*u+:28*P]),
        .rd_data_i(rd_data_i[W8*P*u+:W8*P]),
        .offer_valid_o(offer_valid[P*u+:P]),
        .offer_address_o(offer_address[40*P*u+:40*P]),
        .offer_data_o(offer_data[B8*P*u+:B8*P]),
        .offer_mask_o(offer_mask[BurstBytes*P*u+:BurstBytes*P]),
        .accept_i(accept_o[P*u+:P]),
        .busy_o(store_busy_o[u]),
        .setup_o(store_setup_o[u]),
        .blocked_o(store_blocked_o[u])
    );
  end

  tw_dram_port u_port (
      .clk_i,
      .rst_ni,
      .load_req_valid_i(req_valid),
      .load_req_address_i(req_address),
      .load_req_slot_i(req_slot),
      .load_req_grant_o(req_grant),
      .load_fwd_mask_o(fwd_mask),
      .load_fwd_data_o(fwd_data),
      .fetch_valid_i,
      .fetch_address_i,
      .fetch_slot_i,
      .fetch_grant_o,
      .store_offer_valid_i(offer_valid),
      .store_offer_address_i(offer_address),
      .store_offer_data_i(offer_data),
      .store_offer_mask_i(offer_mask),
      .store_accept_o(accept_o),
      .load_rsp_valid_o(rsp_valid),
      .fetch_rsp_valid_o,
      .rsp_slot_o(rsp_slot),
      .dram_req_valid_o,
      .dram_req_write_o,
      .dram_req_address_o,
      .dram_req_tag_o,
      .dram_req_data_o,
      .dram_req_mask_o,
      .dram_rsp_valid_i,
      .dram_rsp_tag_i,
      .dram_done_valid_i,
      .dram_done_tag_i,
      .drained_o
  );

endmodule
