//===- Lint.cpp - Rules for PTX that a test of values cannot see ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/Lint.h"
#include "tests/gpu/emulator/Program.h"

#include <algorithm>

using namespace tw::ptxemu;
using namespace tw::ptxlint;

namespace {

bool has(const Statement &statement, const std::string &modifier) {
  return std::find(statement.modifiers.begin(), statement.modifiers.end(), modifier) != statement.modifiers.end();
}

bool isProxyFence(const Statement &statement) {
  return statement.opcode == "fence" && has(statement, "proxy") && has(statement, "async") && !has(statement, "global");
}
bool isSharedStore(const Statement &statement) {
  const bool shared = has(statement, "shared") || has(statement, "shared::cta");
  return shared && (statement.opcode == "st" || statement.opcode == "stmatrix" || statement.opcode == "red" ||
                    statement.opcode == "atom");
}
/// A bulk copy whose source is shared memory.
bool isBulkStore(const Statement &statement) {
  return statement.opcode == "cp" && has(statement, "bulk") && has(statement, "bulk_group") && has(statement, "shared::cta");
}

/// Whether sm_80 lacks it. source: PTX ISA 8.0, "Target ISA Notes" of each instruction
bool isOfHopper(const Statement &statement) {
  const std::string &opcode = statement.opcode;
  for (const char *each : {"wgmma", "setmaxnreg", "griddepcontrol", "stmatrix", "mapa", "elect"})
    if (opcode == each)
      return true;
  if (opcode == "cp" || opcode == "barrier" || opcode == "fence")
    return has(statement, "bulk") || has(statement, "cluster") || has(statement, "proxy") || has(statement, "mbarrier_init");
  if (opcode == "mbarrier")
    return has(statement, "try_wait") || has(statement, "expect_tx");
  if (opcode == "add" || opcode == "sub" || opcode == "mul" || opcode == "setp")
    return has(statement, "bf16") || has(statement, "bf16x2");
  return false;
}

class KernelLint {
public:
  KernelLint(const Kernel &kernel, const std::string &target, std::vector<Finding> &findings)
      : kernel(kernel), target(target), findings(findings) {}

  void run() {
    for (const Statement &statement : kernel.statements)
      if (target == "sm_80" && isOfHopper(statement))
        report(statement.line, "sm_80 has no such instruction: " + statement.opcode);
    localMemory();
    tensorMaps();
    registers();
    proxyFences();
    for (const Statement &statement : kernel.statements)
      if (statement.opcode == "mbarrier" && has(statement, "acquire") && has(statement, "cluster"))
        report(statement.line, "waits with .acquire.cluster: the default is enough and much faster");
  }

private:
  void report(unsigned line, const std::string &message) {
    findings.push_back({line, "kernel " + kernel.name + ": " + message});
  }

  void localMemory() {
    if (kernel.localBytes)
      report(kernel.line, "uses " + std::to_string(kernel.localBytes) + " bytes of local memory");
  }

  void tensorMaps() {
    bool copies = false;
    for (const Statement &statement : kernel.statements)
      copies |= statement.opcode == "cp" && has(statement, "tensor");
    for (const Parameter &parameter : kernel.parameters) {
      if (!parameter.array || parameter.size != 128)
        continue;
      if (parameter.alignment < 64)
        report(kernel.line, "the tensor map " + parameter.name + " has an alignment of " + std::to_string(parameter.alignment) +
                                " but needs 64");
      for (const Statement &statement : kernel.statements)
        if (statement.opcode == "ld" && statement.operands.size() == 2 && !statement.operands[1].elements.empty() &&
            statement.operands[1].elements[0].name == parameter.name)
          report(statement.line,
                 "loads from the tensor map " + parameter.name + ": it is copied, which grid_constant would prevent");
    }
    if (copies && kernel.dynamicSharedAlignment > 1 && kernel.dynamicSharedAlignment < 1024)
      report(kernel.line, "tensor copies to dynamic shared memory with an alignment of " +
                              std::to_string(kernel.dynamicSharedAlignment) + "; swizzles of 128 bytes need 1024");
  }

  void registers() {
    const Statement *decrease = nullptr, *increase = nullptr;
    for (const Statement &statement : kernel.statements)
      if (statement.opcode == "setmaxnreg")
        (has(statement, "dec") ? decrease : increase) = &statement;
    const Statement *any = decrease ? decrease : increase;
    if (any && !kernel.maxntid[0] && !kernel.reqntid[0])
      report(any->line, "setmaxnreg without .maxntid: ptxas ignores it");
    if (any && !(decrease && increase))
      report(any->line, std::string("setmaxnreg.") + (decrease ? "dec without an .inc" : "inc without a .dec"));
  }

  /// Which instructions can be reached with a store to shared memory behind the last fence.
  void proxyFences() {
    const size_t count = kernel.statements.size();
    enum : uint8_t { Clean = 1, Dirty = 2 }; // ways in which an instruction has been reached
    std::vector<uint8_t> reached(count, 0);
    std::vector<std::pair<size_t, bool>> work = {{0, false}};
    while (!work.empty()) {
      auto [index, dirty] = work.back();
      work.pop_back();
      if (index >= count || reached[index] & (dirty ? Dirty : Clean))
        continue;
      reached[index] |= dirty ? Dirty : Clean;
      const Statement &statement = kernel.statements[index];
      const bool always = statement.predicate < 0;
      if (isBulkStore(statement) && dirty && std::find(reported.begin(), reported.end(), statement.line) == reported.end()) {
        reported.push_back(statement.line);
        report(statement.line, "a path leads from a store to shared memory to this bulk store without fence.proxy.async");
      }
      if (isSharedStore(statement))
        dirty = true;
      else if (isProxyFence(statement) && always)
        dirty = false;
      const bool jumps = statement.opcode == "bra", ends = statement.opcode == "ret" || statement.opcode == "exit";
      if (jumps)
        work.push_back({size_t(statement.target), dirty});
      if (!always || (!jumps && !ends))
        work.push_back({index + 1, dirty});
    }
  }

  const Kernel &kernel;
  const std::string &target;
  std::vector<Finding> &findings;
  std::vector<unsigned> reported;
};

} // namespace

std::vector<Finding> tw::ptxlint::lint(const std::string &text) {
  std::vector<Finding> findings;
  try {
    const auto module = Module::parse(text);
    for (const auto &entry : module->kernels)
      KernelLint(entry.second, module->target, findings).run();
  } catch (const Error &error) {
    findings.push_back({error.line, error.what()});
  }
  return findings;
}
