//===- Conformance.cpp - ONNX's node tests on the accelerator -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// conformance FOLDER [--test NAME]... [--data FOLDER] [--float-machine M] [--integer-machine M] [--schedule serial] [--quiet]
//
// FOLDER holds operators.txt (which tests count, and which of their inputs the
// compiler must know) and expected-failures.txt (NAME: REASON). Each selected
// test goes through importer, graph passes, lowering and accelerator backend to
// the SystemC model and to the functional model, whose outputs must be equal
// bit for bit; then the outputs are compared with ONNX's. A test with several
// inputs runs a second time, marked "constant", with all inputs but the first
// known to the compiler, as weights are in networks.
//
// Tests without integer tensors run on the float machine, gemmini_16x16_fp32
// unless another is named, all others on the integer machine,
// gemmini_16x16_int8. Exit code 1 if a test fails that is not listed, or passes
// though it is listed.
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/frontend/TensorFile.h"
#include "tests/e2e/models/SimulatedNetwork.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <onnx/onnx_pb.h>
#include <set>
#include <sstream>

using namespace tw;
using frontend::ElementKind;
using frontend::HostTensor;

namespace {

// As ONNX's backend test runner compares (onnx/backend/test/case/test_case.py); integers must be equal here.
constexpr double kRelative = 1e-3, kAbsolute = 1e-7;

struct Operators {
  /// Operator to the inputs that must be constants.
  std::map<std::string, std::set<int>> constants;
};

std::vector<std::string> readLines(const std::string &path) {
  std::ifstream file(path);
  if (!file) {
    fprintf(stderr, "cannot read %s\n", path.c_str());
    exit(1);
  }
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find('#'));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty())
      lines.push_back(line);
  }
  return lines;
}

Operators readOperators(const std::string &path) {
  Operators operators;
  for (const std::string &line : readLines(path)) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    std::set<int> &constants = operators.constants[name];
    for (int input; words >> input;)
      constants.insert(input);
  }
  return operators;
}

std::map<std::string, std::string> readExpectedFailures(const std::string &path) {
  std::map<std::string, std::string> reasons;
  for (const std::string &line : readLines(path)) {
    size_t colon = line.find(": ");
    if (colon == std::string::npos || !reasons.emplace(line.substr(0, colon), line.substr(colon + 2)).second) {
      fprintf(stderr, "%s: '%s' is given twice or is not NAME: REASON\n", path.c_str(), line.c_str());
      exit(1);
    }
  }
  return reasons;
}

/// One node test of ONNX.
struct NodeTest {
  std::string name, modelPath;
  onnx::ModelProto model;
  std::vector<HostTensor> inputs, outputs;
  /// Distinct, in order.
  std::vector<std::string> operators;
};

/// Why the test is not for this compiler, or nothing.
std::string excludedType(const onnx::ValueInfoProto &info, bool isInput) {
  if (!info.type().has_tensor_type())
    return "a value that is not a tensor";
  int32_t type = info.type().tensor_type().elem_type();
  switch (type) {
  case onnx::TensorProto::FLOAT:
  case onnx::TensorProto::FLOAT16:
  case onnx::TensorProto::INT8:
  case onnx::TensorProto::UINT8:
  case onnx::TensorProto::INT32:
  case onnx::TensorProto::BOOL:
  case onnx::TensorProto::BFLOAT16:
    return "";
  case onnx::TensorProto::INT64:
    // Results of shape arithmetic.
    return isInput ? "element type int64 at run time" : "";
  default:
    return "element type " + frontend::onnxTypeName(type);
  }
}

bool isFloatKind(ElementKind kind) { return frontend::isFloat(kind); }

/// The inputs that become constants in every run, by name. Some models have inputs that no node uses, whose data do not have
/// the shape that the model declares.
std::set<std::string> requiredConstants(const NodeTest &test, const Operators &operators) {
  std::set<std::string> names;
  for (const onnx::ValueInfoProto &input : test.model.graph().input())
    names.insert(input.name());
  for (const onnx::NodeProto &node : test.model.graph().node())
    for (const std::string &input : node.input())
      names.erase(input);
  for (const onnx::NodeProto &node : test.model.graph().node())
    for (int input : operators.constants.at(node.op_type()))
      if (input < node.input_size())
        names.insert(node.input(input));
  return names;
}

std::optional<std::string> loadTest(const std::string &folder, NodeTest &test) {
  test.modelPath = folder + "/model.onnx";
  Result<std::string> bytes = frontend::readFile(test.modelPath);
  if (!bytes || !test.model.ParseFromString(*bytes))
    return "cannot read " + test.modelPath;
  std::set<std::string> seen;
  for (const onnx::NodeProto &node : test.model.graph().node())
    if (seen.insert(node.op_type()).second)
      test.operators.push_back(node.op_type());
  return std::nullopt;
}

std::optional<std::string> loadData(const std::string &folder, NodeTest &test) {
  auto load = [&](const auto &infos, const char *kind, std::vector<HostTensor> &tensors) -> std::optional<std::string> {
    for (int i = 0; i < infos.size(); ++i) {
      std::string path = folder + "/test_data_set_0/" + kind + "_" + std::to_string(i) + ".pb";
      Result<HostTensor> tensor = frontend::readTensorFile(path);
      if (!tensor)
        return tensor.message();
      tensor->name = infos.Get(i).name();
      // ONNX 1.12 stores bfloat16 as uint16.
      if (infos.Get(i).type().tensor_type().elem_type() == onnx::TensorProto::BFLOAT16 && tensor->type == ElementKind::U16)
        tensor->type = ElementKind::BF16;
      tensors.push_back(*tensor);
    }
    return std::nullopt;
  };
  if (auto error = load(test.model.graph().input(), "input", test.inputs))
    return error;
  return load(test.model.graph().output(), "output", test.outputs);
}

/// What differs, or nothing.
std::string compare(const HostTensor &actual, const HostTensor &expected) {
  std::ostringstream text;
  if (actual.shape != expected.shape) {
    auto print = [&](const std::vector<int64_t> &shape) {
      text << "[";
      for (size_t i = 0; i < shape.size(); ++i)
        text << (i ? ", " : "") << shape[i];
      text << "]";
    };
    text << "shape ";
    print(actual.shape);
    text << " instead of ";
    print(expected.shape);
    return text.str();
  }
  ElementKind wanted = expected.type == ElementKind::F16 ? ElementKind::F32 : expected.type;
  if (actual.type != wanted)
    return std::string("element type ") + frontend::elementName(actual.type) + " instead of " + frontend::elementName(wanted);
  std::vector<double> a = e2e::numbersOf(actual), b = e2e::numbersOf(expected);
  if (a.size() != b.size())
    return std::to_string(a.size()) + " elements instead of " + std::to_string(b.size());
  bool exact = !isFloatKind(expected.type);
  size_t differing = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                (!exact && std::abs(a[i] - b[i]) <= kAbsolute + kRelative * std::abs(b[i]));
    if (!same && differing++ == 0)
      text << "element " << i << " is " << a[i] << " instead of " << b[i];
  }
  if (differing)
    text << " (" << differing << " of " << a.size() << " elements differ)";
  return text.str();
}

struct Outcome {
  std::string problem;
  uint64_t cycles = 0, bound = 0;
};

Outcome runTest(const NodeTest &test, const std::string &machine, accel::Schedule schedule,
                const std::set<std::string> &constants) {
  frontend::ImportOptions import;
  std::vector<HostTensor> inputs;
  for (const HostTensor &input : test.inputs)
    if (constants.count(input.name))
      import.constants[input.name] = input;
    else
      inputs.push_back(input);
  Outcome outcome;
  auto network = e2e::SimulatedNetwork::compile(test.modelPath, machine, import, schedule);
  if (!network)
    return {network.message()};
  auto run = (*network)->run(inputs, /*functional=*/true);
  if (!run)
    return {run.message()};
  outcome.cycles = run->result.totalCycles;
  outcome.bound = (*network)->compiled().lowerBoundCycles;
  for (size_t i = 0; i < test.outputs.size() && outcome.problem.empty(); ++i) {
    outcome.problem = compare(run->outputs[i], test.outputs[i]);
    if (!outcome.problem.empty())
      outcome.problem = "output \"" + test.outputs[i].name + "\": " + outcome.problem;
  }
  if (outcome.problem.empty() && outcome.cycles < outcome.bound)
    outcome.problem = "takes fewer cycles than its lower bound";
  return outcome;
}

struct Counts {
  unsigned passed = 0, expected = 0, failed = 0;
};

std::string findData() {
  // Debian's package has the tests in one of these, depending on its version.
  for (const char *folder : {"/usr/share/libonnx-testdata/data/node", "/usr/include/onnx/backend/test/data/node"})
    if (std::filesystem::exists(folder))
      return folder;
  return "";
}

} // namespace

int main(int argc, char **argv) {
  std::string folder, data = findData(), floatMachine = "gemmini_16x16_fp32", integerMachine = "gemmini_16x16_int8";
  accel::Schedule schedule = accel::Schedule::DoubleBuffer;
  std::set<std::string> only;
  bool quiet = false;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--test" && i + 1 < argc)
      only.insert(argv[++i]);
    else if (argument == "--data" && i + 1 < argc)
      data = argv[++i];
    else if (argument == "--float-machine" && i + 1 < argc)
      floatMachine = argv[++i];
    else if (argument == "--integer-machine" && i + 1 < argc)
      integerMachine = argv[++i];
    else if (argument == "--schedule" && i + 1 < argc)
      schedule = accel::scheduleNamed(argv[++i]).value();
    else if (argument == "--quiet")
      quiet = true;
    else
      folder = argument;
  }
  if (folder.empty() || data.empty()) {
    fprintf(stderr, "%s\n",
            folder.empty()
                ? "usage: conformance FOLDER [--test NAME]... [--data FOLDER] [--float-machine M] [--integer-machine M]\n"
                  "                   [--schedule serial] [--quiet]"
                : "ONNX's node tests are not installed (Debian: libonnx-testdata)");
    return 1;
  }
  Operators operators = readOperators(folder + "/operators.txt");
  std::map<std::string, std::string> expectedFailures = readExpectedFailures(folder + "/expected-failures.txt");
  std::set<std::string> folders;
  for (const auto &entry : std::filesystem::directory_iterator(data))
    if (entry.is_directory())
      folders.insert(entry.path().filename().string());

  std::map<std::string, Counts> perOperator;
  std::map<std::string, std::vector<std::string>> excluded;
  std::set<std::string> expectedLeft;
  for (const auto &entry : expectedFailures)
    expectedLeft.insert(entry.first);
  Counts total;
  unsigned errors = 0, tests = 0;
  for (const std::string &name : folders) {
    if (!only.empty() && !only.count(name))
      continue;
    NodeTest test;
    test.name = name;
    std::string path = data + "/" + name;
    if (auto error = loadTest(path, test)) {
      printf("FAIL %s: %s\n", name.c_str(), error->c_str());
      ++errors;
      continue;
    }
    bool selected = !test.operators.empty();
    for (const std::string &type : test.operators)
      selected &= operators.constants.count(type) != 0;
    if (!selected)
      continue;
    std::set<std::string> required = requiredConstants(test, operators);
    std::string reason;
    for (const onnx::ValueInfoProto &input : test.model.graph().input())
      if (reason.empty() && !required.count(input.name()))
        reason = excludedType(input, true);
    for (const onnx::ValueInfoProto &output : test.model.graph().output())
      if (reason.empty())
        reason = excludedType(output, false);
    if (!reason.empty()) {
      excluded[reason].push_back(name);
      continue;
    }
    if (auto error = loadData(path, test)) {
      printf("FAIL %s: %s\n", name.c_str(), error->c_str());
      ++errors;
      continue;
    }
    ++tests;
    bool integers = false;
    std::set<std::string> all;
    for (size_t i = 0; i < test.inputs.size(); ++i) {
      integers |= !isFloatKind(test.inputs[i].type) && !required.count(test.inputs[i].name);
      if (i > 0)
        all.insert(test.inputs[i].name);
    }
    for (const HostTensor &output : test.outputs)
      integers |= output.type == ElementKind::I8 || output.type == ElementKind::U8 || output.type == ElementKind::I32;
    const std::string &machine = integers ? integerMachine : floatMachine;
    all.insert(required.begin(), required.end());
    std::vector<std::set<std::string>> variants = {required};
    if (all != required)
      variants.push_back(all);
    for (size_t i = 0; i < variants.size(); ++i) {
      std::string title = name + (i ? "/constant" : "");
      Outcome outcome = runTest(test, machine, schedule, variants[i]);
      auto expectedFailure = expectedFailures.find(title);
      bool listed = expectedFailure != expectedFailures.end();
      expectedLeft.erase(title);
      auto count = [&](unsigned Counts::*field) {
        ++(total.*field);
        for (const std::string &type : test.operators)
          ++(perOperator[type].*field);
      };
      if (outcome.problem.empty() && !listed) {
        count(&Counts::passed);
        if (!quiet)
          printf("pass %-58s %s, %llu cycles, bound %llu\n", title.c_str(), machine.c_str(), (unsigned long long)outcome.cycles,
                 (unsigned long long)outcome.bound);
      } else if (!outcome.problem.empty() && listed) {
        count(&Counts::expected);
        if (!quiet)
          printf("expected failure %s: %s\n  %s\n", title.c_str(), expectedFailure->second.c_str(), outcome.problem.c_str());
      } else {
        count(&Counts::failed);
        ++errors;
        printf("FAIL %s on %s: %s\n", title.c_str(), machine.c_str(),
               listed ? "passes, but is listed as an expected failure" : outcome.problem.c_str());
      }
      fflush(stdout);
    }
  }
  if (only.empty())
    for (const std::string &name : expectedLeft) {
      printf("FAIL %s: is listed as an expected failure, but is no test\n", name.c_str());
      ++errors;
    }

  printf("\nNot run, because the machines do not have the type:\n");
  for (const auto &[reason, names] : excluded) {
    printf("  %s (%zu):", reason.c_str(), names.size());
    for (const std::string &name : names)
      printf(" %s", name.c_str());
    printf("\n");
  }
  printf("\n%-20s %8s %18s %8s\n", "operator", "passed", "expected failures", "failed");
  auto row = [](const std::string &name, const Counts &counts) {
    printf("%-20s %8u %18u %8u\n", name.c_str(), counts.passed, counts.expected, counts.failed);
  };
  for (const auto &[name, counts] : perOperator)
    row(name, counts);
  row("total", total);
  printf("%u tests of ONNX in %u runs\n", tests, total.passed + total.expected + total.failed);
  // A total of nothing would pass whatever the compiler does.
  if (tests == 0) {
    printf("FAIL: no test was selected\n");
    return 1;
  }
  return errors ? 1 : 0;
}
