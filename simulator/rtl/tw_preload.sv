// The preload engine: copies a weight tile from a scratchpad to the array's shadow registers.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A step reads up to PreloadRows stored rows of the tile; each becomes a row of the array, or, for
// a transposed tile, a column. Weights leave as the array keeps them (tw_mac_column): zero point
// subtracted, 0 outside the tile.
//
// Timing contract: started in s, step p is handled in cycle i + 1 with i = s + p: it reads there,
// has its data in i + 2 and writes the shadow registers at the end of cycle i + PreloadDrainCycles.
// ready_o in the cycle of the last step, retire_o PreloadDrainCycles later.
module tw_preload #(
    localparam int unsigned P = tw_machine_pkg::PreloadRows,
    localparam int unsigned ReadBits = tw_pkg::RowBytes * 8,
    localparam int unsigned Side =
        tw_machine_pkg::Rows > tw_machine_pkg::Cols ? tw_machine_pkg::Rows : tw_machine_pkg::Cols,
    localparam int unsigned WeightBits =
        tw_machine_pkg::ArrayType == tw_pkg::ArrayInt8 ? 16 : tw_pkg::ElementBytes * 8
) (
    input  logic                            clk_i,
    input  logic                            rst_ni,
    input  logic                            start_i,
    input  tw_isa_pkg::preload_t            operands_i,
    output logic                            ready_o,
    output logic                            retire_o,
    output logic [P-1:0]                    rd_valid_o,
    output tw_isa_pkg::memory_e             rd_memory_o,
    output logic [P*28-1:0]                 rd_address_o,
    input  logic [P*ReadBits-1:0]           rd_data_i,
    output logic                            shadow_write_o,
    output logic                            shadow_first_o,      // all other weights become 0
    output logic                            shadow_transpose_o,  // columns, not rows
    output logic [P-1:0]                    shadow_valid_o,
    output logic [9:0]                      shadow_index_o,      // row or column of the first one
    output logic [P*Side*WeightBits-1:0]    shadow_data_o
);

  localparam int unsigned Drain = tw_machine_pkg::PreloadDrainCycles;
  localparam int unsigned ElementBits = tw_pkg::ElementBytes * 8;
  localparam int unsigned WriteBits = 12 + P + P * Side * WeightBits;

  if (Drain < 2) begin : gen_bad_drain
    $error("a weight needs two cycles from its scratchpad to its register");
  end

  // The header was used before the start.
  /* verilator lint_off UNUSEDSIGNAL */
  tw_isa_pkg::preload_t operands_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic        busy_q;
  logic [27:0] address_q;
  logic [9:0]  index_q;   // stored rows before this step
  logic [9:0]  stored;    // stored rows of the tile
  logic [27:0] stride;
  logic        last;

  assign stored = {1'b0, operands_q.transpose ? operands_q.n_count : operands_q.k_count};
  assign stride = {{4{operands_q.row_stride[23]}}, operands_q.row_stride};
  assign last = index_q + 10'(P) >= stored;
  assign ready_o = !busy_q || last;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) busy_q <= 1'b0;
    else if (start_i) busy_q <= 1'b1;
    else if (last) busy_q <= 1'b0;

    if (start_i) begin
      operands_q <= operands_i;
      address_q <= operands_i.address;
      index_q <= '0;
    end else if (busy_q) begin
      address_q <= address_q + 28'(P) * stride;
      index_q <= index_q + 10'(P);
    end
  end

  assign rd_memory_o = operands_q.memory;
  for (genvar j = 0; j < P; j++) begin : gen_rd
    assign rd_valid_o[j] = busy_q && index_q + 10'(j) < stored;
    assign rd_address_o[28*j +: 28] = address_q + 28'(j) * stride;
  end

  // Steps in the cycles behind the one that reads, and those that are the last of an instruction.
  logic [Drain-1:0] step_q, last_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      step_q <= '0;
      last_q <= '0;
    end else begin
      step_q <= {step_q[Drain-2:0], busy_q};
      last_q <= {last_q[Drain-2:0], busy_q && last};
    end
  end
  assign retire_o = last_q[Drain-1];

  // The step whose data have arrived.
  logic [P-1:0] valid_q;
  logic         first_q, transpose_q, is_signed_q;
  logic [9:0]   data_index_q;
  logic [8:0]   elements_q, zero_point_q;
  always_ff @(posedge clk_i) begin
    if (busy_q) begin
      valid_q <= rd_valid_o;
      first_q <= index_q == '0;
      transpose_q <= operands_q.transpose;
      is_signed_q <= operands_q.is_signed;
      data_index_q <= index_q;
      elements_q <= operands_q.transpose ? operands_q.k_count : operands_q.n_count;
      zero_point_q <= operands_q.zero_point;
    end
  end

  // Weights of one stored row of `elements` elements.
  function automatic logic [Side*WeightBits-1:0] weights_of(
      input logic [Side*ElementBits-1:0] row, input logic [8:0] elements, input logic is_signed,
      input logic [8:0] zero_point);
    weights_of = '0;
    for (int unsigned k = 0; k < Side; k++) begin
      if (9'(k) < elements) begin
        if (tw_machine_pkg::ArrayType == tw_pkg::ArrayInt8) begin
          weights_of[WeightBits*k +: WeightBits] =
              {{(WeightBits - 8){is_signed && row[ElementBits*k+7]}}, row[ElementBits*k +: 8]} -
              {{(WeightBits - 9){zero_point[8]}}, zero_point};
        end else begin
          weights_of[WeightBits*k +: ElementBits] = row[ElementBits*k +: ElementBits];
        end
      end
    end
  endfunction

  logic [P*Side*WeightBits-1:0] data;
  for (genvar j = 0; j < P; j++) begin : gen_weights
    always_comb begin
      data[Side*WeightBits*j +: Side*WeightBits] = '0;
      if (step_q[0] && valid_q[j]) begin
        data[Side*WeightBits*j +: Side*WeightBits] = weights_of(
            rd_data_i[ReadBits*j +: Side*ElementBits], elements_q, is_signed_q, zero_point_q);
      end
    end
  end

  if (ReadBits > Side * ElementBits) begin : gen_unused
    for (genvar j = 0; j < P; j++) begin : gen_port
      logic unused;
      assign unused = ^rd_data_i[ReadBits*j+Side*ElementBits +: ReadBits-Side*ElementBits];
    end
  end

  tw_pipe #(.Width(WriteBits), .Stages(Drain - 2)) u_delay (
      .clk_i,
      .valid_i(step_q[(Drain > 2 ? Drain - 3 : 0):0]),
      .data_i({data_index_q, transpose_q, first_q, valid_q, data}),
      .data_o({shadow_index_o, shadow_transpose_o, shadow_first_o, shadow_valid_o, shadow_data_o})
  );
  assign shadow_write_o = step_q[Drain-2];

endmodule
