// An on-chip memory: a crossbar from the engines' ports to banks with one read and one write port.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An access covers RowBytes bytes from any byte address of the memory on, so it touches two
// neighbouring rows. Instructions own whole banks, so two accesses never meet in a bank, except that
// the second row of a read, which may not be wanted at all, can lie in a bank that another
// instruction owns: there the owner's read wins, and the bytes that the other read gets from that
// row are undefined. A write touches only rows with bytes in its mask.
//
// Timing contract: rd_data_o in cycle t + 1 belongs to rd_address_i of cycle t, byte 0 is the byte
// at the address, bytes behind the memory's end are 0, all bytes are 0 after a cycle without
// rd_valid_i. What is written in t is read from t + 1 on; a read in t itself sees the old bytes.
module tw_memory #(
    parameter int unsigned Bytes = 262144,
    parameter int unsigned Banks = 16,
    parameter int unsigned RowBytes = 64,
    parameter int unsigned ReadPorts = 1,
    parameter int unsigned WritePorts = 1,
    localparam int unsigned RowBits = RowBytes * 8
) (
    input  logic                            clk_i,
    input  logic                            rst_ni,
    input  logic [ReadPorts-1:0]            rd_valid_i,
    input  logic [ReadPorts*28-1:0]         rd_address_i,
    output logic [ReadPorts*RowBits-1:0]    rd_data_o,
    input  logic [WritePorts-1:0]           wr_valid_i,
    input  logic [WritePorts*28-1:0]        wr_address_i,
    input  logic [WritePorts*RowBits-1:0]   wr_data_i,
    input  logic [WritePorts*RowBytes-1:0]  wr_mask_i
);

  localparam int unsigned OffsetBits = $clog2(RowBytes);
  localparam int unsigned RowNumberBits = 28 - OffsetBits + 1;  // counts one row more
  localparam int unsigned Pairs = Bytes / Banks / RowBytes / 2; // of one bank
  localparam int unsigned PairBits = Pairs > 1 ? $clog2(Pairs) : 1;
  localparam int unsigned BankBits = Banks > 1 ? $clog2(Banks) : 1;
  localparam int unsigned PortBits = WritePorts > 1 ? $clog2(WritePorts) : 1;

  if (RowBytes != (1 << OffsetBits) || Pairs == 0 || Pairs * Banks * RowBytes * 2 != Bytes)
  begin : gen_bad_size
    $error("a bank must hold a whole number of pairs of rows, and a row 2^n bytes");
  end

  // Which bank's array is accessed, and where.
  logic [Banks-1:0]          even_read, odd_read, even_write, odd_write;
  logic [Banks*PairBits-1:0] even_read_pair, odd_read_pair, even_write_pair, odd_write_pair;
  logic [Banks*PortBits-1:0] even_write_port, odd_write_port;
  // What each port writes to a row of either kind.
  logic [WritePorts*RowBits-1:0]  even_write_data, odd_write_data;
  logic [WritePorts*RowBytes-1:0] even_write_mask, odd_write_mask;
  // Last read of each bank.
  logic [Banks*RowBits-1:0] even_data, odd_data;
  // Two ports want one port of a bank.
  logic read_collision, write_collision;

  // Row of a byte address.
  function automatic logic [RowNumberBits-1:0] row_of(input logic [27:0] address);
    row_of = RowNumberBits'(address >> OffsetBits);
  endfunction

  // Bank of a row; Banks and more: behind the memory's end.
  function automatic logic [RowNumberBits-1:0] bank_of(input logic [RowNumberBits-1:0] row);
    bank_of = row / RowNumberBits'(2 * Pairs);
  endfunction

  // Where a row's pair lies in its bank.
  function automatic logic [PairBits-1:0] pair_of(input logic [RowNumberBits-1:0] row);
    pair_of = PairBits'((row >> 1) % RowNumberBits'(Pairs));
  endfunction

  // --------------------------------------------------------------------------------------------
  // Routing
  // --------------------------------------------------------------------------------------------

  // Second rows in another bank than the first row go first: whatever else reads there overrides
  // them.
  always_comb begin : route_reads
    logic [RowNumberBits-1:0] first;
    logic [RowNumberBits-1:0] second;
    logic [BankBits-1:0] bank;
    even_read = '0;
    odd_read = '0;
    even_read_pair = '0;
    odd_read_pair = '0;
    read_collision = 1'b0;
    first = '0;
    second = '0;
    bank = '0;
    if (|rd_valid_i) begin
      for (int unsigned p = 0; p < ReadPorts; p++) begin
        // The first row of a bank is even.
        second = row_of(rd_address_i[28*p +: 28]) + 1'b1;
        bank = BankBits'(bank_of(second));
        if (rd_valid_i[p] && second % RowNumberBits'(2 * Pairs) == '0 &&
            bank_of(second) < RowNumberBits'(Banks)) begin
          even_read[bank] = 1'b1;
          even_read_pair[PairBits*bank +: PairBits] = '0;
        end
      end
      for (int unsigned p = 0; p < ReadPorts; p++) begin
        first = row_of(rd_address_i[28*p +: 28]);
        second = first + 1'b1;
        bank = BankBits'(bank_of(first));
        if (rd_valid_i[p]) begin
          odd_read[bank] = 1'b1;
          odd_read_pair[PairBits*bank +: PairBits] = pair_of(first);
          if (!first[0]) begin
            even_read[bank] = 1'b1;
            even_read_pair[PairBits*bank +: PairBits] = pair_of(first);
          end else if (bank_of(second) == bank_of(first)) begin
            even_read[bank] = 1'b1;
            even_read_pair[PairBits*bank +: PairBits] = pair_of(second);
          end
          for (int unsigned q = 0; q < p; q++) begin
            if (rd_valid_i[q] && bank_of(row_of(rd_address_i[28*q +: 28])) == bank_of(first))
              read_collision = 1'b1;
          end
        end
      end
    end
  end

  always_comb begin : route_writes
    logic [RowNumberBits-1:0] row;
    logic [BankBits-1:0] bank;
    logic odd_wanted;
    logic even_wanted;
    even_write = '0;
    odd_write = '0;
    even_write_pair = '0;
    odd_write_pair = '0;
    even_write_port = '0;
    odd_write_port = '0;
    write_collision = 1'b0;
    row = '0;
    bank = '0;
    odd_wanted = 1'b0;
    even_wanted = 1'b0;
    if (|wr_valid_i) begin
      for (int unsigned p = 0; p < WritePorts; p++) begin
        if (wr_valid_i[p]) begin
          odd_wanted = |odd_write_mask[RowBytes*p +: RowBytes];
          even_wanted = |even_write_mask[RowBytes*p +: RowBytes];
          // The port's even row: its first row or the one behind it.
          row = row_of(wr_address_i[28*p +: 28]);
          row = row + {{(RowNumberBits - 1){1'b0}}, row[0]};
          bank = BankBits'(bank_of(row));
          if (even_wanted && bank_of(row) < RowNumberBits'(Banks)) begin
            write_collision = write_collision | even_write[bank];
            even_write[bank] = 1'b1;
            even_write_pair[PairBits*bank +: PairBits] = pair_of(row);
            even_write_port[PortBits*bank +: PortBits] = PortBits'(p);
          end
          // Its odd row.
          row = row_of(wr_address_i[28*p +: 28]) | {{(RowNumberBits - 1){1'b0}}, 1'b1};
          bank = BankBits'(bank_of(row));
          if (odd_wanted && bank_of(row) < RowNumberBits'(Banks)) begin
            write_collision = write_collision | odd_write[bank];
            odd_write[bank] = 1'b1;
            odd_write_pair[PairBits*bank +: PairBits] = pair_of(row);
            odd_write_port[PortBits*bank +: PortBits] = PortBits'(p);
          end
        end
      end
    end
  end

`ifdef VERILATOR
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!read_collision) else $error("two reads meet in one bank");
      assert (!write_collision) else $error("two writes meet in one bank");
    end
  end
`endif

  // --------------------------------------------------------------------------------------------
  // Data
  // --------------------------------------------------------------------------------------------

  for (genvar p = 0; p < WritePorts; p++) begin : gen_write
    always_comb begin : align
      logic [2*RowBits-1:0] data;
      logic [2*RowBytes-1:0] mask;
      logic [OffsetBits-1:0] offset;
      logic first_is_odd;
      data = '0;
      mask = '0;
      offset = wr_address_i[28*p +: OffsetBits];
      first_is_odd = wr_address_i[28*p+OffsetBits];
      even_write_data[RowBits*p +: RowBits] = '0;
      odd_write_data[RowBits*p +: RowBits] = '0;
      even_write_mask[RowBytes*p +: RowBytes] = '0;
      odd_write_mask[RowBytes*p +: RowBytes] = '0;
      if (wr_valid_i[p]) begin
        if (offset == '0) begin
          data[RowBits-1:0] = wr_data_i[RowBits*p +: RowBits];
          mask[RowBytes-1:0] = wr_mask_i[RowBytes*p +: RowBytes];
        end else begin
          data = {{RowBits{1'b0}}, wr_data_i[RowBits*p +: RowBits]} << {offset, 3'd0};
          mask = {{RowBytes{1'b0}}, wr_mask_i[RowBytes*p +: RowBytes]} << offset;
        end
        if (first_is_odd) begin
          odd_write_data[RowBits*p +: RowBits] = data[RowBits-1:0];
          odd_write_mask[RowBytes*p +: RowBytes] = mask[RowBytes-1:0];
          even_write_data[RowBits*p +: RowBits] = data[2*RowBits-1:RowBits];
          even_write_mask[RowBytes*p +: RowBytes] = mask[2*RowBytes-1:RowBytes];
        end else begin
          even_write_data[RowBits*p +: RowBits] = data[RowBits-1:0];
          even_write_mask[RowBytes*p +: RowBytes] = mask[RowBytes-1:0];
          odd_write_data[RowBits*p +: RowBits] = data[2*RowBits-1:RowBits];
          odd_write_mask[RowBytes*p +: RowBytes] = mask[2*RowBytes-1:RowBytes];
        end
      end
    end
  end

  for (genvar p = 0; p < ReadPorts; p++) begin : gen_read
    logic valid_q;
    logic [27:0] address_q;

    always_ff @(posedge clk_i) begin
      if (!rst_ni) valid_q <= 1'b0;
      else valid_q <= rd_valid_i[p];
      if (rd_valid_i[p]) address_q <= rd_address_i[28*p +: 28];
    end

    always_comb begin : align
      logic [RowNumberBits-1:0] first;
      logic [RowNumberBits-1:0] second;
      logic [RowBits-1:0] low;
      logic [RowBits-1:0] high;
      logic [BankBits-1:0] bank;
      first = '0;
      second = '0;
      low = '0;
      high = '0;
      bank = '0;
      rd_data_o[RowBits*p +: RowBits] = '0;
      if (valid_q) begin
        first = row_of(address_q);
        second = first + 1'b1;
        bank = BankBits'(bank_of(first));
        low = first[0] ? odd_data[RowBits*bank +: RowBits] : even_data[RowBits*bank +: RowBits];
        if (address_q[OffsetBits-1:0] == '0) begin
          rd_data_o[RowBits*p +: RowBits] = low;
        end else begin
          bank = BankBits'(bank_of(second));
          if (bank_of(second) < RowNumberBits'(Banks))
            high = second[0] ? odd_data[RowBits*bank +: RowBits]
                             : even_data[RowBits*bank +: RowBits];
          rd_data_o[RowBits*p +: RowBits] =
              RowBits'({high, low} >> {address_q[OffsetBits-1:0], 3'd0});
        end
      end
    end
  end

  // --------------------------------------------------------------------------------------------
  // Banks
  // --------------------------------------------------------------------------------------------

  for (genvar b = 0; b < Banks; b++) begin : gen_bank
    tw_bank #(
        .RowBytes(RowBytes),
        .Pairs(Pairs),
        .WritePorts(WritePorts)
    ) u_bank (
        .clk_i,
        .even_read_i(even_read[b]),
        .even_read_pair_i(even_read_pair[PairBits*b +: PairBits]),
        .even_data_o(even_data[RowBits*b +: RowBits]),
        .odd_read_i(odd_read[b]),
        .odd_read_pair_i(odd_read_pair[PairBits*b +: PairBits]),
        .odd_data_o(odd_data[RowBits*b +: RowBits]),
        .even_write_i(even_write[b]),
        .even_write_pair_i(even_write_pair[PairBits*b +: PairBits]),
        .even_write_port_i(even_write_port[PortBits*b +: PortBits]),
        .even_write_data_i(even_write_data),
        .even_write_mask_i(even_write_mask),
        .odd_write_i(odd_write[b]),
        .odd_write_pair_i(odd_write_pair[PairBits*b +: PairBits]),
        .odd_write_port_i(odd_write_port[PortBits*b +: PortBits]),
        .odd_write_data_i(odd_write_data),
        .odd_write_mask_i(odd_write_mask)
    );
  end

endmodule
