// The vector engine: window, lane reduction, chain of operations and conversion over a tile.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: start_i in cycle s, position p is handled in cycle s + 1 + p: its address goes out, the
// data come in the cycle after. The pipe never stops: an output whose last position is handled in h
// passes the read, a conversion, the window, the tree over lanes, all stages and a conversion, and
// is written in h + Drain - 1. ready_o: no instruction, or its last position is handled in this
// cycle, l. retire_o: in l + Drain.
module tw_vector #(
  localparam int unsigned Width = tw_machine_pkg::Lanes * 32,
  localparam int unsigned MaskWidth = tw_machine_pkg::Lanes * 4
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 start_i,
  input  tw_isa_pkg::vector_t  operands_i,
  output logic                 ready_o,
  output logic                 retire_o,

  output logic                 a_rd_valid_o,
  output logic [2:0]           a_rd_memory_o,
  output logic [27:0]          a_rd_address_o,
  input  logic [Width-1:0]     a_rd_data_i,
  // Source B, parameters, weights.
  output logic                 b_rd_valid_o,
  output logic [2:0]           b_rd_memory_o,
  output logic [27:0]          b_rd_address_o,
  input  logic [Width-1:0]     b_rd_data_i,

  output logic                 d_wr_valid_o,
  output logic [2:0]           d_wr_memory_o,
  output logic [27:0]          d_wr_address_o,
  output logic [Width-1:0]     d_wr_data_o,
  output logic [MaskWidth-1:0] d_wr_mask_o
);

  localparam int unsigned Lanes = tw_machine_pkg::Lanes;
  localparam int unsigned Stages = tw_machine_pkg::VectorStages;
  localparam int unsigned StageCycles = tw_machine_pkg::VectorStageCycles;
  localparam int unsigned Levels = $clog2(Lanes);
  localparam int unsigned Drain =
      tw_machine_pkg::VectorBaseCycles + (Stages + 1 + Levels) * StageCycles;
  // Instructions that are in the pipe together differ in their number.
  localparam int unsigned IdBits = $clog2(Drain);
  // From the position to the window's result: address, conversion, product, sum.
  localparam int unsigned WindowAt = 4;
  // Read, conversions and write take four cycles, a window two; what a machine has more is waited.
  localparam int unsigned TreeCycles = Levels * StageCycles + StageCycles - 2;
  localparam int unsigned ExtraCycles = tw_machine_pkg::VectorBaseCycles - 4;
  // From the position to the first stage, and to the conversion behind the last one.
  localparam int unsigned StagesAt = WindowAt + TreeCycles;

`ifdef VERILATOR
  initial begin
    if (StageCycles < 2 || tw_machine_pkg::VectorBaseCycles < 4)
      $error("vector_stage_cycles must be at least 2 and vector_base_cycles at least 4");
  end
`endif

  // ------------------------------------------------------------------------------------------
  // Lanes
  // ------------------------------------------------------------------------------------------
  function automatic logic [Width-1:0] converted_in(input logic [2:0] vector_type,
                                                    input logic [Width-1:0] data,
                                                    input logic [8:0] zero_point);
    case (vector_type)
      tw_isa_pkg::VectorTypeI8, tw_isa_pkg::VectorTypeU8:
        for (int i = 0; i < Lanes; i++)
          converted_in[32*i +: 32] =
              tw_fp_pkg::convert_in(vector_type, {24'd0, data[8*i +: 8]}, zero_point);
      tw_isa_pkg::VectorTypeBf16:
        for (int i = 0; i < Lanes; i++)
          converted_in[32*i +: 32] =
              tw_fp_pkg::convert_in(vector_type, {16'd0, data[16*i +: 16]}, zero_point);
      tw_isa_pkg::VectorTypeI32:
        for (int i = 0; i < Lanes; i++)
          converted_in[32*i +: 32] =
              tw_fp_pkg::convert_in(vector_type, data[32*i +: 32], zero_point);
      default: converted_in = data;
    endcase
  endfunction

  function automatic logic [Width-1:0] floats(input logic [Width-1:0] x);
    for (int i = 0; i < Lanes; i++) floats[32*i +: 32] = tw_fp_pkg::i32_to_fp(x[32*i +: 32]);
  endfunction

  function automatic logic [Width-1:0] scaled(input logic [Width-1:0] x, input logic [31:0] scale);
    for (int i = 0; i < Lanes; i++) scaled[32*i +: 32] = tw_fp_pkg::fp_mul(x[32*i +: 32], scale);
  endfunction

  function automatic logic [Width-1:0] converted_out(input logic [2:0] vector_type,
                                                     input logic [Width-1:0] x);
    converted_out = '0;
    case (vector_type)
      tw_isa_pkg::VectorTypeI8, tw_isa_pkg::VectorTypeU8:
        for (int i = 0; i < Lanes; i++)
          converted_out[8*i +: 8] = 8'(tw_fp_pkg::convert_out(vector_type, x[32*i +: 32]));
      tw_isa_pkg::VectorTypeBf16:
        for (int i = 0; i < Lanes; i++)
          converted_out[16*i +: 16] = 16'(tw_fp_pkg::convert_out(vector_type, x[32*i +: 32]));
      tw_isa_pkg::VectorTypeF32:
        for (int i = 0; i < Lanes; i++)
          converted_out[32*i +: 32] = tw_fp_pkg::convert_out(vector_type, x[32*i +: 32]);
      default: converted_out = x;
    endcase
  endfunction

  function automatic logic [MaskWidth-1:0] bytes_of(input logic [2:0] vector_type);
    case (vector_type)
      tw_isa_pkg::VectorTypeI8, tw_isa_pkg::VectorTypeU8:
        bytes_of = {{(3 * Lanes){1'b0}}, {Lanes{1'b1}}};
      tw_isa_pkg::VectorTypeBf16: bytes_of = {{(2 * Lanes){1'b0}}, {(2 * Lanes){1'b1}}};
      default: bytes_of = '1;
    endcase
  endfunction

  // ------------------------------------------------------------------------------------------
  // Cycle h: the position
  // ------------------------------------------------------------------------------------------
  logic        active, last, tap, b_read, use_tap, first, keep, on_edge, weight, param, emit;
  logic [27:0] a_address, b_address, d_address;
  logic [1:0]  old, row, param_index, b_convert;
  logic [2:0]  a_memory, b_memory, d_memory, a_type, b_type, d_type, window_op;
  logic [7:0]  tap_index;
  logic [8:0]  a_zero_point, b_zero_point, tail_lanes;
  logic [31:0] b_scale;
  logic        lane_reduce;

  tw_vector_walker u_walker (
    .clk_i, .rst_ni, .start_i, .operands_i, .ready_o,
    .active_o(active), .last_o(last), .tap_o(tap), .a_address_o(a_address),
    .b_o(b_read), .b_memory_o(b_memory), .b_address_o(b_address),
    .use_o(use_tap), .first_o(first), .old_o(old), .keep_o(keep), .row_o(row), .edge_o(on_edge),
    .tap_index_o(tap_index), .weight_o(weight), .param_o(param), .param_index_o(param_index),
    .emit_o(emit), .d_address_o(d_address),
    .a_memory_o(a_memory), .a_type_o(a_type), .a_zero_point_o(a_zero_point),
    .b_type_o(b_type), .b_zero_point_o(b_zero_point), .b_convert_o(b_convert),
    .b_scale_o(b_scale), .d_memory_o(d_memory), .d_type_o(d_type), .window_op_o(window_op),
    .lane_reduce_o(lane_reduce), .tail_lanes_o(tail_lanes)
  );

  assign a_rd_valid_o = tap;
  assign a_rd_memory_o = a_memory;
  assign a_rd_address_o = a_address;
  assign b_rd_valid_o = b_read;
  assign b_rd_memory_o = b_memory;
  assign b_rd_address_o = b_address;

  // The number of the instruction that is handled; the next one is written where it will look.
  logic [IdBits-1:0] id_q, id_next;
  assign id_next = id_q + 1'b1;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) id_q <= '0;
    else if (start_i) id_q <= id_next;
  end

  // Retirement, Drain cycles after the last position.
  logic [Drain-1:0] last_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) last_q <= '0;
    else last_q <= {last_q[Drain-2:0], last};
  end
  assign retire_o = last_q[Drain-1];

  // ------------------------------------------------------------------------------------------
  // What goes with a position down to the stages: bit c holds what h + 1 + c sees
  // ------------------------------------------------------------------------------------------
  logic [StagesAt-1:0]          emit_q, param_q, reduce_q;
  logic [2*StagesAt-1:0]        param_index_q;
  logic [IdBits*StagesAt-1:0]   at_id_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      emit_q <= '0;
      param_q <= '0;
    end else begin
      emit_q <= {emit_q[StagesAt-2:0], emit};
      param_q <= {param_q[StagesAt-2:0], param};
    end
    reduce_q <= {reduce_q[StagesAt-2:0], lane_reduce};
    param_index_q <= {param_index_q[2*StagesAt-3:0], param_index};
    at_id_q <= {at_id_q[IdBits*(StagesAt-1)-1:0], id_q};
  end

  // ------------------------------------------------------------------------------------------
  // Cycle h + 1: data come in and are converted
  // ------------------------------------------------------------------------------------------
  typedef struct packed {
    logic        tap;
    logic        use_tap;
    logic        first;
    logic [1:0]  old;
    logic        keep;
    logic [1:0]  row;
    logic        on_edge;
    logic [7:0]  tap_index;
    logic        weight;
    logic        is_b;
    logic [2:0]  window_op;
    logic        is_float;
    logic [8:0]  tail_lanes;
    logic        to_float;                // B is an integer and becomes a float
    logic        scale_b;
    logic [31:0] b_scale;
  } position_t;
  position_t position, read_q, window_q;
  logic [2:0] a_type_q, b_type_q;
  logic [8:0] a_zero_point_q, b_zero_point_q;

  always_comb begin
    position = '0;
    if (active) begin
      position.tap = tap;
      position.use_tap = use_tap;
      position.first = first;
      position.old = old;
      position.keep = keep;
      position.row = row;
      position.on_edge = on_edge;
      position.tap_index = tap_index;
      position.weight = weight;
      position.is_b = b_read && !weight;
      position.window_op = window_op;
      position.is_float = tw_fp_pkg::is_float(a_type);
      position.tail_lanes = tail_lanes;
      position.to_float =
          !param && b_convert != tw_isa_pkg::ConversionNone && !tw_fp_pkg::is_float(b_type);
      position.scale_b = !param && b_convert == tw_isa_pkg::ConversionDequantize;
      position.b_scale = b_scale;
    end
  end

  always_ff @(posedge clk_i) begin
    read_q <= position;
    window_q <= read_q;
    if (active) begin
      a_type_q <= a_type;
      a_zero_point_q <= a_zero_point;
      // A parameter is taken as it is.
      b_type_q <= param ? tw_isa_pkg::VectorTypeF32 : b_type;
      b_zero_point_q <= b_zero_point;
    end
  end

  logic [Width-1:0] a_q, b_q;
  always_ff @(posedge clk_i) begin
    if (read_q.tap) a_q <= converted_in(a_type_q, a_rd_data_i, a_zero_point_q);
    if (read_q.is_b || read_q.weight) b_q <= converted_in(b_type_q, b_rd_data_i, b_zero_point_q);
  end

  // ------------------------------------------------------------------------------------------
  // Cycles h + 2 and h + 3: the window; beside it, B becomes a float and is scaled
  // ------------------------------------------------------------------------------------------
  logic [Width-1:0] window_x;
  tw_vector_window u_window (
    .clk_i, .rst_ni,
    .tap_i(window_q.tap), .use_i(window_q.use_tap), .first_i(window_q.first),
    .old_i(window_q.old), .keep_i(window_q.keep), .row_i(window_q.row),
    .edge_i(window_q.on_edge), .index_i(window_q.tap_index), .weight_i(window_q.weight),
    .a_i(a_q), .b_i(b_q), .op_i(window_q.window_op), .is_float_i(window_q.is_float),
    .tail_lanes_i(window_q.tail_lanes), .x_o(window_x)
  );

  logic             is_b_q, scale_b_q, scaled_valid_q, is_max_q, is_max_next_q;
  logic             is_float_q, is_float_next_q;
  logic [31:0]      b_scale_q;
  logic [Width-1:0] float_b_q, scaled_b_q;
  always_ff @(posedge clk_i) begin
    is_b_q <= window_q.is_b;
    scale_b_q <= window_q.scale_b;
    scaled_valid_q <= is_b_q;
    is_max_q <= window_q.window_op == tw_isa_pkg::WindowOpMax;
    is_max_next_q <= is_max_q;
    is_float_q <= window_q.is_float;
    is_float_next_q <= is_float_q;
    if (window_q.is_b) begin
      float_b_q <= window_q.to_float ? floats(b_q) : b_q;
      b_scale_q <= window_q.b_scale;
    end
    if (is_b_q) scaled_b_q <= scale_b_q ? scaled(float_b_q, b_scale_q) : float_b_q;
  end

  // ------------------------------------------------------------------------------------------
  // From h + 4 on: the tree over lanes, then the stages
  // ------------------------------------------------------------------------------------------
  logic [Width-1:0] tree_x, tree_b;
  tw_vector_tree #(.Cycles(TreeCycles)) u_tree (
    .clk_i, .rst_ni, .valid_i(emit_q[WindowAt-1]), .b_valid_i(scaled_valid_q),
    .reduce_i(reduce_q[WindowAt-1]), .is_max_i(is_max_next_q), .is_float_i(is_float_next_q),
    .x_i(window_x), .b_i(scaled_b_q), .x_o(tree_x), .b_o(tree_b)
  );

  // Stages that B and the saved value have to reach: one at or behind them uses them.
  localparam int unsigned OpsWidth = 6 * tw_isa_pkg::MaxStages;
  logic [OpsWidth-1:0] ops, stage_operands;
  logic [Stages:0]     needs_b, needs_saved;
  assign ops = operands_i.stage_op;
  assign stage_operands = operands_i.stage_operand;
  always_comb begin
    needs_b = '0;
    needs_saved = '0;
    if (start_i) begin
      for (int s = Stages - 1; s >= 0; s--) begin
        needs_b[s] = needs_b[s+1] || ops[6*s +: 6] == tw_isa_pkg::StageOpLoadB ||
                     ops[6*s +: 6] == tw_isa_pkg::StageOpFfmaB ||
                     stage_operands[6*s +: 6] == tw_isa_pkg::StageOperandB;
        needs_saved[s] = (needs_saved[s+1] && ops[6*s +: 6] != tw_isa_pkg::StageOpSave) ||
                         ops[6*s +: 6] == tw_isa_pkg::StageOpLoadSaved ||
                         stage_operands[6*s +: 6] == tw_isa_pkg::StageOperandSaved;
      end
    end
  end

  for (genvar s = 0; s < Stages; s++) begin : gen_stage
    logic              valid, is_param, out_valid, out_is_param;
    logic [1:0]        index, out_index;
    logic [IdBits-1:0] id, out_id;
    logic [Width-1:0]  x, b, saved, out_x, out_b, out_saved;
    if (s == 0) begin : gen_first
      assign valid = emit_q[StagesAt-1];
      assign is_param = param_q[StagesAt-1];
      assign index = param_index_q[2*(StagesAt-1) +: 2];
      assign id = at_id_q[IdBits*(StagesAt-1) +: IdBits];
      assign x = tree_x;
      assign b = tree_b;
      // Before any save, what entered the chain.
      assign saved = tree_x;
    end else begin : gen_next
      assign valid = gen_stage[s-1].out_valid;
      assign is_param = gen_stage[s-1].out_is_param;
      assign index = gen_stage[s-1].out_index;
      assign id = gen_stage[s-1].out_id;
      assign x = gen_stage[s-1].out_x;
      assign b = gen_stage[s-1].out_b;
      assign saved = gen_stage[s-1].out_saved;
    end
    tw_vector_stage #(.IdBits(IdBits)) u_stage (
      .clk_i, .rst_ni, .start_i, .start_id_i(id_next), .op_i(ops[6*s +: 6]),
      .operand_i(stage_operands[6*s +: 6]), .immediates_i(operands_i.immediates),
      .needs_b_i(needs_b[s+1]), .needs_saved_i(needs_saved[s+1]),
      .valid_i(valid), .param_i(is_param), .param_index_i(index), .id_i(id),
      .x_i(x), .b_i(b), .saved_i(saved),
      .valid_o(out_valid), .param_o(out_is_param), .param_index_o(out_index), .id_o(out_id),
      .x_o(out_x), .b_o(out_b), .saved_o(out_saved)
    );
  end
  logic unused;
  assign unused = ^{gen_stage[Stages-1].out_is_param, gen_stage[Stages-1].out_index,
                    gen_stage[Stages-1].out_id, gen_stage[Stages-1].out_b,
                    gen_stage[Stages-1].out_saved, needs_b[0], needs_saved[0]};

  // ------------------------------------------------------------------------------------------
  // Conversion and write: results leave in order, so where they go waits in a queue
  // ------------------------------------------------------------------------------------------
  logic [33:0]          places_q [1 << IdBits];   // memory, type, address
  logic [IdBits-1:0]    put_q, get_q;
  logic                 result;
  logic [2:0]           place_memory, place_type;
  logic [27:0]          place_address;
  assign result = gen_stage[Stages-1].out_valid;
  assign {place_memory, place_type, place_address} = places_q[get_q];
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      put_q <= '0;
      get_q <= '0;
    end else begin
      if (emit) put_q <= put_q + 1'b1;
      if (result) get_q <= get_q + 1'b1;
    end
    if (emit) places_q[put_q] <= {d_memory, d_type, d_address};
  end

  logic [ExtraCycles:0] written_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) written_q <= '0;
    else written_q <= (ExtraCycles + 1)'({written_q, result});
  end
  logic [Width-1:0]  data_q;
  logic [2:0]        memory_q, type_q, type_out;
  logic [27:0]       address_q;
  always_ff @(posedge clk_i) begin
    if (result) begin
      data_q <= converted_out(place_type, gen_stage[Stages-1].out_x);
      memory_q <= place_memory;
      type_q <= place_type;
      address_q <= place_address;
    end
  end
  tw_vector_delay #(.Width(Width + 34), .Cycles(ExtraCycles)) u_delay (
    .clk_i, .rst_ni, .valid_i(written_q[0]), .data_i({data_q, memory_q, type_q, address_q}),
    .data_o({d_wr_data_o, d_wr_memory_o, type_out, d_wr_address_o})
  );
  assign d_wr_valid_o = written_q[ExtraCycles];
  assign d_wr_mask_o = bytes_of(type_out);

endmodule
