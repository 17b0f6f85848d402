//===- Conformance.cpp - ONNX's node tests on the accelerator -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// conformance FOLDER [--as TYPE]... [--test NAME]... [--data FOLDER] [--float-machine M] [--integer-machine M] [--schedule serial]
//                    [--quiet]
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
//
// --as bfloat16 and --as float16 run what has float tensors once more with these
// turned to that type; expected-failures-TYPE.txt lists what then fails besides.
// With several --as (float is the model as it is) the table has a column for each.
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/frontend/TensorFile.h"
#include "hw-configs/Machine.h"
#include "isa/files/InputFile.h"
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
/// Of narrow floats: those of two operands and of what is made of them. The result of every node is rounded besides.
constexpr int kRoundings = 3;

/// A float type that the tests' floats are turned to.
struct Narrow {
  ElementKind kind;
  /// The largest part of a number by which rounding to the type changes it.
  double unit;
};

/// Of `--as TYPE`; nothing for float, the type the tests have.
std::optional<Narrow> narrowNamed(const std::string &type) {
  if (type == "bfloat16")
    return Narrow{ElementKind::BF16, 0x1p-8};
  if (type == "float16")
    return Narrow{ElementKind::F16, 0x1p-11};
  if (type != "float") {
    fprintf(stderr, "--as is '%s', expected float, bfloat16 or float16\n", type.c_str());
    exit(1);
  }
  return std::nullopt;
}

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
  Result<std::string> bytes = files::readFile(test.modelPath);
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

int32_t onnxType(ElementKind kind) {
  return kind == ElementKind::BF16 ? onnx::TensorProto::BFLOAT16 : onnx::TensorProto::FLOAT16;
}

void narrowInPlace(onnx::TensorProto &proto, ElementKind kind) {
  if (proto.data_type() != onnx::TensorProto::FLOAT)
    return;
  Result<HostTensor> tensor = frontend::decodeTensor(proto);
  if (!tensor)
    return; // the import says what is wrong with it
  HostTensor narrow = e2e::narrowed(*tensor, kind);
  proto.clear_float_data();
  proto.set_raw_data(narrow.bytes.data(), narrow.bytes.size());
  proto.set_data_type(onnxType(kind));
}

/// Turns every float tensor of the test to `kind`: types, constants, the data of inputs. False if it has none.
bool narrowTest(NodeTest &test, ElementKind kind) {
  onnx::GraphProto &graph = *test.model.mutable_graph();
  bool any = false;
  for (auto *infos : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()})
    for (onnx::ValueInfoProto &info : *infos)
      if (info.type().tensor_type().elem_type() == onnx::TensorProto::FLOAT) {
        info.mutable_type()->mutable_tensor_type()->set_elem_type(onnxType(kind));
        any = true;
      }
  for (onnx::TensorProto &initializer : *graph.mutable_initializer())
    narrowInPlace(initializer, kind);
  for (onnx::NodeProto &node : *graph.mutable_node())
    for (onnx::AttributeProto &attribute : *node.mutable_attribute()) {
      if (node.op_type() == "Cast" && attribute.name() == "to" && attribute.i() == onnx::TensorProto::FLOAT)
        attribute.set_i(onnxType(kind));
      if (attribute.has_t())
        narrowInPlace(*attribute.mutable_t(), kind);
      // A Constant's floats have no narrow form: they become its tensor.
      if (node.op_type() != "Constant" || (attribute.name() != "value_float" && attribute.name() != "value_floats"))
        continue;
      onnx::TensorProto tensor;
      tensor.set_data_type(onnx::TensorProto::FLOAT);
      *tensor.mutable_float_data() = attribute.floats();
      if (attribute.name() == "value_float")
        tensor.add_float_data(attribute.f());
      else
        tensor.add_dims(attribute.floats_size());
      narrowInPlace(tensor, kind);
      attribute.Clear();
      attribute.set_name("value");
      attribute.set_type(onnx::AttributeProto::TENSOR);
      *attribute.mutable_t() = tensor;
    }
  for (auto *tensors : {&test.inputs, &test.outputs})
    for (HostTensor &tensor : *tensors)
      if (tensor.type == ElementKind::F32)
        tensor = e2e::narrowed(tensor, kind);
  return any;
}

/// What differs, or nothing. The expected results of a test whose floats were turned to a narrow type are those of the floats before.
/// `rounding`, if it is not 0, is the part of a number by which all roundings on the way change it; where a sum cancels, the errors of its
/// largest terms stay. Whole numbers made of such floats may be one off, or as far as the largest of them is.
std::string compare(const HostTensor &actual, const HostTensor &expected, double rounding) {
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
  if (actual.type != expected.type)
    return std::string("element type ") + frontend::elementName(actual.type) + " instead of " +
           frontend::elementName(expected.type);
  std::vector<double> a = e2e::numbersOf(actual), b = e2e::numbersOf(expected);
  if (a.size() != b.size())
    return std::to_string(a.size()) + " elements instead of " + std::to_string(b.size());
  bool exact = !isFloatKind(expected.type);
  double allowed = kAbsolute;
  if (rounding) {
    double largest = 0;
    for (double number : b)
      largest = std::max(largest, std::isfinite(number) ? std::abs(number) : 0);
    allowed = rounding * largest;
    if (exact && expected.type != ElementKind::Bool)
      allowed = std::max(1.0, std::floor(allowed));
  }
  size_t differing = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                (rounding ? expected.type != ElementKind::Bool && std::abs(a[i] - b[i]) <= allowed
                          : !exact && std::abs(a[i] - b[i]) <= allowed + kRelative * std::abs(b[i]));
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
                const std::set<std::string> &constants, const std::optional<Narrow> &narrow) {
  double rounding = 0;
  if (narrow) {
    // A machine of bfloat16 has no more precision than that, whatever the model asks for.
    Result<timing::MachineParams> params = hwconfigs::loadMachine(machine);
    const bool isBfloat = params && params->arrayType == timing::ArrayType::Bf16;
    rounding = (kRoundings + test.model.graph().node_size()) * (isBfloat ? narrowNamed("bfloat16")->unit : narrow->unit);
  }
  frontend::ImportOptions import;
  std::vector<HostTensor> inputs;
  for (const HostTensor &input : test.inputs)
    if (constants.count(input.name))
      import.constants[input.name] = input;
    else
      inputs.push_back(input);
  Outcome outcome;
  auto network = e2e::SimulatedNetwork::compileBytes(test.model.SerializeAsString(), test.modelPath, machine, import, schedule);
  if (!network)
    return {network.message()};
  auto run = (*network)->run(inputs, /*functional=*/true);
  if (!run)
    return {run.message()};
  outcome.cycles = run->result.totalCycles;
  outcome.bound = (*network)->compiled().lowerBoundCycles;
  for (size_t i = 0; i < test.outputs.size() && outcome.problem.empty(); ++i) {
    outcome.problem = compare(run->outputs[i], test.outputs[i], rounding);
    if (!outcome.problem.empty())
      outcome.problem = "output \"" + test.outputs[i].name + "\": " + outcome.problem;
  }
  if (outcome.problem.empty() && outcome.cycles < outcome.bound)
    outcome.problem = "takes fewer cycles than its lower bound";
  return outcome;
}

struct Counts {
  unsigned passed = 0, expected = 0, failed = 0;
  unsigned runs() const { return passed + expected + failed; }
};

std::string findData() {
  // Debian's package has the tests in one of these, depending on its version.
  for (const char *folder : {"/usr/share/libonnx-testdata/data/node", "/usr/include/onnx/backend/test/data/node"})
    if (std::filesystem::exists(folder))
      return folder;
  return "";
}

struct Options {
  std::string folder, data = findData(), floatMachine = "gemmini_16x16_fp32", integerMachine = "gemmini_16x16_int8";
  accel::Schedule schedule = accel::Schedule::DoubleBuffer;
  std::vector<std::string> types;
  std::set<std::string> only;
  bool quiet = false;
};

/// All tests with floats of one type.
class Suite {
public:
  Suite(const Options &options, const Operators &operators, const std::string &type)
      : options(options), operators(operators), type(type), narrow(narrowNamed(type)),
        expectedFailures(readExpectedFailures(options.folder + "/expected-failures.txt")) {
    // What is wrong with a test is wrong with its narrow form.
    if (narrow) {
      expectedFailures.swap(skipped);
      expectedFailures = readExpectedFailures(options.folder + "/expected-failures-" + type + ".txt");
    }
  }

  void run();
  void printExcluded() const;

  std::map<std::string, Counts> perOperator;
  Counts total;
  unsigned errors = 0, tests = 0;

private:
  const Options &options;
  const Operators &operators;
  std::string type;
  std::optional<Narrow> narrow;
  std::map<std::string, std::string> expectedFailures, skipped;
  std::map<std::string, std::vector<std::string>> excluded;

  void runFolder(const std::string &name, std::set<std::string> &expectedLeft);
  void report(const NodeTest &test, const std::string &title, const std::string &machine, const Outcome &outcome);
};

void Suite::report(const NodeTest &test, const std::string &title, const std::string &machine, const Outcome &outcome) {
  auto expectedFailure = expectedFailures.find(title);
  bool listed = expectedFailure != expectedFailures.end();
  auto count = [&](unsigned Counts::*field) {
    ++(total.*field);
    for (const std::string &name : test.operators)
      ++(perOperator[name].*field);
  };
  const std::string shown = title + (narrow ? " as " + type : "");
  if (outcome.problem.empty() && !listed) {
    count(&Counts::passed);
    if (!options.quiet)
      printf("pass %-58s %s, %llu cycles, bound %llu\n", shown.c_str(), machine.c_str(), (unsigned long long)outcome.cycles,
             (unsigned long long)outcome.bound);
  } else if (!outcome.problem.empty() && listed) {
    count(&Counts::expected);
    if (!options.quiet)
      printf("expected failure %s: %s\n  %s\n", shown.c_str(), expectedFailure->second.c_str(), outcome.problem.c_str());
  } else {
    count(&Counts::failed);
    ++errors;
    printf("FAIL %s on %s: %s\n", shown.c_str(), machine.c_str(),
           listed ? "passes, but is listed as an expected failure" : outcome.problem.c_str());
  }
  fflush(stdout);
}

void Suite::runFolder(const std::string &name, std::set<std::string> &expectedLeft) {
  NodeTest test;
  test.name = name;
  std::string path = options.data + "/" + name;
  auto fail = [&](const std::string &problem) {
    printf("FAIL %s: %s\n", name.c_str(), problem.c_str());
    ++errors;
  };
  if (auto error = loadTest(path, test))
    return fail(*error);
  bool selected = !test.operators.empty();
  for (const std::string &op : test.operators)
    selected &= operators.constants.count(op) != 0;
  if (!selected)
    return;
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
    return;
  }
  if (auto error = loadData(path, test))
    return fail(*error);
  if (narrow && !narrowTest(test, narrow->kind))
    return;
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
  const std::string &machine = integers ? options.integerMachine : options.floatMachine;
  all.insert(required.begin(), required.end());
  std::vector<std::set<std::string>> variants = {required};
  if (all != required)
    variants.push_back(all);
  for (size_t i = 0; i < variants.size(); ++i) {
    std::string title = name + (i ? "/constant" : "");
    expectedLeft.erase(title);
    if (!skipped.count(title))
      report(test, title, machine, runTest(test, machine, options.schedule, variants[i], narrow));
  }
}

void Suite::run() {
  std::set<std::string> folders, expectedLeft;
  for (const auto &entry : std::filesystem::directory_iterator(options.data))
    if (entry.is_directory())
      folders.insert(entry.path().filename().string());
  for (const auto &entry : expectedFailures)
    expectedLeft.insert(entry.first);
  for (const std::string &name : folders)
    if (options.only.empty() || options.only.count(name))
      runFolder(name, expectedLeft);
  if (options.only.empty())
    for (const std::string &name : expectedLeft) {
      printf("FAIL %s: is listed as an expected failure, but is no test\n", name.c_str());
      ++errors;
    }
}

void Suite::printExcluded() const {
  printf("\nNot run, because the machines do not have the type:\n");
  for (const auto &[reason, names] : excluded) {
    printf("  %s (%zu):", reason.c_str(), names.size());
    for (const std::string &name : names)
      printf(" %s", name.c_str());
    printf("\n");
  }
}

void printCounts(const Suite &suite) {
  printf("\n%-20s %8s %18s %8s\n", "operator", "passed", "expected failures", "failed");
  auto row = [](const std::string &name, const Counts &counts) {
    printf("%-20s %8u %18u %8u\n", name.c_str(), counts.passed, counts.expected, counts.failed);
  };
  for (const auto &[name, counts] : suite.perOperator)
    row(name, counts);
  row("total", suite.total);
}

/// Passes of runs, a column for each type.
void printTable(const std::vector<std::string> &types, std::vector<std::unique_ptr<Suite>> &suites) {
  std::set<std::string> names;
  printf("\n%-20s", "passed of runs");
  for (size_t i = 0; i < types.size(); ++i) {
    printf(" %12s", types[i].c_str());
    for (const auto &[name, counts] : suites[i]->perOperator)
      names.insert(name);
  }
  printf("\n");
  auto cell = [](const Counts &counts) {
    printf(" %12s", counts.runs() ? (std::to_string(counts.passed) + "/" + std::to_string(counts.runs())).c_str() : "-");
  };
  for (const std::string &name : names) {
    printf("%-20s", name.c_str());
    for (auto &suite : suites)
      cell(suite->perOperator[name]);
    printf("\n");
  }
  printf("%-20s", "total");
  for (auto &suite : suites)
    cell(suite->total);
  printf("\n");
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--test" && i + 1 < argc)
      options.only.insert(argv[++i]);
    else if (argument == "--as" && i + 1 < argc)
      options.types.push_back(argv[++i]);
    else if (argument == "--data" && i + 1 < argc)
      options.data = argv[++i];
    else if (argument == "--float-machine" && i + 1 < argc)
      options.floatMachine = argv[++i];
    else if (argument == "--integer-machine" && i + 1 < argc)
      options.integerMachine = argv[++i];
    else if (argument == "--schedule" && i + 1 < argc)
      options.schedule = accel::scheduleNamed(argv[++i]).value();
    else if (argument == "--quiet")
      options.quiet = true;
    else
      options.folder = argument;
  }
  if (options.folder.empty() || options.data.empty()) {
    fprintf(stderr, "%s\n",
            options.folder.empty()
                ? "usage: conformance FOLDER [--as TYPE]... [--test NAME]... [--data FOLDER] [--float-machine M]\n"
                  "                   [--integer-machine M] [--schedule serial] [--quiet]"
                : "ONNX's node tests are not installed (Debian: libonnx-testdata)");
    return 1;
  }
  if (options.types.empty())
    options.types.push_back("float");
  Operators operators = readOperators(options.folder + "/operators.txt");
  std::vector<std::unique_ptr<Suite>> suites;
  unsigned errors = 0, tests = 0, runs = 0;
  for (const std::string &type : options.types) {
    suites.push_back(std::make_unique<Suite>(options, operators, type));
    suites.back()->run();
    errors += suites.back()->errors;
    tests += suites.back()->tests;
    runs += suites.back()->total.runs();
  }
  suites.front()->printExcluded();
  if (suites.size() == 1)
    printCounts(*suites.front());
  else
    printTable(options.types, suites);
  printf("%u tests of ONNX in %u runs\n", tests, runs);
  // A total of nothing would pass whatever the compiler does.
  if (tests == 0) {
    printf("FAIL: no test was selected\n");
    return 1;
  }
  return errors ? 1 : 0;
}
