// Arithmetic of the datapath on 32-bit patterns: binary32, int32, tables, the stage's ALU.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every function is combinational and gives the bits of isa/timing/FunctionTables.h and
// simulator/functional/StageOps.h: round to nearest even, subnormals kept, NaN results canonical.
//
// A sum on its way to rounding ("frame") is a 63-bit significand and a biased exponent: its value
// is sum * 2^(exponent - 127 - 61). A normal operand has its hidden bit at bit 61 there; bits that
// were shifted out are kept as a sticky bit 0. Subnormal operands need no case of their own: they
// are frames of exponent 1 without the hidden bit. Where the operands are aligned by exponents, all
// bits that the rounding looks at lie above bit 12.
//
// Of `if (c) y = f(); else y = g();` Verilator makes a choice between two values and then calls
// both functions: below, the simpler value is assigned first, and replaced where it is not meant.
package tw_fp_pkg;

  // A package offers more than one design uses, and a function looks only at some bits of a frame.
  /* verilator lint_off UNUSEDPARAM */
  /* verilator lint_off UNUSEDSIGNAL */

  parameter logic [31:0] CanonicalNan = 32'h7fc0_0000;
  parameter logic [31:0] Infinity = 32'h7f80_0000;
  parameter logic [31:0] One = 32'h3f80_0000;

  // --------------------------------------------------------------------------------------------
  // Frames
  // --------------------------------------------------------------------------------------------

  // `value` shifted right, the bits that fall out kept as a sticky bit 0.
  function automatic logic [63:0] shift_right_jam(input logic [63:0] value,
                                                  input logic [9:0] distance);
    logic [63:0] shifted;
    shifted = value >> distance[5:0];
    shift_right_jam = shifted | {63'd0, (shifted << distance[5:0]) != value};
    if (distance[9:6] != 4'd0) shift_right_jam = {63'd0, value != 64'd0};
  endfunction

  // The frame (sum, exponent) rounded; 1 <= exponent <= 402, sum < 2^63.
  function automatic logic [31:0] round_frame(input logic sign, input logic [9:0] exponent,
                                              input logic [63:0] sum);
    logic [63:0] rest;
    logic [63:0] rounded;
    logic [31:0] magnitude;
    logic [9:0] zeros;
    rest = sum;
    zeros = {9'd0, !sum[62]};
    if (sum[62:61] == 2'd0) begin
      // By halves; 63 for a sum of zero.
      zeros = 10'd0;
      if (rest[62:31] == 32'd0) begin
        rest = rest << 32;
        zeros = 10'd32;
      end
      if (rest[62:47] == 16'd0) begin
        rest = rest << 16;
        zeros = zeros + 10'd16;
      end
      if (rest[62:55] == 8'd0) begin
        rest = rest << 8;
        zeros = zeros + 10'd8;
      end
      if (rest[62:59] == 4'd0) begin
        rest = rest << 4;
        zeros = zeros + 10'd4;
      end
      if (rest[62:61] == 2'd0) begin
        rest = rest << 2;
        zeros = zeros + 10'd2;
      end
      if (!rest[62]) zeros = zeros + 10'd1;
      // A subnormal result keeps the place of exponent 1.
      if (zeros > exponent) zeros = exponent;
    end
    rest = sum << zeros[5:0];
    rounded = rest + 64'h3f_ffff_ffff + {63'd0, rest[39]};
    // The hidden bit adds one to the exponent, a carry out of the significand another one.
    magnitude = {9'(exponent - zeros), 23'd0} + {7'd0, rounded[63:39]};
    if (magnitude >= Infinity) magnitude = Infinity;
    if (sum == 64'd0) magnitude = 32'd0;
    round_frame = {sign, magnitude[30:0]};
  endfunction

  // How far the highest one of a subnormal number's fraction lies below the hidden bit.
  function automatic logic [9:0] subnormal_zeros(input logic [22:0] fraction);
    logic [22:0] rest;
    logic [9:0] zeros;
    rest = fraction;
    zeros = 10'd1;
    if (rest[22:7] == 16'd0) begin
      rest = rest << 16;
      zeros = 10'd17;
    end
    if (rest[22:15] == 8'd0) begin
      rest = rest << 8;
      zeros = zeros + 10'd8;
    end
    if (rest[22:19] == 4'd0) begin
      rest = rest << 4;
      zeros = zeros + 10'd4;
    end
    if (rest[22:21] == 2'd0) begin
      rest = rest << 2;
      zeros = zeros + 10'd2;
    end
    if (!rest[22]) zeros = zeros + 10'd1;
    subnormal_zeros = zeros;
  endfunction

  // --------------------------------------------------------------------------------------------
  // Tests
  // --------------------------------------------------------------------------------------------

  function automatic logic fp_is_nan(input logic [31:0] a);
    fp_is_nan = a[30:0] > 31'h7f80_0000;
  endfunction

  // What a memory holds of `a`.
  function automatic logic [31:0] fp_canonical(input logic [31:0] a);
    fp_canonical = a[30:0] > Infinity[30:0] ? CanonicalNan : a;
  endfunction

  // Less in the order of bits: -0 below +0. NaN has no place in it.
  function automatic logic total_less(input logic [31:0] a, input logic [31:0] b);
    total_less = a[31] != b[31] ? a[31] : a[31] ? a[30:0] > b[30:0] : a[30:0] < b[30:0];
  endfunction

  // a < b; false for NaN and for two zeros.
  function automatic logic fp_lt(input logic [31:0] a, input logic [31:0] b);
    fp_lt = total_less(a, b) && a[30:0] <= Infinity[30:0] && b[30:0] <= Infinity[30:0] &&
            (a[30:0] | b[30:0]) != 31'd0;
  endfunction

  // --------------------------------------------------------------------------------------------
  // Arithmetic
  // --------------------------------------------------------------------------------------------

  function automatic logic [31:0] fp_add(input logic [31:0] a, input logic [31:0] b);
    /*verilator no_inline_task*/
    logic [31:0] larger;
    logic [31:0] smaller;
    logic [63:0] x;
    logic [63:0] y;
    logic [63:0] sum;
    logic [9:0] exponent;
    larger = a[30:0] < b[30:0] ? b : a;
    smaller = a[30:0] < b[30:0] ? a : b;
    exponent = {2'd0, larger[30:23]} + {9'd0, larger[30:23] == 8'd0};
    x = {2'd0, larger[30:23] != 8'd0, larger[22:0], 38'd0};
    y = shift_right_jam({2'd0, smaller[30:23] != 8'd0, smaller[22:0], 38'd0},
                        exponent - {2'd0, smaller[30:23]} - {9'd0, smaller[30:23] == 8'd0});
    sum = x + (a[31] == b[31] ? y : -y);
    // Zeros of two signs, and numbers that cancel, make +0.
    fp_add = round_frame(sum == 64'd0 ? a[31] & b[31] : larger[31], exponent, sum);
    // A NaN is larger than all numbers by its bits.
    if (larger[30:23] == 8'hff) begin
      fp_add = larger;
      if (larger[30:0] > Infinity[30:0] || (smaller[30:23] == 8'hff && a[31] != b[31]))
        fp_add = CanonicalNan;
    end
  endfunction

  function automatic logic [31:0] fp_sub(input logic [31:0] a, input logic [31:0] b);
    fp_sub = fp_add(a, {!b[31], b[30:0]});
  endfunction

  function automatic logic [31:0] fp_mul(input logic [31:0] a, input logic [31:0] b);
    /*verilator no_inline_task*/
    logic [63:0] product;
    logic [63:0] rounded;
    logic [9:0] exponent;
    fp_mul = {a[31] ^ b[31], 31'd0};
    product = {40'd0, a[30:23] != 8'd0, a[22:0]} * {40'd0, b[30:23] != 8'd0, b[22:0]};
    exponent = {2'd0, a[30:23]} + {2'd0, b[30:23]};
    if (a[30:23] + 8'd1 > 8'd1 && b[30:23] + 8'd1 > 8'd1 && exponent >= 10'd128 &&
        exponent <= 10'd380) begin
      // Normal numbers whose product is normal, or rounds up to infinity.
      exponent = exponent - 10'd128 + {9'd0, product[47]};
      rounded = product << !product[47];
      rounded = rounded + 64'h7f_ffff + {63'd0, rounded[24]};
      fp_mul[30:0] = {exponent[7:0], 23'd0} + {6'd0, rounded[48:24]};
    end else if (a[30:23] == 8'hff || b[30:23] == 8'hff) begin
      fp_mul[30:0] = Infinity[30:0];
      if (a[30:0] > Infinity[30:0] || b[30:0] > Infinity[30:0] || a[30:0] == 31'd0 ||
          b[30:0] == 31'd0) fp_mul = CanonicalNan;
    end else begin
      if (product != 64'd0) begin
        // The frame's exponent modulo 2^10; below 1 it is negative.
        exponent = exponent - 10'd126 + {9'd0, a[30:23] == 8'd0} + {9'd0, b[30:23] == 8'd0};
        product = product << 14;
        if (exponent[9] || exponent == 10'd0) begin
          product = shift_right_jam(product, 10'd1 - exponent);
          exponent = 10'd1;
        end
        fp_mul = round_frame(fp_mul[31], exponent, product);
      end
    end
  endfunction

  // a * b + c, rounded once.
  function automatic logic [31:0] fp_fma(input logic [31:0] a, input logic [31:0] b,
                                         input logic [31:0] c);
    /*verilator no_inline_task*/
    logic [63:0] product;
    logic [63:0] addend;
    logic [63:0] x;
    logic [63:0] y;
    logic [63:0] sum;
    logic [9:0] product_exponent;
    logic [9:0] addend_exponent;
    logic [9:0] exponent;
    logic [9:0] distance;
    logic is_lower;
    logic is_negative;
    logic product_sign;
    logic sign;
    product_sign = a[31] ^ b[31];
    // Its highest bit is bit 61 or 60 for normal operands.
    product = {40'd0, a[30:23] != 8'd0, a[22:0]} * {26'd0, b[30:23] != 8'd0, b[22:0], 14'd0};
    addend = {2'd0, c[30:23] != 8'd0, c[22:0], 38'd0};
    // Modulo 2^10, -124 to 382.
    product_exponent = {2'd0, a[30:23]} + {2'd0, b[30:23]} - 10'd126 +
                       {9'd0, a[30:23] == 8'd0} + {9'd0, b[30:23] == 8'd0};
    addend_exponent = {2'd0, c[30:23]} + {9'd0, c[30:23] == 8'd0};
    // Of the smaller exponent, the sum's larger part or not; a product of zero fits any exponent.
    is_lower = product_exponent[9] || product_exponent < addend_exponent || product == 64'd0;
    x = is_lower ? addend : product;
    y = is_lower ? product : addend;
    exponent = is_lower ? addend_exponent : product_exponent;
    distance = product_exponent - addend_exponent;
    y = shift_right_jam(y, is_lower ? -distance : distance);
    sum = x + (product_sign == c[31] ? y : -y);
    is_negative = sum[63];
    sum = is_negative ? -sum : sum;
    sign = (is_lower ? c[31] : product_sign) ^ is_negative;
    if (sum == 64'd0) sign = product_sign & c[31];
    fp_fma = round_frame(sign, exponent, sum);
    if (a[30:23] == 8'hff || b[30:23] == 8'hff || c[30:23] == 8'hff) begin
      if (a[30:0] > Infinity[30:0] || b[30:0] > Infinity[30:0] || c[30:0] > Infinity[30:0]) begin
        fp_fma = CanonicalNan;
      end else if (a[30:23] == 8'hff || b[30:23] == 8'hff) begin
        fp_fma = {product_sign, Infinity[30:0]};
        if (a[30:0] == 31'd0 || b[30:0] == 31'd0 ||
            (c[30:23] == 8'hff && c[31] != product_sign)) fp_fma = CanonicalNan;
      end else begin
        fp_fma = c;
      end
    end
  endfunction

  function automatic logic [31:0] fp_div(input logic [31:0] a, input logic [31:0] b);
    /*verilator no_inline_task*/
    logic [63:0] dividend;
    logic [63:0] divisor;
    logic [63:0] quotient;
    logic [9:0] exponent;
    logic [9:0] zeros;
    logic sign;
    sign = a[31] ^ b[31];
    dividend = {2'd0, a[30:23] != 8'd0, a[22:0], 38'd0};
    divisor = {40'd0, b[30:23] != 8'd0, b[22:0]};
    if (b[30:0] == 31'd0) divisor = 64'd1;
    exponent = {2'd0, a[30:23]} - {2'd0, b[30:23]} + 10'd127;
    if (a[30:23] == 8'd0) begin
      zeros = subnormal_zeros(a[22:0]);
      dividend = dividend << zeros[5:0];
      exponent = exponent + 10'd1 - zeros;
    end
    if (b[30:23] == 8'd0) begin
      zeros = subnormal_zeros(b[22:0]);
      divisor = divisor << zeros[5:0];
      exponent = exponent - 10'd1 + zeros;
    end
    // Between 2^37 and 2^39.
    quotient = dividend / divisor;
    quotient = {quotient[40:0], 22'd0, quotient * divisor != dividend};
    // Modulo 2^10, -148 to 402.
    if (exponent >= 10'd640 || exponent == 10'd0) begin
      quotient = shift_right_jam(quotient, 10'd1 - exponent);
      exponent = 10'd1;
    end
    fp_div = round_frame(sign, exponent, quotient);
    if (a[30:23] == 8'hff || b[30:23] == 8'hff || a[30:0] == 31'd0 || b[30:0] == 31'd0) begin
      if (a[30:0] > Infinity[30:0] || b[30:0] > Infinity[30:0] || a[30:0] == b[30:0])
        fp_div = CanonicalNan;
      else if (a[30:23] == 8'hff || b[30:0] == 31'd0) fp_div = {sign, Infinity[30:0]};
      else fp_div = {sign, 31'd0};
    end
  endfunction

  function automatic logic [31:0] fp_sqrt(input logic [31:0] a);
    /*verilator no_inline_task*/
    logic [63:0] radicand;
    logic [63:0] rest;
    logic [31:0] root;
    logic [31:0] trial;
    logic [9:0] exponent;
    logic [9:0] zeros;
    zeros = 10'd0;
    exponent = {2'd0, a[30:23]};
    if (a[30:23] == 8'd0) begin
      zeros = subnormal_zeros(a[22:0]);
      exponent = 10'd1 - zeros;
    end
    // The root of m * 2^e needs an even e, which has an odd biased exponent; else 2m * 2^(e-1).
    radicand = {13'd0, a[30:23] != 8'd0, a[22:0], 27'd0} << zeros[5:0];
    if (!exponent[0]) radicand = radicand << 1;
    rest = 64'd0;
    root = 32'd0;
    for (int i = 0; i < 26; i++) begin
      rest = {rest[61:0], radicand[51:50]};
      radicand = radicand << 2;
      trial = {root[29:0], 2'd1};
      root = root << 1;
      if (rest[31:0] >= trial) begin
        rest[31:0] = rest[31:0] - trial;
        root[0] = 1'b1;
      end
    end
    // (exponent - 127) / 2 + 127, rounded down.
    exponent = (exponent + 10'd127) >> 1;
    fp_sqrt = round_frame(1'b0, exponent, {root[27:0], 35'd0, rest[31:0] != 32'd0});
    if (a[31] || a[30:23] == 8'hff) fp_sqrt = a == Infinity ? Infinity : CanonicalNan;
    if (a[30:0] == 31'd0) fp_sqrt = a;
  endfunction

  // 1 / sqrt(a), two roundings.
  function automatic logic [31:0] fp_rsqrt(input logic [31:0] a);
    fp_rsqrt = fp_div(One, fp_sqrt(a));
  endfunction

  // NaN if either is NaN, +0 above -0.
  function automatic logic [31:0] fp_max(input logic [31:0] a, input logic [31:0] b);
    fp_max = total_less(a, b) ? b : a;
    if (a[30:0] > Infinity[30:0] || b[30:0] > Infinity[30:0]) fp_max = CanonicalNan;
  endfunction

  // NaN if either is NaN, -0 below +0.
  function automatic logic [31:0] fp_min(input logic [31:0] a, input logic [31:0] b);
    fp_min = total_less(a, b) ? a : b;
    if (a[30:0] > Infinity[30:0] || b[30:0] > Infinity[30:0]) fp_min = CanonicalNan;
  endfunction

  // The largest integer not above `a`; keeps the sign of a zero.
  function automatic logic [31:0] fp_floor(input logic [31:0] a);
    logic [31:0] mask;
    mask = 32'h7f_ffff >> 5'(a[30:23] - 8'd127);
    if (a[30:23] >= 8'd150) begin
      fp_floor = fp_canonical(a);
    end else if (a[30:23] < 8'd127) begin
      fp_floor = {a[31], 31'd0};
      if (a[31] && a[30:0] != 31'd0) fp_floor = {1'b1, One[30:0]};
    end else begin
      fp_floor = (a[31] ? a + mask : a) & ~mask;
    end
  endfunction

  // --------------------------------------------------------------------------------------------
  // Between the types
  // --------------------------------------------------------------------------------------------

  function automatic logic [31:0] i32_to_fp(input logic [31:0] a);
    /*verilator no_inline_task*/
    logic [31:0] magnitude;
    magnitude = a[31] ? -a : a;
    i32_to_fp = round_frame(a[31], 10'd157, {1'b0, magnitude, 31'd0});
  endfunction

  // `a` as an integer: to nearest even or towards zero, saturating; 0 for NaN.
  function automatic logic [31:0] to_integer(input logic [31:0] a, input logic is_nearest);
    /*verilator no_inline_task*/
    logic [63:0] fixed;
    logic [31:0] whole;
    if (a[30:0] > Infinity[30:0]) begin
      to_integer = 32'd0;
    end else if (a[30:23] >= 8'd158) begin
      to_integer = a[31] ? 32'h8000_0000 : 32'h7fff_ffff;
    end else if (a[30:23] < 8'd126) begin
      to_integer = 32'd0;
    end else begin
      // 32 bits of fraction.
      fixed = {41'd1, a[22:0]} << 6'(a[30:23] - 8'd118);
      whole = fixed[63:32];
      if (is_nearest && fixed[31] && (fixed[30:0] != 31'd0 || fixed[32])) whole = whole + 32'd1;
      to_integer = a[31] ? -whole : whole;
    end
  endfunction

  function automatic logic [31:0] fp_to_i32(input logic [31:0] a);
    fp_to_i32 = to_integer(a, 1'b1);
  endfunction

  function automatic logic [31:0] fp_to_i32_trunc(input logic [31:0] a);
    fp_to_i32_trunc = to_integer(a, 1'b0);
  endfunction

  // Rounded to nearest even; canonical NaN.
  function automatic logic [15:0] fp_to_bf16(input logic [31:0] a);
    logic [31:0] rounded;
    rounded = a + 32'h7fff + {31'd0, a[16]};
    fp_to_bf16 = a[30:0] > Infinity[30:0] ? CanonicalNan[31:16] : rounded[31:16];
  endfunction

  function automatic logic [31:0] bf16_to_fp(input logic [15:0] a);
    bf16_to_fp = {a, 16'd0};
  endfunction

  // x / 0 = 0; min / -1 = min; towards zero.
  function automatic logic [31:0] i32_div(input logic [31:0] a, input logic [31:0] b);
    /*verilator no_inline_task*/
    logic [31:0] dividend;
    logic [31:0] divisor;
    logic [31:0] quotient;
    dividend = a[31] ? -a : a;
    divisor = b[31] ? -b : b;
    if (b == 32'd0) divisor = 32'd1;
    quotient = dividend / divisor;
    i32_div = a[31] != b[31] ? -quotient : quotient;
    if (b == 32'd0) i32_div = 32'd0;
  endfunction

  function automatic logic [31:0] i32_max(input logic [31:0] a, input logic [31:0] b);
    i32_max = $signed(a) > $signed(b) ? a : b;
  endfunction

  function automatic logic [31:0] i32_min(input logic [31:0] a, input logic [31:0] b);
    i32_min = $signed(a) < $signed(b) ? a : b;
  endfunction

  function automatic logic [7:0] saturate_i8(input logic [31:0] a);
    saturate_i8 = a[7:0];
    if ($signed(a) > 127) saturate_i8 = 8'h7f;
    if ($signed(a) < -128) saturate_i8 = 8'h80;
  endfunction

  function automatic logic [7:0] saturate_u8(input logic [31:0] a);
    saturate_u8 = a[7:0];
    if ($signed(a) > 255) saturate_u8 = 8'hff;
    if (a[31]) saturate_u8 = 8'h00;
  endfunction

  // a + b, saturated to int32.
  function automatic logic [31:0] add_saturating(input logic [31:0] a, input logic [31:0] b);
    add_saturating = a + b;
    if (a[31] == b[31] && add_saturating[31] != a[31])
      add_saturating = a[31] ? 32'h8000_0000 : 32'h7fff_ffff;
  endfunction

  function automatic logic [31:0] quantize(input logic [31:0] x, input logic [31:0] zero_point);
    quantize = add_saturating(to_integer(x, 1'b1), zero_point);
  endfunction

  function automatic logic [31:0] dequantize(input logic [31:0] x, input logic [31:0] zero_point,
                                             input logic [31:0] scale);
    dequantize = fp_mul(i32_to_fp(x - zero_point), scale);
  endfunction

  // --------------------------------------------------------------------------------------------
  // Functions by table
  // --------------------------------------------------------------------------------------------

  function automatic logic [31:0] fp_exp(input logic [31:0] x);
    /*verilator no_inline_task*/
    logic [31:0] count;
    logic [31:0] step;
    logic [31:0] rest;
    logic [31:0] power;
    logic [31:0] base;
    logic [31:0] value;
    logic [8:0] exponent;
    logic [8:0] half;
    count = fp_to_i32(fp_mul(x, tw_tables_pkg::ExpScale));
    step = i32_to_fp(count);
    rest = fp_fma(step, tw_tables_pkg::ExpStepHigh ^ 32'h8000_0000, x);
    rest = fp_fma(step, tw_tables_pkg::ExpStepLow ^ 32'h8000_0000, rest);
    power = fp_fma(rest, tw_tables_pkg::ExpCubic, tw_tables_pkg::ExpSquare);
    power = fp_fma(fp_mul(rest, rest), power, rest);
    base = tw_tables_pkg::exp_entry(count[5:0]);
    value = fp_fma(base, power, base);
    // Scaled in two steps, so that a subnormal result is rounded once.
    exponent = count[14:6];
    half = {exponent[8], exponent[8:1]};
    value = fp_mul(value, {1'b0, 8'(half + 9'd127), 23'd0});
    fp_exp = fp_mul(value, {1'b0, 8'(exponent - half + 9'd127), 23'd0});
    if (!x[31] && x[30:0] > tw_tables_pkg::ExpHighest[30:0]) fp_exp = Infinity;
    if (x[31] && x[30:0] > tw_tables_pkg::ExpLowest[30:0]) fp_exp = 32'd0;
    if (x[30:0] > Infinity[30:0]) fp_exp = CanonicalNan;
  endfunction

  // The other functions by number, that of the function's table. `beyond` is the magnitude from the
  // end of the table on: exp(-|x|) for sigmoid, else 1.
  function automatic logic [31:0] by_table(input logic [1:0] number, input logic [31:0] x,
                                           input logic [31:0] beyond);
    /*verilator no_inline_task*/
    logic is_log;
    logic [31:0] end_of_table;
    logic [31:0] segments;
    logic [31:0] exponent;
    logic [31:0] fraction;
    logic [31:0] f;
    logic [31:0] t;
    logic [63:0] low;
    logic [63:0] high;
    logic [31:0] value;
    logic [7:0] segment;
    logic [9:0] zeros;
    is_log = number == tw_tables_pkg::LogTable;
    case (number)
      tw_tables_pkg::SigmoidTable: begin
        end_of_table = tw_tables_pkg::SigmoidEnd;
        segments = tw_tables_pkg::SigmoidSegments;
      end
      tw_tables_pkg::TanhTable: begin
        end_of_table = tw_tables_pkg::TanhEnd;
        segments = tw_tables_pkg::TanhSegments;
      end
      default: begin
        end_of_table = is_log ? Infinity : tw_tables_pkg::ErfEnd;
        segments = tw_tables_pkg::ErfSegments;
      end
    endcase
    f = x;
    exponent = 32'd0;
    // The position in the table as 8 bits of segment, 23 bits of fraction.
    if (is_log) begin
      exponent = {24'd0, x[30:23]} - 32'd127;
      fraction = {9'd0, x[22:0]};
      if (x[30:23] == 8'd0) begin
        zeros = subnormal_zeros(x[22:0]);
        fraction = fraction << zeros[4:0];
        exponent = -32'd126 - {22'd0, zeros};
      end
      // The upper part of the interval is taken at half its size, so that f lies about 0.
      f = {1'b0, One[30:23], fraction[22:0]};
      segment = fraction[22:15];
      if (segment >= tw_tables_pkg::LogHalvedSegment) begin
        f[30:23] = One[30:23] - 8'd1;
        exponent = exponent + 32'd1;
      end
      f = fp_sub(f, One);
      fraction = {9'd0, fraction[14:0], 8'd0};
      t = One;
    end else begin
      t = fp_mul({1'b0, x[30:0]}, segments);
      fraction = {9'd1, t[22:0]} << 3'(t[30:23] - One[30:23]);
      segment = t >= One ? fraction[30:23] : 8'd0;
      fraction[31:23] = 9'd0;
    end
    // What lies behind the segment's start; in segment 0 that is the position itself, unrounded.
    if (t >= One) begin
      t = i32_to_fp(fraction);
      if (t != 32'd0) t[30:23] = t[30:23] - 8'd23;
    end
    low = tw_tables_pkg::low_coefficients({number, segment});
    high = tw_tables_pkg::high_coefficients({number, segment});
    value = fp_fma(t, high[63:32], high[31:0]);
    value = fp_fma(t, value, low[63:32]);
    value = fp_fma(t, value, low[31:0]);
    if (x[30:0] >= end_of_table[30:0]) value = beyond;
    by_table = {x[31], value[30:0]};
    if (number == tw_tables_pkg::SigmoidTable) begin
      by_table = value;
      // -0 is not below 0, but the table starts with exactly 1/2.
      if (!x[31]) by_table = fp_sub(One, value);
    end
    if (is_log) begin
      exponent = i32_to_fp(exponent);
      value = fp_mul(f, value);
      value = fp_fma(exponent, tw_tables_pkg::Ln2Low, value);
      by_table = fp_fma(exponent, tw_tables_pkg::Ln2High, value);
      if (x == Infinity) by_table = Infinity;
      if (x[31]) by_table = CanonicalNan;
      if (x[30:0] == 31'd0) by_table = {1'b1, Infinity[30:0]};
    end
    if (x[30:0] > Infinity[30:0]) by_table = CanonicalNan;
  endfunction

  function automatic logic [31:0] fp_sigmoid(input logic [31:0] x);
    logic [31:0] beyond;
    beyond = One;
    if (x[30:0] >= tw_tables_pkg::SigmoidEnd[30:0]) beyond = fp_exp({1'b1, x[30:0]});
    fp_sigmoid = by_table(tw_tables_pkg::SigmoidTable, x, beyond);
  endfunction

  function automatic logic [31:0] fp_tanh(input logic [31:0] x);
    fp_tanh = by_table(tw_tables_pkg::TanhTable, x, One);
  endfunction

  function automatic logic [31:0] fp_erf(input logic [31:0] x);
    fp_erf = by_table(tw_tables_pkg::ErfTable, x, One);
  endfunction

  function automatic logic [31:0] fp_log(input logic [31:0] x);
    fp_log = by_table(tw_tables_pkg::LogTable, x, One);
  endfunction

  // --------------------------------------------------------------------------------------------
  // The vector engine
  // --------------------------------------------------------------------------------------------

  function automatic logic is_float(input logic [2:0] vector_type);
    is_float = vector_type == tw_isa_pkg::VectorTypeF32 ||
               vector_type == tw_isa_pkg::VectorTypeBf16;
  endfunction

  // An element (its bytes lowest in `bits`) as the chain holds it: int32 minus the zero point, or
  // binary32.
  function automatic logic [31:0] convert_in(input logic [2:0] vector_type,
                                             input logic [31:0] bits,
                                             input logic [8:0] zero_point);
    logic [31:0] zero;
    zero = {{23{zero_point[8]}}, zero_point};
    case (vector_type)
      tw_isa_pkg::VectorTypeI8: convert_in = {{24{bits[7]}}, bits[7:0]} - zero;
      tw_isa_pkg::VectorTypeU8: convert_in = {24'd0, bits[7:0]} - zero;
      tw_isa_pkg::VectorTypeI32: convert_in = bits - zero;
      tw_isa_pkg::VectorTypeBf16: convert_in = bf16_to_fp(bits[15:0]);
      default: convert_in = bits;
    endcase
  endfunction

  // What b_convert makes of an element of source B that convert_in() has read.
  function automatic logic [31:0] convert_b(input logic [1:0] conversion,
                                            input logic [2:0] vector_type,
                                            input logic [31:0] value, input logic [31:0] scale);
    convert_b = value;
    if (conversion != tw_isa_pkg::ConversionNone) begin
      if (!is_float(vector_type)) convert_b = i32_to_fp(value);
      if (conversion == tw_isa_pkg::ConversionDequantize) convert_b = fp_mul(convert_b, scale);
    end
  endfunction

  // The element that is written for `value`, its bytes lowest, zeros above.
  function automatic logic [31:0] convert_out(input logic [2:0] vector_type,
                                              input logic [31:0] value);
    case (vector_type)
      tw_isa_pkg::VectorTypeI8: convert_out = {24'd0, saturate_i8(value)};
      tw_isa_pkg::VectorTypeU8: convert_out = {24'd0, saturate_u8(value)};
      tw_isa_pkg::VectorTypeF32: convert_out = fp_canonical(value);
      tw_isa_pkg::VectorTypeBf16: convert_out = {16'd0, fp_to_bf16(value)};
      default: convert_out = value;
    endcase
  endfunction

  // Of a window and the reduction tree, by domain.
  function automatic logic [31:0] window_max(input logic is_real, input logic [31:0] x,
                                             input logic [31:0] y);
    window_max = is_real ? fp_max(x, y) : i32_max(x, y);
  endfunction

  function automatic logic [31:0] window_plus(input logic is_real, input logic [31:0] x,
                                              input logic [31:0] y);
    window_plus = x + y;
    if (is_real) window_plus = fp_add(x, y);
  endfunction

  function automatic logic [31:0] window_times(input logic is_real, input logic [31:0] x,
                                               input logic [31:0] y);
    window_times = x * y;
    if (is_real) window_times = fp_mul(x, y);
  endfunction

  // One stage of the chain on x. `y` is the stage's operand, `b` source B, imm0 and imm1 the
  // immediate that the operand names and the one after it. Saved values and B in place of x are
  // the caller's: x stays for them.
  function automatic logic [31:0] alu(input logic [5:0] op, input logic [31:0] x,
                                      input logic [31:0] y, input logic [31:0] b,
                                      input logic [31:0] imm0, input logic [31:0] imm1);
    /*verilator no_inline_task*/
    logic [31:0] p;
    logic [31:0] q;
    logic [1:0] table_number;
    p = x;
    q = y;
    case (op)
      tw_isa_pkg::StageOpIadd: alu = x + y;
      tw_isa_pkg::StageOpIsub: alu = x - y;
      tw_isa_pkg::StageOpIrsub: alu = y - x;
      tw_isa_pkg::StageOpImul: alu = x * y;
      tw_isa_pkg::StageOpImax: alu = i32_max(x, y);
      tw_isa_pkg::StageOpImin: alu = i32_min(x, y);
      tw_isa_pkg::StageOpIdiv, tw_isa_pkg::StageOpIridiv: begin
        if (op == tw_isa_pkg::StageOpIridiv) begin
          p = y;
          q = x;
        end
        alu = i32_div(p, q);
      end
      tw_isa_pkg::StageOpIshr: alu = $signed(x) >>> y[4:0];
      tw_isa_pkg::StageOpIand: alu = x & y;
      tw_isa_pkg::StageOpIor: alu = x | y;
      tw_isa_pkg::StageOpIxor: alu = x ^ y;
      tw_isa_pkg::StageOpFadd, tw_isa_pkg::StageOpFsub, tw_isa_pkg::StageOpFrsub: begin
        p[31] = x[31] ^ (op == tw_isa_pkg::StageOpFrsub);
        q[31] = y[31] ^ (op == tw_isa_pkg::StageOpFsub);
        alu = fp_add(p, q);
      end
      tw_isa_pkg::StageOpFmul, tw_isa_pkg::StageOpI2f, tw_isa_pkg::StageOpDequantize: begin
        if (op != tw_isa_pkg::StageOpFmul) begin
          if (op == tw_isa_pkg::StageOpDequantize) p = x - imm0;
          p = i32_to_fp(p);
          q = imm1;
        end
        alu = p;
        if (op != tw_isa_pkg::StageOpI2f) alu = fp_mul(p, q);
      end
      tw_isa_pkg::StageOpFdiv, tw_isa_pkg::StageOpFrdiv, tw_isa_pkg::StageOpFsqrt,
      tw_isa_pkg::StageOpFrsqrt: begin
        if (op == tw_isa_pkg::StageOpFrdiv) begin
          p = y;
          q = x;
        end
        if (op == tw_isa_pkg::StageOpFsqrt || op == tw_isa_pkg::StageOpFrsqrt) begin
          p = One;
          q = fp_sqrt(x);
        end
        alu = q;
        if (op != tw_isa_pkg::StageOpFsqrt) alu = fp_div(p, q);
      end
      tw_isa_pkg::StageOpFmax: alu = fp_max(x, y);
      tw_isa_pkg::StageOpFmin: alu = fp_min(x, y);
      tw_isa_pkg::StageOpFfma, tw_isa_pkg::StageOpFfmaB: begin
        q = imm1;
        if (op == tw_isa_pkg::StageOpFfmaB) begin
          p = b;
          q = x;
        end
        alu = fp_fma(p, imm0, q);
      end
      tw_isa_pkg::StageOpFabs: alu = {1'b0, x[30:0]};
      tw_isa_pkg::StageOpFneg: alu = {!x[31], x[30:0]};
      tw_isa_pkg::StageOpFfloor: alu = fp_floor(x);
      tw_isa_pkg::StageOpFexp, tw_isa_pkg::StageOpFsigmoid, tw_isa_pkg::StageOpFtanh,
      tw_isa_pkg::StageOpFerf, tw_isa_pkg::StageOpFlog: begin
        q = One;
        if (op == tw_isa_pkg::StageOpFexp ||
            (op == tw_isa_pkg::StageOpFsigmoid && x[30:0] >= tw_tables_pkg::SigmoidEnd[30:0]))
          q = fp_exp({x[31] || op == tw_isa_pkg::StageOpFsigmoid, x[30:0]});
        case (op)
          tw_isa_pkg::StageOpFsigmoid: table_number = tw_tables_pkg::SigmoidTable;
          tw_isa_pkg::StageOpFtanh: table_number = tw_tables_pkg::TanhTable;
          tw_isa_pkg::StageOpFerf: table_number = tw_tables_pkg::ErfTable;
          default: table_number = tw_tables_pkg::LogTable;
        endcase
        alu = q;
        if (op != tw_isa_pkg::StageOpFexp) alu = by_table(table_number, x, q);
      end
      tw_isa_pkg::StageOpF2i, tw_isa_pkg::StageOpF2iTrunc, tw_isa_pkg::StageOpQuantize: begin
        alu = to_integer(x, op != tw_isa_pkg::StageOpF2iTrunc);
        if (op == tw_isa_pkg::StageOpQuantize) alu = add_saturating(alu, imm0);
      end
      default: alu = x;
    endcase
  endfunction

endpackage
