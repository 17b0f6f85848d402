//===- CpuMachine.cpp - The processor code is made for --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/CpuMachine.h"
#include "isa/Isa.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include <algorithm>
#include <map>
#include <mutex>
#include <set>

namespace tw::cpu {

namespace {

struct Arch {
  const char *name;
  const char *triple;
  const char *abi;
  /// The processor and the features where the user names none.
  const char *baseline, *baselineFeatures;
  /// Without these there is no 64-bit code for Linux.
  std::vector<const char *> needed;
};

const std::vector<Arch> &arches() {
  static const std::vector<Arch> all = {
      {"x86_64", "x86_64-unknown-linux-gnu", "", "x86-64", "", {"64bit", "cmov", "cx8", "fxsr", "sse2"}},
      {"aarch64", "aarch64-unknown-linux-gnu", "", "generic", "", {"fp-armv8", "neon"}},
      // LLVM's generic processor is the integer core alone; distributions of Linux need G and C.
      {"riscv64", "riscv64-unknown-linux-gnu", "lp64d", "generic-rv64", "+m,+a,+f,+d,+c", {"64bit", "m", "a", "f", "d"}},
  };
  return all;
}

/// What a set of features lets the code do; 0 and false leave what earlier rows say.
struct InstructionSet {
  const char *arch;
  /// LLVM's names, all of them needed.
  std::vector<const char *> features;
  unsigned vectorBits = 0, vectorRegisters = 0, integerProducts = 0;
  bool hasFma = false, hasBfloatProducts = false, mixesSigns = false;
};

/// The only place where instructions follow from features. Of two rows that fit the later one counts.
const std::vector<InstructionSet> &instructionSets() {
  static const std::vector<InstructionSet> rows = {
      // arch, features, vector bits, vector registers, integer products, FMA, bfloat16 products, mixed signs
      {"x86_64", {"sse2"}, 128, 16, 2},
      {"x86_64", {"fma"}, 0, 0, 0, true},
      {"x86_64", {"avx2"}, 256, 0, 0},
      {"x86_64", {"avxvnni"}, 0, 0, 4, false, false, true},
      // A 512-bit register is only worth it where bytes and words are handled at that width too.
      {"x86_64", {"avx512f", "avx512bw", "avx512vl", "avx512dq"}, 512, 32, 2},
      {"x86_64", {"avx512vnni", "avx512vl"}, 0, 0, 4, false, false, true},
      {"x86_64", {"avx512bf16", "avx512vl"}, 0, 0, 0, false, true},
      {"aarch64", {"neon"}, 128, 32, 1, true},
      {"aarch64", {"dotprod"}, 0, 0, 4},
      {"aarch64", {"i8mm"}, 0, 0, 4, false, false, true},
      // Scalar registers: two lanes, so that loops are blocked as for vectors.
      {"riscv64", {"d"}, 64, 32, 1, true},
      {"riscv64", {"v"}, 128},
      {"riscv64", {"v", "zvl256b"}, 256},
      {"riscv64", {"v", "zvl512b"}, 512},
  };
  return rows;
}

/// Features of x86 that only code asking for them by name uses: a guest may hide them from a processor that is known to have them.
const std::set<llvm::StringRef> &neverGenerated() {
  static const std::set<llvm::StringRef> names = {
      "adx",      "aes",       "amx-bf16", "amx-complex", "amx-fp16", "amx-int8", "amx-tile", "cldemote",   "clflushopt",
      "clwb",     "clzero",    "cx16",     "enqcmd",      "fsgsbase", "gfni",     "hreset",   "invpcid",    "kl",
      "lwp",      "movdir64b", "movdiri",  "mwaitx",      "pclmul",   "pconfig",  "pku",      "prefetchi",  "prfchw",
      "ptwrite",  "rdpid",     "rdpru",    "rdrnd",       "rdseed",   "rtm",      "sahf",     "serialize",  "sgx",
      "sha",      "shstk",     "sse4a",    "tsxldtrk",    "uintr",    "usermsr",  "vaes",     "vpclmulqdq", "waitpkg",
      "wbnoinvd", "widekl",    "xsave",    "xsavec",      "xsaveopt", "xsaves"};
  return names;
}

llvm::Error failure(const llvm::Twine &message) { return llvm::createStringError(llvm::inconvertibleErrorCode(), message); }

/// LLVM's description of a processor; null where LLVM has no such target.
std::unique_ptr<llvm::MCSubtargetInfo> describe(const std::string &triple, const std::string &cpu,
                                                const std::string &features) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86TargetMC();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeRISCVTargetInfo();
    LLVMInitializeRISCVTargetMC();
  });
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  return std::unique_ptr<llvm::MCSubtargetInfo>(target ? target->createMCSubtargetInfo(triple, cpu, features) : nullptr);
}

const Arch *findArch(llvm::StringRef name) {
  auto it = llvm::find_if(arches(), [&](const Arch &arch) { return name == arch.name; });
  return it == arches().end() ? nullptr : &*it;
}

bool has(const llvm::MCSubtargetInfo &processor, llvm::ArrayRef<const char *> features) {
  return llvm::all_of(features, [&](const char *name) { return processor.checkFeatures(std::string("+") + name); });
}

std::vector<std::string> cpuNames(const llvm::MCSubtargetInfo &processor) {
  std::vector<std::string> names;
  for (const llvm::SubtargetSubTypeKV &description : processor.getAllProcessorDescriptions())
    names.push_back(description.Key);
  return names;
}

std::vector<std::string> featureNames(const llvm::MCSubtargetInfo &processor) {
  std::vector<std::string> names;
  for (const llvm::SubtargetFeatureKV &description : processor.getAllProcessorFeatures())
    names.push_back(description.Key);
  return names;
}

/// "'name'; did you mean 'near'?" where a name is near, else the names that there are.
std::string unknown(llvm::StringRef name, const std::vector<std::string> &names) {
  std::string near = isa::nearestName(name.str(), names);
  if (!near.empty())
    return "; did you mean '" + near + "'?";
  std::string all;
  for (const std::string &known : names)
    all += (all.empty() ? "; it has " : ", ") + known;
  return all;
}

/// The features of the processor this process runs on, sorted: the string is part of what is compiled.
std::map<std::string, bool> hostFeatures() {
  std::map<std::string, bool> features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    features[feature.getKey().str()] = feature.getValue();
  return features;
}

llvm::Error checkFeatureText(const std::string &text, const Arch &arch, const llvm::MCSubtargetInfo &processor) {
  const std::vector<std::string> names = featureNames(processor);
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).split(parts, ',');
  for (llvm::StringRef part : parts) {
    if (part.size() < 2 || (part[0] != '+' && part[0] != '-'))
      return failure("--features is '" + text + "' but must be +NAME,-NAME,...: '" + part + "' has no sign or no name");
    llvm::StringRef name = part.drop_front();
    if (!llvm::is_contained(names, name))
      return failure("--features has '" + name + "' but " + arch.name + " has no such feature" + unknown(name, names));
  }
  return llvm::Error::success();
}

} // namespace

const std::vector<std::string> &archNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Arch &arch : arches())
      result.push_back(arch.name);
    return result;
  }();
  return names;
}

llvm::Expected<CpuMachine> selectMachine(const CpuChoice &choice, unsigned vectorBits, unsigned integerProducts) {
  const std::string hostArch = llvm::Triple::getArchTypeName(llvm::Triple(llvm::sys::getProcessTriple()).getArch()).str();
  const std::string wanted = choice.arch.empty() ? hostArch : choice.arch;
  const Arch *arch = findArch(wanted);
  if (!arch)
    return failure("there is no code for architecture '" + wanted + "', only for " + llvm::join(archNames(), ", "));
  const bool native = wanted == hostArch && (choice.cpu.empty() || choice.cpu == "native");
  if (choice.cpu == "native" && !native)
    return failure("--cpu native is the processor this process runs on, which is " + hostArch + " and not " + wanted);

  CpuMachine machine;
  machine.triple = native ? llvm::sys::getProcessTriple() : arch->triple;
  machine.abi = arch->abi;
  if (native) {
    machine.cpu = llvm::sys::getHostCPUName().str();
    for (const auto &[name, enabled] : hostFeatures())
      machine.features += (machine.features.empty() ? "" : ",") + std::string(enabled ? "+" : "-") + name;
  } else {
    machine.cpu = choice.cpu.empty() ? arch->baseline : choice.cpu;
    machine.features = choice.cpu.empty() ? arch->baselineFeatures : "";
  }
  // A name that LLVM does not know would only be a warning there, so names are checked on a processor that it knows.
  std::unique_ptr<llvm::MCSubtargetInfo> processor = describe(machine.triple, arch->baseline, "");
  if (!processor)
    return failure("this LLVM has no code generator for " + wanted);
  if (!native && !processor->isCPUStringValid(machine.cpu)) {
    for (const Arch &other : arches())
      if (auto described = describe(other.triple, other.baseline, ""); described && described->isCPUStringValid(machine.cpu))
        return failure("--cpu " + machine.cpu + " is a processor of " + other.name + ", not of " + wanted +
                       ": compile --target cpu takes --arch " + other.name);
    return failure("--cpu is '" + machine.cpu + "' but " + wanted + " has no such processor" +
                   unknown(machine.cpu, cpuNames(*processor)));
  }
  if (!choice.features.empty()) {
    if (llvm::Error error = checkFeatureText(choice.features, *arch, *processor))
      return std::move(error);
    machine.features += (machine.features.empty() ? "" : ",") + choice.features;
  }
  processor = describe(machine.triple, machine.cpu, machine.features);
  for (const char *feature : arch->needed)
    if (!has(*processor, {feature}))
      return failure("processor '" + machine.cpu + "'" +
                     (choice.features.empty() ? "" : " with --features " + choice.features) + " has no " + feature +
                     ", which " + wanted + " code for Linux needs");
  for (const InstructionSet &set : instructionSets()) {
    if (wanted != set.arch || !has(*processor, set.features))
      continue;
    machine.vectorBits = set.vectorBits ? set.vectorBits : machine.vectorBits;
    machine.vectorRegisters = set.vectorRegisters ? set.vectorRegisters : machine.vectorRegisters;
    machine.integerProducts = set.integerProducts ? set.integerProducts : machine.integerProducts;
    machine.hasFma |= set.hasFma;
    machine.hasBfloatProducts |= set.hasBfloatProducts;
    machine.mixesSigns |= set.mixesSigns;
  }
  if (integerProducts)
    machine.integerProducts = std::min(machine.integerProducts, integerProducts);
  if (vectorBits)
    machine.vectorBits = std::clamp(vectorBits, 64u, machine.vectorBits);
  return machine;
}

llvm::Error checkRunsHere(const CpuMachine &machine) {
  const llvm::Triple host(llvm::sys::getProcessTriple()), target(machine.triple);
  if (host.getArch() != target.getArch())
    return failure("code for " + target.getArchName() + " cannot run here: this processor is " + host.getArchName());
  std::unique_ptr<llvm::MCSubtargetInfo> processor = describe(machine.triple, machine.cpu, machine.features);
  const std::vector<std::string> known = featureNames(*processor);
  std::string missing;
  for (const auto &[name, enabled] : hostFeatures())
    if (!enabled && !neverGenerated().count(name) && llvm::is_contained(known, name) && has(*processor, {name.c_str()}))
      missing += (missing.empty() ? "" : ", ") + name;
  if (!missing.empty())
    return failure("code for processor '" + machine.cpu + "' cannot run here: this processor has no " + missing);
  return llvm::Error::success();
}

} // namespace tw::cpu
