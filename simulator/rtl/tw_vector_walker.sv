// Walks blocks, rows, outputs and taps of one vector instruction: every cycle one position, with
// the addresses of its reads and of the result.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timing: start_i in cycle s, positions in s + 1, s + 2, ... without a gap. Per block: p_count
// parameters, for mac the weights in tap order; per row: the columns of its first window that no
// output reads (vertical outer); per output: its taps (vertical outer), B beside the last tap or,
// where one bank holds A and B, in a cycle of its own. ready_o: no instruction, or this is its last
// position. All outputs but ready_o mean something only while active_o.
module tw_vector_walker (
  input  logic                clk_i,
  input  logic                rst_ni,
  input  logic                start_i,
  /* verilator lint_off UNUSEDSIGNAL */ // The stages take their own part of the instruction.
  input  tw_isa_pkg::vector_t operands_i,
  /* verilator lint_on UNUSEDSIGNAL */
  output logic                ready_o,

  output logic                active_o,       // this cycle handles a position
  output logic                last_o,         // the instruction's last one
  output logic                tap_o,          // a tap of A is read
  output logic [27:0]         a_address_o,
  output logic                b_o,            // B, a parameter or a weight is read
  output logic [2:0]          b_memory_o,
  output logic [27:0]         b_address_o,

  output logic                use_o,          // the tap belongs to this output, not to a fill
  output logic                first_o,        // it is the first that is read for its output
  output logic [1:0]          old_o,          // so many taps before it come from registers
  output logic                keep_o,         // it goes to the reuse registers
  output logic [1:0]          row_o,          // its window row, for reuse
  output logic                edge_o,         // it lies in the last column of the window
  output logic [7:0]          tap_index_o,    // its number, or that of the weight that is read
  output logic                weight_o,       // a weight is read
  output logic                param_o,        // a parameter is read
  output logic [1:0]          param_index_o,
  output logic                emit_o,         // the output's last position
  output logic [27:0]         d_address_o,    // where it goes

  // The instruction, stable while its positions are handled.
  output logic [2:0]          a_memory_o,
  output logic [2:0]          a_type_o,
  output logic [8:0]          a_zero_point_o,
  output logic [2:0]          b_type_o,
  output logic [8:0]          b_zero_point_o,
  output logic [1:0]          b_convert_o,
  output logic [31:0]         b_scale_o,
  output logic [2:0]          d_memory_o,
  output logic [2:0]          d_type_o,
  output logic [2:0]          window_op_o,
  output logic                lane_reduce_o,
  output logic [8:0]          tail_lanes_o
);

  localparam logic [27:0] ParamBytes = 28'(tw_machine_pkg::Lanes * 4);
  // Reuse registers hold so many columns and rows.
  localparam logic [11:0] ReuseTaps = 12'd3;
  localparam int unsigned Banks1 =
      tw_machine_pkg::ScratchpadBanks1 == 0 ? 1 : tw_machine_pkg::ScratchpadBanks1;
  localparam int unsigned Bytes1 =
      tw_machine_pkg::ScratchpadBytes1 == 0 ? 1 : tw_machine_pkg::ScratchpadBytes1;
  localparam int unsigned BankShift0 =
      $clog2(tw_machine_pkg::ScratchpadBytes0 / tw_machine_pkg::ScratchpadBanks0);
  localparam int unsigned BankShift1 = $clog2(Bytes1 / Banks1);
  localparam int unsigned BankShiftAcc =
      $clog2(tw_machine_pkg::AccumulatorBytes / tw_machine_pkg::AccumulatorBanks);

  function automatic logic [27:0] extend(input logic [23:0] stride);
    extend = {{4{stride[23]}}, stride};
  endfunction

  // Bank of an address within its memory. A span may end behind the 28 bits of an address.
  function automatic logic [28:0] bank_of(input logic [2:0] memory, input logic [28:0] address);
    case (memory)
      tw_isa_pkg::MemoryScratchpad0: bank_of = address >> BankShift0;
      tw_isa_pkg::MemoryScratchpad1: bank_of = address >> BankShift1;
      default: bank_of = address >> BankShiftAcc;
    endcase
  endfunction

  // The sequence of one instruction.
  localparam logic [2:0] Idle = 3'd0;
  localparam logic [2:0] Params = 3'd1;
  localparam logic [2:0] Weights = 3'd2;
  localparam logic [2:0] Fill = 3'd3;
  localparam logic [2:0] Taps = 3'd4;
  localparam logic [2:0] OnlyB = 3'd5;
  logic [2:0] state_q, state_d;

  // ------------------------------------------------------------------------------------------
  // The shape, found in the cycle of the start
  // ------------------------------------------------------------------------------------------
  logic [11:0] kw_new, kh_new, columns_new;
  logic        mac_new, reads_b_new, reuse_new, share_new;
  logic [1:0]  old_new;
  logic [27:0] hop_new, skip_new;
  logic [2:0]  scale_index;
  logic [255:0] immediates;

  always_comb begin
    kw_new = operands_i.window[0];
    kh_new = operands_i.window[1];
    mac_new = 1'b0;
    reads_b_new = 1'b0;
    reuse_new = 1'b0;
    share_new = 1'b0;
    old_new = 2'd0;
    columns_new = kw_new;
    hop_new = '0;
    skip_new = '0;
    if (start_i) begin
      mac_new = operands_i.window_op == tw_isa_pkg::WindowOpMac;
      reads_b_new = operands_i.b_enable && !mac_new;
      reuse_new = operands_i.window_op != tw_isa_pkg::WindowOpNone &&
                  operands_i.window_step != 3'd0 && kw_new <= ReuseTaps && kh_new <= ReuseTaps;
      if (reuse_new && {9'd0, operands_i.window_step} < kw_new)
        old_new = 2'(kw_new - {9'd0, operands_i.window_step});
      columns_new = kw_new - {10'd0, old_new};
      hop_new = extend(operands_i.a_window_strides[0]);
      // Bytes from a window to the first tap that is new in it.
      if (old_new == 2'd1) skip_new = hop_new;
      if (old_new == 2'd2) skip_new = hop_new << 1;
      share_new = reads_b_new && operands_i.b_memory == operands_i.a_memory &&
          bank_of(operands_i.a_memory, {1'b0, operands_i.a_address}) <=
          bank_of(operands_i.a_memory,
                  {1'b0, operands_i.b_address} + {1'b0, operands_i.b_span} - 29'd1) &&
          bank_of(operands_i.a_memory, {1'b0, operands_i.b_address}) <=
          bank_of(operands_i.a_memory,
                  {1'b0, operands_i.a_address} + {1'b0, operands_i.a_span} - 29'd1);
    end
  end
  assign scale_index = operands_i.b_scale;
  assign immediates = operands_i.immediates;

  logic [27:0] a_strides_q [4];
  logic [27:0] b_strides_q [4];
  logic [27:0] d_strides_q [4];
  logic [27:0] a_hop_q, a_drop_q, skip_q, b_hop_q;
  logic [15:0] counts_q [3];                  // less one
  logic [11:0] last_row_q, last_column_q;     // of the window
  logic [11:0] last_new_q;                    // new columns less one
  logic [1:0]  old_q;
  logic [2:0]  p_count_q;
  logic        mac_q, reads_b_q, reuse_q, share_q;
  logic [2:0]  b_only_memory_q, p_memory_q;

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      a_strides_q[0] <= extend(operands_i.a_strides[0]);
      a_strides_q[1] <= extend(operands_i.a_strides[1]);
      a_strides_q[2] <= extend(operands_i.a_strides[2]);
      a_strides_q[3] <= extend(operands_i.a_strides[3]);
      b_strides_q[0] <= extend(operands_i.b_strides[0]);
      b_strides_q[1] <= extend(operands_i.b_strides[1]);
      b_strides_q[2] <= extend(operands_i.b_strides[2]);
      b_strides_q[3] <= extend(operands_i.b_strides[3]);
      d_strides_q[0] <= extend(operands_i.d_strides[0]);
      d_strides_q[1] <= extend(operands_i.d_strides[1]);
      d_strides_q[2] <= extend(operands_i.d_strides[2]);
      d_strides_q[3] <= extend(operands_i.d_strides[3]);
      a_hop_q <= hop_new;
      a_drop_q <= extend(operands_i.a_window_strides[1]);
      b_hop_q <= extend(operands_i.b_tap_stride);
      skip_q <= skip_new;
      counts_q[0] <= operands_i.counts[0] - 16'd1;
      counts_q[1] <= operands_i.counts[1] - 16'd1;
      counts_q[2] <= operands_i.counts[2] - 16'd1;
      last_row_q <= kh_new - 12'd1;
      last_column_q <= kw_new - 12'd1;
      last_new_q <= columns_new - 12'd1;
      old_q <= old_new;
      p_count_q <= operands_i.p_count;
      mac_q <= mac_new;
      reads_b_q <= reads_b_new;
      reuse_q <= reuse_new;
      share_q <= share_new;
      b_only_memory_q <= operands_i.b_memory;
      p_memory_q <= operands_i.p_memory;
      a_memory_o <= operands_i.a_memory;
      a_type_o <= operands_i.a_type;
      a_zero_point_o <= operands_i.a_zero_point;
      b_type_o <= operands_i.b_type;
      b_zero_point_o <= operands_i.b_zero_point;
      b_convert_o <= mac_new ? tw_isa_pkg::ConversionNone : operands_i.b_convert;
      b_scale_o <= immediates[32 * scale_index +: 32];
      d_memory_o <= operands_i.d_memory;
      d_type_o <= operands_i.d_type;
      window_op_o <= operands_i.window_op;
      lane_reduce_o <= operands_i.lane_reduce;
      tail_lanes_o <= operands_i.tail_lanes;
    end
  end

  // ------------------------------------------------------------------------------------------
  // Where this position stands
  // ------------------------------------------------------------------------------------------
  logic [15:0] i_q [4];                       // outputs, rows, planes, blocks that follow
  logic [11:0] h_q, v_q;                      // columns and rows of the window that follow
  logic [1:0]  row_q;                         // window row, counted up
  logic        first_q;                       // no tap of this output was read yet
  logic        line_q;                        // nor of this window row
  logic [7:0]  tap_q;
  logic [1:0]  param_q;
  logic        scan_end, out_end, row_end, plane_end, block_end;
  logic        params_done, params_end, setup_end, enter_block, enter_row, enter_setup;

  assign scan_end = h_q == 12'd0 && v_q == 12'd0;
  assign out_end = (state_q == Taps && scan_end && !share_q) || state_q == OnlyB;
  assign row_end = out_end && i_q[0] == 16'd0;
  assign plane_end = row_end && i_q[1] == 16'd0;
  assign block_end = plane_end && i_q[2] == 16'd0;
  assign last_o = block_end && i_q[3] == 16'd0;
  assign params_done = state_q == Params && {1'b0, param_q} + 3'd1 == p_count_q;
  assign params_end = params_done && mac_q;
  assign setup_end = (params_done && !mac_q) || (state_q == Weights && scan_end);
  assign enter_block = start_i || (block_end && !last_o);
  // A block without set-up begins with its first row.
  assign enter_setup =
      start_i ? operands_i.p_count != 3'd0 || mac_new : p_count_q != 3'd0 || mac_q;
  assign enter_row = setup_end || (enter_block && !enter_setup) || (row_end && !block_end);

  assign active_o = state_q != Idle;
  assign ready_o = !active_o || last_o;

  always_comb begin
    state_d = state_q;
    if (last_o) state_d = Idle;
    if (params_end) state_d = Weights;
    if ((state_q == Fill && scan_end) || state_q == OnlyB) state_d = last_o ? Idle : Taps;
    if (state_q == Taps && scan_end && share_q) state_d = OnlyB;
    if (enter_block) begin
      if (start_i) state_d = operands_i.p_count != 3'd0 ? Params : Weights;
      else state_d = p_count_q != 3'd0 ? Params : Weights;
    end
    if (enter_row) state_d = (start_i ? old_new : old_q) != 2'd0 ? Fill : Taps;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) state_q <= Idle;
    else if (start_i || active_o) state_q <= state_d;
  end

  // Bases of the block, plane, row, output, window row and tap.
  logic [27:0] a_block_q, a_plane_q, a_row_q, a_out_q, a_line_q, a_tap_q;
  logic [27:0] b_block_q, b_plane_q, b_row_q, b_out_q;
  logic [27:0] d_block_q, d_plane_q, d_row_q, d_out_q;
  logic [27:0] p_q, w_q;
  // The base that begins after this position, if one does.
  logic [27:0] a_base, b_base, d_base;
  logic [27:0] a_window;

  always_comb begin
    a_base = a_row_q;
    b_base = b_row_q;
    d_base = d_row_q;
    if (start_i) begin
      a_base = operands_i.a_address;
      b_base = operands_i.b_address;
      d_base = operands_i.d_address;
    end else if (block_end) begin
      a_base = a_block_q + a_strides_q[3];
      b_base = b_block_q + b_strides_q[3];
      d_base = d_block_q + d_strides_q[3];
    end else if (plane_end) begin
      a_base = a_plane_q + a_strides_q[2];
      b_base = b_plane_q + b_strides_q[2];
      d_base = d_plane_q + d_strides_q[2];
    end else if (row_end) begin
      a_base = a_row_q + a_strides_q[1];
      b_base = b_row_q + b_strides_q[1];
      d_base = d_row_q + d_strides_q[1];
    end
    // The first tap that the next output reads.
    a_window = a_out_q;
    if (enter_row) a_window = a_base + (start_i ? skip_new : skip_q);
    else if (out_end) a_window = a_out_q + a_strides_q[0];
  end

  always_ff @(posedge clk_i) begin
    if (start_i || active_o) begin
      if (enter_block) begin
        a_block_q <= a_base;
        b_block_q <= b_base;
        d_block_q <= d_base;
        w_q <= b_base;
        param_q <= 2'd0;
        i_q[2] <= start_i ? operands_i.counts[2] - 16'd1 : counts_q[2];
        i_q[3] <= start_i ? operands_i.counts[3] - 16'd1 : i_q[3] - 16'd1;
      end
      if (start_i) p_q <= operands_i.p_address;
      if (enter_block || plane_end) begin
        a_plane_q <= a_base;
        b_plane_q <= b_base;
        d_plane_q <= d_base;
        i_q[1] <= start_i ? operands_i.counts[1] - 16'd1 : counts_q[1];
        if (plane_end && !block_end) i_q[2] <= i_q[2] - 16'd1;
      end
      if (enter_block || row_end) begin
        a_row_q <= a_base;
        b_row_q <= b_base;
        d_row_q <= d_base;
        if (row_end && !plane_end) i_q[1] <= i_q[1] - 16'd1;
      end

      if (enter_row) begin
        a_out_q <= a_window;
        b_out_q <= b_base;
        d_out_q <= d_base;
        i_q[0] <= start_i ? operands_i.counts[0] - 16'd1 : counts_q[0];
      end else if (out_end) begin
        a_out_q <= a_window;
        b_out_q <= b_out_q + b_strides_q[0];
        d_out_q <= d_out_q + d_strides_q[0];
        i_q[0] <= i_q[0] - 16'd1;
      end

      if ((enter_block && enter_setup) || params_end) begin
        // Weights, if there are any.
        h_q <= start_i ? kw_new - 12'd1 : last_column_q;
        v_q <= start_i ? kh_new - 12'd1 : last_row_q;
        tap_q <= 8'd0;
      end else if (enter_row && (start_i ? old_new : old_q) != 2'd0) begin
        // The columns that no output of the row reads.
        a_line_q <= a_base;
        a_tap_q <= a_base;
        h_q <= {10'd0, start_i ? old_new : old_q} - 12'd1;
        v_q <= start_i ? kh_new - 12'd1 : last_row_q;
        row_q <= 2'd0;
      end else if (enter_row || out_end || (state_q == Fill && scan_end)) begin
        a_line_q <= a_window;
        a_tap_q <= a_window;
        h_q <= start_i ? columns_new - 12'd1 : last_new_q;
        v_q <= start_i ? kh_new - 12'd1 : last_row_q;
        row_q <= 2'd0;
        tap_q <= {6'd0, start_i ? old_new : old_q};
        first_q <= 1'b1;
        line_q <= 1'b1;
      end else if (h_q != 12'd0) begin
        a_tap_q <= a_tap_q + a_hop_q;
        h_q <= h_q - 12'd1;
        tap_q <= tap_q + 8'd1;
        first_q <= 1'b0;
        line_q <= 1'b0;
      end else begin
        a_line_q <= a_line_q + a_drop_q;
        a_tap_q <= a_line_q + a_drop_q;
        h_q <= state_q == Weights ? last_column_q :
               state_q == Fill ? {10'd0, old_q} - 12'd1 : last_new_q;
        v_q <= v_q - 12'd1;
        row_q <= row_q + 2'd1;
        tap_q <= tap_q + 8'd1 + (state_q == Weights ? 8'd0 : {6'd0, old_q});
        first_q <= 1'b0;
        line_q <= 1'b1;
      end
      if (state_q == Params && !enter_block) begin
        p_q <= p_q + ParamBytes;
        param_q <= param_q + 2'd1;
      end
      if (state_q == Weights && !enter_block) w_q <= w_q + b_hop_q;
    end
  end

  // ------------------------------------------------------------------------------------------
  // What it does
  // ------------------------------------------------------------------------------------------
  assign tap_o = state_q == Fill || state_q == Taps;
  assign a_address_o = a_tap_q;
  assign use_o = state_q == Taps;
  assign first_o = first_q;
  assign old_o = line_q ? old_q : 2'd0;
  assign keep_o = reuse_q && old_q != 2'd0;
  assign row_o = row_q;
  assign edge_o = state_q == Taps && h_q == 12'd0;
  assign tap_index_o = tap_q;
  assign weight_o = state_q == Weights;
  assign param_o = state_q == Params;
  assign param_index_o = param_q;
  assign emit_o = out_end;
  assign d_address_o = d_out_q;
  assign b_o = param_o || weight_o || (reads_b_q && out_end);
  assign b_memory_o = param_o ? p_memory_q : b_only_memory_q;
  assign b_address_o = param_o ? p_q : weight_o ? w_q : b_out_q;

endmodule
