//===- Scalars.cpp - Arithmetic on numbers, as OpenCL C -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/opencl/Scalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tw;
using llvm::StringRef;
using Operands = llvm::ArrayRef<std::string>;

std::string opencl::scalarType(Type type) {
  if (type.isF64())
    return "double";
  if (isa<FloatType>(type))
    return "float";
  if (type.isIndex())
    return "int";
  switch (type.getIntOrFloatBitWidth()) {
  case 1:
    return "bool";
  case 8:
    return "char";
  case 16:
    return "short";
  case 32:
    return "int";
  default:
    return "long";
  }
}

std::string opencl::memoryType(Type type) {
  return type.isBF16() ? "ushort" : type.isF16() ? "half" : type.isInteger(1) ? "uchar" : scalarType(type);
}

bool opencl::isSimple(StringRef expression) {
  int depth = 0;
  for (char c : expression) {
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    if (depth == 0 && c == ' ')
      return false;
  }
  return !expression.starts_with("(") && !expression.starts_with("-");
}

std::string opencl::inParentheses(const std::string &expression) {
  return isSimple(expression) ? expression : "(" + expression + ")";
}

std::string opencl::literal(TypedAttr number) {
  if (auto real = dyn_cast<FloatAttr>(number)) {
    const llvm::APFloat value = real.getValue();
    if (value.isNaN())
      return "NAN";
    if (value.isInfinity())
      return value.isNegative() ? "-INFINITY" : "INFINITY";
    const bool isDouble = real.getType().isF64();
    llvm::APFloat wide = value;
    bool loses = false;
    wide.convert(isDouble ? llvm::APFloat::IEEEdouble() : llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven,
                 &loses);
    llvm::SmallString<32> text;
    wide.toString(text); // the shortest that reads as the same number
    std::string result = text.str().str();
    if (result.find_first_of(".eE") == std::string::npos)
      result += ".0";
    return result + (isDouble ? "" : "f");
  }
  auto integer = cast<IntegerAttr>(number);
  Type type = integer.getType();
  if (type.isInteger(1))
    return integer.getValue().isZero() ? "false" : "true";
  const int64_t value = integer.getValue().getSExtValue();
  if (type.isInteger(64))
    return value == INT64_MIN ? "LONG_MIN" : std::to_string(value) + "L";
  if (type.isInteger(32) && value == INT32_MIN)
    return "INT_MIN";
  const std::string text = std::to_string(value);
  return type.isInteger(8) || type.isInteger(16) ? "(" + opencl::scalarType(type) + ")" + (value < 0 ? "(" + text + ")" : text)
                                                 : text;
}

std::string opencl::load(Type type, const std::string &pointer, const std::string &index) {
  if (type.isF16())
    return "vload_half(" + index + ", " + pointer + ")";
  if (type.isBF16())
    return "as_float((uint)" + pointer + "[" + index + "] << 16)";
  if (type.isInteger(1))
    return pointer + "[" + index + "] != 0";
  return pointer + "[" + index + "]";
}

std::string opencl::store(Type type, const std::string &pointer, const std::string &index, const std::string &value) {
  if (type.isF16())
    return "vstore_half_rte(" + value + ", " + index + ", " + pointer + ");";
  if (type.isBF16())
    return pointer + "[" + index + "] = (ushort)(as_uint(" + value + ") >> 16);";
  return pointer + "[" + index + "] = " + value + ";";
}

namespace {

/// Functions of the text, in the order in which they call each other.
constexpr std::pair<const char *, const char *> kFunctions[] = {
    {"round_bf16", R"(// The nearest number of bfloat16, ties to even.
float round_bf16(float x) {
  uint bits = as_uint(x);
  if (isnan(x))
    return as_float((bits & 0xffff0000u) | 0x00400000u);
  return as_float((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
}
)"},
    {"round_half", R"(// The nearest number of float16, ties to even.
float round_half(float x) {
  const uint bits = as_uint(x), sign = bits & 0x80000000u;
  uint size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) // not a number
    return x;
  if (size < 0x38800000u) // a multiple of 2^-24: so are the numbers from 0.5 to 1
    size = as_uint((as_float(size) + 0.5f) - 0.5f);
  else
    size = (size + 0xfffu + ((size >> 13) & 1u)) & 0xffffe000u;
  if (size > 0x477fe000u) // above 65504
    size = 0x7f800000u;
  return as_float(sign | size);
}
)"},
    {"float16_bits", R"(// The bits of a float that float16 holds, and the other way.
short float16_bits(float x) {
  ushort bits;
  vstore_half_rte(x, 0, (half *)&bits);
  return as_short(bits);
}
)"},
    {"float16_of", R"(float float16_of(short bits) {
  return vload_half(0, (const half *)&bits);
}
)"},
    {"larger", R"(// The larger one, or the one that is not a number.
float larger(float x, float y) { return x > y || isnan(x) ? x : y; }
)"},
    {"smaller", R"(// The smaller one, or the one that is not a number.
float smaller(float x, float y) { return x < y || isnan(x) ? x : y; }
)"},
    {"larger_double", R"(double larger_double(double x, double y) { return x > y || isnan(x) ? x : y; }
)"},
    {"smaller_double", R"(double smaller_double(double x, double y) { return x < y || isnan(x) ? x : y; }
)"},
    {"quotient_int", R"(// x / 0 is 0, and the one quotient that does not fit wraps.
int quotient_int(int x, int y) { return y == 0 ? 0 : y == -1 ? (int)(0u - (uint)x) : x / y; }
)"},
    {"quotient_long", R"(// x / 0 is 0, and the one quotient that does not fit wraps.
long quotient_long(long x, long y) { return y == 0 ? 0 : y == -1 ? (long)(0ul - (ulong)x) : x / y; }
)"},
    {"quotient_ulong", R"(ulong quotient_ulong(ulong x, ulong y) { return y == 0 ? 0 : x / y; }
)"},
    {"remainder_int", R"(// x % 0 is 0.
int remainder_int(int x, int y) { return y == 0 || y == -1 ? 0 : x % y; }
)"},
    {"remainder_long", R"(// x % 0 is 0.
long remainder_long(long x, long y) { return y == 0 || y == -1 ? 0 : x % y; }
)"},
    {"remainder_ulong", R"(ulong remainder_ulong(ulong x, ulong y) { return y == 0 ? 0 : x % y; }
)"},
};

bool isNarrow(Type type) { return type.isBF16() || type.isF16(); }

/// What arithmetic on floats comes to in numbers of `type`.
std::string rounded(Type type, const std::string &value) {
  return type.isBF16() ? "round_bf16(" + value + ")" : type.isF16() ? "round_half(" + value + ")" : value;
}

std::string unsignedType(Type type) {
  const std::string name = opencl::scalarType(type);
  return name == "bool" ? name : "u" + name;
}
std::string asUnsigned(Type type, const std::string &value) {
  return "(" + unsignedType(type) + ")" + opencl::inParentheses(value);
}

/// Bits that hold whatever a signed integer is: less than its type has where it follows from narrower numbers.
unsigned bitsOf(Value value, unsigned depth = 4) {
  Operation *op = value.getDefiningOp();
  const unsigned own = value.getType().isIndex() ? 32 : value.getType().getIntOrFloatBitWidth();
  if (!op || !depth)
    return own;
  auto in = [&](unsigned operand) { return bitsOf(op->getOperand(operand), depth - 1); };
  const unsigned needed = llvm::TypeSwitch<Operation *, unsigned>(op)
                              .Case([&](arith::ConstantOp constant) {
                                auto number = dyn_cast<IntegerAttr>(constant.getValue());
                                return number ? number.getValue().getSignificantBits() : own;
                              })
                              .Case([&](arith::ExtSIOp) { return in(0); })
                              .Case([&](arith::ExtUIOp) { return in(0) + 1; })
                              .Case<arith::AddIOp, arith::SubIOp>([&](auto) { return std::max(in(0), in(1)) + 1; })
                              .Case([&](arith::MulIOp) { return in(0) + in(1); })
                              .Default([&](Operation *) { return own; });
  return std::min(own, needed);
}

class Expressions {
public:
  Expressions(Operation *op, Operands x) : op(op), type(op->getResult(0).getType()), x(x) {}

  std::string infix(const char *symbol) const { return rounded(type, in(0) + " " + symbol + " " + in(1)); }
  std::string call(const std::string &function) const {
    std::string text = function + "(";
    for (size_t i = 0; i < x.size(); ++i)
      text += (i ? ", " : "") + x[i];
    return rounded(type, text + ")");
  }
  /// What C does on ints, cut to the type; overflow wraps.
  std::string wrapping(const char *symbol) const {
    if (type.isInteger(1))
      return "((" + in(0) + " " + symbol + " " + in(1) + ") & 1) != 0";
    if (type.isInteger(8) || type.isInteger(16))
      return "(" + opencl::scalarType(type) + ")(" + in(0) + " " + symbol + " " + in(1) + ")";
    const unsigned first = bitsOf(op->getOperand(0)), second = bitsOf(op->getOperand(1));
    const unsigned needed = isa<arith::MulIOp>(op) ? first + second : std::max(first, second) + 1;
    if (type.isIndex() || needed <= type.getIntOrFloatBitWidth())
      return in(0) + " " + symbol + " " + in(1);
    return "(" + opencl::scalarType(type) + ")(" + asUnsigned(type, x[0]) + " " + symbol + " " + asUnsigned(type, x[1]) + ")";
  }
  std::string bitwise(const char *symbol) const {
    const std::string value = in(0) + " " + symbol + " " + in(1);
    return type.isInteger(1) ? "(" + value + ") != 0" : "(" + opencl::scalarType(type) + ")(" + value + ")";
  }
  /// Division or remainder, which never traps.
  std::string divided(const char *function, bool isSigned) const {
    const bool isLong = type.isInteger(64) || !isSigned;
    const std::string name = std::string(function) + (isSigned ? (isLong ? "_long" : "_int") : "_ulong");
    const std::string first = isSigned ? x[0] : asUnsigned(type, x[0]), second = isSigned ? x[1] : asUnsigned(type, x[1]);
    return "(" + opencl::scalarType(type) + ")" + name + "(" + first + ", " + second + ")";
  }
  std::string cast() const { return "(" + opencl::scalarType(type) + ")" + in(0); }
  /// Of unsigned numbers that the same bits are.
  std::string chosen(const char *symbol, bool isSigned) const {
    const Type of = op->getOperand(0).getType();
    const std::string first = isSigned ? in(0) : asUnsigned(of, x[0]), second = isSigned ? in(1) : asUnsigned(of, x[1]);
    return first + " " + symbol + " " + second;
  }
  std::string in(size_t operand) const { return opencl::inParentheses(x[operand]); }

  Operation *op;
  Type type;
  Operands x;
};

std::string compared(arith::CmpFOp op, const Expressions &e) {
  using P = arith::CmpFPredicate;
  const std::string unordered = "(isnan(" + e.x[0] + ") || isnan(" + e.x[1] + "))";
  auto is = [&](const char *symbol) { return e.in(0) + " " + symbol + " " + e.in(1); };
  auto orUnordered = [&](const char *symbol) { return is(symbol) + " || " + unordered; };
  switch (op.getPredicate()) {
  case P::AlwaysFalse:
    return "false";
  case P::AlwaysTrue:
    return "true";
  case P::OEQ:
    return is("==");
  case P::OGT:
    return is(">");
  case P::OGE:
    return is(">=");
  case P::OLT:
    return is("<");
  case P::OLE:
    return is("<=");
  case P::ONE:
    return is("!=") + " && !" + unordered;
  case P::ORD:
    return "!" + unordered;
  case P::UEQ:
    return orUnordered("==");
  case P::UGT:
    return orUnordered(">");
  case P::UGE:
    return orUnordered(">=");
  case P::ULT:
    return orUnordered("<");
  case P::ULE:
    return orUnordered("<=");
  case P::UNE:
    return is("!=");
  case P::UNO:
    return unordered;
  }
  llvm_unreachable("a predicate");
}

std::string compared(arith::CmpIOp op, const Expressions &e) {
  using P = arith::CmpIPredicate;
  switch (op.getPredicate()) {
  case P::eq:
    return e.chosen("==", true);
  case P::ne:
    return e.chosen("!=", true);
  case P::slt:
    return e.chosen("<", true);
  case P::sle:
    return e.chosen("<=", true);
  case P::sgt:
    return e.chosen(">", true);
  case P::sge:
    return e.chosen(">=", true);
  case P::ult:
    return e.chosen("<", false);
  case P::ule:
    return e.chosen("<=", false);
  case P::ugt:
    return e.chosen(">", false);
  case P::uge:
    return e.chosen(">=", false);
  }
  llvm_unreachable("a predicate");
}

std::string bitcast(const Expressions &e) {
  Type from = e.op->getOperand(0).getType(), to = e.type;
  if (from == to)
    return e.x[0];
  if (from.isBF16())
    return "(short)(as_uint(" + e.x[0] + ") >> 16)";
  if (to.isBF16())
    return "as_float((uint)(ushort)" + e.in(0) + " << 16)";
  if (from.isF16())
    return "float16_bits(" + e.x[0] + ")";
  if (to.isF16())
    return "float16_of(" + e.x[0] + ")";
  return "as_" + opencl::scalarType(to) + "(" + e.x[0] + ")";
}

} // namespace

std::string opencl::scalarExpression(Operation *op, Operands x) {
  auto isScalar = [](Type type) {
    return type.isIndex() || type.isF32() || type.isF64() || isNarrow(type) || type.isInteger(1) || type.isInteger(8) ||
           type.isInteger(16) || type.isInteger(32) || type.isInteger(64);
  };
  if (op->getNumResults() != 1 || !llvm::all_of(op->getOperandTypes(), isScalar) || !isScalar(op->getResult(0).getType()))
    return "";
  const Expressions e(op, x);
  const Type type = e.type;
  const std::string suffix = type.isF64() ? "_double" : "";
  // Signed numbers of one bit are 0 and -1.
  auto minusBit = [&](const std::string &bit) { return inParentheses(bit) + " ? -1 : 0"; };
  return llvm::TypeSwitch<Operation *, std::string>(op)
      .Case([&](arith::ConstantOp constant) { return literal(cast<TypedAttr>(constant.getValue())); })
      .Case([&](arith::AddFOp) { return e.infix("+"); })
      .Case([&](arith::SubFOp) { return e.infix("-"); })
      .Case([&](arith::MulFOp) { return e.infix("*"); })
      .Case([&](arith::DivFOp) { return e.infix("/"); })
      .Case([&](arith::RemFOp) { return e.call("fmod"); })
      .Case([&](arith::NegFOp) { return "-" + e.in(0); })
      .Case([&](arith::MaximumFOp) { return e.call("larger" + suffix); })
      .Case([&](arith::MinimumFOp) { return e.call("smaller" + suffix); })
      .Case([&](arith::MaxNumFOp) { return e.call("fmax"); })
      .Case([&](arith::MinNumFOp) { return e.call("fmin"); })
      .Case([&](arith::AddIOp) { return e.wrapping("+"); })
      .Case([&](arith::SubIOp) { return e.wrapping("-"); })
      .Case([&](arith::MulIOp) { return e.wrapping("*"); })
      .Case([&](arith::DivSIOp) { return e.divided("quotient", true); })
      .Case([&](arith::DivUIOp) { return e.divided("quotient", false); })
      .Case([&](arith::RemSIOp) { return e.divided("remainder", true); })
      .Case([&](arith::RemUIOp) { return e.divided("remainder", false); })
      .Case([&](arith::AndIOp) { return e.bitwise("&"); })
      .Case([&](arith::OrIOp) { return e.bitwise("|"); })
      .Case([&](arith::XOrIOp) { return e.bitwise("^"); })
      .Case([&](arith::ShLIOp) { return "(" + scalarType(type) + ")(" + asUnsigned(type, x[0]) + " << " + e.in(1) + ")"; })
      .Case([&](arith::ShRUIOp) { return "(" + scalarType(type) + ")(" + asUnsigned(type, x[0]) + " >> " + e.in(1) + ")"; })
      .Case([&](arith::ShRSIOp) { return "(" + scalarType(type) + ")(" + e.in(0) + " >> " + e.in(1) + ")"; })
      .Case([&](arith::MaxSIOp) { return e.call("max"); })
      .Case([&](arith::MinSIOp) { return e.call("min"); })
      .Case([&](arith::MaxUIOp) { return e.chosen(">", false) + " ? " + e.in(0) + " : " + e.in(1); })
      .Case([&](arith::MinUIOp) { return e.chosen("<", false) + " ? " + e.in(0) + " : " + e.in(1); })
      .Case([&](arith::ExtSIOp extension) { return extension.getIn().getType().isInteger(1) ? minusBit(x[0]) : e.cast(); })
      .Case([&](arith::ExtUIOp extension) {
        return "(" + scalarType(type) + ")" + asUnsigned(extension.getIn().getType(), x[0]);
      })
      .Case([&](arith::TruncIOp) { return type.isInteger(1) ? "(" + e.in(0) + " & 1) != 0" : e.cast(); })
      .Case([&](arith::IndexCastOp) { return e.cast(); })
      .Case([&](arith::BitcastOp) { return bitcast(e); })
      .Case([&](arith::SIToFPOp conversion) {
        return conversion.getIn().getType().isInteger(1) ? minusBit(x[0]) : rounded(type, e.cast());
      })
      .Case([&](arith::UIToFPOp conversion) {
        return rounded(type, "(" + scalarType(type) + ")" + asUnsigned(conversion.getIn().getType(), x[0]));
      })
      .Case([&](arith::FPToSIOp) { return e.cast(); })
      .Case([&](arith::FPToUIOp) { return "(" + scalarType(type) + ")(" + unsignedType(type) + ")" + e.in(0); })
      .Case([&](arith::ExtFOp) { return type.isF64() ? e.cast() : x[0]; })
      .Case([&](arith::TruncFOp) { return rounded(type, op->getOperand(0).getType().isF64() ? e.cast() : x[0]); })
      .Case([&](arith::CmpFOp compare) { return compared(compare, e); })
      .Case([&](arith::CmpIOp compare) { return compared(compare, e); })
      .Case([&](arith::SelectOp) { return e.in(0) + " ? " + e.in(1) + " : " + e.in(2); })
      .Case([&](math::FmaOp) { return e.call("fma"); })
      .Case([&](math::SqrtOp) { return e.call("sqrt"); })
      .Case([&](math::RsqrtOp) { return rounded(type, (type.isF64() ? "1.0 / sqrt(" : "1.0f / sqrt(") + x[0] + ")"); })
      .Case([&](math::CbrtOp) { return e.call("cbrt"); })
      .Case([&](math::AbsFOp) { return e.call("fabs"); })
      .Case([&](math::AbsIOp) { return "(" + scalarType(type) + ")abs(" + x[0] + ")"; })
      .Case([&](math::FloorOp) { return e.call("floor"); })
      .Case([&](math::CeilOp) { return e.call("ceil"); })
      .Case([&](math::TruncOp) { return e.call("trunc"); })
      .Case([&](math::RoundOp) { return e.call("round"); })
      .Case([&](math::RoundEvenOp) { return e.call("rint"); })
      .Case([&](math::CopySignOp) { return e.call("copysign"); })
      .Case([&](math::ExpOp) { return e.call("exp"); })
      .Case([&](math::Exp2Op) { return e.call("exp2"); })
      .Case([&](math::ExpM1Op) { return e.call("expm1"); })
      .Case([&](math::LogOp) { return e.call("log"); })
      .Case([&](math::Log2Op) { return e.call("log2"); })
      .Case([&](math::Log10Op) { return e.call("log10"); })
      .Case([&](math::Log1pOp) { return e.call("log1p"); })
      .Case([&](math::PowFOp) { return e.call("pow"); })
      .Case([&](math::TanhOp) { return e.call("tanh"); })
      .Case([&](math::ErfOp) { return e.call("erf"); })
      .Case([&](math::SinOp) { return e.call("sin"); })
      .Case([&](math::CosOp) { return e.call("cos"); })
      .Case([&](math::TanOp) { return e.call("tan"); })
      .Case([&](math::AsinOp) { return e.call("asin"); })
      .Case([&](math::AcosOp) { return e.call("acos"); })
      .Case([&](math::AtanOp) { return e.call("atan"); })
      .Case([&](math::Atan2Op) { return e.call("atan2"); })
      .Case([&](math::SinhOp) { return e.call("sinh"); })
      .Case([&](math::CoshOp) { return e.call("cosh"); })
      .Case([&](math::AsinhOp) { return e.call("asinh"); })
      .Case([&](math::AcoshOp) { return e.call("acosh"); })
      .Case([&](math::AtanhOp) { return e.call("atanh"); })
      .Default([](Operation *) { return ""; });
}

std::string opencl::withFunctions(const std::string &text) {
  std::string functions;
  for (auto [name, definition] : kFunctions)
    if (text.find(std::string(name) + "(") != std::string::npos)
      functions += definition + std::string("\n");
  return functions + text;
}
