//===- SimulatedNetwork.cpp - A network compiled once, run often ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/e2e/models/SimulatedNetwork.h"
#include "tests/e2e/models/ReportOf.h"

#include "compiler/graph/Graph.h"
#include "hw-configs/Machine.h"
#include "isa/files/InputFile.h"
#include "simulator/functional/FunctionalModel.h"
#include "simulator/systemc/SystemCModel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cstring>

using namespace tw;
using namespace tw::e2e;
using frontend::ElementKind;
using frontend::HostTensor;

namespace {

tw::Diagnostic problem(const std::string &file, const std::string &message) { return {file, 0, 0, message}; }

ElementKind hostKind(isa::ElementKind kind) {
  switch (kind) {
  case isa::ElementKind::I8:
    return ElementKind::I8;
  case isa::ElementKind::U8:
    return ElementKind::U8;
  case isa::ElementKind::I32:
    return ElementKind::I32;
  case isa::ElementKind::F32:
    return ElementKind::F32;
  case isa::ElementKind::Bf16:
    return ElementKind::BF16;
  case isa::ElementKind::I64:
    return ElementKind::I64;
  case isa::ElementKind::Bool:
    return ElementKind::Bool;
  }
  llvm_unreachable("all kinds are handled");
}

std::vector<float> findSteps(mlir::ModuleOp module) {
  std::vector<float> steps;
  auto function = module.lookupSymbol<mlir::func::FuncOp>("main");
  for (mlir::Value output : function.getBody().front().getTerminator()->getOperands()) {
    auto dequantize = output.getDefiningOp<graph::DequantizeOp>();
    steps.push_back(dequantize && dequantize.getScales().size() == 1 ? dequantize.getScales()[0] : 0);
  }
  return steps;
}

} // namespace

Result<std::unique_ptr<SimulatedNetwork>> SimulatedNetwork::compile(const std::string &path, const std::string &machineName,
                                                                    const frontend::ImportOptions &import,
                                                                    accel::Schedule schedule) {
  Result<std::string> bytes = files::readFile(path);
  if (!bytes)
    return bytes.diagnostics();
  return compileBytes(*bytes, path, machineName, import, schedule);
}

Result<std::unique_ptr<SimulatedNetwork>> SimulatedNetwork::compileBytes(llvm::StringRef model, const std::string &name,
                                                                         const std::string &machineName,
                                                                         const frontend::ImportOptions &import,
                                                                         accel::Schedule schedule) {
  Result<timing::MachineParams> machine = hwconfigs::loadMachine(machineName);
  if (!machine)
    return machine.diagnostics();
  auto result = std::make_unique<SimulatedNetwork>();
  result->params = *machine;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  auto module = frontend::importOnnx(context, model, name, import);
  if (!module)
    return problem("", "import: " + llvm::toString(module.takeError()));
  result->steps = findSteps(**module);
  auto function = (*module)->lookupSymbol<mlir::func::FuncOp>("main");
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    result->halves.push_back(bool(function.getResultAttr(i, graph::kWidenedFromAttr)));
  pipeline::CompileOptions options;
  options.machine = &result->params;
  options.schedule = schedule;
  if (llvm::Error error = pipeline::optimizeGraph(**module, options))
    return problem(name, "graph: " + llvm::toString(std::move(error)));
  if (llvm::Error error = pipeline::lowerToLinalg(**module, options))
    return problem(name, "linalg: " + llvm::toString(std::move(error)));
  auto compiled = pipeline::compileForAccelerator(**module, options);
  if (!compiled)
    return problem(name, "accelerator: " + llvm::toString(compiled.takeError()));
  result->network = std::move(*compiled);
  return result;
}

Result<SimulatedRun> SimulatedNetwork::run(const std::vector<HostTensor> &inputs, bool functional) const {
  const isa::Program &program = network.program;
  std::vector<std::vector<uint8_t>> bytes;
  for (const isa::TensorInfo &wanted : program.inputs) {
    auto given = std::find_if(inputs.begin(), inputs.end(), [&](const HostTensor &t) { return t.name == wanted.name; });
    if (given == inputs.end())
      return problem("", "the test has no input \"" + wanted.name + "\"");
    HostTensor tensor = hostKind(wanted.type) == given->type ? *given : widened(*given);
    if (hostKind(wanted.type) != tensor.type || wanted.bytes != tensor.bytes.size())
      return problem("", "input \"" + wanted.name + "\" is " + std::to_string(tensor.bytes.size()) + " bytes of " +
                             frontend::elementName(tensor.type) + ", the program takes " + std::to_string(wanted.bytes) +
                             " bytes of " + isa::name(wanted.type));
    bytes.push_back(tensor.bytes);
  }
  core::MachineState state(params);
  if (auto error = state.load(program))
    return problem("", *error);
  if (auto error = state.writeInputs(program, bytes))
    return problem("", *error);
  SimulatedRun run;
  systemc::SimOptions options;
  options.checks = functional;
  run.result = systemc::SystemCModel().run(program, state, options);
  if (run.result.fault)
    return problem("", "SystemC model: " + run.result.fault->str());
  if (std::string rules = contradictionsOf(network, params, run.result); !rules.empty())
    return problem("", "the report contradicts itself: " + rules);
  std::vector<std::vector<uint8_t>> outputs = state.readOutputs(program);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const isa::TensorInfo &info = program.outputs[i];
    run.outputs.push_back({info.name, hostKind(info.type), info.shape, outputs[i]});
    if (halves[i])
      run.outputs.back() = narrowed(run.outputs.back(), ElementKind::F16);
  }
  if (!functional)
    return run;
  core::RunResult second = functional::run(program, params, bytes);
  if (second.fault)
    return problem("", "functional model: " + second.fault->str());
  for (size_t i = 0; i < outputs.size(); ++i)
    if (second.outputs[i] != outputs[i])
      return problem("", "output \"" + program.outputs[i].name + "\" differs between the functional and the SystemC model");
  return run;
}

double SimulatedNetwork::utilisation(uint64_t cycles) const {
  return cycles ? double(network.macs) / (double(cycles) * params.peakMacsPerCycle()) : 0;
}

std::vector<double> e2e::numbersOf(const HostTensor &tensor) {
  std::vector<double> numbers;
  auto read = [&](auto zero, auto convert) {
    using T = decltype(zero);
    for (size_t at = 0; at + sizeof(T) <= tensor.bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, tensor.bytes.data() + at, sizeof(T));
      numbers.push_back(convert(value));
    }
  };
  auto plain = [](auto value) { return double(value); };
  switch (tensor.type) {
  case ElementKind::F32:
    read(float(), plain);
    break;
  case ElementKind::F64:
    read(double(), plain);
    break;
  case ElementKind::F16:
    read(uint16_t(), [](uint16_t bits) { return double(frontend::halfToFloat(bits)); });
    break;
  case ElementKind::BF16:
    read(uint16_t(), [](uint16_t bits) { return double(frontend::bfloatToFloat(bits)); });
    break;
  case ElementKind::I8:
    read(int8_t(), plain);
    break;
  case ElementKind::U8:
  case ElementKind::Bool:
    read(uint8_t(), plain);
    break;
  case ElementKind::I16:
    read(int16_t(), plain);
    break;
  case ElementKind::U16:
    read(uint16_t(), plain);
    break;
  case ElementKind::I32:
    read(int32_t(), plain);
    break;
  case ElementKind::U32:
    read(uint32_t(), plain);
    break;
  case ElementKind::I64:
    read(int64_t(), plain);
    break;
  case ElementKind::U64:
    read(uint64_t(), plain);
    break;
  }
  return numbers;
}

HostTensor e2e::narrowed(const HostTensor &tensor, ElementKind kind) {
  HostTensor result{tensor.name, kind, tensor.shape, {}};
  for (double number : numbersOf(tensor)) {
    uint16_t bits = kind == ElementKind::F16 ? frontend::floatToHalf(float(number)) : frontend::floatToBfloat(float(number));
    result.bytes.insert(result.bytes.end(), {uint8_t(bits), uint8_t(bits >> 8)});
  }
  return result;
}

HostTensor e2e::widened(const HostTensor &tensor) {
  if (tensor.type != ElementKind::F16 && tensor.type != ElementKind::BF16)
    return tensor;
  HostTensor result{tensor.name, ElementKind::F32, tensor.shape, {}};
  for (double number : numbersOf(tensor)) {
    auto value = float(number);
    auto *bytes = reinterpret_cast<const uint8_t *>(&value);
    result.bytes.insert(result.bytes.end(), bytes, bytes + sizeof(value));
  }
  return result;
}
