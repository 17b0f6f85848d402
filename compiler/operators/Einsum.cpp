//===- Einsum.cpp - Sums of products over named dims ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operands are multiplied one after the other, each pair as a batch of
// products of matrices; what only one of them names is summed before.
//===----------------------------------------------------------------------===//
#include "compiler/operators/Multiply.h"

#include <map>

using namespace tw;
using namespace tw::operators;

namespace {

/// A dim's name: a letter, or a dim of the ellipsis, counted from its end, as a negative number.
using Label = int;
using Labels = std::vector<Label>;

struct Equation {
  std::vector<Labels> terms;
  Labels result;
};

bool contains(const Labels &labels, Label label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

/// The names of a term, `ellipsis` dims in the place of its dots.
Labels parseTerm(const Call &call, const std::string &text, int64_t ellipsis, bool &hasEllipsis) {
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.') {
      if (hasEllipsis || text.compare(i, 3, "...") != 0)
        call.fail("the term \"" + text + "\" has dots that are no single ellipsis");
      hasEllipsis = true;
      for (int64_t dim = ellipsis; dim > 0; --dim)
        labels.push_back(Label(-dim));
      i += 2;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      labels.push_back(c);
    } else {
      call.fail("the term \"" + text + "\" holds other characters than letters and an ellipsis");
    }
  }
  return labels;
}

Equation parseEquation(const Call &call) {
  std::string text = call.stringAttr("equation");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  std::vector<std::string> terms(1);
  for (char c : left)
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  if (terms.size() != call.numInputs())
    call.fail("equation has " + std::to_string(terms.size()) + " terms for " + std::to_string(call.numInputs()) + " inputs");
  Equation equation;
  int64_t most = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const int64_t rank = int64_t(call.input(i).shape.size());
    bool hasEllipsis = false;
    const int64_t letters = int64_t(parseTerm(call, terms[i], 0, hasEllipsis).size());
    if (hasEllipsis ? letters > rank : letters != rank)
      call.fail("the term \"" + terms[i] + "\" does not fit input " + std::to_string(i) + " of shape " +
                textOf(call.input(i).shape));
    most = std::max(most, rank - letters);
    hasEllipsis = false;
    equation.terms.push_back(parseTerm(call, terms[i], rank - letters, hasEllipsis));
  }
  if (arrow != std::string::npos) {
    bool hasEllipsis = false;
    equation.result = parseTerm(call, text.substr(arrow + 2), most, hasEllipsis);
  } else {
    // All dims of the ellipsis, then the letters that stand once, in the order of the alphabet.
    std::map<Label, int> uses;
    for (const Labels &term : equation.terms)
      for (Label label : term)
        ++uses[label];
    for (auto [label, count] : uses)
      if (label < 0 || count == 1)
        equation.result.push_back(label);
  }
  for (size_t i = 0; i < equation.result.size(); ++i) {
    const Label label = equation.result[i];
    if (std::count(equation.result.begin(), equation.result.end(), label) != 1)
      call.fail("the result of the equation names \"" + std::string(1, char(label)) + "\" twice");
    if (std::none_of(equation.terms.begin(), equation.terms.end(), [&](const Labels &term) { return contains(term, label); }))
      call.fail("the result of the equation names \"" + std::string(1, char(label)) + "\", which no term does");
  }
  return equation;
}

template <typename C> struct Operand {
  Labels labels;
  Shape shape;
  std::vector<C> elements;
};

/// `from`, its dims walked with `strides`, as a tensor of `labels`: dims that `labels` does not name are summed.
template <typename C>
Operand<C> summed(const C *from, const Labels &all, const Shape &shape, const Shape &strides, const Labels &labels) {
  // The named dims in front, in order.
  Shape inner, innerStrides;
  Operand<C> result;
  result.labels = labels;
  Shape resultStrides;
  for (Label label : labels) {
    const size_t dim = size_t(std::find(all.begin(), all.end(), label) - all.begin());
    result.shape.push_back(shape[dim]);
    resultStrides.push_back(strides[dim]);
  }
  for (size_t dim = 0; dim < all.size(); ++dim)
    if (!contains(labels, all[dim])) {
      inner.push_back(shape[dim]);
      innerStrides.push_back(strides[dim]);
    }
  (void)makeTensor(ElementKind::I8, result.shape); // fails if it is too large
  result.elements.resize(size_t(countOf(result.shape)));
  walk<1>(result.shape, {resultStrides}, [&](int64_t to, const std::array<int64_t, 1> &at) {
    if (inner.empty()) {
      result.elements[size_t(to)] = from[at[0]];
      return;
    }
    C sum = 0;
    walk<1>(inner, {innerStrides}, [&](int64_t, const std::array<int64_t, 1> &more) { sum += from[at[0] + more[0]]; });
    result.elements[size_t(to)] = sum;
  });
  return result;
}

/// The same operand with its dims in the order `labels`, the others summed.
template <typename C> Operand<C> arranged(Operand<C> operand, const Labels &labels) {
  if (operand.labels == labels)
    return operand;
  return summed(operand.elements.data(), operand.labels, operand.shape, stridesOf(operand.shape), labels);
}

/// The product of two operands, summed over what is not in `kept`.
template <typename C> Operand<C> productOf(Operand<C> a, Operand<C> b, const Labels &kept) {
  Labels batch, rows, columns, contracted;
  for (Label label : a.labels)
    if (contains(b.labels, label))
      (contains(kept, label) ? batch : contracted).push_back(label);
    else if (contains(kept, label))
      rows.push_back(label);
  for (Label label : b.labels)
    if (!contains(a.labels, label) && contains(kept, label))
      columns.push_back(label);
  auto joined = [](std::initializer_list<const Labels *> parts) {
    Labels all;
    for (const Labels *part : parts)
      all.insert(all.end(), part->begin(), part->end());
    return all;
  };
  // What only one operand names and nobody keeps is summed here.
  a = arranged(std::move(a), joined({&batch, &rows, &contracted}));
  b = arranged(std::move(b), joined({&batch, &contracted, &columns}));
  auto sizeOf = [](const Operand<C> &operand, size_t first, size_t count) {
    int64_t size = 1;
    for (size_t i = first; i < first + count; ++i)
      size *= operand.shape[i];
    return size;
  };
  const int64_t batches = sizeOf(a, 0, batch.size()), m = sizeOf(a, batch.size(), rows.size());
  const int64_t k = sizeOf(a, batch.size() + rows.size(), contracted.size());
  const int64_t n = sizeOf(b, batch.size() + contracted.size(), columns.size());
  Operand<C> result;
  result.labels = joined({&batch, &rows, &columns});
  result.shape.assign(a.shape.begin(), a.shape.begin() + int64_t(batch.size() + rows.size()));
  result.shape.insert(result.shape.end(), b.shape.end() - int64_t(columns.size()), b.shape.end());
  (void)makeTensor(ElementKind::I8, result.shape); // fails if it is too large
  result.elements.resize(size_t(countOf(result.shape)));
  if (result.elements.empty())
    return result;
  if (m == 1 && n == 1) {
    for (int64_t i = 0; i < batches; ++i)
      for (int64_t at = 0; at < k; ++at)
        result.elements[size_t(i)] += a.elements[size_t(i * k + at)] * b.elements[size_t(i * k + at)];
    return result;
  }
  for (int64_t i = 0; i < batches; ++i)
    multiply(m, n, k, a.elements.data() + i * m * k, k, b.elements.data() + i * k * n, n, result.elements.data() + i * m * n,
             n);
  return result;
}

template <typename T> void evaluateAs(Call &call, const Equation &equation, ElementKind kind) {
  using C = Product<T>;
  // The size of each name: 1 repeats in an ellipsis.
  std::map<Label, int64_t> sizes;
  for (size_t i = 0; i < equation.terms.size(); ++i)
    for (size_t dim = 0; dim < equation.terms[i].size(); ++dim) {
      const Label label = equation.terms[i][dim];
      const int64_t size = call.input(i).shape[dim];
      auto [found, isNew] = sizes.emplace(label, size);
      if (isNew || found->second == size)
        continue;
      if (label > 0 || (found->second != 1 && size != 1))
        call.fail("dim " + std::to_string(dim) + " of input " + std::to_string(i) + " is " + std::to_string(size) + ", but " +
                  (label > 0 ? "\"" + std::string(1, char(label)) + "\"" : std::string("the ellipsis")) + " has " +
                  std::to_string(found->second) + " before");
      if (found->second == 1)
        found->second = size;
    }
  Operand<C> product;
  for (size_t i = 0; i < equation.terms.size(); ++i) {
    const HostTensor &x = call.input(i);
    Widened<T, C> elements(x);
    const Shape strides = stridesOf(x.shape);
    // What the result or a term behind names is kept.
    Labels kept = equation.result;
    for (size_t later = i + 1; later < equation.terms.size(); ++later)
      kept.insert(kept.end(), equation.terms[later].begin(), equation.terms[later].end());
    // The diagonal of dims of one name, and no dims that repeat.
    Labels all, wanted;
    Shape shape, steps;
    for (size_t dim = 0; dim < equation.terms[i].size(); ++dim) {
      const Label label = equation.terms[i][dim];
      if (x.shape[dim] == 1 && sizes[label] != 1)
        continue;
      const size_t at = size_t(std::find(all.begin(), all.end(), label) - all.begin());
      if (at < all.size()) {
        steps[at] += strides[dim];
        continue;
      }
      all.push_back(label);
      shape.push_back(x.shape[dim]);
      steps.push_back(strides[dim]);
      if (contains(kept, label) || contains(product.labels, label))
        wanted.push_back(label);
    }
    Operand<C> operand = summed(elements.data(), all, shape, steps, wanted);
    product = i == 0 ? std::move(operand) : productOf(std::move(product), std::move(operand), kept);
  }
  product = arranged(std::move(product), equation.result);
  HostTensor &y = call.output(0, kind, product.shape);
  for (size_t i = 0; i < product.elements.size(); ++i)
    data<T>(y)[i] = T(Computed<T>(product.elements[i]));
}

void evaluateEinsum(Call &call) {
  if (call.numInputs() == 0)
    call.fail("it has no inputs");
  const Equation equation = parseEquation(call);
  const HostTensor &first = call.input(0);
  for (size_t i = 1; i < call.numInputs(); ++i)
    call.requireSameType(first, call.input(i));
  if (!visitNumber(first.type, [&](auto zero) { evaluateAs<decltype(zero)>(call, equation, first.type); }))
    failType(call, 0, first);
}

} // namespace

void operators::addEinsum(Table &table) { table[":Einsum"].evaluate = evaluateEinsum; }
