// Whether one execution of an instruction leaves a memory or its own spans, and the banks it names.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: combinational; nothing is evaluated while valid_i is 0. The instruction is a legal one after
// tw_odometer. Addresses are signed and wide enough for every sum below: nothing wraps.
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

  // Bytes from the first to the last access of a walk: steps of `stride`.
  function automatic logic signed [63:0] walk(input logic signed [31:0] stride,
                                              input logic signed [31:0] steps);
    if (steps > 0) walk = 64'(stride) * 64'(steps);
    else walk = '0;
  endfunction
  function automatic logic signed [31:0] wide(input logic [23:0] stride);
    wide = 32'($signed(stride));
  endfunction
  function automatic logic signed [31:0] wide20(input logic [19:0] stride);
    wide20 = 32'($signed(stride));
  endfunction
  // Steps of a walk over `count` elements.
  function automatic logic signed [31:0] steps(input logic [19:0] count);
    steps = 32'($signed({1'b0, count})) - 32'sd1;
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
  // [address, address + span) does not lie within [0, size), or accesses of `width` units at offsets
  // low to high not within the span.
  function automatic logic leaves(input logic signed [63:0] address, input logic signed [63:0] span,
                                  input logic signed [63:0] size, input logic signed [63:0] low,
                                  input logic signed [63:0] high, input logic signed [63:0] width);
    leaves = address < 0 || address + span > size || low < 0 || high + width > span;
  endfunction
  // Bits first to last.
  function automatic logic [tw_pkg::NumBanks-1:0] bank_range(input logic [5:0] first, input logic [5:0] last);
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
      default: banks = bank_range(6'(address >> ShiftAcc), 6'(last >> ShiftAcc)) << tw_pkg::FirstBankAcc;
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
  // Reach of the accesses of up to three operands, and one step of their walks.
  logic signed [63:0] low_x, high_x, low_y, high_y, low_z, high_z, step_x, step_y, step_z, element;
  logic signed [31:0] in_dram;
  logic reads;
  logic [tw_pkg::NumBanks-1:0] all_banks;

  assign header = operands_i[$bits(header)-1:0];
  always_comb begin
    out_of_range_o = 1'b0;
    all_banks = '0;
    load = '0;
    store = '0;
    preload = '0;
    tensor = '0;
    vector = '0;
    low_x = '0;
    high_x = '0;
    low_y = '0;
    high_y = '0;
    low_z = '0;
    high_z = '0;
    step_x = '0;
    step_y = '0;
    step_z = '0;
    element = 64'sd1;
    in_dram = '0;
    reads = 1'b1;
    if (valid_i) begin
      case (header.opcode)
        tw_isa_pkg::OpcodeLoad: begin
          load = operands_i[$bits(load)-1:0];
          element = 64'sd1 << load.element_log2;
          for (int d = 0; d < 5; d++) begin
            if (d == 0) step_x = walk(element[31:0], steps(load.counts[0]));
            else step_x = walk(wide(load.strides[d-1]), steps(load.counts[d]));
            low_x = low_x + below(step_x);
            high_x = high_x + above(step_x);
            // Elements that lie in DRAM.
            in_dram = 32'($signed({1'b0, load.counts[d]})) - 32'($signed({1'b0, load.low[d]})) -
                     32'($signed({1'b0, load.high[d]}));
            if (in_dram < 0) out_of_range_o = 1'b1;
            if (in_dram <= 0) reads = 1'b0;
            if (d == 0) step_y = load.broadcast ? '0 : walk(element[31:0], in_dram - 32'sd1);
            else step_y = walk($signed(load.dram_strides[d-1]), in_dram - 32'sd1);
            low_y = low_y + below(step_y);
            high_y = high_y + above(step_y);
          end
          if (leaves(address_b_i, 64'(load.span), capacity(load.memory), low_x, high_x, element)) begin
            out_of_range_o = 1'b1;
          end
          if (reads && ($signed(address_a_i) + low_y < 0 || $signed(address_a_i) + high_y + element > DramBytes)) begin
            out_of_range_o = 1'b1;
          end
          all_banks = banks(load.memory, address_b_i, 64'(load.span));
        end
        tw_isa_pkg::OpcodeStore: begin
          store = operands_i[$bits(store)-1:0];
          element = 64'sd1 << store.element_log2;
          for (int d = 0; d < 5; d++) begin
            if (d == 0) step_x = walk(element[31:0], steps(store.counts[0]));
            else step_x = walk(wide(store.strides[d-1]), steps(store.counts[d]));
            low_x = low_x + below(step_x);
            high_x = high_x + above(step_x);
            if (d == 0) step_y = step_x;
            else step_y = walk($signed(store.dram_strides[d-1]), steps(store.counts[d]));
            low_y = low_y + below(step_y);
            high_y = high_y + above(step_y);
          end
          if (leaves(address_b_i, 64'(store.span), capacity(store.memory), low_x, high_x, element)) begin
            out_of_range_o = 1'b1;
          end
          if ($signed(address_a_i) + low_y < 0 || $signed(address_a_i) + high_y + element > DramBytes) begin
            out_of_range_o = 1'b1;
          end
          all_banks = banks(store.memory, address_b_i, 64'(store.span));
        end
        tw_isa_pkg::OpcodePreload: begin
          preload = operands_i[$bits(preload)-1:0];
          step_x = walk(wide(preload.row_stride),
                        preload.transpose ? steps(20'(preload.n_count)) : steps(20'(preload.k_count)));
          element = preload.transpose ? 64'(preload.k_count) : 64'(preload.n_count);
          element = element * 64'(tw_pkg::ElementBytes);
          out_of_range_o = leaves(address_b_i, 64'(preload.span), capacity(preload.memory),
                                  below(step_x), above(step_x), element);
          all_banks = banks(preload.memory, address_b_i, 64'(preload.span));
        end
        tw_isa_pkg::OpcodeTensor: begin
          tensor = operands_i[$bits(tensor)-1:0];
          for (int d = 0; d < 3; d++) begin
            step_x = walk(wide(tensor.strides[d]), steps(20'(tensor.counts[d])));
            low_x = low_x + below(step_x);
            high_x = high_x + above(step_x);
            step_y = walk(wide20(tensor.acc_strides[d]), steps(20'(tensor.counts[d])));
            low_y = low_y + below(step_y);
            high_y = high_y + above(step_y);
          end
          out_of_range_o = leaves(address_b_i, 64'(tensor.span), capacity(tensor.memory), low_x, high_x,
                                  64'(tensor.k_count) * 64'(tw_pkg::ElementBytes)) ||
                           leaves(address_c_i, 64'(tensor.acc_span), 64'(AccRows), low_y, high_y, 64'sd1);
          all_banks = banks(tensor.memory, address_b_i, 64'(tensor.span)) |
                      banks(tw_isa_pkg::MemoryAccumulator, address_c_i * 64'(tw_pkg::AccRowBytes),
                            64'(tensor.acc_span) * 64'(tw_pkg::AccRowBytes));
        end
        tw_isa_pkg::OpcodeVector: begin
          vector = operands_i[$bits(vector)-1:0];
          for (int d = 0; d < 4; d++) begin
            step_x = walk(wide(vector.a_strides[d]), steps(20'(vector.counts[d])));
            low_x = low_x + below(step_x);
            high_x = high_x + above(step_x);
            step_z = walk(wide(vector.d_strides[d]), steps(20'(vector.counts[d])));
            low_z = low_z + below(step_z);
            high_z = high_z + above(step_z);
            // A mac reads its weights once per block.
            if (d == 3 || vector.window_op != tw_isa_pkg::WindowOpMac) begin
              step_y = walk(wide(vector.b_strides[d]), steps(20'(vector.counts[d])));
              low_y = low_y + below(step_y);
              high_y = high_y + above(step_y);
            end
          end
          for (int d = 0; d < 2; d++) begin
            step_x = walk(wide(vector.a_window_strides[d]), steps(20'(vector.window[d])));
            low_x = low_x + below(step_x);
            high_x = high_x + above(step_x);
          end
          if (vector.window_op == tw_isa_pkg::WindowOpMac) begin
            step_y = walk(wide(vector.b_tap_stride),
                          32'(vector.window[0]) * 32'(vector.window[1]) - 32'sd1);
            low_y = low_y + below(step_y);
            high_y = high_y + above(step_y);
          end
          if (leaves(address_b_i, 64'(vector.a_span), capacity(vector.a_memory), low_x, high_x,
                     vector_bytes(vector.a_type))) begin
            out_of_range_o = 1'b1;
          end
          all_banks = banks(vector.a_memory, address_b_i, 64'(vector.a_span));
          if (vector.b_enable) begin
            if (leaves(address_c_i, 64'(vector.b_span), capacity(vector.b_memory), low_y, high_y,
                       vector_bytes(vector.b_type))) begin
              out_of_range_o = 1'b1;
            end
            all_banks = all_banks | banks(vector.b_memory, address_c_i, 64'(vector.b_span));
          end
          if (vector.p_count != '0) begin
            if (leaves(address_a_i, 64'(vector.p_span), capacity(vector.p_memory), '0, '0,
                       64'(vector.counts[3]) * 64'(vector.p_count) * 64'(Lanes * 4))) begin
              out_of_range_o = 1'b1;
            end
            all_banks = all_banks | banks(vector.p_memory, address_a_i, 64'(vector.p_span));
          end
          if (leaves(address_d_i, 64'(vector.d_span), capacity(vector.d_memory), low_z, high_z,
                     vector_bytes(vector.d_type))) begin
            out_of_range_o = 1'b1;
          end
          all_banks = all_banks | banks(vector.d_memory, address_d_i, 64'(vector.d_span));
        end
        default: begin
        end
      endcase
    end
  end
  assign banks_o = out_of_range_o ? '0 : all_banks;

endmodule
