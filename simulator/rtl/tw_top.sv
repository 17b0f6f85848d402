// The machine: sequencer, engines, memories and their wiring.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: docs/timing.md. Requests to DRAM and trace events of cycle t are on the ports from the
// edge after t on. Responses and completions of writes are driven in the cycle in which DRAM
// completes them; `dram_bus_busy_i` in t tells which channels' buses moved something in t - 1.
// Reads of a host register show in the next cycle. A tag is {requester, slot}: loads by unit, 4
// fetch, 5 writes. One program per reset.
module tw_top
#(
    localparam int unsigned P = tw_machine_pkg::BurstsPerCycle,
    localparam int unsigned R = tw_machine_pkg::DramResponses,
    localparam int unsigned BurstBytes = tw_machine_pkg::BurstBytes,
    localparam int unsigned B8 = 8 * BurstBytes,
    localparam int unsigned NumQueues = tw_pkg::NumQueues
) (
    input logic clk_i,
    input logic rst_ni,

    // Host.
    input  logic        reg_write_i,
    input  logic [11:0] reg_address_i,
    input  logic [63:0] reg_wdata_i,
    output logic [63:0] reg_rdata_o,
    output logic        done_o,
    output logic        fault_o,

    // DRAM.
    output logic [                           P-1:0] dram_req_valid_o,
    output logic                                    dram_req_write_o,
    output logic [                        P*40-1:0] dram_req_address_o,
    output logic [                        P*16-1:0] dram_req_tag_o,
    output logic [                        P*B8-1:0] dram_req_data_o,
    output logic [                P*BurstBytes-1:0] dram_req_mask_o,
    input  logic [                           R-1:0] dram_rsp_valid_i,
    input  logic [                        R*16-1:0] dram_rsp_tag_i,
    input  logic [                        R*B8-1:0] dram_rsp_data_i,
    input  logic [                           R-1:0] dram_done_valid_i,
    input  logic [                        R*16-1:0] dram_done_tag_i,
    input  logic [tw_machine_pkg::DramChannels-1:0] dram_bus_busy_i,

    // Trace.
    output logic                 trace_dispatch_o,
    output logic [          3:0] trace_dispatch_engine_o,
    output logic [         31:0] trace_dispatch_pc_o,
    output logic [NumQueues-1:0] trace_start_o,
    output logic [NumQueues-1:0] trace_issue_free_o,
    output logic [NumQueues-1:0] trace_retire_o
);

  localparam int unsigned L = tw_machine_pkg::LoadEngines;
  localparam int unsigned S = tw_machine_pkg::StoreEngines;
  localparam int unsigned PreloadRows = tw_machine_pkg::PreloadRows;
  localparam int unsigned ControlBits = tw_pkg::ControlBits;
  localparam int unsigned NumEngines = tw_pkg::NumEngines;
  localparam int unsigned Vector = tw_pkg::EngineVector;
  localparam int unsigned Tensor = tw_pkg::EngineTensor;
  localparam int unsigned Preload = tw_pkg::EnginePreload;
  localparam int unsigned Load0 = tw_pkg::EngineLoad0;
  localparam int unsigned Sequencer = tw_pkg::EngineSequencer;

  // Operands of each class, headers included.
  localparam int unsigned WordBits = tw_isa_pkg::WordBits;
  localparam int unsigned LoadBits = 3 * WordBits;
  localparam int unsigned StoreBits = 3 * WordBits;
  localparam int unsigned VectorBits = 5 * WordBits;
  localparam int unsigned TensorBits = 2 * WordBits;
  localparam int unsigned PreloadBits = WordBits;

  // Ports of the memories.
  localparam int unsigned RowBytes = tw_pkg::RowBytes;
  localparam int unsigned W8 = 8 * RowBytes;
  localparam int unsigned AccRowBytes = tw_pkg::AccBankRowBytes;
  localparam int unsigned A8 = 8 * AccRowBytes;
  localparam int unsigned V8 = 8 * tw_pkg::VectorBytes;
  localparam int unsigned T8 = 8 * tw_pkg::AccRowBytes;
  localparam int unsigned ReadTensor = 2;  // after the vector engine's A and B
  localparam int unsigned ReadPreload = 3;
  localparam int unsigned ReadStore = ReadPreload + PreloadRows;
  localparam int unsigned ReadPorts = ReadStore + S * P;
  localparam int unsigned WriteLoad = 1;  // after the vector engine's destination
  localparam int unsigned WritePorts = WriteLoad + L * P;
  localparam int unsigned AccReadPorts = 3;
  localparam int unsigned AccWritePorts = 2;

  // ---- Host and run
  logic start, run, stopped, count_cycle;
  logic done, fault;
  logic [39:0] code_address;
  logic [31:0] code_words;
  logic [3:0] fault_kind, fault_engine;
  logic [31:0] fault_pc;
  logic [63:0] cycles, counter;
  logic [3:0] counter_engine, counter_label;

  tw_registers u_registers (
      .clk_i,
      .rst_ni,
      .write_i(reg_write_i),
      .address_i(reg_address_i),
      .wdata_i(reg_wdata_i),
      .rdata_o(reg_rdata_o),
      .start_o(start),
      .code_address_o(code_address),
      .code_words_o(code_words),
      .done_i(done),
      .fault_i(fault),
      .fault_kind_i(fault_kind),
      .fault_engine_i(fault_engine),
      .fault_pc_i(fault_pc),
      .cycles_i(cycles),
      .counter_engine_o(counter_engine),
      .counter_label_o(counter_label),
      .counter_i(counter)
  );

  assign done_o = done;
  assign fault_o = fault;

  // ---- Sequencer
  logic [P-1:0] fetch_valid, fetch_grant;
  logic [P*40-1:0] fetch_address;
  logic [P*12-1:0] fetch_slot;
  logic [R-1:0] fetch_rsp_valid;
  logic [R*12-1:0] rsp_slot;
  logic dispatch_valid;
  logic [3:0] dispatch_engine;
  tw_pkg::control_t dispatch_control;
  logic [5*WordBits-1:0] dispatch_operands;
  logic [NumQueues-1:0] queue_full;
  logic sequencer_fault, halt, halted;
  logic [31:0] sequencer_fault_pc;

  // Labels of the engines that move data, and of the sequencer.
  logic [NumEngines-1:0] busy, dram_wait, dram_latency, full;
  logic [6*NumEngines-1:0] dram_channel;

  tw_sequencer u_sequencer (
      .clk_i,
      .rst_ni,
      .start_i(start),
      .code_address_i(code_address),
      .code_words_i(code_words),
      .stop_i(stopped),
      .fetch_valid_o(fetch_valid),
      .fetch_address_o(fetch_address),
      .fetch_slot_o(fetch_slot),
      .fetch_grant_i(fetch_grant),
      .rsp_valid_i(fetch_rsp_valid),
      .rsp_slot_i(rsp_slot),
      .rsp_data_i(dram_rsp_data_i),
      .dispatch_valid_o(dispatch_valid),
      .dispatch_engine_o(dispatch_engine),
      .dispatch_control_o(dispatch_control),
      .dispatch_operands_o(dispatch_operands),
      .queue_full_i(queue_full),
      .fault_o(sequencer_fault),
      .fault_pc_o(sequencer_fault_pc),
      .halt_o(halt),
      .halted_o(halted),
      .busy_o(busy[Sequencer]),
      .full_o(full[Sequencer]),
      .dram_wait_o(dram_wait[Sequencer]),
      .dram_channel_o(dram_channel[6*Sequencer+:6])
  );
  assign dram_latency[Sequencer] = 1'b0;

  // ---- Queues
  logic [NumQueues-1:0] head_valid, pending, starts, ready, retire;
  logic [NumQueues*ControlBits-1:0] head_control;
  logic [L*LoadBits-1:0] load_operands;
  logic [S*StoreBits-1:0] store_operands;
  logic [VectorBits-1:0] vector_operands;
  logic [TensorBits-1:0] tensor_operands;
  logic [PreloadBits-1:0] preload_operands;

  for (genvar e = 0; e < NumQueues; e++) begin : gen_queue
    if (e < S) begin : gen_store
      tw_queue #(
          .Width(StoreBits)
      ) u_queue (
          .clk_i,
          .rst_ni,
          .push_i(dispatch_valid && dispatch_engine == 4'(e)),
          .control_i(dispatch_control),
          .operands_i(dispatch_operands[StoreBits-1:0]),
          .full_o(queue_full[e]),
          .head_valid_o(head_valid[e]),
          .head_control_o(head_control[ControlBits*e+:ControlBits]),
          .head_operands_o(store_operands[StoreBits*e+:StoreBits]),
          .pop_i(starts[e]),
          .pending_o(pending[e])
      );
    end else if (e == Vector) begin : gen_vector
      tw_queue #(
          .Width(VectorBits)
      ) u_queue (
          .clk_i,
          .rst_ni,
          .push_i(dispatch_valid && dispatch_engine == 4'(e)),
          .control_i(dispatch_control),
          .operands_i(dispatch_operands),
          .full_o(queue_full[e]),
          .head_valid_o(head_valid[e]),
          .head_control_o(head_control[ControlBits*e+:ControlBits]),
          .head_operands_o(vector_operands),
          .pop_i(starts[e]),
          .pending_o(pending[e])
      );
    end else if (e == Tensor) begin : gen_tensor
      tw_queue #(
          .Width(TensorBits)
      ) u_queue (
          .clk_i,
          .rst_ni,
          .push_i(dispatch_valid && dispatch_engine == 4'(e)),
          .control_i(dispatch_control),
          .operands_i(dispatch_operands[TensorBits-1:0]),
          .full_o(queue_full[e]),
          .head_valid_o(head_valid[e]),
          .head_control_o(head_control[ControlBits*e+:ControlBits]),
          .head_operands_o(tensor_operands),
          .pop_i(starts[e]),
          .pending_o(pending[e])
      );
    end else if (e == Preload) begin : gen_preload
      tw_queue #(
          .Width(PreloadBits)
      ) u_queue (
          .clk_i,
          .rst_ni,
          .push_i(dispatch_valid && dispatch_engine == 4'(e)),
          .control_i(dispatch_control),
          .operands_i(dispatch_operands[PreloadBits-1:0]),
          .full_o(queue_full[e]),
          .head_valid_o(head_valid[e]),
          .head_control_o(head_control[ControlBits*e+:ControlBits]),
          .head_operands_o(preload_operands),
          .pop_i(starts[e]),
          .pending_o(pending[e])
      );
    end else if (e >= Load0 && e < Load0 + L) begin : gen_load
      tw_queue #(
          .Width(LoadBits)
      ) u_queue (
          .clk_i,
          .rst_ni,
          .push_i(dispatch_valid && dispatch_engine == 4'(e)),
          .control_i(dispatch_control),
          .operands_i(dispatch_operands[LoadBits-1:0]),
          .full_o(queue_full[e]),
          .head_valid_o(head_valid[e]),
          .head_control_o(head_control[ControlBits*e+:ControlBits]),
          .head_operands_o(load_operands[LoadBits*(e-Load0)+:LoadBits]),
          .pop_i(starts[e]),
          .pending_o(pending[e])
      );
    end else begin : gen_none
      assign queue_full[e] = 1'b0;
      assign head_valid[e] = 1'b0;
      assign head_control[ControlBits*e+:ControlBits] = '0;
      assign pending[e] = 1'b0;
      assign ready[e] = 1'b1;
      assign retire[e] = 1'b0;
      assign busy[e] = 1'b0;
      assign dram_wait[e] = 1'b0;
      assign dram_latency[e] = 1'b0;
      assign dram_channel[6*e+:6] = '0;
      assign full[e] = 1'b0;
    end
  end

  // ---- Starts
  // verilator lint_off UNUSEDSIGNAL
  tw_isa_pkg::tensor_t tensor_head;  // the arbiter looks at a few fields
  // verilator lint_on UNUSEDSIGNAL
  assign tensor_head = tensor_operands;

  logic [NumQueues-1:0] operand, interlock, bank_conflict;
  logic [32*NumQueues-1:0] head_pc;
  logic settled, retired, drained;
  logic issue_fault;
  logic [3:0] issue_fault_kind, issue_fault_engine;
  logic [31:0] issue_fault_pc;

  tw_issue u_issue (
      .clk_i,
      .rst_ni,
      .run_i(run),
      .head_valid_i(head_valid),
      .head_control_i(head_control),
      .tensor_swap_i(tensor_head.swap),
      .tensor_acc_address_i(tensor_head.acc_address),
      .tensor_acc_span_i(tensor_head.acc_span),
      .ready_i(ready),
      .retire_i(retire),
      .start_o(starts),
      .head_pc_o(head_pc),
      .operand_o(operand),
      .interlock_o(interlock),
      .bank_conflict_o(bank_conflict),
      .settled_o(settled),
      .retired_o(retired),
      .fault_o(issue_fault),
      .fault_kind_o(issue_fault_kind),
      .fault_engine_o(issue_fault_engine),
      .fault_pc_o(issue_fault_pc)
  );

  tw_control u_control (
      .clk_i,
      .rst_ni,
      .start_i(start),
      .run_o(run),
      .stopped_o(stopped),
      .count_o(count_cycle),
      .issue_fault_i(issue_fault),
      .issue_fault_kind_i(issue_fault_kind),
      .issue_fault_engine_i(issue_fault_engine),
      .issue_fault_pc_i(issue_fault_pc),
      .sequencer_fault_i(sequencer_fault),
      .sequencer_fault_pc_i(sequencer_fault_pc),
      .halt_i(halt),
      .retire_i(retire != '0),
      .write_done_i(dram_done_valid_i != '0),
      .dispatch_i(dispatch_valid),
      .halted_i(halted),
      .queue_full_i(full[Sequencer]),
      .settled_i(settled),
      .retired_i(retired),
      .drained_i(drained),
      .pending_i(pending),
      .head_valid_i(head_valid),
      .head_pc_i(head_pc),
      .done_o(done),
      .fault_o(fault),
      .fault_kind_o(fault_kind),
      .fault_engine_o(fault_engine),
      .fault_pc_o(fault_pc),
      .cycles_o(cycles)
  );

  tw_monitor u_monitor (
      .clk_i,
      .rst_ni,
      .valid_i(count_cycle),
      .busy_i(busy),
      .dram_wait_i(dram_wait),
      .dram_latency_i(dram_latency),
      .dram_channel_i(dram_channel),
      .full_i(full),
      .operand_i(operand),
      .interlock_i(interlock),
      .bank_conflict_i(bank_conflict),
      .start_i(starts),
      .ready_i(ready),
      .retire_i(retire),
      .dispatch_valid_i(dispatch_valid),
      .dispatch_engine_i(dispatch_engine),
      .dispatch_pc_i(dispatch_control.pc),
      .bus_busy_i(dram_bus_busy_i),
      .counter_engine_i(counter_engine),
      .counter_label_i(counter_label),
      .counter_o(counter),
      .trace_dispatch_o,
      .trace_dispatch_engine_o,
      .trace_dispatch_pc_o,
      .trace_start_o,
      .trace_issue_free_o,
      .trace_retire_o
  );

  // ---- Scratchpads: who reads and writes which one
  logic [ReadPorts-1:0] rd_valid;
  logic [ReadPorts*3-1:0] rd_memory;
  logic [ReadPorts*28-1:0] rd_address;
  // verilator lint_off UNUSEDSIGNAL
  logic [ReadPorts*W8-1:0] rd_data;  // not everybody uses whole rows
  // verilator lint_on UNUSEDSIGNAL
  logic [WritePorts-1:0] wr_valid;
  logic [WritePorts*3-1:0] wr_memory;
  logic [WritePorts*28-1:0] wr_address;
  logic [WritePorts*W8-1:0] wr_data;
  logic [WritePorts*RowBytes-1:0] wr_mask;

  logic [ReadPorts-1:0] rd_valid0, rd_valid1;
  logic [WritePorts-1:0] wr_valid0, wr_valid1;
  logic [ReadPorts*W8-1:0] rd_data0, rd_data1;

  for (genvar i = 0; i < ReadPorts; i++) begin : gen_read
    assign rd_valid0[i] = rd_valid[i] && rd_memory[3*i+:3] == tw_isa_pkg::MemoryScratchpad0;
    assign rd_valid1[i] = rd_valid[i] && rd_memory[3*i+:3] == tw_isa_pkg::MemoryScratchpad1;
  end
  for (genvar i = 0; i < WritePorts; i++) begin : gen_write
    assign wr_valid0[i] = wr_valid[i] && wr_memory[3*i+:3] == tw_isa_pkg::MemoryScratchpad0;
    assign wr_valid1[i] = wr_valid[i] && wr_memory[3*i+:3] == tw_isa_pkg::MemoryScratchpad1;
  end

  tw_memory #(
      .Bytes(tw_machine_pkg::ScratchpadBytes0),
      .Banks(tw_machine_pkg::ScratchpadBanks0),
      .RowBytes(RowBytes),
      .ReadPorts(ReadPorts),
      .WritePorts(WritePorts)
  ) u_scratchpad0 (
      .clk_i,
      .rst_ni,
      .rd_valid_i(rd_valid0),
      .rd_address_i(rd_address),
      .rd_data_o(rd_data0),
      .wr_valid_i(wr_valid0),
      .wr_address_i(wr_address),
      .wr_data_i(wr_data),
      .wr_mask_i(wr_mask)
  );

  // Of the memory that was asked; the others give 0.
  if (tw_machine_pkg::ScratchpadBytes1 != 0) begin : gen_scratchpad1
    tw_memory #(
        .Bytes(tw_machine_pkg::ScratchpadBytes1),
        .Banks(tw_machine_pkg::ScratchpadBanks1),
        .RowBytes(RowBytes),
        .ReadPorts(ReadPorts),
        .WritePorts(WritePorts)
    ) u_scratchpad1 (
        .clk_i,
        .rst_ni,
        .rd_valid_i(rd_valid1),
        .rd_address_i(rd_address),
        .rd_data_o(rd_data1),
        .wr_valid_i(wr_valid1),
        .wr_address_i(wr_address),
        .wr_data_i(wr_data),
        .wr_mask_i(wr_mask)
    );
    assign rd_data = rd_data0 | rd_data1;
  end else begin : gen_no_scratchpad1
    assign rd_data1 = '0;
    assign rd_data = rd_data0;
    logic unused_scratchpad1;
    assign unused_scratchpad1 = ^{rd_valid1, wr_valid1, rd_data1};
  end

  // ---- Accumulator: vector A, vector B, tensor
  logic [AccReadPorts-1:0] acc_rd_valid;
  logic [AccReadPorts*28-1:0] acc_rd_address;
  // verilator lint_off UNUSEDSIGNAL
  logic [AccReadPorts*A8-1:0] acc_rd_data;  // the same
  // verilator lint_on UNUSEDSIGNAL
  logic [AccWritePorts-1:0] acc_wr_valid;
  logic [AccWritePorts*28-1:0] acc_wr_address;
  logic [AccWritePorts*A8-1:0] acc_wr_data;
  logic [AccWritePorts*AccRowBytes-1:0] acc_wr_mask;

  tw_memory #(
      .Bytes(tw_machine_pkg::AccumulatorBytes),
      .Banks(tw_machine_pkg::AccumulatorBanks),
      .RowBytes(AccRowBytes),
      .ReadPorts(AccReadPorts),
      .WritePorts(AccWritePorts)
  ) u_accumulator (
      .clk_i,
      .rst_ni,
      .rd_valid_i(acc_rd_valid),
      .rd_address_i(acc_rd_address),
      .rd_data_o(acc_rd_data),
      .wr_valid_i(acc_wr_valid),
      .wr_address_i(acc_wr_address),
      .wr_data_i(acc_wr_data),
      .wr_mask_i(acc_wr_mask)
  );

  // ---- Vector engine
  logic a_rd_valid, b_rd_valid, d_wr_valid;
  logic [2:0] a_rd_memory, b_rd_memory, d_wr_memory;
  logic [27:0] a_rd_address, b_rd_address, d_wr_address;
  logic [V8-1:0] a_rd_data, b_rd_data, d_wr_data;
  logic [V8/8-1:0] d_wr_mask;

  tw_vector u_vector (
      .clk_i,
      .rst_ni,
      .start_i(starts[Vector]),
      .operands_i(vector_operands),
      .ready_o(ready[Vector]),
      .retire_o(retire[Vector]),
      .a_rd_valid_o(a_rd_valid),
      .a_rd_memory_o(a_rd_memory),
      .a_rd_address_o(a_rd_address),
      .a_rd_data_i(a_rd_data),
      .b_rd_valid_o(b_rd_valid),
      .b_rd_memory_o(b_rd_memory),
      .b_rd_address_o(b_rd_address),
      .b_rd_data_i(b_rd_data),
      .d_wr_valid_o(d_wr_valid),
      .d_wr_memory_o(d_wr_memory),
      .d_wr_address_o(d_wr_address),
      .d_wr_data_o(d_wr_data),
      .d_wr_mask_o(d_wr_mask)
  );

  assign rd_valid[0] = a_rd_valid;
  assign rd_memory[0+:3] = a_rd_memory;
  assign rd_address[0+:28] = a_rd_address;
  assign acc_rd_valid[0] = a_rd_valid && a_rd_memory == tw_isa_pkg::MemoryAccumulator;
  assign acc_rd_address[0+:28] = a_rd_address;
  assign a_rd_data = rd_data[0+:V8] | acc_rd_data[0+:V8];

  assign rd_valid[1] = b_rd_valid;
  assign rd_memory[3+:3] = b_rd_memory;
  assign rd_address[28+:28] = b_rd_address;
  assign acc_rd_valid[1] = b_rd_valid && b_rd_memory == tw_isa_pkg::MemoryAccumulator;
  assign acc_rd_address[28+:28] = b_rd_address;
  assign b_rd_data = rd_data[W8+:V8] | acc_rd_data[A8+:V8];

  assign wr_valid[0] = d_wr_valid;
  assign wr_memory[0+:3] = d_wr_memory;
  assign wr_address[0+:28] = d_wr_address;
  assign wr_data[0+:W8] = W8'(d_wr_data);
  assign wr_mask[0+:RowBytes] = RowBytes'(d_wr_mask);
  assign acc_wr_valid[0] = d_wr_valid && d_wr_memory == tw_isa_pkg::MemoryAccumulator;
  assign acc_wr_address[0+:28] = d_wr_address;
  assign acc_wr_data[0+:A8] = A8'(d_wr_data);
  assign acc_wr_mask[0+:AccRowBytes] = AccRowBytes'(d_wr_mask);

  assign busy[Vector] = 1'b0;
  assign dram_wait[Vector] = 1'b0;
  assign dram_latency[Vector] = 1'b0;
  assign dram_channel[6*Vector+:6] = '0;
  assign full[Vector] = 1'b0;

  // ---- Preload and tensor engines
  localparam int unsigned Side = tw_machine_pkg::Rows > tw_machine_pkg::Cols ?
                                 tw_machine_pkg::Rows : tw_machine_pkg::Cols;
  localparam int unsigned WeightBits =
      tw_machine_pkg::ArrayType == tw_pkg::ArrayInt8 ? 16 : tw_pkg::ElementBytes * 8;
  logic shadow_write, shadow_first, shadow_transpose;
  logic [PreloadRows-1:0] shadow_valid;
  logic [9:0] shadow_index;
  logic [PreloadRows*Side*WeightBits-1:0] shadow_data;
  tw_isa_pkg::memory_e preload_memory, tensor_memory;

  tw_preload u_preload (
      .clk_i,
      .rst_ni,
      .start_i(starts[Preload]),
      .operands_i(preload_operands),
      .ready_o(ready[Preload]),
      .retire_o(retire[Preload]),
      .rd_valid_o(rd_valid[ReadPreload+:PreloadRows]),
      .rd_memory_o(preload_memory),
      .rd_address_o(rd_address[28*ReadPreload+:28*PreloadRows]),
      .rd_data_i(rd_data[W8*ReadPreload+:W8*PreloadRows]),
      .shadow_write_o(shadow_write),
      .shadow_first_o(shadow_first),
      .shadow_transpose_o(shadow_transpose),
      .shadow_valid_o(shadow_valid),
      .shadow_index_o(shadow_index),
      .shadow_data_o(shadow_data)
  );
  assign rd_memory[3*ReadPreload+:3*PreloadRows] = {PreloadRows{preload_memory}};

  tw_tensor u_tensor (
      .clk_i,
      .rst_ni,
      .start_i(starts[Tensor]),
      .operands_i(tensor_operands),
      .ready_o(ready[Tensor]),
      .retire_o(retire[Tensor]),
      .rd_valid_o(rd_valid[ReadTensor]),
      .rd_memory_o(tensor_memory),
      .rd_address_o(rd_address[28*ReadTensor+:28]),
      .rd_data_i(rd_data[W8*ReadTensor+:W8]),
      .acc_rd_valid_o(acc_rd_valid[2]),
      .acc_rd_address_o(acc_rd_address[56+:28]),
      .acc_rd_data_i(acc_rd_data[2*A8+:T8]),
      .acc_wr_valid_o(acc_wr_valid[1]),
      .acc_wr_address_o(acc_wr_address[28+:28]),
      .acc_wr_data_o(acc_wr_data[A8+:T8]),
      .shadow_write_i(shadow_write),
      .shadow_first_i(shadow_first),
      .shadow_transpose_i(shadow_transpose),
      .shadow_valid_i(shadow_valid),
      .shadow_index_i(shadow_index),
      .shadow_data_i(shadow_data)
  );
  assign rd_memory[3*ReadTensor+:3] = tensor_memory;
  assign acc_wr_mask[AccRowBytes+:AccRowBytes] = AccRowBytes'({tw_pkg::AccRowBytes{1'b1}});
  if (A8 > T8) begin : gen_wide_accumulator
    assign acc_wr_data[A8+T8+:A8-T8] = '0;
  end

  for (genvar e = Tensor; e <= Preload; e++) begin : gen_array_labels
    assign busy[e] = 1'b0;
    assign dram_wait[e] = 1'b0;
    assign dram_latency[e] = 1'b0;
    assign dram_channel[6*e+:6] = '0;
    assign full[e] = 1'b0;
  end

  // ---- Loads
  logic [L*P-1:0] load_req_valid, load_req_grant;
  logic [L*P*40-1:0] load_req_address;
  logic [L*P*12-1:0] load_req_slot;
  logic [L*R-1:0] load_rsp_valid;
  logic [P*BurstBytes-1:0] load_fwd_mask;
  logic [P*B8-1:0] load_fwd_data;
  logic [L*P*B8-1:0] load_wr_data;
  logic [L*P*BurstBytes-1:0] load_wr_mask;

  for (genvar u = 0; u < L; u++) begin : gen_load
    localparam int unsigned E = Load0 + u;
    tw_load #(
        .Unit(u)
    ) u_load (
        .clk_i,
        .rst_ni,
        .start_i(starts[E]),
        .operands_i(load_operands[LoadBits*u+:LoadBits]),
        .ready_o(ready[E]),
        .retire_o(retire[E]),
        .req_valid_o(load_req_valid[P*u+:P]),
        .req_address_o(load_req_address[40*P*u+:40*P]),
        .req_slot_o(load_req_slot[12*P*u+:12*P]),
        .req_grant_i(load_req_grant[P*u+:P]),
        .fwd_mask_i(load_fwd_mask),
        .fwd_data_i(load_fwd_data),
        .rsp_valid_i(load_rsp_valid[R*u+:R]),
        .rsp_slot_i(rsp_slot),
        .rsp_data_i(dram_rsp_data_i),
        .wr_valid_o(wr_valid[WriteLoad+P*u+:P]),
        .wr_memory_o(wr_memory[3*(WriteLoad+P*u)+:3*P]),
        .wr_address_o(wr_address[28*(WriteLoad+P*u)+:28*P]),
        .wr_data_o(load_wr_data[B8*P*u+:B8*P]),
        .wr_mask_o(load_wr_mask[BurstBytes*P*u+:BurstBytes*P]),
        .busy_o(busy[E]),
        .dram_wait_o(dram_wait[E]),
        .dram_channel_o(dram_channel[6*E+:6]),
        .dram_latency_o(dram_latency[E])
    );
    assign full[E] = 1'b0;
  end
  // A row of a memory is at least as long as a burst.
  for (genvar i = 0; i < L * P; i++) begin : gen_load_write
    assign wr_data[W8*(WriteLoad+i)+:W8] = W8'(load_wr_data[B8*i+:B8]);
    assign wr_mask[RowBytes*(WriteLoad+i)+:RowBytes] =
        RowBytes'(load_wr_mask[BurstBytes*i+:BurstBytes]);
  end

  // ---- Stores
  logic [S*P-1:0] offer_valid, accept;
  logic [S*P*40-1:0] offer_address;
  logic [S*P*B8-1:0] offer_data;
  logic [S*P*BurstBytes-1:0] offer_mask;
  logic [3*S-1:0] store_memory;

  for (genvar u = 0; u < S; u++) begin : gen_store
    tw_store #(
        .Unit(u)
    ) u_store (
        .clk_i,
        .rst_ni,
        .start_i(starts[u]),
        .operands_i(store_operands[StoreBits*u+:StoreBits]),
        .ready_o(ready[u]),
        .retire_o(retire[u]),
        .rd_valid_o(rd_valid[ReadStore+P*u+:P]),
        .rd_memory_o(store_memory[3*u+:3]),
        .rd_address_o(rd_address[28*(ReadStore+P*u)+:28*P]),
        .rd_data_i(rd_data[W8*(ReadStore+P*u)+:W8*P]),
        .offer_valid_o(offer_valid[P*u+:P]),
        .offer_address_o(offer_address[40*P*u+:40*P]),
        .offer_data_o(offer_data[B8*P*u+:B8*P]),
        .offer_mask_o(offer_mask[BurstBytes*P*u+:BurstBytes*P]),
        .accept_i(accept[P*u+:P]),
        .busy_o(busy[u]),
        .setup_o(dram_wait[u]),
        .blocked_o(full[u])
    );
    assign rd_memory[3*(ReadStore+P*u)+:3*P] = {P{store_memory[3*u+:3]}};
    assign dram_latency[u] = 1'b1;
    assign dram_channel[6*u+:6] = '0;
  end

  // ---- DRAM port
  tw_dram_port u_dram_port (
      .clk_i,
      .rst_ni,
      .load_req_valid_i(load_req_valid),
      .load_req_address_i(load_req_address),
      .load_req_slot_i(load_req_slot),
      .load_req_grant_o(load_req_grant),
      .load_fwd_mask_o(load_fwd_mask),
      .load_fwd_data_o(load_fwd_data),
      .fetch_valid_i(fetch_valid),
      .fetch_address_i(fetch_address),
      .fetch_slot_i(fetch_slot),
      .fetch_grant_o(fetch_grant),
      .store_offer_valid_i(offer_valid),
      .store_offer_address_i(offer_address),
      .store_offer_data_i(offer_data),
      .store_offer_mask_i(offer_mask),
      .store_accept_o(accept),
      .load_rsp_valid_o(load_rsp_valid),
      .fetch_rsp_valid_o(fetch_rsp_valid),
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
      .drained_o(drained)
  );

endmodule
