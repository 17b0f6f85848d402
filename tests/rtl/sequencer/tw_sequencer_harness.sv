// The sequencer with the queues of all engines, for SequencerTest.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
module tw_sequencer_harness (
    input  logic                                          clk_i,
    input  logic                                          rst_ni,
    input  logic                                          start_i,
    input  logic [39:0]                                   code_address_i,
    input  logic [31:0]                                   code_words_i,
    input  logic                                          stop_i,
    output logic [tw_machine_pkg::BurstsPerCycle-1:0]     fetch_valid_o,
    output logic [tw_machine_pkg::BurstsPerCycle*64-1:0]  fetch_address_o,
    output logic [tw_machine_pkg::BurstsPerCycle*32-1:0]  fetch_slot_o,
    input  logic [tw_machine_pkg::BurstsPerCycle-1:0]     fetch_grant_i,
    input  logic [tw_machine_pkg::DramResponses-1:0]      rsp_valid_i,
    input  logic [tw_machine_pkg::DramResponses*32-1:0]   rsp_slot_i,
    input  logic [tw_machine_pkg::DramResponses*tw_machine_pkg::BurstBytes*8-1:0] rsp_data_i,
    output logic                                          dispatch_valid_o,
    output logic [3:0]                                    dispatch_engine_o,
    output logic                                          fault_o,
    output logic [31:0]                                   fault_pc_o,
    output logic                                          halt_o,
    output logic                                          halted_o,
    output logic                                          busy_o,
    output logic                                          full_o,
    output logic                                          dram_wait_o,
    output logic [5:0]                                    dram_channel_o,
    // The heads of the queues; of one of them the contents.
    output logic [tw_pkg::NumQueues-1:0]                  head_valid_o,
    output logic [tw_pkg::NumQueues-1:0]                  pending_o,
    input  logic [tw_pkg::NumQueues-1:0]                  pop_i,
    input  logic [3:0]                                    select_i,
    output logic                                          head_out_of_range_o,
    output logic [63:0]                                   head_banks_o,
    output logic [31:0]                                   head_pc_o,
    output logic [29:0]                                   head_waits_o,
    output logic [29:0]                                   head_posts_o,
    output logic [1279:0]                                 head_operands_o
);

  logic [tw_machine_pkg::BurstsPerCycle*40-1:0] fetch_address;
  logic [tw_machine_pkg::BurstsPerCycle*12-1:0] fetch_slot;
  logic [tw_machine_pkg::DramResponses*12-1:0] rsp_slot;
  for (genvar i = 0; i < tw_machine_pkg::BurstsPerCycle; i++) begin : gen_request
    assign fetch_address_o[64*i+:64] = 64'(fetch_address[40*i+:40]);
    assign fetch_slot_o[32*i+:32] = 32'(fetch_slot[12*i+:12]);
  end
  // A port of the test is wider than a slot.
  /* verilator lint_off UNUSEDSIGNAL */
  logic [tw_machine_pkg::DramResponses*32-1:0] rsp_slot_wide;
  /* verilator lint_on UNUSEDSIGNAL */
  assign rsp_slot_wide = rsp_slot_i;
  for (genvar i = 0; i < tw_machine_pkg::DramResponses; i++) begin : gen_response
    assign rsp_slot[12*i+:12] = rsp_slot_wide[32*i+:12];
  end

  tw_pkg::control_t control;
  logic [1279:0] operands;
  logic [tw_pkg::NumQueues-1:0] full;
  tw_sequencer u_sequencer (
      .clk_i,
      .rst_ni,
      .start_i,
      .code_address_i,
      .code_words_i,
      .stop_i,
      .fetch_valid_o,
      .fetch_address_o(fetch_address),
      .fetch_slot_o(fetch_slot),
      .fetch_grant_i,
      .rsp_valid_i,
      .rsp_slot_i(rsp_slot),
      .rsp_data_i,
      .dispatch_valid_o,
      .dispatch_engine_o,
      .dispatch_control_o(control),
      .dispatch_operands_o(operands),
      .queue_full_i(full),
      .fault_o,
      .fault_pc_o,
      .halt_o,
      .halted_o,
      .busy_o,
      .full_o,
      .dram_wait_o,
      .dram_channel_o
  );

  logic [tw_pkg::NumQueues*tw_pkg::ControlBits-1:0] controls;
  logic [tw_pkg::NumQueues*1280-1:0] heads;
  for (genvar i = 0; i < tw_pkg::NumQueues; i++) begin : gen_queue
    tw_queue #(
        .Width(1280)
    ) u_queue (
        .clk_i,
        .rst_ni,
        .push_i(dispatch_valid_o && dispatch_engine_o == 4'(i)),
        .control_i(control),
        .operands_i(operands),
        .full_o(full[i]),
        .head_valid_o(head_valid_o[i]),
        .head_control_o(controls[tw_pkg::ControlBits*i+:tw_pkg::ControlBits]),
        .head_operands_o(heads[1280*i+:1280]),
        .pop_i(pop_i[i]),
        .pending_o(pending_o[i])
    );
  end

  tw_pkg::control_t head;
  assign head = controls[tw_pkg::ControlBits*select_i+:tw_pkg::ControlBits];
  assign head_out_of_range_o = head.out_of_range;
  assign head_banks_o = 64'(head.banks);
  assign head_pc_o = head.pc;
  assign head_waits_o = {head.wait_count, head.wait_semaphore};
  assign head_posts_o = {head.post_count, head.post_semaphore};
  assign head_operands_o = heads[1280*select_i+:1280];

endmodule
