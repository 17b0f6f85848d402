// Whether the machine accepts an instruction, and which engine executes it.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: combinational; nothing is evaluated while valid_i is 0.
module tw_decoder (
    input  logic                                valid_i,
    // The instruction, its first word lowest; what lies behind its last word does not matter.
    input  logic [8*tw_isa_pkg::WordBits-1:0]   words_i,
    output logic                                illegal_o,
    // Engine number; EngineSequencer for halt and loop.
    output logic [3:0]                          engine_o,
    // The words that hold the odometer, level 0 lowest.
    output logic [tw_isa_pkg::MaxLevels*tw_isa_pkg::LevelBits-1:0] levels_o
);

  localparam int unsigned WordBits = tw_isa_pkg::WordBits;
  localparam int unsigned Levels = tw_isa_pkg::MaxLevels;
  localparam int unsigned LevelBits = tw_isa_pkg::LevelBits;
  localparam int unsigned Stages = tw_isa_pkg::MaxStages;
  // Longest operands, in words.
  localparam int unsigned OperandWords = 5;
  localparam logic HasScratchpad1 = tw_machine_pkg::NumScratchpads > 1;
  localparam logic IntArray = tw_machine_pkg::ArrayType == tw_pkg::ArrayInt8;
  // Low bits of an address that are 0 for an element of the array.
  localparam logic [1:0] ArrayMask = 2'(tw_pkg::ElementBytes - 1);

  // What the operand of a stage is, and what it does to the chain's domain.
  localparam logic [3:0] ClassPlain = 4'd0;      // no operand, any domain
  localparam logic [3:0] ClassInt = 4'd1;        // two integers
  localparam logic [3:0] ClassFloat = 4'd2;      // two floats
  localparam logic [3:0] ClassFma = 4'd3;        // two immediates
  localparam logic [3:0] ClassFmaB = 4'd4;       // source B and an immediate
  localparam logic [3:0] ClassFunction = 4'd5;   // float to float
  localparam logic [3:0] ClassToFloat = 4'd6;
  localparam logic [3:0] ClassToInt = 4'd7;
  localparam logic [3:0] ClassQuantize = 4'd8;   // an immediate, float to integer
  localparam logic [3:0] ClassDequantize = 4'd9; // two immediates, integer to float
  localparam logic [3:0] ClassSave = 4'd10;
  localparam logic [3:0] ClassLoadB = 4'd11;
  localparam logic [3:0] ClassLoadSaved = 4'd12;

  function automatic logic [3:0] class_of(input logic [5:0] op);
    case (op)
      tw_isa_pkg::StageOpIadd, tw_isa_pkg::StageOpIsub, tw_isa_pkg::StageOpIrsub,
      tw_isa_pkg::StageOpImul, tw_isa_pkg::StageOpImax, tw_isa_pkg::StageOpImin,
      tw_isa_pkg::StageOpIdiv, tw_isa_pkg::StageOpIridiv, tw_isa_pkg::StageOpIshr,
      tw_isa_pkg::StageOpIand, tw_isa_pkg::StageOpIor, tw_isa_pkg::StageOpIxor:
      class_of = ClassInt;
      tw_isa_pkg::StageOpFadd, tw_isa_pkg::StageOpFsub, tw_isa_pkg::StageOpFrsub,
      tw_isa_pkg::StageOpFmul, tw_isa_pkg::StageOpFdiv, tw_isa_pkg::StageOpFrdiv,
      tw_isa_pkg::StageOpFmax, tw_isa_pkg::StageOpFmin:
      class_of = ClassFloat;
      tw_isa_pkg::StageOpFfma: class_of = ClassFma;
      tw_isa_pkg::StageOpFfmaB: class_of = ClassFmaB;
      tw_isa_pkg::StageOpFabs, tw_isa_pkg::StageOpFneg, tw_isa_pkg::StageOpFfloor,
      tw_isa_pkg::StageOpFsqrt, tw_isa_pkg::StageOpFrsqrt, tw_isa_pkg::StageOpFexp,
      tw_isa_pkg::StageOpFsigmoid, tw_isa_pkg::StageOpFtanh, tw_isa_pkg::StageOpFerf,
      tw_isa_pkg::StageOpFlog:
      class_of = ClassFunction;
      tw_isa_pkg::StageOpI2f: class_of = ClassToFloat;
      tw_isa_pkg::StageOpF2i, tw_isa_pkg::StageOpF2iTrunc: class_of = ClassToInt;
      tw_isa_pkg::StageOpQuantize: class_of = ClassQuantize;
      tw_isa_pkg::StageOpDequantize: class_of = ClassDequantize;
      tw_isa_pkg::StageOpSave: class_of = ClassSave;
      tw_isa_pkg::StageOpLoadB: class_of = ClassLoadB;
      tw_isa_pkg::StageOpLoadSaved: class_of = ClassLoadSaved;
      default: class_of = ClassPlain;
    endcase
  endfunction

  function automatic logic exists(input logic [2:0] memory);
    exists = memory != tw_isa_pkg::MemoryScratchpad1 || HasScratchpad1;
  endfunction
  function automatic logic is_scratchpad(input logic [2:0] memory);
    is_scratchpad = memory != tw_isa_pkg::MemoryAccumulator && exists(memory);
  endfunction
  function automatic logic is_float(input logic [2:0] vector_type);
    is_float = vector_type == tw_isa_pkg::VectorTypeF32 ||
        vector_type == tw_isa_pkg::VectorTypeBf16;
  endfunction
  // Low bits of an address that are 0 for an element of the type.
  function automatic logic [1:0] mask_of(input logic [2:0] vector_type);
    case (vector_type)
      tw_isa_pkg::VectorTypeI8, tw_isa_pkg::VectorTypeU8: mask_of = 2'b00;
      tw_isa_pkg::VectorTypeBf16: mask_of = 2'b01;
      default: mask_of = 2'b11;
    endcase
  endfunction
  function automatic logic is_zero_point(input logic [8:0] value, input logic is_int,
                                         input logic is_signed);
    if (!is_int) is_zero_point = value == '0;
    else if (is_signed) is_zero_point = value[8] == value[7];
    else is_zero_point = !value[8];
  endfunction
  function automatic logic is_vector_zero_point(input logic [8:0] value,
                                                input logic [2:0] vector_type);
    is_vector_zero_point = is_zero_point(value,
        vector_type == tw_isa_pkg::VectorTypeI8 || vector_type == tw_isa_pkg::VectorTypeU8,
        vector_type == tw_isa_pkg::VectorTypeI8);
  endfunction

  tw_isa_pkg::header_t header;
  assign header = words_i[$bits(header)-1:0];

  // Bits from num_levels on.
  logic [Levels-1:0] beyond;
  assign beyond = {Levels{1'b1}} << header.num_levels;

  always_comb begin
    levels_o = '0;
    if (valid_i) begin
      for (int w = 1; w <= OperandWords; w++) begin
        if (tw_isa_pkg::operand_words(header.opcode) == 4'(w)) begin
          levels_o = words_i[WordBits*w+:Levels*LevelBits];
        end
      end
    end
  end

  // Of all levels together: strides that are not 0, and the low bits of the strides. A level's wrap
  // may have any value.
  /* verilator lint_off UNUSEDSIGNAL */
  tw_isa_pkg::level_t level;
  /* verilator lint_on UNUSEDSIGNAL */
  logic any_a, any_c, any_d, levels_bad;
  logic [1:0] low_a, low_b, low_c, low_d;
  always_comb begin
    level = '0;
    any_a = 1'b0;
    any_c = 1'b0;
    any_d = 1'b0;
    levels_bad = 1'b0;
    low_a = '0;
    low_b = '0;
    low_c = '0;
    low_d = '0;
    if (valid_i) begin
      for (int i = 0; i < Levels; i++) begin
        level = levels_o[LevelBits*i+:LevelBits];
        if (!beyond[i]) begin
          if (level.count == '0) levels_bad = 1'b1;
          if (level.stride_a != '0) any_a = 1'b1;
          if (level.stride_c != '0) any_c = 1'b1;
          if (level.stride_d != '0) any_d = 1'b1;
          low_a = low_a | level.stride_a[1:0];
          low_b = low_b | level.stride_b[1:0];
          low_c = low_c | level.stride_c[1:0];
          low_d = low_d | level.stride_d[1:0];
        end else if (i % 2 == 1 && header.num_levels == 3'(i) && level != '0) begin
          // The other half of the last word.
          levels_bad = 1'b1;
        end
      end
    end
  end

  // A machine may have all that a field can name: then a comparison is constant.
  /* verilator lint_off CMPCONST */

  // Header, levels and edges.
  logic header_bad, encoded;
  logic [3:0] units;
  logic [2:0] extents;
  always_comb begin
    header_bad = 1'b0;
    encoded = 1'b0;
    units = 4'd1;
    extents = '0;
    engine_o = 4'(tw_pkg::EngineSequencer);
    if (valid_i) begin
      case (header.opcode)
        tw_isa_pkg::OpcodeHalt: encoded = tw_isa_pkg::is_halt_encoding(words_i[WordBits-1:0]);
        tw_isa_pkg::OpcodeLoop: encoded = tw_isa_pkg::is_loop_encoding(words_i[WordBits-1:0]);
        tw_isa_pkg::OpcodeLoad: begin
          encoded = tw_isa_pkg::is_load_encoding(words_i[3*WordBits-1:0]);
          units = 4'(tw_machine_pkg::LoadEngines);
          extents = 3'd5;
          engine_o = 4'(tw_pkg::EngineLoad0) + 4'(header.unit);
        end
        tw_isa_pkg::OpcodeStore: begin
          encoded = tw_isa_pkg::is_store_encoding(words_i[3*WordBits-1:0]);
          units = 4'(tw_machine_pkg::StoreEngines);
          extents = 3'd5;
          engine_o = 4'(tw_pkg::EngineStore0) + 4'(header.unit);
        end
        tw_isa_pkg::OpcodePreload: begin
          encoded = tw_isa_pkg::is_preload_encoding(words_i[WordBits-1:0]);
          engine_o = 4'(tw_pkg::EnginePreload);
        end
        tw_isa_pkg::OpcodeTensor: begin
          encoded = tw_isa_pkg::is_tensor_encoding(words_i[2*WordBits-1:0]);
          extents = 3'd3;
          engine_o = 4'(tw_pkg::EngineTensor);
        end
        tw_isa_pkg::OpcodeVector: begin
          encoded = tw_isa_pkg::is_vector_encoding(words_i[5*WordBits-1:0]);
          extents = 3'd4;
          engine_o = 4'(tw_pkg::EngineVector);
        end
        default: begin
        end
      endcase
      if (4'(header.unit) >= units) header_bad = 1'b1;
      for (int i = 0; i < tw_isa_pkg::MaxWaits; i++) begin
        if (header.wait_count[i] != '0 &&
            (32'(header.wait_semaphore[i]) >= tw_machine_pkg::Semaphores ||
            32'(header.wait_count[i]) > tw_machine_pkg::SemaphoreMax)) header_bad = 1'b1;
      end
      for (int i = 0; i < tw_isa_pkg::MaxPosts; i++) begin
        if (header.post_count[i] != '0 &&
            (32'(header.post_semaphore[i]) >= tw_machine_pkg::Semaphores ||
            32'(header.post_count[i]) > tw_machine_pkg::SemaphoreMax)) header_bad = 1'b1;
      end
      if (((header.wait_mask | header.post_mask | header.predicate_mask) & beyond) != '0) begin
        header_bad = 1'b1;
      end
      for (int e = 0; e < 2; e++) begin
        if (header.edge_value[e] != '0 &&
            (header.edge_level[e] >= header.num_levels || header.edge_index[e] >= extents)) begin
          header_bad = 1'b1;
        end
      end
      if (levels_bad) header_bad = 1'b1;
    end
  end

  // Operands. Views of the whole instruction: not every field is looked at.
  /* verilator lint_off UNUSEDSIGNAL */
  tw_isa_pkg::header_t plain;
  tw_isa_pkg::loop_t loop;
  tw_isa_pkg::load_t load;
  tw_isa_pkg::store_t store;
  tw_isa_pkg::preload_t preload;
  tw_isa_pkg::tensor_t tensor;
  tw_isa_pkg::vector_t vector;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [1:0] mask;
  logic bad;
  always_comb begin
    plain = '0;
    loop = '0;
    load = '0;
    store = '0;
    preload = '0;
    tensor = '0;
    mask = '0;
    bad = 1'b0;
    if (valid_i) begin
      case (header.opcode)
        tw_isa_pkg::OpcodeHalt, tw_isa_pkg::OpcodeLoop: begin
          // Nothing in the header is for the sequencer.
          plain = header;
          plain.opcode = tw_isa_pkg::OpcodeHalt;
          plain.words = '0;
          if (plain != '0) bad = 1'b1;
          loop = words_i[$bits(loop)-1:0];
          if (header.opcode == tw_isa_pkg::OpcodeLoop &&
              (loop.count == '0 || loop.body_words == '0 ||
               32'(loop.body_words) > tw_machine_pkg::LoopBufferWords)) bad = 1'b1;
        end
        tw_isa_pkg::OpcodeLoad: begin
          load = words_i[$bits(load)-1:0];
          mask = {load.element_log2[1], load.element_log2 != '0};
          if (!is_scratchpad(load.memory) || load.span == '0) bad = 1'b1;
          if (((load.dram_address[1:0] | load.address[1:0]) & mask) != '0) bad = 1'b1;
          for (int d = 0; d < 4; d++) begin
            if (((load.dram_strides[d][1:0] | load.strides[d][1:0]) & mask) != '0) bad = 1'b1;
          end
          for (int d = 0; d < 5; d++) begin
            if (load.counts[d] == '0 || 20'(load.low[d]) + 20'(load.high[d]) > load.counts[d]) begin
              bad = 1'b1;
            end
          end
          if (((low_a | low_b) & mask) != '0 || any_c || any_d) bad = 1'b1;
          if (!mask[1] && load.fill[31:16] != '0) bad = 1'b1;
          if (!mask[0] && load.fill[15:8] != '0) bad = 1'b1;
        end
        tw_isa_pkg::OpcodeStore: begin
          store = words_i[$bits(store)-1:0];
          mask = {store.element_log2[1], store.element_log2 != '0};
          if (!is_scratchpad(store.memory) || store.span == '0) bad = 1'b1;
          if (((store.dram_address[1:0] | store.address[1:0]) & mask) != '0) bad = 1'b1;
          for (int d = 0; d < 4; d++) begin
            if (((store.dram_strides[d][1:0] | store.strides[d][1:0]) & mask) != '0) bad = 1'b1;
          end
          for (int d = 0; d < 5; d++) begin
            if (store.counts[d] == '0) bad = 1'b1;
          end
          if (((low_a | low_b) & mask) != '0 || any_c || any_d) bad = 1'b1;
        end
        tw_isa_pkg::OpcodePreload: begin
          preload = words_i[$bits(preload)-1:0];
          mask = ArrayMask;
          if (!is_scratchpad(preload.memory) || preload.span == '0) bad = 1'b1;
          if (preload.k_count == '0 || 32'(preload.k_count) > tw_machine_pkg::Rows) bad = 1'b1;
          if (preload.n_count == '0 || 32'(preload.n_count) > tw_machine_pkg::Cols) bad = 1'b1;
          if (((preload.address[1:0] | preload.row_stride[1:0]) & mask) != '0) bad = 1'b1;
          if ((low_b & mask) != '0 || any_a || any_c || any_d) bad = 1'b1;
          if (!IntArray && preload.is_signed) bad = 1'b1;
          if (!is_zero_point(preload.zero_point, IntArray, preload.is_signed)) bad = 1'b1;
        end
        tw_isa_pkg::OpcodeTensor: begin
          tensor = words_i[$bits(tensor)-1:0];
          mask = ArrayMask;
          if (!is_scratchpad(tensor.memory) || tensor.span == '0 || tensor.acc_span == '0) begin
            bad = 1'b1;
          end
          if (tensor.k_count == '0 || 32'(tensor.k_count) > tw_machine_pkg::Rows) bad = 1'b1;
          if ((tensor.address[1:0] & mask) != '0) bad = 1'b1;
          for (int d = 0; d < 3; d++) begin
            if (tensor.counts[d] == '0 || (tensor.strides[d][1:0] & mask) != '0) bad = 1'b1;
          end
          if ((low_b & mask) != '0 || any_a || any_d) bad = 1'b1;
          if ((tensor.clear_mask & beyond) != '0) bad = 1'b1;
          if (!IntArray && tensor.is_signed) bad = 1'b1;
          if (!is_zero_point(tensor.zero_point, IntArray, tensor.is_signed)) bad = 1'b1;
        end
        default: begin
        end
      endcase
    end
  end

  // Vector instructions: operands, then the domains along the chain.
  logic vector_bad, mac, reduces, x_float, b_float, saved_float, has_b, is_imm;
  logic [3:0] stage_class;
  logic [5:0] operand, imm;
  logic [1:0] mask_a, mask_b, mask_d;
  always_comb begin
    vector = '0;
    vector_bad = 1'b0;
    mac = 1'b0;
    reduces = 1'b0;
    x_float = 1'b0;
    b_float = 1'b0;
    saved_float = 1'b0;
    has_b = 1'b0;
    is_imm = 1'b0;
    stage_class = ClassPlain;
    operand = '0;
    imm = '0;
    mask_a = '0;
    mask_b = '0;
    mask_d = '0;
    if (valid_i && header.opcode == tw_isa_pkg::OpcodeVector) begin
      vector = words_i[$bits(vector)-1:0];
      mac = vector.window_op == tw_isa_pkg::WindowOpMac;
      reduces = vector.window_op == tw_isa_pkg::WindowOpMax ||
          vector.window_op == tw_isa_pkg::WindowOpSum ||
          vector.window_op == tw_isa_pkg::WindowOpSumSquares;
      mask_a = mask_of(vector.a_type);
      mask_b = mask_of(vector.b_type);
      mask_d = mask_of(vector.d_type);
      for (int d = 0; d < 4; d++) begin
        if (vector.counts[d] == '0) vector_bad = 1'b1;
        if ((vector.a_strides[d][1:0] & mask_a) != '0) vector_bad = 1'b1;
        if ((vector.d_strides[d][1:0] & mask_d) != '0) vector_bad = 1'b1;
        if (vector.b_enable && (vector.b_strides[d][1:0] & mask_b) != '0) vector_bad = 1'b1;
      end
      for (int d = 0; d < 2; d++) begin
        if (vector.window[d] == '0) vector_bad = 1'b1;
        if (vector.window_op == tw_isa_pkg::WindowOpNone && vector.window[d] != 12'd1) begin
          vector_bad = 1'b1;
        end
        if ((vector.a_window_strides[d][1:0] & mask_a) != '0) vector_bad = 1'b1;
      end
      // Sources, parameters and destination.
      if (!exists(vector.a_memory) || vector.a_span == '0 ||
          (vector.a_address[1:0] & mask_a) != '0 ||
          (low_b & mask_a) != '0) vector_bad = 1'b1;
      if (!is_vector_zero_point(vector.a_zero_point, vector.a_type)) vector_bad = 1'b1;
      if (!exists(vector.d_memory) || vector.d_span == '0 ||
          (vector.d_address[1:0] & mask_d) != '0 ||
          (low_d & mask_d) != '0) vector_bad = 1'b1;
      if (vector.b_enable) begin
        if (!exists(vector.b_memory) || vector.b_span == '0 ||
            ((vector.b_address[1:0] | vector.b_tap_stride[1:0]) & mask_b) != '0 ||
            (low_c & mask_b) != '0) vector_bad = 1'b1;
        if (!is_vector_zero_point(vector.b_zero_point, vector.b_type)) vector_bad = 1'b1;
      end else if (any_c) begin
        vector_bad = 1'b1;
      end
      if (vector.p_count != '0) begin
        if (!exists(vector.p_memory) || vector.p_span == '0 || vector.p_address[1:0] != '0 ||
            (low_a & 2'b11) != '0) vector_bad = 1'b1;
      end else if (any_a) begin
        vector_bad = 1'b1;
      end
      // Window.
      if (mac && (!vector.b_enable || is_float(vector.a_type) != is_float(vector.b_type) ||
          vector.b_convert != tw_isa_pkg::ConversionNone ||
          24'(vector.window[0]) * 24'(vector.window[1]) > 24'(tw_isa_pkg::MaxMacTaps))) begin
        vector_bad = 1'b1;
      end
      if (vector.lane_reduce ? !reduces : vector.tail_lanes != '0) vector_bad = 1'b1;
      if (32'(vector.tail_lanes) > tw_machine_pkg::Lanes) vector_bad = 1'b1;
      if (vector.window_step != '0 && 27'($signed(vector.a_strides[0])) !=
          27'($signed(vector.a_window_strides[0])) * 27'($signed({1'b0, vector.window_step}))) begin
        vector_bad = 1'b1;
      end
      // Chain.
      if (32'(vector.num_stages) > tw_machine_pkg::VectorStages) vector_bad = 1'b1;
      has_b = vector.b_enable && !mac;
      b_float = vector.b_convert != tw_isa_pkg::ConversionNone || is_float(vector.b_type);
      x_float = is_float(vector.a_type);
      saved_float = x_float;
      for (int s = 0; s < Stages; s++) begin
        operand = vector.stage_operand[s];
        if (4'(s) >= vector.num_stages) begin
          if (vector.stage_op[s] != tw_isa_pkg::StageOpNop ||
              operand != tw_isa_pkg::StageOperandNone) begin
            vector_bad = 1'b1;
          end
        end else begin
          stage_class = class_of(vector.stage_op[s]);
          is_imm = operand >= tw_isa_pkg::StageOperandImm0;
          imm = operand - tw_isa_pkg::StageOperandImm0;
          case (stage_class)
            ClassInt, ClassFloat: begin
              if (x_float != (stage_class == ClassFloat)) vector_bad = 1'b1;
              if (operand == tw_isa_pkg::StageOperandNone) vector_bad = 1'b1;
              if (operand == tw_isa_pkg::StageOperandB && (!has_b ||
                  b_float != (stage_class == ClassFloat))) begin
                vector_bad = 1'b1;
              end
              if (operand == tw_isa_pkg::StageOperandSaved &&
                  saved_float != (stage_class == ClassFloat)) begin
                vector_bad = 1'b1;
              end
              if (operand >= tw_isa_pkg::StageOperandP0 && operand <= tw_isa_pkg::StageOperandP3 &&
                  operand - tw_isa_pkg::StageOperandP0 >= 6'(vector.p_count)) vector_bad = 1'b1;
            end
            ClassFma, ClassDequantize: begin
              if (x_float != (stage_class == ClassFma)) vector_bad = 1'b1;
              if (!is_imm || 32'(imm) + 32'd2 > tw_isa_pkg::MaxImmediates) vector_bad = 1'b1;
              x_float = 1'b1;
            end
            ClassFmaB, ClassQuantize: begin
              if (!x_float) vector_bad = 1'b1;
              if (!is_imm || 32'(imm) + 32'd1 > tw_isa_pkg::MaxImmediates) vector_bad = 1'b1;
              if (stage_class == ClassFmaB) begin
                if (!has_b || !b_float) vector_bad = 1'b1;
              end else begin
                x_float = 1'b0;
              end
            end
            default: begin
              if (operand != tw_isa_pkg::StageOperandNone) vector_bad = 1'b1;
              case (stage_class)
                ClassFunction: if (!x_float) vector_bad = 1'b1;
                ClassToFloat: begin
                  if (x_float) vector_bad = 1'b1;
                  x_float = 1'b1;
                end
                ClassToInt: begin
                  if (!x_float) vector_bad = 1'b1;
                  x_float = 1'b0;
                end
                ClassSave: saved_float = x_float;
                ClassLoadB: begin
                  if (!has_b) vector_bad = 1'b1;
                  x_float = b_float;
                end
                ClassLoadSaved: x_float = saved_float;
                default: begin
                end
              endcase
            end
          endcase
        end
      end
      if (x_float != is_float(vector.d_type)) vector_bad = 1'b1;
    end
  end

  /* verilator lint_on CMPCONST */

  assign illegal_o = valid_i && (!encoded || header_bad || bad || vector_bad);

endmodule
