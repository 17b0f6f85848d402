//===- Assemble.cpp - Steps in order to a verified program -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/Assemble.h"

#include "compiler/plan/PlanFile.h"
#include "compiler/schedule/Reroll.h"
#include "compiler/schedule/Synchronize.h"
#include "compiler/schedule/ValueFlow.h"
#include "compiler/schedule/Verifier.h"
#include "isa/timing/Digest.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

using namespace tw;
using namespace tw::pipeline;

namespace {
constexpr uint64_t kAlignment = 4096; ///< of code in DRAM
constexpr int64_t kSpareBytes = 64;   ///< as much as keeps what lies before it aligned
/// A network of so many bytes may have large constants.
constexpr uint64_t kLargeBytes = uint64_t(1) << 26;

/// Gives the system what the heap has free in the middle of what it uses.
void returnFreeMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

class Assembler {
public:
  Assembler(const NetworkKernels &network, EmittedNetwork emitted, const CompileOptions &options, NoGoods &noGoods,
            bool onlyTimed)
      : network(network), emitted(std::move(emitted)), options(options), machine(*options.machine), noGoods(noGoods),
        onlyTimed(onlyTimed) {}

  llvm::Expected<CompiledNetwork> run() {
    describe();
    if (!onlyTimed)
      network.addBounds(machine, result);
    // The program that is taken is assembled once more in full.
    if (!onlyTimed)
      if (llvm::Error error = verifyValues())
        return std::move(error);
    if (llvm::Error error = synchronize())
      return std::move(error);
    if (llvm::Error error = encode())
      return std::move(error);
    if (!onlyTimed)
      addConstants();
    program.codeAddress = (emitted.program.nextAddress + kAlignment - 1) / kAlignment * kAlignment;
    program.dramBytes = program.codeAddress + program.code.size() * isa::kWordBytes;
    program.dramBytes = (program.dramBytes + 63) / 64 * 64;
    if (llvm::Error error = NetworkKernels::checkDram(program.dramBytes, machine))
      return std::move(error);
    if (llvm::Error error = verify())
      return std::move(error);
    return std::move(result);
  }

private:
  const NetworkKernels &network;
  EmittedNetwork emitted;
  const CompileOptions &options;
  const timing::MachineParams &machine;
  NoGoods &noGoods;
  const bool onlyTimed;
  CompiledNetwork result;
  isa::Program &program = result.program;
  uint32_t textLayer = UINT32_MAX; ///< whose heading the text has last

  /// Everything but the code.
  void describe() {
    program.machine = machine.name;
    program.architecturalDigest = timing::architecturalDigest(machine);
    program.timingDigest = timing::timingDigest(machine);
    for (bool isInput : {true, false})
      for (auto [info, tensor] : isInput ? network.inputs : network.outputs) {
        info.address = emitted.placement.addresses[tensor];
        (isInput ? program.inputs : program.outputs).push_back(info);
      }
    std::vector<std::pair<std::string, plan::KernelPlan>> plans;
    for (auto [layer, chosen] : llvm::zip_equal(network.layers, emitted.chosen.kernels)) {
      program.layers.push_back({layer.kernel.name, layer.kernel.nodes, layer.kernel.macs, 0, {}});
      result.macs += layer.kernel.macs;
      plans.push_back({layer.kernel.name, chosen});
      result.layerSources.push_back(layer.sources);
    }
    result.outputSources = network.outputSources;
    result.offload = network.offload;
    result.choices = emitted.program.choices;
    result.tileBytes = emitted.program.tileBytes;
    for (const accel::Group &group : emitted.fusion->groups)
      result.groups.push_back({group.first, group.last()});
    result.planText = plan::printPlanFile(options.schedule, options.graph, emitted.chosen.network, plans);
    result.chosen = emitted.chosen;
  }

  llvm::Error synchronize() {
    std::optional<int64_t> spare;
    if (noGoods.spare)
      spare = int64_t(machine.scratchpads[0].capacityBytes) - noGoods.spare;
    Result<bool> synchronized = schedule::synchronize(emitted.program.tiles, machine, spare);
    if (!synchronized) {
      if (!spare && synchronized.diagnostics().front().kind == DiagnosticKind::TooManyWaits) {
        noGoods.spare = kSpareBytes;
        noGoods.isNew = true;
      }
      return llvm::createStringError("%s", synchronized.message().c_str());
    }
    if (accel::overlapsKernels(options.schedule) && options.across != Across::None)
      result.plannedStarts = schedule::plannedStarts(emitted.program.tiles, machine);
    return llvm::Error::success();
  }

  llvm::Error encode() {
    const std::vector<schedule::Code> code = schedule::reroll(emitted.program.tiles, machine);
    if (!onlyTimed)
      for (const tw::Diagnostic &problem : schedule::verifyCode(code, emitted.program.tiles))
        return llvm::createStringError("internal: %s", problem.str().c_str());
    if (llvm::Error error = append(code, 0))
      return error;
    const uint32_t last = program.layers.empty() ? 0 : uint32_t(program.layers.size()) - 1;
    if (program.layers.empty())
      program.layers.push_back({"empty", {}, 0, 0, "dram"});
    return append(isa::Instruction(isa::Halt()), last, 0);
  }

  llvm::Error append(const std::vector<schedule::Code> &code, unsigned depth) {
    for (const schedule::Code &c : code) {
      if (llvm::Error error = append(c.instruction, c.layer, depth))
        return error;
      if (llvm::Error error = append(c.body, depth + 1))
        return error;
    }
    return llvm::Error::success();
  }

  llvm::Error append(const isa::Instruction &instruction, uint32_t owner, unsigned depth) {
    std::string why;
    if (!isa::fits(instruction, &why))
      return llvm::createStringError("internal: an instruction of layer %s cannot be encoded: %s",
                                     program.layers[owner].name.c_str(), why.c_str());
    isa::encode(instruction, program.code);
    program.layerOf.resize(program.code.size(), owner);
    if (onlyTimed)
      return llvm::Error::success();
    llvm::raw_string_ostream text(result.tilesText);
    if (owner != textLayer && owner < program.layers.size()) {
      textLayer = owner;
      text << "# " << program.layers[owner].name;
      if (owner < result.choices.size())
        text << ": " << result.choices[owner];
      text << "\n";
    }
    text << std::string(2 * depth, ' ') << isa::print(instruction) << "\n";
    return llvm::Error::success();
  }

  void addConstants() {
    // The steps are in the program now, and large constants need their memory.
    emitted.program.tiles = {};
    if (emitted.program.nextAddress >= kLargeBytes)
      returnFreeMemory();
    for (const accel::Constant &constant : emitted.program.constants)
      program.constants.push_back({constant.address, constant.bytes()});
  }

  llvm::Error verifyValues() const {
    std::string all;
    for (const tw::Diagnostic &problem : schedule::verifyValueFlow(emitted.program.tiles, machine))
      all += "\n  " + problem.str();
    return all.empty() ? llvm::Error::success()
                       : llvm::createStringError("internal: the schedule changes what operations read:%s", all.c_str());
  }

  llvm::Error verify() const {
    const Diagnostics problems = schedule::verifySchedule(program, machine);
    std::string all;
    for (const tw::Diagnostic &problem : problems) {
      // Counts depend on the program; a machine may simply count too little.
      if (problem.kind == DiagnosticKind::TooManyPosts) {
        const uint64_t word = problem.word.value_or(UINT64_MAX);
        const uint32_t owner = word < program.layerOf.size() ? program.layerOf[word] : UINT32_MAX;
        const std::string place = owner < network.layers.size() ? network.layers[owner].kernel.plan.place() : "";
        return llvm::createStringError("%smachine '%s' is too small: %s", place.c_str(), machine.name.c_str(),
                                       problem.str().c_str());
      }
      all += "\n  " + problem.str();
    }
    return all.empty() ? llvm::Error::success()
                       : llvm::createStringError("internal: the schedule does not verify:%s", all.c_str());
  }
};
} // namespace

llvm::Expected<CompiledNetwork> pipeline::assemble(const NetworkKernels &network, EmittedNetwork emitted,
                                                   const CompileOptions &options, NoGoods &noGoods, bool onlyTimed) {
  return Assembler(network, std::move(emitted), options, noGoods, onlyTimed).run();
}
