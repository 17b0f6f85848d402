//===- Coverage.cpp - What random programs have met -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/rtl/random/Coverage.h"

#include "isa/Legality.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace tw::programs {
namespace {

using stats::Label;
using timing::EngineKind;

constexpr const char *kSizes[] = {"one", "partial", "full"};

std::string className(EngineKind kind) {
  static constexpr const char *names[] = {"store", "vector", "tensor", "preload", "load", "sequencer"};
  return names[unsigned(kind)];
}

/// The label with its cause: "operand<load", "interlock:accumulator distance".
std::string nameOf(Label label, unsigned detail, unsigned producer) {
  switch (label) {
  case Label::Operand:
    return "operand<" + className(stats::engineKind(producer));
  case Label::BankConflict:
    return "bank<" + className(stats::engineKind(detail));
  case Label::Interlock:
    return std::string("interlock:") + stats::interlockName(stats::InterlockKind(detail));
  default:
    return stats::labelName(label);
  }
}

} // namespace

Coverage::Coverage(const timing::MachineParams &machine) : machine(machine) {
  const std::vector<std::string> bytes = {"1 byte", "2 bytes", "4 bytes"};
  const std::vector<std::string> array = machine.arrayType == timing::ArrayType::Int8   ? std::vector<std::string>{"i8", "u8"}
                                         : machine.arrayType == timing::ArrayType::Bf16 ? std::vector<std::string>{"bf16"}
                                                                                        : std::vector<std::string>{"f32"};
  std::vector<std::string> vector;
  for (const isa::CaseInfo &type : isa::kVectorTypeEnumeration.cases)
    vector.push_back(type.name);
  struct Row {
    EngineKind kind;
    const char *mnemonic;
    const std::vector<std::string> &types;
    unsigned units;
    std::vector<std::string> more;
  };
  using stats::InterlockKind;
  auto interlock = [](InterlockKind kind) { return nameOf(Label::Interlock, unsigned(kind), 0); };
  const Row rows[] = {
      {EngineKind::Load,
       "load",
       bytes,
       machine.loadEngines,
       {interlock(InterlockKind::BoxesInFlight), stats::labelName(Label::DramBandwidth), stats::labelName(Label::DramLatency)}},
      {EngineKind::Preload, "preload", array, 1, {interlock(InterlockKind::ShadowBusy)}},
      {EngineKind::Tensor,
       "tensor",
       array,
       1,
       {interlock(InterlockKind::ShadowNotReady), interlock(InterlockKind::AccumulatorDistance)}},
      {EngineKind::Vector, "vector", vector, 1, {}},
      {EngineKind::Store,
       "store",
       bytes,
       machine.storeEngines,
       {stats::labelName(Label::DramLatency), stats::labelName(Label::BufferFull)}},
  };
  auto column = [&](const std::string &label) {
    if (std::find(labels.begin(), labels.end(), label) == labels.end())
      labels.push_back(label);
  };
  column("none");
  for (const EngineKind kind :
       {EngineKind::Load, EngineKind::Preload, EngineKind::Tensor, EngineKind::Vector, EngineKind::Store})
    column("operand<" + className(kind));
  for (const EngineKind kind :
       {EngineKind::Load, EngineKind::Preload, EngineKind::Tensor, EngineKind::Vector, EngineKind::Store})
    column("bank<" + className(kind));
  for (const Row &row : rows) {
    for (const std::string &label : row.more)
      column(label);
    std::vector<std::string> met = row.more;
    met.push_back("none");
    for (const Row &other : rows) {
      met.push_back("operand<" + className(other.kind));
      if (other.kind != row.kind || row.units > 1)
        met.push_back("bank<" + className(other.kind));
    }
    for (const std::string &type : row.types)
      for (const std::string &label : met)
        for (const char *size : kSizes)
          bins[{row.mnemonic, type, label, size}] = 0;
  }
}

std::string Coverage::typeOf(const isa::Instruction &instruction) const {
  auto bytes = [](int64_t log2) { return log2 == 0 ? "1 byte" : log2 == 1 ? "2 bytes" : "4 bytes"; };
  if (const isa::Load *load = instruction.getIf<isa::Load>())
    return bytes(load->element_log2);
  if (const isa::Store *store = instruction.getIf<isa::Store>())
    return bytes(store->element_log2);
  if (const isa::Vector *vector = instruction.getIf<isa::Vector>())
    return isa::caseName(isa::kVectorTypeEnumeration, vector->a_type);
  if (machine.arrayType != timing::ArrayType::Int8)
    return machine.arrayType == timing::ArrayType::Bf16 ? "bf16" : "f32";
  const bool isSigned =
      instruction.getIf<isa::Preload>() ? instruction.as<isa::Preload>().is_signed : instruction.as<isa::Tensor>().is_signed;
  return isSigned ? "i8" : "u8";
}

std::string Coverage::sizeOf(const isa::Instruction &instruction) const {
  auto name = [](bool one, bool full) { return kSizes[one ? 0 : full ? 2 : 1]; };
  auto box = [&](const auto &transfer) {
    const int64_t bytes = transfer.counts[0] << transfer.element_log2;
    return name(transfer.counts[0] == 1,
                bytes % machine.dram.burstBytes == 0 && transfer.dram_address % machine.dram.burstBytes == 0);
  };
  if (const isa::Load *load = instruction.getIf<isa::Load>())
    return box(*load);
  if (const isa::Store *store = instruction.getIf<isa::Store>())
    return box(*store);
  if (const isa::Preload *preload = instruction.getIf<isa::Preload>())
    return name(preload->k_count == 1 || preload->n_count == 1,
                preload->k_count == machine.rows && preload->n_count == machine.cols);
  if (const isa::Tensor *tensor = instruction.getIf<isa::Tensor>())
    return name(tensor->k_count == 1, tensor->k_count == machine.rows);
  const isa::Vector &vector = instruction.as<isa::Vector>();
  return name(vector.counts[0] * vector.counts[1] * vector.counts[2] * vector.counts[3] == 1,
              vector.tail_lanes == 0 || vector.tail_lanes == machine.lanes);
}

void Coverage::meet(const isa::Instruction &instruction, const std::string &label) {
  const auto bin = bins.find({instruction.info().mnemonic, typeOf(instruction), label, sizeOf(instruction)});
  if (bin != bins.end())
    ++bin->second;
  else
    ruledOut.insert(std::string(instruction.info().mnemonic) + ", " + typeOf(instruction) + ", " + label);
}

void Coverage::add(const isa::Program &program, const stats::SimResult &result) {
  std::map<uint64_t, isa::Instruction> decoded;
  std::array<const stats::EngineResult *, stats::kNumEngines> engines{};
  for (const stats::EngineResult &engine : result.engines)
    engines[engine.engine] = &engine;
  for (const stats::InstructionRecord &record : result.instructions) {
    if (!engines[record.engine] || record.retire == 0)
      continue;
    if (!decoded.count(record.pc))
      decoded[record.pc] = isa::decode(&program.code[record.pc], program.code.size() - record.pc).instruction;
    const isa::Instruction &instruction = decoded[record.pc];
    bool waited = false;
    std::set<std::string> met;
    for (const stats::Interval &interval : engines[record.engine]->intervals) {
      const bool isStall =
          interval.label == Label::Operand || interval.label == Label::Interlock || interval.label == Label::BankConflict;
      const bool isData =
          interval.label == Label::DramBandwidth || interval.label == Label::DramLatency || interval.label == Label::BufferFull;
      const timing::Cycle begin = isStall ? record.visible : record.start, end = isStall ? record.start : record.retire;
      if ((!isStall && !isData) || interval.begin >= end || begin >= interval.end)
        continue;
      // Behind an older instruction of the engine nothing of this one is held back.
      if (isStall && interval.end > record.start)
        continue;
      waited |= isStall;
      if (interval.label != Label::Operand || interval.producer != stats::kNoEngine)
        met.insert(nameOf(interval.label, interval.detail, interval.producer));
    }
    if (!waited)
      met.insert("none");
    for (const std::string &label : met)
      meet(instruction, label);
  }
}

size_t Coverage::met(uint64_t times) const {
  return std::count_if(bins.begin(), bins.end(), [&](const auto &bin) { return bin.second >= times; });
}

std::string Coverage::table() const {
  std::string text;
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto &[bin, times] : bins) {
    const std::pair<std::string, std::string> row{std::get<0>(bin), std::get<1>(bin)};
    if (rows.empty() || rows.back() != row)
      rows.push_back(row);
  }
  for (size_t c = 0; c < labels.size(); ++c)
    text += "  " + std::to_string(c + 1) + ": " + labels[c] + "\n";
  auto pad = [](std::string cell, size_t width) {
    return cell.size() < width ? cell + std::string(width - cell.size(), ' ') : cell;
  };
  text += pad("least hits", 18);
  for (size_t c = 0; c < labels.size(); ++c)
    text += pad(" " + std::to_string(c + 1), 8);
  text += "\n";
  for (const auto &[mnemonic, type] : rows) {
    text += pad(mnemonic + " " + type, 18);
    for (const std::string &label : labels) {
      std::optional<uint64_t> least;
      for (const char *size : kSizes)
        if (const auto bin = bins.find({mnemonic, type, label, size}); bin != bins.end())
          least = std::min(least.value_or(bin->second), bin->second);
      text += pad(least ? " " + std::to_string(*least) : " -", 8);
    }
    text += "\n";
  }
  return text;
}

std::vector<std::string> Coverage::rare(uint64_t times) const {
  std::vector<std::string> result;
  for (const auto &[bin, met] : bins)
    if (met < times)
      result.push_back(std::get<0>(bin) + ", " + std::get<1>(bin) + ", " + std::get<2>(bin) + ", " + std::get<3>(bin) + ": " +
                       std::to_string(met));
  return result;
}

std::vector<std::string> Coverage::reasons() {
  return {
      "DRAM bandwidth: only loads and the sequencer wait for a burst",
      "DRAM latency: only loads, and the set-up of stores",
      "buffer full: only stores are kept waiting by the write buffer",
      "interlock of the shadow registers in use: only preloads fill them",
      "interlock of the shadow registers not ready, and of the accumulator distance: only tensor instructions",
      "interlock of the boxes in flight: only loads; a store's box is accepted before the next one starts and retires at once",
      "bank conflict with the own class: an engine does not wait for its own banks, so it takes two units",
      "element types: an array has one type, and a sign only if that is int8",
  };
}

} // namespace tw::programs
