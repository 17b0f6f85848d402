//===- Rules.cpp - Rewriting rules as a table -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The patterns of Rules.td, and what they ask of the ops that they match.
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Rules.h"
#include "compiler/graph/GraphShapes.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Rewriting.h"

using namespace mlir;

namespace tw::graph {

#define GET_RULE_FUNCTIONS
#include "compiler/graph/transforms/RuleTable.inc"

namespace {

//===----------------------------------------------------------------------===//
// Constraints
//===----------------------------------------------------------------------===//

/// Whether `value` is a constant whose elements all are `number`.
bool isNumber(Value value, double number) {
  ElementsAttr elements = constantOf(value);
  if (!elements || elements.getNumElements() == 0)
    return false;
  if (isa<FloatType>(elements.getElementType())) {
    std::optional<float> splat = splatFloat(value);
    return splat && *splat == float(number) && std::signbit(*splat) == std::signbit(number);
  }
  return (elements.isSplat() || elements.getNumElements() == 1) && readIntegers(elements).front() == int64_t(number);
}

/// Whether `value` is a constant of floats whose reciprocals are finite and not subnormal, and each is a number that `isGood` likes.
template <typename Predicate> bool haveReciprocals(Value value, Predicate isGood) {
  ElementsAttr elements = constantOf(value);
  if (!elements || !isa<FloatType>(elements.getElementType()))
    return false;
  const int most = elements.getElementType().isF16() ? 14 : 126;
  return llvm::all_of(readFloats(elements), [&](float x) {
    int exponent;
    const float fraction = std::frexp(x, &exponent);
    return std::isnormal(x) && std::abs(exponent) < most && isGood(fraction);
  });
}
bool arePowersOfTwo(Value value) {
  return haveReciprocals(value, [](float fraction) { return std::fabs(fraction) == 0.5f; });
}
bool areInvertible(Value value) {
  return haveReciprocals(value, [](float) { return true; });
}

bool swapsLastTwo(ArrayRef<int64_t> perm) {
  const int64_t rank = int64_t(perm.size());
  for (int64_t dim = 0; dim < rank - 2; ++dim)
    if (perm[size_t(dim)] != dim)
      return false;
  return rank >= 2 && perm[size_t(rank) - 2] == rank - 1;
}

/// Whether the dims that a reduction over `axes` of a transposed tensor leaves are in the order of the tensor.
bool keepsOrder(ArrayRef<int64_t> perm, ArrayRef<int64_t> axes) {
  int64_t last = -1;
  for (int64_t dim = 0; dim < int64_t(perm.size()); ++dim) {
    if (llvm::is_contained(axes, dim))
      continue;
    if (perm[size_t(dim)] < last)
      return false;
    last = perm[size_t(dim)];
  }
  return true;
}

/// Whether a conversion keeps the order of numbers and takes more bytes than they do.
bool widens(Type from, Type to) {
  if (from.getIntOrFloatBitWidth() >= to.getIntOrFloatBitWidth() || from.isInteger(1))
    return false;
  if (isa<FloatType>(from))
    return to.isF32();
  if (isa<FloatType>(to))
    return isEightBit(from);
  return from.isUnsignedInteger() || !to.isUnsignedInteger();
}

bool narrowsBack(Value x, Value wide, Value y) {
  return x.getType() == y.getType() && elementOf(wide).isF32() && isa<FloatType>(elementOf(y));
}

/// Whether [a, b] and [c, d] meet, and no bound of one is another zero than the other's.
bool meet(FloatAttr a, FloatAttr b, FloatAttr c, FloatAttr d) {
  auto isSame = [](const APFloat &x, const APFloat &y) { return x.compare(y) != APFloat::cmpEqual || x.bitwiseIsEqual(y); };
  const APFloat lows[] = {a.getValue(), c.getValue()}, highs[] = {b.getValue(), d.getValue()};
  return !(lows[0] > highs[1]) && !(lows[1] > highs[0]) && isSame(lows[0], lows[1]) && isSame(highs[0], highs[1]);
}

//===----------------------------------------------------------------------===//
// Parts of results
//===----------------------------------------------------------------------===//

/// The permutation of a transpose by `first` and then by `second`.
SmallVector<int64_t> composed(ArrayRef<int64_t> first, ArrayRef<int64_t> second) {
  return llvm::map_to_vector(second, [&](int64_t dim) { return first[size_t(dim)]; });
}

/// The dims before a transpose by `perm` that are `axes` behind it, ascending.
SmallVector<int64_t> throughTranspose(ArrayRef<int64_t> axes, ArrayRef<int64_t> perm) {
  SmallVector<int64_t> dims = composed(perm, axes);
  llvm::sort(dims);
  return dims;
}

/// Whether the reduction of `x` over `axes` has the shape of reduction `y`: dims of 1 that stay may lie elsewhere.
bool reducesTo(Value x, ArrayRef<int64_t> axes, Value y) {
  const bool keeps = y.getDefiningOp<ReduceOp>().getKeepdims();
  return ArrayRef<int64_t>(llvm::cantFail(reduceShape(shapeOf(x), axes, keeps))) == shapeOf(y);
}

FloatAttr largerOf(FloatAttr a, FloatAttr b) { return FloatAttr::get(a.getType(), llvm::maximum(a.getValue(), b.getValue())); }
FloatAttr smallerOf(FloatAttr a, FloatAttr b) { return FloatAttr::get(a.getType(), llvm::minimum(a.getValue(), b.getValue())); }

Value reciprocals(OpBuilder &builder, Location loc, Value constant) {
  std::vector<float> values = readFloats(constantOf(constant));
  for (float &value : values)
    value = 1 / value;
  return builder.create<ConstantOp>(loc, makeFloats(tensorOf(constant), values));
}

Type broadcastType(Value a, Value b) {
  return RankedTensorType::get(llvm::cantFail(broadcastShapes(shapeOf(a), shapeOf(b))), elementOf(a));
}
Type productType(Value a, Value b) {
  return RankedTensorType::get(llvm::cantFail(matmulShape(shapeOf(a), shapeOf(b))), elementOf(a));
}

#include "compiler/graph/transforms/Rules.inc"

template <typename Pattern> void addPattern(RewritePatternSet &patterns) { patterns.add<Pattern>(patterns.getContext()); }

} // namespace

const std::vector<Rule> &rules() {
  static const std::vector<Rule> table = {
#define GET_RULE_TABLE
#include "compiler/graph/transforms/RuleTable.inc"
  };
  return table;
}

const Rule *findRule(const std::string &name) {
  auto found = llvm::find_if(rules(), [&](const Rule &rule) { return rule.name == name; });
  return found == rules().end() ? nullptr : &*found;
}

void addCleanupPatterns(RewritePatternSet &patterns) {
  for (const Rule &rule : rules()) {
    if (!rule.isCleanup)
      continue;
    RewritePatternSet own(patterns.getContext());
    for (auto add : rule.patterns)
      add(own);
    for (std::unique_ptr<RewritePattern> &pattern : own.getNativePatterns()) {
      pattern->addDebugLabels(rule.name);
      patterns.add(std::move(pattern));
    }
  }
}

bool RuleOptions::allows(const Rule &rule, Math math) const {
  if (!rule.isOptional())
    return rule.isRequired;
  if (size_t(rule.exactness) + 1 > size_t(set) || llvm::is_contained(disabled, rule.name))
    return false;
  return math >= rule.leastMath;
}

std::string RuleOptions::disable(const std::string &name) {
  const Rule *rule = findRule(name);
  if (!rule)
    return "which is no rule; 'tilewright rules' lists them";
  if (!rule->isOptional())
    return "which is always applied; 'tilewright rules' says which are not";
  disabled.push_back(name);
  return "";
}

void RuleRecorder::add(const std::string &name, std::vector<std::string> nodes, std::optional<RuleEstimate> cycles) const {
  const Rule *rule = findRule(name);
  assert(rule && "a pattern with a label that is no rule");
  log->firings.push_back({rule, std::move(nodes), cycles});
}

} // namespace tw::graph
