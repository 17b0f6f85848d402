// Whether one execution of an instruction leaves a memory or its own spans, and the banks it names.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: combinational; nothing is evaluated while valid_i is 0. The instruction is a legal one
// after tw_odometer. Addresses are signed and wide enough for every sum below: nothing wraps.
module tw_range_check (
    input  logic                              valid_i,
    input  logic [5*tw_isa_pkg::WordBits-1:0] operands_i,
    input  logic [63:0]                       address_a_i,
    input  logic [63:0]                       address_b_i,
    input  logic [63:0]                       address_c_i,
    input  logic [63:0]                       address_d_i,
    output logic                              out_of_range_o,
    // 0 if it is out of range.
    output logic [tw_pkg::NumBanks-1:0]       banks_o
);

  localparam int unsigned Banks0 = tw_machine_pkg::ScratchpadBanks0;
  localparam int unsigned Banks1 = tw_machine_pkg::ScratchpadBanks1;
  localparam int unsigned BanksAcc = tw_machine_pkg::AccumulatorBanks;
  localparam int unsigned Bytes0 = tw_machine_pkg::ScratchpadBytes0;
  localparam int unsigned Bytes1 = tw_machine_pkg::ScratchpadBytes1;
  localparam int unsigned BytesAcc = tw_machine_pkg::AccumulatorBytes;
  // log2 of the bytes of a bank; capacities and numbers of banks are powers of two.
  localparam int unsigned Shift0 = $clog2(Bytes0) - $clog2(Banks0);
  localparam int unsigned Shift1 = Banks1 == 0 ? 0 : $clog2(Bytes1) - $clog2(Banks1);
  localparam int unsigned ShiftAcc = $clog2(BytesAcc) - $clog2(BanksAcc);
  localparam int unsigned AccRows = BytesAcc / tw_pkg::AccRowBytes;
  localparam int unsigned Lanes = tw_machine_pkg::Lanes;
  localparam logic signed [63:0] DramBytes = tw_machine_pkg::DramCapacityBytes;

  // Walks of accesses: six of the operand at the second address, five at the third one or in DRAM,
  // four at the fourth.
  localparam int unsigned WalksB = 6;
  localparam int unsigned WalksC = 5;
  localparam int unsigned WalksD = 4;
  localparam int unsigned Walks = WalksB + WalksC + WalksD;
  localparam int unsigned FirstC = WalksB;
  localparam int unsigned FirstD = WalksB + WalksC;
  localparam int unsigned StepBits = 21;

  // Bytes, or rows, from the first to the last access of a walk.
  function automatic logic signed [63:0] walk(input logic signed [31:0] stride,
                                              input logic signed [StepBits-1:0] steps);
    if (steps > 0) walk = 64'(stride) * 64'(steps);
    else walk = '0;
  endfunction
  function automatic logic [31:0] wide(input logic [23:0] stride);
    wide = 32'($signed(stride));
  endfunction
  // Steps of a walk over `count` elements.
  function automatic logic [StepBits-1:0] steps_of(input logic [19:0] count);
    steps_of = {1'b0, count} - StepBits'(1);
  endfunction
  function automatic logic signed [63:0] below(input logic signed [63:0] offset);
    if (offset < 0) below = offset;
    else below = '0;
  endfunction
  function automatic logic signed [63:0] above(input logic signed [63:0] offset);
    if (offset > 0) above = offset;
    else above = '0;
  endfunction
  function automatic logic signed [63:0] capacity(input logic [2:0] memory);
    case (memory)
      tw_isa_pkg::MemoryScratchpad0: capacity = 64'(Bytes0);
      tw_isa_pkg::MemoryScratchpad1: capacity = 64'(Bytes1);
      default: capacity = 64'(BytesAcc);
    endcase
  endfunction
  // [address, address + span) does not lie within [0, size), or accesses of `width` units at
  // offsets low to high not within the span.
  function automatic logic leaves(input logic signed [63:0] address, input logic signed [63:0] span,
                                  input logic signed [63:0] size, input logic signed [63:0] low,
                                  input logic signed [63:0] high, input logic signed [63:0] width);
    leaves = address < 0 || address + span > size || low < 0 || high + width > span;
  endfunction
  // Bits first to last.
  function automatic logic [tw_pkg::NumBanks-1:0] bank_range(input logic [5:0] first,
                                                             input logic [5:0] last);
    bank_range = tw_pkg::NumBanks'((~64'd0 << first) & (~64'd0 >> (6'd63 - last)));
  endfunction
  // The banks of the bytes [address, address + span).
  function automatic logic [tw_pkg::NumBanks-1:0] banks(input logic [2:0] memory,
                                                        input logic [63:0] address,
                                                        input logic [63:0] span);
    logic [63:0] last;
    last = address + span - 64'd1;
    case (memory)
      tw_isa_pkg::MemoryScratchpad0: banks = bank_range(6'(address >> Shift0), 6'(last >> Shift0));
      tw_isa_pkg::MemoryScratchpad1:
      banks = bank_range(6'(address >> Shift1), 6'(last >> Shift1)) << tw_pkg::FirstBank1;
      default:
      banks = bank_range(6'(address >> ShiftAcc), 6'(last >> ShiftAcc)) << tw_pkg::FirstBankAcc;
    endcase
  endfunction
  function automatic logic [63:0] vector_bytes(input logic [2:0] vector_type);
    case (vector_type)
      tw_isa_pkg::VectorTypeI8, tw_isa_pkg::VectorTypeU8: vector_bytes = 64'(Lanes);
      tw_isa_pkg::VectorTypeBf16: vector_bytes = 64'(Lanes * 2);
      default: vector_bytes = 64'(Lanes * 4);
    endcase
  endfunction

  // Views of the whole instruction: not every field is looked at.
  /* verilator lint_off UNUSEDSIGNAL */
  tw_isa_pkg::header_t header;
  tw_isa_pkg::load_t load;
  tw_isa_pkg::store_t store;
  tw_isa_pkg::preload_t preload;
  tw_isa_pkg::tensor_t tensor;
  tw_isa_pkg::vector_t vector;
  /* verilator lint_on UNUSEDSIGNAL */

  // What there is to check.
  logic [Walks*32-1:0] strides;
  logic [Walks*StepBits-1:0] steps;
  logic [2:0] memory_b, memory_c;
  logic [27:0] span_b, span_c;
  logic [63:0] width_b, width_c, width_p, width_d, size_c;
  logic has_c, has_p, has_d, reads_dram, in_rows, inside_out;
  logic [StepBits-1:0] in_dram;
  logic [31:0] element;

  assign header = operands_i[$bits(header)-1:0];
  always_comb begin
    load = '0;
    store = '0;
    preload = '0;
    tensor = '0;
    vector = '0;
    strides = '0;
    steps = '0;
    memory_b = '0;
    memory_c = '0;
    span_b = '0;
    span_c = '0;
    width_b = '0;
    width_c = '0;
    width_p = '0;
    width_d = '0;
    size_c = '0;
    has_c = 1'b0;
    has_p = 1'b0;
    has_d = 1'b0;
    reads_dram = 1'b0;
    in_rows = 1'b0;
    inside_out = 1'b0;
    in_dram = '0;
    element = '0;
    if (valid_i) begin
      case (header.opcode)
        tw_isa_pkg::OpcodeLoad: begin
          load = operands_i[$bits(load)-1:0];
          element = 32'd1 << load.element_log2;
          memory_b = load.memory;
          span_b = load.span;
          width_b = 64'(element);
          reads_dram = 1'b1;
          for (int d = 0; d < 5; d++) begin
            steps[StepBits*d+:StepBits] = steps_of(load.counts[d]);
            in_dram = {1'b0, load.counts[d]} - StepBits'(load.low[d]) - StepBits'(load.high[d]);
            // An edge may leave fewer elements than are filled.
            if (in_dram[StepBits-1]) inside_out = 1'b1;
            if (in_dram == '0) reads_dram = 1'b0;
            steps[StepBits*(FirstC+d)+:StepBits] = in_dram - StepBits'(1);
          end
          strides[31:0] = element;
          strides[32*FirstC+:32] = load.broadcast ? '0 : element;
          for (int d = 1; d < 5; d++) begin
            strides[32*d+:32] = wide(load.strides[d-1]);
            strides[32*(FirstC+d)+:32] = load.dram_strides[d-1];
          end
        end
        tw_isa_pkg::OpcodeStore: begin
          store = operands_i[$bits(store)-1:0];
          element = 32'd1 << store.element_log2;
          memory_b = store.memory;
          span_b = store.span;
          width_b = 64'(element);
          reads_dram = 1'b1;
          for (int d = 0; d < 5; d++) begin
            steps[StepBits*d+:StepBits] = steps_of(store.counts[d]);
            steps[StepBits*(FirstC+d)+:StepBits] = steps_of(store.counts[d]);
          end
          strides[31:0] = element;
          strides[32*FirstC+:32] = element;
          for (int d = 1; d < 5; d++) begin
            strides[32*d+:32] = wide(store.strides[d-1]);
            strides[32*(FirstC+d)+:32] = store.dram_strides[d-1];
          end
        end
        tw_isa_pkg::OpcodePreload: begin
          preload = operands_i[$bits(preload)-1:0];
          memory_b = preload.memory;
          span_b = preload.span;
          strides[31:0] = wide(preload.row_stride);
          steps[StepBits-1:0] = preload.transpose ?
              steps_of(20'(preload.n_count)) : steps_of(20'(preload.k_count));
          width_b = preload.transpose ? 64'(preload.k_count) : 64'(preload.n_count);
          width_b = width_b * 64'(tw_pkg::ElementBytes);
        end
        tw_isa_pkg::OpcodeTensor: begin
          tensor = operands_i[$bits(tensor)-1:0];
          memory_b = tensor.memory;
          span_b = tensor.span;
          width_b = 64'(tensor.k_count) * 64'(tw_pkg::ElementBytes);
          has_c = 1'b1;
          in_rows = 1'b1;
          memory_c = tw_isa_pkg::MemoryAccumulator;
          span_c = 28'(tensor.acc_span);
          size_c = 64'(AccRows);
          width_c = 64'd1;
          for (int d = 0; d < 3; d++) begin
            strides[32*d+:32] = wide(tensor.strides[d]);
            strides[32*(FirstC+d)+:32] = 32'($signed(tensor.acc_strides[d]));
            steps[StepBits*d+:StepBits] = steps_of(20'(tensor.counts[d]));
            steps[StepBits*(FirstC+d)+:StepBits] = steps_of(20'(tensor.counts[d]));
          end
        end
        tw_isa_pkg::OpcodeVector: begin
          vector = operands_i[$bits(vector)-1:0];
          memory_b = vector.a_memory;
          span_b = vector.a_span;
          width_b = vector_bytes(vector.a_type);
          has_c = vector.b_enable;
          memory_c = vector.b_memory;
          span_c = vector.b_span;
          size_c = capacity(vector.b_memory);
          width_c = vector_bytes(vector.b_type);
          has_p = vector.p_count != '0;
          width_p = 64'(vector.counts[3]) * 64'(vector.p_count) * 64'(Lanes * 4);
          has_d = 1'b1;
          width_d = vector_bytes(vector.d_type);
          for (int d = 0; d < 4; d++) begin
            strides[32*d+:32] = wide(vector.a_strides[d]);
            strides[32*(FirstC+d)+:32] = wide(vector.b_strides[d]);
            strides[32*(FirstD+d)+:32] = wide(vector.d_strides[d]);
            steps[StepBits*d+:StepBits] = steps_of(20'(vector.counts[d]));
            // A mac reads its weights once per block.
            if (d == 3 || vector.window_op != tw_isa_pkg::WindowOpMac) begin
              steps[StepBits*(FirstC+d)+:StepBits] = steps_of(20'(vector.counts[d]));
            end
            steps[StepBits*(FirstD+d)+:StepBits] = steps_of(20'(vector.counts[d]));
          end
          for (int d = 0; d < 2; d++) begin
            strides[32*(4+d)+:32] = wide(vector.a_window_strides[d]);
            steps[StepBits*(4+d)+:StepBits] = steps_of(20'(vector.window[d]));
          end
          strides[32*(FirstC+4)+:32] = wide(vector.b_tap_stride);
          if (vector.window_op == tw_isa_pkg::WindowOpMac) begin
            steps[StepBits*(FirstC+4)+:StepBits] =
                steps_of(20'(vector.window[0]) * 20'(vector.window[1]));
          end
        end
        default: begin
        end
      endcase
    end
  end

  // Offsets that the walks of an operand reach, its region and its banks.
  logic signed [63:0] low_b, high_b, low_c, high_c, low_d, high_d, reach;
  logic [63:0] bytes_c, span_bytes_c;
  logic [tw_pkg::NumBanks-1:0] all_banks;
  always_comb begin
    out_of_range_o = inside_out;
    all_banks = '0;
    low_b = '0;
    high_b = '0;
    low_c = '0;
    high_c = '0;
    low_d = '0;
    high_d = '0;
    reach = '0;
    bytes_c = '0;
    span_bytes_c = '0;
    if (valid_i) begin
      for (int i = 0; i < Walks; i++) begin
        reach = walk($signed(strides[32*i+:32]), $signed(steps[StepBits*i+:StepBits]));
        if (i < FirstC) begin
          low_b = low_b + below(reach);
          high_b = high_b + above(reach);
        end else if (i < FirstD) begin
          low_c = low_c + below(reach);
          high_c = high_c + above(reach);
        end else begin
          low_d = low_d + below(reach);
          high_d = high_d + above(reach);
        end
      end
      if (leaves(address_b_i, 64'(span_b), capacity(memory_b), low_b, high_b, width_b)) begin
        out_of_range_o = 1'b1;
      end
      all_banks = banks(memory_b, address_b_i, 64'(span_b));
      if (reads_dram && ($signed(address_a_i) + low_c < 0 ||
                         $signed(address_a_i) + high_c + $signed(width_b) > DramBytes)) begin
        out_of_range_o = 1'b1;
      end
      if (has_c) begin
        if (leaves(address_c_i, 64'(span_c), size_c, low_c, high_c, width_c)) out_of_range_o = 1'b1;
        bytes_c = in_rows ? address_c_i * 64'(tw_pkg::AccRowBytes) : address_c_i;
        span_bytes_c = in_rows ? 64'(span_c) * 64'(tw_pkg::AccRowBytes) : 64'(span_c);
        all_banks = all_banks | banks(memory_c, bytes_c, span_bytes_c);
      end
      if (has_p) begin
        if (leaves(address_a_i, 64'(vector.p_span), capacity(vector.p_memory), '0, '0,
            width_p)) begin
          out_of_range_o = 1'b1;
        end
        all_banks = all_banks | banks(vector.p_memory, address_a_i, 64'(vector.p_span));
      end
      if (has_d) begin
        if (leaves(address_d_i, 64'(vector.d_span), capacity(vector.d_memory), low_d, high_d,
            width_d)) begin
          out_of_range_o = 1'b1;
        end
        all_banks = all_banks | banks(vector.d_memory, address_d_i, 64'(vector.d_span));
      end
    end
  end
  assign banks_o = out_of_range_o ? '0 : all_banks;

endmodule
