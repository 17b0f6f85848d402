//===- ControlFlow.cpp - If, Loop, Scan, sequences and optionals ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/ControlFlow.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/operators/Elements.h"
#include "compiler/operators/Movement.h"

#include <onnx/onnx_pb.h>

using namespace tw;
using namespace tw::operators;

int64_t operators::maxLoopIterations = 100'000'000;
int64_t operators::maxScanBytes = int64_t(1) << 32;

namespace {

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

bool conditionOf(const Call &call, const Value &value, const std::string &what) {
  if (value.form != Value::Form::Tensor || value.tensor->type != ElementKind::Bool || countOf(*value.tensor) != 1)
    call.fail(what + " is no bool of one element");
  return value.tensor->bytes[0] != 0;
}

/// Fails unless `graph` has that many inputs, and results or more. Initializers may be inputs too, behind the others.
void requireSignature(const Call &call, const onnx::GraphProto &graph, const char *name, size_t inputs, size_t outputs) {
  std::set<std::string> initializers;
  for (const onnx::TensorProto &tensor : graph.initializer())
    initializers.insert(tensor.name());
  bool fits = size_t(graph.input_size()) >= inputs;
  for (int i = int(inputs); fits && i < graph.input_size(); ++i)
    fits = initializers.count(graph.input(i).name()) != 0;
  if (!fits)
    call.fail(std::string(name) + " has " + std::to_string(graph.input_size()) + " inputs, expected " + std::to_string(inputs));
  if (size_t(graph.output_size()) != outputs)
    call.fail(std::string(name) + " has " + std::to_string(graph.output_size()) + " results, expected " +
              std::to_string(outputs));
}

void evaluateIf(Call &call) {
  const char *branch = conditionOf(call, call.value(0), "the condition") ? "then_branch" : "else_branch";
  const onnx::GraphProto &graph = call.graphAttr(branch);
  requireSignature(call, graph, branch, 0, call.numOutputs());
  std::vector<Value> results = call.run(graph, {});
  for (size_t i = 0; i < results.size(); ++i)
    call.set(i, std::move(results[i]));
}

/// Tensors of one shape, one behind the other along a new dim in front.
class Stack {
public:
  /// `budget`: bytes that may still be taken, of several stacks.
  void add(const Call &call, const Value &value, int64_t &budget) {
    if (value.form != Value::Form::Tensor)
      call.fail("a scan output is no tensor");
    const HostTensor &part = *value.tensor;
    if (count == 0) {
      all.type = part.type;
      all.shape = part.shape;
    } else if (part.type != all.type || part.shape != all.shape) {
      call.fail(std::string("a scan output is of ") + frontend::elementName(all.type) + " and shape " + textOf(all.shape) +
                ", then of " + frontend::elementName(part.type) + " and shape " + textOf(part.shape));
    }
    budget -= int64_t(part.bytes.size() + part.strings.size() * sizeof(std::string));
    for (const std::string &text : part.strings)
      budget -= int64_t(text.size());
    if (budget < 0)
      call.fail("scan outputs take more than " + std::to_string(maxScanBytes) + " bytes");
    all.bytes.insert(all.bytes.end(), part.bytes.begin(), part.bytes.end());
    all.strings.insert(all.strings.end(), part.strings.begin(), part.strings.end());
    ++count;
  }

  /// What was added; `declared`: what is known of the elements if nothing was.
  HostTensor take(const Call &call, const onnx::ValueInfoProto &declared) {
    if (count == 0) {
      const onnx::TypeProto::Tensor &type = declared.type().tensor_type();
      all.type = frontend::elementKindOf(type.elem_type()).value_or(ElementKind::F32);
      for (const auto &dim : type.shape().dim())
        all.shape.push_back(std::max<int64_t>(dim.dim_value(), 0));
    }
    all.shape.insert(all.shape.begin(), count);
    const auto elements = frontend::countTensorElements(all.shape);
    if (!elements)
      call.fail("a scan output has shape " + textOf(all.shape) + ", at most 2^31 elements are allowed");
    return std::move(all);
  }

private:
  HostTensor all;
  int64_t count = 0;
};

/// Inputs: trip count, condition, what is carried. The body takes and gives the same, and gives scan outputs behind.
void evaluateLoop(Call &call) {
  const onnx::GraphProto &body = call.graphAttr("body");
  const size_t carried = call.numInputs() > 2 ? call.numInputs() - 2 : 0;
  requireSignature(call, body, "body", 2 + carried, 1 + std::max(carried, call.numOutputs()));
  const bool isCounted = call.has(0);
  const int64_t trips = isCounted ? call.intScalar(0) : 0;
  bool goesOn = !call.has(1) || conditionOf(call, call.value(1), "the condition");
  std::vector<Value> values;
  for (size_t i = 0; i < carried; ++i)
    values.push_back(call.value(2 + i));
  // Those that the node does not name are thrown away.
  std::vector<Stack> stacks(std::max(carried, call.numOutputs()) - carried);
  int64_t budget = maxScanBytes;
  for (int64_t trip = 0; goesOn && (!isCounted || trip < trips); ++trip) {
    if (trip == maxLoopIterations)
      call.fail("it does not end within " + std::to_string(maxLoopIterations) + " iterations");
    std::vector<Value> arguments{makeScalar(ElementKind::I64, trip), makeScalar(ElementKind::Bool, uint8_t(goesOn))};
    std::move(values.begin(), values.end(), std::back_inserter(arguments));
    std::vector<Value> results = call.run(body, std::move(arguments));
    goesOn = results[0].form == Value::Form::Empty || conditionOf(call, results[0], "the body's condition");
    for (size_t i = 0; i < carried; ++i)
      values[i] = std::move(results[1 + i]);
    for (size_t i = 0; i < stacks.size(); ++i)
      stacks[i].add(call, results[1 + carried + i], budget);
  }
  for (size_t i = 0; i < carried; ++i)
    call.set(i, std::move(values[i]));
  for (size_t i = 0; i < stacks.size(); ++i)
    call.set(carried + i, stacks[i].take(call, body.output(int(1 + carried + i))));
}

//===----------------------------------------------------------------------===//
// Scan
//===----------------------------------------------------------------------===//

/// Entry `at` of `x` along `axis`, without that dim.
HostTensor entryOf(const HostTensor &x, int64_t axis, int64_t at) {
  HostTensor entry = sliceOf(x, axis, at, 1);
  entry.shape.erase(entry.shape.begin() + axis);
  return entry;
}

/// `x` with its first dim moved to `axis`, and in reverse if wanted.
HostTensor arranged(HostTensor x, int64_t axis, bool isReverse) {
  if ((axis == 0 && !isReverse) || countOf(x) == 0) {
    if (countOf(x) == 0)
      std::rotate(x.shape.begin(), x.shape.begin() + 1, x.shape.begin() + axis + 1);
    return x;
  }
  Shape shape = x.shape, strides = stridesOf(x.shape);
  const int64_t from = isReverse ? (shape[0] - 1) * strides[0] : 0;
  if (isReverse)
    strides[0] = -strides[0];
  std::rotate(shape.begin(), shape.begin() + 1, shape.begin() + axis + 1);
  std::rotate(strides.begin(), strides.begin() + 1, strides.begin() + axis + 1);
  HostTensor y = makeTensor(x.type, shape);
  copyBlock(shape, x, from, strides, y, 0, stridesOf(shape));
  return y;
}

/// One list attribute of Scan: zeros if it is missing.
std::vector<int64_t> scanAttr(const Call &call, const char *name, size_t count) {
  std::vector<int64_t> values = call.intsAttr(name, std::vector<int64_t>(count, 0));
  if (values.size() != count)
    call.fail(std::string(name) + " has " + std::to_string(values.size()) + " entries, expected " + std::to_string(count));
  return values;
}

std::vector<int64_t> directionsAttr(const Call &call, const char *name, size_t count) {
  std::vector<int64_t> values = scanAttr(call, name, count);
  for (int64_t value : values)
    if (value != 0 && value != 1)
      call.fail(std::string(name) + " has " + std::to_string(value) + ", expected 0 or 1");
  return values;
}

/// One run of a Scan over what is scanned: `states` become the final ones; returns the scan outputs, stacked in front in order of time.
/// `inputs`: scanned along `axes`, `length` entries, from behind where `directions` says so.
struct Scanner {
  Call &call;
  const onnx::GraphProto &body;
  std::vector<int64_t> axes, directions;
  int64_t budget = maxScanBytes;

  std::vector<HostTensor> run(std::vector<Value> &states, const std::vector<const HostTensor *> &inputs, int64_t length) {
    std::vector<Stack> stacks(size_t(body.output_size()) - states.size());
    for (int64_t step = 0; step < length; ++step) {
      std::vector<Value> arguments;
      std::move(states.begin(), states.end(), std::back_inserter(arguments));
      for (size_t i = 0; i < inputs.size(); ++i)
        arguments.push_back(entryOf(*inputs[i], axes[i], directions[i] ? length - 1 - step : step));
      std::vector<Value> results = call.run(body, std::move(arguments));
      for (size_t i = 0; i < states.size(); ++i)
        states[i] = std::move(results[i]);
      for (size_t i = 0; i < stacks.size(); ++i)
        stacks[i].add(call, results[states.size() + i], budget);
    }
    std::vector<HostTensor> outputs;
    for (size_t i = 0; i < stacks.size(); ++i)
      outputs.push_back(stacks[i].take(call, body.output(int(states.size() + i))));
    return outputs;
  }
};

/// Opset 8: input 0 holds lengths or is left out; all others begin with a batch, which is scanned entry by entry; time is axis 1.
void evaluateScan8(Call &call, const onnx::GraphProto &body, size_t states, size_t scanned) {
  Scanner scanner{call, body, std::vector<int64_t>(scanned, 0), directionsAttr(call, "directions", scanned)};
  for (size_t i = 1; i < call.numInputs(); ++i)
    if (call.input(i).shape.size() < (i > states ? 2 : 1) || call.input(i).shape[0] != call.input(1).shape[0])
      call.fail("input " + std::to_string(i) + " has shape " + textOf(call.input(i).shape) + ", which has no batch of " +
                (call.input(1).shape.empty() ? "its own" : std::to_string(call.input(1).shape[0])) + " and no time");
  const int64_t batches = call.input(1).shape[0], times = call.input(1 + states).shape[1];
  for (size_t i = 1 + states; i < call.numInputs(); ++i)
    if (call.input(i).shape[1] != times)
      call.fail("inputs are scanned along dims of " + std::to_string(times) + " and " + std::to_string(call.input(i).shape[1]));
  std::vector<int64_t> lengths(size_t(batches), times);
  if (call.has(0)) {
    lengths = call.ints(0);
    if (call.input(0).shape != Shape{batches})
      call.fail("sequence_lens has shape " + textOf(call.input(0).shape) + ", expected " + textOf({batches}));
  }
  std::vector<std::vector<HostTensor>> results(size_t(body.output_size()));
  for (int64_t batch = 0; batch < batches; ++batch) {
    const int64_t length = lengths[size_t(batch)];
    if (length < 0 || length > times)
      call.fail("a sequence has length " + std::to_string(length) + ", expected 0 to " + std::to_string(times));
    std::vector<Value> values;
    std::vector<HostTensor> inputs;
    std::vector<const HostTensor *> pointers;
    for (size_t i = 0; i < states; ++i)
      values.push_back(entryOf(call.input(1 + i), 0, batch));
    for (size_t i = 0; i < scanned; ++i)
      inputs.push_back(entryOf(call.input(1 + states + i), 0, batch));
    for (const HostTensor &input : inputs)
      pointers.push_back(&input);
    std::vector<HostTensor> outputs = scanner.run(values, pointers, length);
    for (size_t i = 0; i < states; ++i) {
      if (values[i].form != Value::Form::Tensor)
        call.fail("a state is no tensor");
      results[i].push_back(*values[i].tensor);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      // Behind the end of a short sequence stand zeros.
      Shape full = outputs[i].shape;
      full[0] = times;
      HostTensor padded = makeTensor(outputs[i].type, full);
      copyElements(outputs[i], 0, padded, 0, countOf(outputs[i]));
      results[states + i].push_back(std::move(padded));
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].empty()) {
      const HostTensor &first = call.input(i < states ? 1 + i : 1 + states);
      call.set(i, makeTensor(first.type, first.shape));
      continue;
    }
    std::vector<const HostTensor *> parts;
    for (HostTensor &part : results[i]) {
      part.shape.insert(part.shape.begin(), 1);
      parts.push_back(&part);
    }
    call.set(i, concatenated(parts, 0));
  }
}

void evaluateScan(Call &call) {
  const onnx::GraphProto &body = call.graphAttr("body");
  const size_t first = call.opset() < 9 ? 1 : 0;
  const int64_t scanned = call.intAttr("num_scan_inputs"), states = int64_t(call.numInputs()) - int64_t(first) - scanned;
  if (scanned < 1 || states < 0)
    call.fail("num_scan_inputs is " + std::to_string(scanned) + " for " + std::to_string(call.numInputs()) + " inputs");
  requireSignature(call, body, "body", size_t(states + scanned), std::max(size_t(states), call.numOutputs()));
  if (first)
    return evaluateScan8(call, body, size_t(states), size_t(scanned));

  const size_t outputs = size_t(body.output_size()) - size_t(states);
  Scanner scanner{call, body, scanAttr(call, "scan_input_axes", size_t(scanned)),
                  directionsAttr(call, "scan_input_directions", size_t(scanned))};
  const std::vector<int64_t> outputAxes = scanAttr(call, "scan_output_axes", outputs);
  const std::vector<int64_t> outputDirections = directionsAttr(call, "scan_output_directions", outputs);
  std::vector<Value> values;
  std::vector<const HostTensor *> inputs;
  for (int64_t i = 0; i < states; ++i)
    values.push_back(call.value(size_t(i)));
  int64_t length = 0;
  for (size_t i = 0; i < size_t(scanned); ++i) {
    const HostTensor &input = call.input(size_t(states) + i);
    if (input.shape.empty())
      call.fail("input " + std::to_string(size_t(states) + i) + " is a scalar");
    scanner.axes[i] = call.axis(scanner.axes[i], int64_t(input.shape.size()));
    const int64_t extent = input.shape[size_t(scanner.axes[i])];
    if (i > 0 && extent != length)
      call.fail("inputs are scanned along dims of " + std::to_string(length) + " and " + std::to_string(extent));
    length = extent;
    inputs.push_back(&input);
  }
  std::vector<HostTensor> stacked = scanner.run(values, inputs, length);
  for (size_t i = 0; i < values.size(); ++i)
    call.set(i, std::move(values[i]));
  for (size_t i = 0; i < outputs; ++i) {
    const int64_t axis = call.axis(outputAxes[i], int64_t(stacked[i].shape.size()));
    call.set(values.size() + i, arranged(std::move(stacked[i]), axis, outputDirections[i] != 0));
  }
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

void requireSameKind(const Call &call, const Value &a, const Value &b) {
  if (a.form != b.form)
    call.fail("elements of a sequence are of different forms");
  if (a.form == Value::Form::Tensor)
    call.requireSameType(*a.tensor, *b.tensor);
}

void evaluateSequenceEmpty(Call &call) { call.set(0, Value::sequenceOf({})); }

void evaluateSequenceConstruct(Call &call) {
  std::vector<Value> elements;
  for (size_t i = 0; i < call.numInputs(); ++i) {
    elements.push_back(call.shared(i));
    requireSameKind(call, elements[0], elements[i]);
  }
  call.set(0, Value::sequenceOf(std::move(elements)));
}

/// Input `i`, counted from the end if negative; `fallback` if it is left out. Fails unless in [0, count).
size_t positionInput(const Call &call, size_t i, int64_t count, int64_t extent, int64_t fallback) {
  const int64_t given = call.has(i) ? call.intScalar(i) : fallback;
  const int64_t position = given < 0 ? given + extent : given;
  if (position < 0 || position >= count)
    call.fail("position " + std::to_string(given) + " is out of range for a sequence of " + std::to_string(extent));
  return size_t(position);
}

void evaluateSequenceAt(Call &call) {
  const std::vector<Value> &elements = call.sequence(0);
  const int64_t size = int64_t(elements.size());
  if (!call.has(1))
    call.fail("input 1 is missing");
  call.set(0, elements[positionInput(call, 1, size, size, 0)]);
}

void evaluateSequenceInsert(Call &call) {
  std::vector<Value> elements = call.sequence(0);
  const int64_t size = int64_t(elements.size());
  const size_t position = positionInput(call, 2, size + 1, size, size);
  if (!elements.empty())
    requireSameKind(call, elements[0], call.value(1));
  elements.insert(elements.begin() + int64_t(position), call.value(1));
  call.set(0, Value::sequenceOf(std::move(elements)));
}

void evaluateSequenceErase(Call &call) {
  std::vector<Value> elements = call.sequence(0);
  const int64_t size = int64_t(elements.size());
  elements.erase(elements.begin() + int64_t(positionInput(call, 1, size, size, -1)));
  call.set(0, Value::sequenceOf(std::move(elements)));
}

void evaluateSequenceLength(Call &call) { call.set(0, makeScalar(ElementKind::I64, int64_t(call.sequence(0).size()))); }

void evaluateSplitToSequence(Call &call) {
  const HostTensor &x = call.input(0);
  if (x.shape.empty())
    call.fail("input 0 is a scalar");
  const int64_t axis = call.axis(call.intAttr("axis", 0), int64_t(x.shape.size())), extent = x.shape[size_t(axis)];
  std::vector<int64_t> split;
  if (call.has(1) && call.input(1).shape.size() == 1) {
    split = call.ints(1);
  } else {
    const int64_t each = call.has(1) ? call.intScalar(1) : 1;
    if (each < 1)
      call.fail("split is " + std::to_string(each) + ", expected at least 1");
    for (int64_t begin = 0; begin < extent; begin += std::min(each, extent - begin))
      split.push_back(std::min(each, extent - begin));
  }
  requireParts(call, split, extent);
  const bool isSqueezed = !call.has(1) && !call.flagAttr("keepdims", true);
  std::vector<Value> elements;
  int64_t begin = 0;
  for (int64_t size : split) {
    elements.push_back(isSqueezed ? entryOf(x, axis, begin) : sliceOf(x, axis, begin, size));
    begin += size;
  }
  call.set(0, Value::sequenceOf(std::move(elements)));
}

void evaluateConcatFromSequence(Call &call) {
  const int64_t axis = call.intAttr("axis");
  const bool isNew = call.flagAttr("new_axis", false);
  std::vector<HostTensor> stretched;
  std::vector<const HostTensor *> parts;
  for (const Value &element : call.sequence(0)) {
    if (element.form != Value::Form::Tensor)
      call.fail("an element of the sequence is no tensor");
    parts.push_back(element.tensor.get());
  }
  if (parts.empty())
    call.fail("the sequence is empty");
  if (!isNew)
    return call.set(0, concatenated(parts, axis));
  const Shape &shape = parts[0]->shape;
  const int64_t place = call.axis(axis, int64_t(shape.size()), /*behind=*/true);
  Stack stack;
  int64_t budget = maxScanBytes;
  for (const Value &element : call.sequence(0))
    stack.add(call, element, budget);
  call.set(0, arranged(stack.take(call, {}), place, /*isReverse=*/false));
}

/// Input 0 is a sequence; others are sequences of as many elements, or tensors that each step sees whole.
void evaluateSequenceMap(Call &call) {
  const onnx::GraphProto &body = call.graphAttr("body");
  requireSignature(call, body, "body", call.numInputs(), call.numOutputs());
  const size_t steps = call.sequence(0).size();
  for (size_t i = 0; i < call.numInputs(); ++i)
    if (call.value(i).form == Value::Form::Sequence && call.sequence(i).size() != steps)
      call.fail("sequences have " + std::to_string(steps) + " and " + std::to_string(call.sequence(i).size()) +
                " elements, expected as many of each");
  std::vector<std::vector<Value>> results(call.numOutputs());
  for (size_t step = 0; step < steps; ++step) {
    std::vector<Value> arguments;
    for (size_t i = 0; i < call.numInputs(); ++i)
      arguments.push_back(call.value(i).form == Value::Form::Sequence ? call.sequence(i)[step] : call.value(i));
    std::vector<Value> outputs = call.run(body, std::move(arguments));
    for (size_t i = 0; i < results.size(); ++i)
      results[i].push_back(std::move(outputs[i]));
  }
  for (size_t i = 0; i < results.size(); ++i)
    call.set(i, Value::sequenceOf(std::move(results[i])));
}

//===----------------------------------------------------------------------===//
// Optionals: one that is full is what it holds
//===----------------------------------------------------------------------===//

void evaluateOptional(Call &call) {
  if (call.has(0))
    call.set(0, call.value(0));
}

void evaluateOptionalHasElement(Call &call) { call.set(0, makeScalar(ElementKind::Bool, uint8_t(call.has(0)))); }

void evaluateOptionalGetElement(Call &call) {
  if (!call.has(0))
    call.fail("the optional is empty");
  call.set(0, call.value(0));
}

} // namespace

void operators::addControlFlow(Table &table) {
  auto add = [&](const char *name, Evaluate evaluate) {
    table[std::string(":") + name] = {evaluate, /*shapeInputs=*/{}, /*isDynamic=*/true};
  };
  add("If", evaluateIf);
  add("Loop", evaluateLoop);
  add("Scan", evaluateScan);
  add("SequenceEmpty", evaluateSequenceEmpty);
  add("SequenceConstruct", evaluateSequenceConstruct);
  add("SequenceInsert", evaluateSequenceInsert);
  add("SequenceErase", evaluateSequenceErase);
  add("SequenceAt", evaluateSequenceAt);
  add("SequenceLength", evaluateSequenceLength);
  add("SplitToSequence", evaluateSplitToSequence);
  add("ConcatFromSequence", evaluateConcatFromSequence);
  add("SequenceMap", evaluateSequenceMap);
  add("Optional", evaluateOptional);
  add("OptionalHasElement", evaluateOptionalHasElement);
  add("OptionalGetElement", evaluateOptionalGetElement);
}
