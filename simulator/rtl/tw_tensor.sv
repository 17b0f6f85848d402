// The tensor engine: streams activation vectors through the MAC array into the accumulator.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One position per cycle: an activation vector is read, converted (zero point subtracted, 0 from
// k_count on), multiplied with the active weights of every column at once, and its sums are written
// to a row of the accumulator or added to it. The array has two sets of weights: a preload writes
// the shadow set through shadow_*, an instruction with `swap` makes it the active one.
//
// Timing contract: started in s, position p is handled in cycle i + 1 with i = s + p. Its
// activations are asked for in i + 1, arrive in i + 2 and are at the multipliers in i + 1 +
// TensorReadCycles; the accumulator row is asked for in i + Drain - AccRmw + 1 and written at the
// end of i + Drain, where Drain is tensor_drain of docs/timing.md. A swap becomes visible in s + 1
// + TensorReadCycles, when the first position is at the multipliers, and takes the shadow weights
// as they are at the end of the cycle before. ready_o in the cycle of the last position, retire_o
// Drain later.
module tw_tensor #(
    localparam int unsigned P = tw_machine_pkg::PreloadRows,
    localparam int unsigned Rows = tw_machine_pkg::Rows,
    localparam int unsigned Cols = tw_machine_pkg::Cols,
    localparam int unsigned ReadBits = tw_pkg::RowBytes * 8,
    localparam int unsigned AccBits = tw_pkg::AccRowBytes * 8,
    localparam int unsigned Side = Rows > Cols ? Rows : Cols,
    localparam bit IsInteger = tw_machine_pkg::ArrayType == tw_pkg::ArrayInt8,
    localparam int unsigned WeightBits = IsInteger ? 16 : tw_pkg::ElementBytes * 8
) (
    input  logic                            clk_i,
    input  logic                            rst_ni,
    input  logic                            start_i,
    input  tw_isa_pkg::tensor_t             operands_i,
    output logic                            ready_o,
    output logic                            retire_o,
    output logic                            rd_valid_o,
    output tw_isa_pkg::memory_e             rd_memory_o,
    output logic [27:0]                     rd_address_o,
    input  logic [ReadBits-1:0]             rd_data_i,
    output logic                            acc_rd_valid_o,
    output logic [27:0]                     acc_rd_address_o,   // bytes
    input  logic [AccBits-1:0]              acc_rd_data_i,
    output logic                            acc_wr_valid_o,
    output logic [27:0]                     acc_wr_address_o,
    output logic [AccBits-1:0]              acc_wr_data_o,
    input  logic                            shadow_write_i,
    input  logic                            shadow_first_i,
    input  logic                            shadow_transpose_i,
    input  logic [P-1:0]                    shadow_valid_i,
    input  logic [9:0]                      shadow_index_i,
    input  logic [P*Side*WeightBits-1:0]    shadow_data_i
);

  localparam int unsigned ReadCycles = tw_machine_pkg::TensorReadCycles;
  localparam int unsigned MultiplyCycles = IsInteger ? tw_machine_pkg::TensorMultiplyIntCycles
                                                     : tw_machine_pkg::TensorMultiplyFloatCycles;
  localparam int unsigned AddCycles =
      IsInteger ? tw_machine_pkg::TensorAddIntCycles : tw_machine_pkg::TensorAddFloatCycles;
  localparam int unsigned AccCycles =
      IsInteger ? tw_machine_pkg::AccRmwIntCycles : tw_machine_pkg::AccRmwFloatCycles;
  localparam int unsigned SumCycles = MultiplyCycles + $clog2(Rows) * AddCycles;
  localparam int unsigned Drain = ReadCycles + SumCycles + AccCycles;
  localparam int unsigned ColumnCycles = IsInteger ? 1 : SumCycles;

  // Cycles behind i, the index of `valid`.
  localparam int unsigned AtMultipliers = ReadCycles + 1;
  localparam int unsigned AtColumnSum = AtMultipliers + ColumnCycles;
  localparam int unsigned AtAccRead = Drain - AccCycles + 1;
  localparam int unsigned AtAccData = AtAccRead + 1;

  if (ReadCycles < 2 || MultiplyCycles < 1 || AddCycles < 1 || AccCycles < 2)
  begin : gen_bad_latency
    $error("the array needs two cycles to read, one for a product and a sum, two to accumulate");
  end
  if (tw_machine_pkg::ShadowFreeCycles + tw_machine_pkg::PreloadDrainCycles < ReadCycles)
  begin : gen_bad_swap
    $error("a preload would overwrite the shadow weights before a swap has taken them");
  end

  // --------------------------------------------------------------------------------------------
  // Positions
  // --------------------------------------------------------------------------------------------

  // The header was used before the start.
  /* verilator lint_off UNUSEDSIGNAL */
  tw_isa_pkg::tensor_t operands_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic        busy_q;
  // Positions left along each count after this one; addresses and accumulator rows of this
  // position, of the first one of its line (counts[0]), and of its plane (counts[0] and counts[1]).
  logic [15:0] left0_q, left1_q, left2_q;
  logic [27:0] address_q, line_q, plane_q;
  logic [19:0] row_q, row_line_q, row_plane_q;
  logic        last;

  assign last = left0_q == '0 && left1_q == '0 && left2_q == '0;
  assign ready_o = !busy_q || last;

  always_ff @(posedge clk_i) begin : walk
    if (!rst_ni) busy_q <= 1'b0;
    else if (start_i) busy_q <= 1'b1;
    else if (last) busy_q <= 1'b0;

    if (start_i) begin
      operands_q <= operands_i;
      left0_q <= operands_i.counts[0] - 16'd1;
      left1_q <= operands_i.counts[1] - 16'd1;
      left2_q <= operands_i.counts[2] - 16'd1;
      address_q <= operands_i.address;
      line_q <= operands_i.address;
      plane_q <= operands_i.address;
      row_q <= operands_i.acc_address;
      row_line_q <= operands_i.acc_address;
      row_plane_q <= operands_i.acc_address;
    end else if (busy_q) begin
      if (left0_q != '0) begin
        left0_q <= left0_q - 16'd1;
        address_q <= address_q + extended(operands_q.strides[0]);
        row_q <= row_q + operands_q.acc_strides[0];
      end else if (left1_q != '0) begin
        left0_q <= operands_q.counts[0] - 16'd1;
        left1_q <= left1_q - 16'd1;
        address_q <= line_q + extended(operands_q.strides[1]);
        line_q <= line_q + extended(operands_q.strides[1]);
        row_q <= row_line_q + operands_q.acc_strides[1];
        row_line_q <= row_line_q + operands_q.acc_strides[1];
      end else begin
        left0_q <= operands_q.counts[0] - 16'd1;
        left1_q <= operands_q.counts[1] - 16'd1;
        left2_q <= left2_q - 16'd1;
        address_q <= plane_q + extended(operands_q.strides[2]);
        line_q <= plane_q + extended(operands_q.strides[2]);
        plane_q <= plane_q + extended(operands_q.strides[2]);
        row_q <= row_plane_q + operands_q.acc_strides[2];
        row_line_q <= row_plane_q + operands_q.acc_strides[2];
        row_plane_q <= row_plane_q + operands_q.acc_strides[2];
      end
    end
  end

  function automatic logic [27:0] extended(input logic [23:0] stride);
    extended = {{4{stride[23]}}, stride};
  endfunction

  // valid[k]: a position that was issued k cycles ago.
  logic [Drain+1:1] valid;
  logic [Drain+1:2] valid_q;
  logic [Drain:1] last_q; // [k]: the last position of an instruction, k + 1 cycles ago
  assign valid = {valid_q, busy_q};
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= '0;
      last_q <= '0;
    end else begin
      valid_q <= valid[Drain:1];
      last_q <= {last_q[Drain-1:1], busy_q && last};
    end
  end
  assign retire_o = last_q[Drain];

  // --------------------------------------------------------------------------------------------
  // Activations
  // --------------------------------------------------------------------------------------------

  assign rd_valid_o = busy_q;
  assign rd_memory_o = operands_q.memory;
  assign rd_address_o = address_q;

  // Of the position whose data have arrived.
  logic [8:0] elements_q, zero_point_q;
  logic       is_signed_q;
  always_ff @(posedge clk_i) begin
    if (busy_q) begin
      elements_q <= operands_q.k_count;
      zero_point_q <= operands_q.zero_point;
      is_signed_q <= operands_q.is_signed;
    end
  end

  localparam int unsigned ElementBits = tw_pkg::ElementBytes * 8;
  function automatic logic [Rows*WeightBits-1:0] activations_of(
      input logic [Rows*ElementBits-1:0] bytes, input logic [8:0] elements,
      input logic is_signed, input logic [8:0] zero_point);
    activations_of = '0;
    for (int unsigned k = 0; k < Rows; k++) begin
      if (9'(k) < elements) begin
        if (IsInteger) begin
          activations_of[WeightBits*k +: WeightBits] =
              {{(WeightBits - 8){is_signed && bytes[ElementBits*k+7]}},
               bytes[ElementBits*k +: 8]} -
              {{(WeightBits - 9){zero_point[8]}}, zero_point};
        end else begin
          activations_of[WeightBits*k +: ElementBits] = bytes[ElementBits*k +: ElementBits];
        end
      end
    end
  endfunction

  logic [Rows*WeightBits-1:0] operand_q, activations;
  always_ff @(posedge clk_i) begin
    if (valid[2])
      operand_q <= activations_of(rd_data_i[Rows*ElementBits-1:0], elements_q, is_signed_q,
                                  zero_point_q);
  end
  tw_pipe #(.Width(Rows * WeightBits), .Stages(ReadCycles - 2)) u_operand_pipe (
      .clk_i,
      .valid_i(valid[3 +: (ReadCycles > 2 ? ReadCycles - 2 : 1)]),
      .data_i(operand_q),
      .data_o(activations)
  );

  if (ReadBits > Rows * ElementBits) begin : gen_unused
    logic unused;
    assign unused = ^rd_data_i[ReadBits-1:Rows*ElementBits];
  end

  // --------------------------------------------------------------------------------------------
  // Array
  // --------------------------------------------------------------------------------------------

  // [k]: an instruction with swap was started k + 1 cycles ago.
  logic [ReadCycles-1:0] swap_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) swap_q <= '0;
    else swap_q <= {swap_q[ReadCycles-2:0], start_i && operands_i.swap};
  end

  logic [AccBits-1:0] column_sums, sums;
  for (genvar n = 0; n < Cols; n++) begin : gen_column
    tw_mac_column #(.Column(n)) u_column (
        .clk_i,
        .rst_ni,
        .shadow_write_i,
        .shadow_first_i,
        .shadow_transpose_i,
        .shadow_valid_i,
        .shadow_index_i,
        .shadow_data_i,
        .swap_i(swap_q[ReadCycles-1]),
        .valid_i(valid[AtMultipliers +: ColumnCycles]),
        .activations_i(activations),
        .sum_o(column_sums[32*n +: 32])
    );
  end

  // The rest of the integer latency, and the cycle in which the accumulator is read.
  tw_pipe #(.Width(AccBits), .Stages(AtAccData - AtColumnSum)) u_sum_pipe (
      .clk_i,
      .valid_i(valid[AtColumnSum +: AtAccData-AtColumnSum]),
      .data_i(column_sums),
      .data_o(sums)
  );

  // --------------------------------------------------------------------------------------------
  // Accumulator
  // --------------------------------------------------------------------------------------------

  // Row and whether its old value counts: of the position that reads, and of the one whose data are
  // there.
  logic [20:0] target_read, target_q;
  tw_pipe #(.Width(21), .Stages(AtAccRead - 1)) u_target_pipe (
      .clk_i,
      .valid_i(valid[AtAccRead-1:1]),
      .data_i({operands_q.accumulate, row_q}),
      .data_o(target_read)
  );
  always_ff @(posedge clk_i) if (valid[AtAccRead]) target_q <= target_read;

  assign acc_rd_valid_o = valid[AtAccRead] && target_read[20];
  assign acc_rd_address_o = 28'(target_read[19:0]) * 28'(tw_pkg::AccRowBytes);

  // New values that a read did not see: of the positions 1, 2, ... before the one whose data are
  // there, the last of which was written while it read. An instruction may begin with the row with
  // which the one before it ended.
  localparam int unsigned Unseen = AccCycles - 1;
  logic [AccBits-1:0]        total;
  logic [Unseen*AccBits-1:0] total_q;
  logic [Unseen*20-1:0]      total_row_q;
  logic [AccBits-1:0]        old;
  always_comb begin
    old = '0;
    if (valid[AtAccData] && target_q[20]) begin
      old = acc_rd_data_i;
      for (int unsigned k = Unseen; k > 0; k--) begin
        if (valid[AtAccData+k] && total_row_q[20*(k-1) +: 20] == target_q[19:0])
          old = total_q[AccBits*(k-1) +: AccBits];
      end
    end
  end
  for (genvar n = 0; n < Cols; n++) begin : gen_accumulate
    tw_acc_column u_acc_column (
        .valid_i(valid[AtAccData]),
        .accumulate_i(target_q[20]),
        .old_i(old[32*n +: 32]),
        .sum_i(sums[32*n +: 32]),
        .total_o(total[32*n +: 32])
    );
  end
  for (genvar k = 0; k < Unseen; k++) begin : gen_total
    localparam int unsigned Before = k > 0 ? k - 1 : 0;
    always_ff @(posedge clk_i) begin
      if (valid[AtAccData+k]) begin
        if (k == 0) begin
          total_q[AccBits-1:0] <= total;
          total_row_q[19:0] <= target_q[19:0];
        end else begin
          total_q[AccBits*k +: AccBits] <= total_q[AccBits*Before +: AccBits];
          total_row_q[20*k +: 20] <= total_row_q[20*Before +: 20];
        end
      end
    end
  end

  logic [19:0] row_written;
  assign acc_wr_valid_o = valid[Drain];
  assign acc_wr_address_o = 28'(row_written) * 28'(tw_pkg::AccRowBytes);
  if (AccCycles == 2) begin : gen_write_total
    assign row_written = target_q[19:0];
    assign acc_wr_data_o = total;
  end else begin : gen_write_pipe
    assign row_written = total_row_q[20*(AccCycles-3) +: 20];
    assign acc_wr_data_o = total_q[AccBits*(AccCycles-3) +: AccBits];
  end

endmodule
