//===- MachinePackage.cpp - A machine's numbers for the RTL ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/cosim/MachinePackage.h"

#include "isa/timing/Dram.h"

#include <cctype>

using namespace tw;
using namespace tw::cosim;

namespace {

/// `start_cycles` is StartCycles.
std::string upperCamel(const std::string &name) {
  std::string result;
  bool upper = true;
  for (char c : name) {
    if (c != '_')
      result += upper ? char(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = c == '_';
  }
  return result;
}

uint64_t ceilDiv(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

} // namespace

uint32_t cosim::dramResponsesPerCycle(const timing::MachineParams &machine) {
  const timing::DramParams &dram = machine.dram;
  // One after the other, each taking burstBytes / bytesPerCycle.
  if (dram.kind == timing::DramKind::Ideal)
    return uint32_t(ceilDiv(dram.bytesPerCycleNumerator, uint64_t(dram.bytesPerCycleDenominator) * dram.burstBytes));
  // Bursts of a channel end at least nBurst ticks apart; so many ticks begin in one cycle.
  const uint64_t ticks = ceilDiv(dram.clockMhz, machine.clockMhz);
  return uint32_t(dram.channels * ceilDiv(ticks, dram.nBurst));
}

std::string cosim::rtlMachinePackage(const timing::MachineParams &machine) {
  std::string text = "// One machine. Generated from its parameters; do not edit.\n"
                     "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n"
                     "package tw_machine_pkg;\n"
                     "  // No module needs all of them.\n"
                     "  /* verilator lint_off UNUSEDPARAM */\n";
  auto number = [&](const std::string &name, uint64_t value, const char *comment = nullptr) {
    text += "  parameter int unsigned " + name + " = " + std::to_string(value) + ";" +
            (comment ? std::string(" // ") + comment : "") + "\n";
  };
  const timing::DramParams &dram = machine.dram;
  number("ArrayType", uint64_t(machine.arrayType), "0 int8, 1 bf16, 2 fp32");
  number("Rows", machine.rows);
  number("Cols", machine.cols);
  number("Lanes", machine.lanes);
  number("VectorStages", machine.vectorStages);
  number("PreloadRows", machine.preloadRowsPerCycle);
  number("NumScratchpads", machine.scratchpads.size());
  for (size_t i = 0; i < 2; ++i) {
    const bool exists = i < machine.scratchpads.size();
    number("ScratchpadBytes" + std::to_string(i), exists ? machine.scratchpads[i].capacityBytes : 0, i ? "0: none" : nullptr);
    number("ScratchpadBanks" + std::to_string(i), exists ? machine.scratchpads[i].banks : 0);
  }
  number("AccumulatorBytes", machine.accumulator.capacityBytes);
  number("AccumulatorBanks", machine.accumulator.banks);
  number("LoadEngines", machine.loadEngines);
  number("StoreEngines", machine.storeEngines);
  number("QueueDepth", machine.queueDepth);
  number("LoopBufferWords", machine.loopBufferWords);
  number("PrefetchWords", machine.prefetchWords);
  number("Semaphores", machine.semaphores);
  number("SemaphoreMax", machine.semaphoreMax);
  number("OutstandingBursts", machine.outstandingBursts);
  number("BurstsPerCycle", machine.burstsPerCycle);
  number("BurstBytes", dram.burstBytes);
  text += "  parameter logic [63:0] DramCapacityBytes = 64'd" + std::to_string(dram.capacityBytes) + ";\n";
  number("DramChannels", dram.kind == timing::DramKind::Ideal ? 1 : dram.channels,
         "channel = low bits of address / BurstBytes");
  number("DramResponses", dramResponsesPerCycle(machine), "completions per cycle at most");
  number("GrantBursts", dram.grantBursts);
  number("WriteBufferBursts", dram.writeBufferBursts);
  const timing::Watermarks marks = timing::portWatermarks(dram);
  number("WriteHighWatermark", marks.high);
  number("WriteLowWatermark", marks.low);
  for (const timing::TimingConstantInfo &info : timing::kTimingConstants)
    number(upperCamel(info.name), machine.timing.*info.member);
  return text + "  /* verilator lint_on UNUSEDPARAM */\nendpackage\n";
}
