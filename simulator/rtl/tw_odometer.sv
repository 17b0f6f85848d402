// What an instruction in a loop does this time: its addresses, extents, waits and posts, and the
// odometer's next state.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: combinational; nothing is evaluated while valid_i is 0. The instruction is a legal one.
// Besides a counter every level has one modulo its wrap, so that no division is needed.
module tw_odometer (
    input  logic                              valid_i,
    input  logic [5*tw_isa_pkg::WordBits-1:0] operands_i,
    input  logic [tw_isa_pkg::MaxLevels*tw_isa_pkg::LevelBits-1:0] levels_i,
    // Counters, level 0 lowest: 16 bits each; above them the wrapped ones, 8 bits each.
    input  logic [tw_isa_pkg::MaxLevels*24-1:0] state_i,
    output logic [tw_isa_pkg::MaxLevels*24-1:0] state_o,
    // 0: its predicate drops it.
    output logic                              runs_o,
    // Waits are made, posts are made.
    output logic                              waits_o,
    output logic                              posts_o,
    // The instruction of this execution, addresses cut to their fields, header as it was.
    output logic [5*tw_isa_pkg::WordBits-1:0] operands_o,
    // Its addresses in full; signed, and zero where the instruction has none. First to fourth
    // address as the strides of a level count them.
    output logic [63:0]                       address_a_o,
    output logic [63:0]                       address_b_o,
    output logic [63:0]                       address_c_o,
    output logic [63:0]                       address_d_o
);

  localparam int unsigned Levels = tw_isa_pkg::MaxLevels;
  localparam int unsigned LevelBits = tw_isa_pkg::LevelBits;
  // Widths of address fields: DRAM, on-chip bytes, accumulator rows.
  localparam int unsigned DramBits = 40;
  localparam int unsigned AddressBits = 28;
  localparam int unsigned RowBits = 20;

  // Not every field is looked at.
  /* verilator lint_off UNUSEDSIGNAL */
  tw_isa_pkg::header_t header;
  /* verilator lint_on UNUSEDSIGNAL */
  assign header = operands_i[$bits(header)-1:0];

  // By level; of levels that the instruction has not got, both hold.
  logic [Levels-1:0] first, last;
  logic [Levels*16-1:0] counter_up;
  logic [Levels*8-1:0] wrapped_up;
  // What the levels add to the addresses.
  logic [63:0] sum_a, sum_b, sum_c, sum_d;

  function automatic logic [63:0] times(input logic signed [31:0] stride, input logic [15:0] turns);
    times = 64'(stride) * 64'($signed({1'b0, turns}));
  endfunction

  // Every level in turn.
  tw_isa_pkg::level_t level;
  logic [15:0] counter, turns;
  logic [7:0] wrapped;
  always_comb begin
    level = '0;
    counter = '0;
    wrapped = '0;
    turns = '0;
    first = '1;
    last = '1;
    counter_up = '0;
    wrapped_up = '0;
    sum_a = '0;
    sum_b = '0;
    sum_c = '0;
    sum_d = '0;
    if (valid_i) begin
      for (int i = 0; i < Levels; i++) begin
        if (32'(header.num_levels) > 32'(i)) begin
          level = levels_i[LevelBits*i+:LevelBits];
          counter = state_i[16*i+:16];
          wrapped = state_i[16*Levels+8*i+:8];
          turns = level.wrap == '0 ? counter : 16'(wrapped);
          first[i] = counter == '0;
          last[i] = 17'(counter) + 17'd1 >= 17'(level.count);
          counter_up[16*i+:16] = counter + 16'd1;
          wrapped_up[8*i+:8] = wrapped + 8'd1 == level.wrap ? '0 : wrapped + 8'd1;
          sum_a = sum_a + times($signed(level.stride_a), turns);
          sum_b = sum_b + times(32'($signed(level.stride_b)), turns);
          sum_c = sum_c + times(32'($signed(level.stride_c)), turns);
          sum_d = sum_d + times(32'($signed(level.stride_d)), turns);
        end
      end
    end
  end

  // Level 0 turns with every execution, the next one when it is through.
  logic [Levels*16-1:0] counters;
  logic [Levels*8-1:0] wrappeds;
  logic turning;
  always_comb begin
    counters = state_i[16*Levels-1:0];
    wrappeds = state_i[24*Levels-1:16*Levels];
    turning = 1'b1;
    if (valid_i) begin
      for (int i = 0; i < Levels; i++) begin
        if (turning) begin
          counters[16*i+:16] = last[i] ? 16'd0 : counter_up[16*i+:16];
          wrappeds[8*i+:8] = last[i] ? 8'd0 : wrapped_up[8*i+:8];
        end
        if (!last[i]) turning = 1'b0;
      end
    end
  end
  assign state_o = {wrappeds, counters};

  function automatic logic holds(input logic [Levels-1:0] of_level, input logic [Levels-1:0] mask);
    holds = (of_level | ~mask) == '1;
  endfunction

  assign waits_o = holds(first, header.wait_mask);
  assign posts_o = holds(last, header.post_mask);
  always_comb begin
    case (header.predicate)
      tw_isa_pkg::PredicateFirst: runs_o = holds(first, header.predicate_mask);
      tw_isa_pkg::PredicateNotFirst: runs_o = !holds(first, header.predicate_mask);
      tw_isa_pkg::PredicateLast: runs_o = holds(last, header.predicate_mask);
      tw_isa_pkg::PredicateNotLast: runs_o = !holds(last, header.predicate_mask);
      default: runs_o = 1'b1;
    endcase
  end

  // Both edges: whether it applies now.
  logic [1:0] edge_now;
  always_comb begin
    edge_now = '0;
    if (valid_i) begin
      for (int e = 0; e < 2; e++) begin
        for (int i = 0; i < Levels; i++) begin
          if (header.edge_value[e] != '0 && header.edge_level[e] == 3'(i) && last[i]) begin
            edge_now[e] = 1'b1;
          end
        end
      end
    end
  end

  tw_isa_pkg::load_t load;
  tw_isa_pkg::store_t store;
  tw_isa_pkg::preload_t preload;
  tw_isa_pkg::tensor_t tensor;
  tw_isa_pkg::vector_t vector;
  always_comb begin
    address_a_o = '0;
    address_b_o = '0;
    address_c_o = '0;
    address_d_o = '0;
    load = '0;
    store = '0;
    preload = '0;
    tensor = '0;
    vector = '0;
    operands_o = '0;
    if (valid_i) begin
      case (header.opcode)
        tw_isa_pkg::OpcodeLoad: begin
          load = operands_i[$bits(load)-1:0];
          address_a_o = 64'(load.dram_address) + sum_a;
          address_b_o = 64'(load.address) + sum_b;
          load.dram_address = DramBits'(address_a_o);
          load.address = AddressBits'(address_b_o);
          for (int e = 0; e < 2; e++) begin
            for (int d = 0; d < 5; d++) begin
              if (edge_now[e] && header.edge_index[e] == 3'(d)) begin
                load.counts[d] = 20'(header.edge_value[e]);
              end
            end
          end
          operands_o[$bits(load)-1:0] = load;
        end
        tw_isa_pkg::OpcodeStore: begin
          store = operands_i[$bits(store)-1:0];
          address_a_o = 64'(store.dram_address) + sum_a;
          address_b_o = 64'(store.address) + sum_b;
          store.dram_address = DramBits'(address_a_o);
          store.address = AddressBits'(address_b_o);
          for (int e = 0; e < 2; e++) begin
            for (int d = 0; d < 5; d++) begin
              if (edge_now[e] && header.edge_index[e] == 3'(d)) begin
                store.counts[d] = 20'(header.edge_value[e]);
              end
            end
          end
          operands_o[$bits(store)-1:0] = store;
        end
        tw_isa_pkg::OpcodePreload: begin
          preload = operands_i[$bits(preload)-1:0];
          address_b_o = 64'(preload.address) + sum_b;
          preload.address = AddressBits'(address_b_o);
          operands_o[$bits(preload)-1:0] = preload;
        end
        tw_isa_pkg::OpcodeTensor: begin
          tensor = operands_i[$bits(tensor)-1:0];
          address_b_o = 64'(tensor.address) + sum_b;
          address_c_o = 64'(tensor.acc_address) + sum_c;
          tensor.address = AddressBits'(address_b_o);
          tensor.acc_address = RowBits'(address_c_o);
          if (tensor.clear_mask != '0) tensor.accumulate = !holds(first, tensor.clear_mask);
          tensor.clear_mask = '0;
          for (int e = 0; e < 2; e++) begin
            for (int d = 0; d < 3; d++) begin
              if (edge_now[e] && header.edge_index[e] == 3'(d)) begin
                tensor.counts[d] = header.edge_value[e];
              end
            end
          end
          operands_o[$bits(tensor)-1:0] = tensor;
        end
        tw_isa_pkg::OpcodeVector: begin
          vector = operands_i[$bits(vector)-1:0];
          address_a_o = 64'(vector.p_address) + sum_a;
          address_b_o = 64'(vector.a_address) + sum_b;
          address_c_o = 64'(vector.b_address) + sum_c;
          address_d_o = 64'(vector.d_address) + sum_d;
          vector.p_address = AddressBits'(address_a_o);
          vector.a_address = AddressBits'(address_b_o);
          vector.b_address = AddressBits'(address_c_o);
          vector.d_address = AddressBits'(address_d_o);
          for (int e = 0; e < 2; e++) begin
            for (int d = 0; d < 4; d++) begin
              if (edge_now[e] && header.edge_index[e] == 3'(d)) begin
                vector.counts[d] = header.edge_value[e];
              end
            end
          end
          operands_o = vector;
        end
        default: begin
        end
      endcase
    end
  end

endmodule
