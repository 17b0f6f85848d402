//===- MachineParams.h - The numbers that make one machine ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plain parameters of one accelerator, shared by compiler and simulator. The
// YAML loader in hw-configs fills them; nothing else invents a machine number.
//===----------------------------------------------------------------------===//
#ifndef ISA_TIMING_MACHINEPARAMS_H
#define ISA_TIMING_MACHINEPARAMS_H

#include "isa/timing/TimingConstants.h" // generated from isa/Timing.td

#include <cstdint>
#include <string>
#include <vector>

namespace tw::timing {

/// Accelerator clock cycles.
using Cycle = uint64_t;

/// What the tensor engine multiplies; the accumulator is int32 for Int8, else fp32.
enum class ArrayType : uint8_t { Int8, Bf16, Fp32 };

/// Bytes of one array operand element.
constexpr uint32_t elementBytes(ArrayType type) { return type == ArrayType::Int8 ? 1 : type == ArrayType::Bf16 ? 2 : 4; }

/// Engine classes in the fixed arbitration order of a cycle: a lower value wins a bank asked for in the same cycle.
enum class EngineKind : uint8_t { Store, Vector, Tensor, Preload, Load, Sequencer };
constexpr unsigned kNumEngineKinds = 6;

/// One on-chip memory of `banks` equal, contiguous banks: bank = address / (capacityBytes / banks).
struct MemoryParams {
  std::string name;
  uint64_t capacityBytes = 0;
  uint32_t banks = 1;
  uint64_t bankBytes() const { return capacityBytes / banks; }
};

enum class DramKind : uint8_t { Ideal, Ddr4, Lpddr4, Hbm2, Ddr5, Lpddr5, Hbm3 };
enum class DramController : uint8_t { InOrder, Windowed };
enum class DramRefresh : uint8_t { AllBank, PerBank };

/// A DRAM system: a device with its datasheet timing, and how addresses and requests meet it.
/// All n* are DRAM command-clock cycles (ticks). Counts and sizes are powers of two.
struct DramParams {
  std::string device; ///< name of the device file
  DramKind kind = DramKind::Ideal;
  uint64_t capacityBytes = 1ull << 30; ///< of all channels and ranks together
  uint32_t burstBytes = 64;            ///< bytes of one access; the split unit of every DMA

  // Ideal: one burst after the other at bytesPerCycle, each done latencyCycles after its last byte moved.
  uint32_t latencyCycles = 0;           ///< accelerator cycles
  uint32_t bytesPerCycleNumerator = 16; ///< bytes per accelerator cycle, as an exact ratio
  uint32_t bytesPerCycleDenominator = 1;

  // Devices.
  uint32_t clockMhz = 1200; ///< command clock
  uint32_t channels = 1, ranks = 1, bankGroups = 4, banksPerGroup = 4;
  uint32_t rowBytes = 8192;                          ///< page of one rank over the whole channel width
  uint32_t nBurst = 4;                               ///< data bus ticks of one access
  uint32_t nCL = 16, nCWL = 12, nRP = 16, nRAS = 39; ///< tRC is nRAS + nRP
  uint32_t nRCDRD = 16, nRCDWR = 16;                 ///< activate to read, to write
  uint32_t nRPAB = 16;                               ///< precharge-all to refresh
  uint32_t nCCDS = 4, nCCDL = 6, nCCDLWR = 6;        ///< nCCDLWR: from write to write
  uint32_t nRRDS = 4, nRRDL = 6, nFAW = 26;
  uint32_t nWR = 18, nWTRS = 3, nWTRL = 9; ///< from the end of write data
  uint32_t nRTP = 9, nRTW = 10;            ///< nRTW: read to write command, same rank
  uint32_t nRTRS = 2;                      ///< idle data bus ticks between bursts of two ranks
  DramRefresh refresh = DramRefresh::AllBank;
  uint32_t nREFI = 9360, nRFC = 420; ///< refresh of all banks of a rank
  /// Refresh of one bank after the other; 0: the device has none. nRREFD: to an activate of another bank of the rank.
  uint32_t nREFIPB = 0, nRFCPB = 0, nRREFD = 0;
  /// Row and column commands have a bus each, which every two channels (the pseudo-channels of an HBM channel) share. Off: one
  /// command bus for each channel.
  bool rowColumnBuses = false;

  /// Adds a fixed latency to any device, accelerator cycles.
  uint32_t pathLatencyCycles = 0;
  DramController controller = DramController::Windowed; ///< of an ideal DRAM none
  uint32_t window = 32;        ///< requests per channel a controller looks at (in-order: how far ahead rows are opened)
  uint32_t ageCapTicks = 2048; ///< windowed: a request in the window for so long goes first
  uint32_t grantBursts = 32;   ///< a granted port keeps its grant for so many bursts while it has requests
  uint32_t writeBufferBursts = 32, writeHighWatermark = 24, writeLowWatermark = 8;
  /// Burst address bits from the lowest: channel, bank group, column, bank, rank, row.
  /// Off: channel, column, rank, bank group, bank, row (Ramulator's RoBaRaCoCh).
  bool interleaveBankGroups = true;
};

/// A rate per accelerator cycle, as an exact ratio.
struct Rate {
  uint32_t numerator = 1, denominator = 1;
  /// For `amount`, rounded up.
  Cycle cycles(uint64_t amount) const {
    return amount / numerator * denominator + (amount % numerator * denominator + numerator - 1) / numerator;
  }
  double perCycle() const { return double(numerator) / denominator; }
};

/// The host, which computes what the accelerator cannot take, and the link to it. For estimates: no cycle of a program depends on it.
struct HostParams {
  Rate linkBytes{7877, 500};
  uint32_t linkLatencyCycles = 900; ///< of each tensor that crosses
  Rate memoryBytes{96, 5};
  Rate operations{48, 1}; ///< multiply-accumulates of contractions, else elements
};

/// One machine. Architectural members must match a program's; timing members may differ (what-if).
struct MachineParams {
  std::string name;
  std::string overrides; ///< what the command line changed, for people: "dram.latency_cycles=256, clock_mhz=100"

  // Architectural.
  ArrayType arrayType = ArrayType::Int8;
  uint32_t rows = 16, cols = 16; ///< MAC array; powers of two
  uint32_t lanes = 16;           ///< vector engine lanes
  uint32_t vectorStages = 12;    ///< chained ALUs per lane, at most isa::kMaxStages; a longer chain is illegal
  uint32_t preloadRowsPerCycle = 1;
  std::vector<MemoryParams> scratchpads; ///< one (unified), or activation then weight
  MemoryParams accumulator;              ///< rows of cols x 4 bytes
  uint32_t loadEngines = 2, storeEngines = 1;
  uint32_t queueDepth = 8; ///< instructions per engine queue
  uint32_t loopBufferWords = 256;
  uint32_t prefetchWords = 32; ///< program words fetched ahead
  uint32_t semaphores = 64, semaphoreMax = 63;
  uint32_t outstandingBursts = 16; ///< per DMA engine
  uint32_t burstsPerCycle = 1;     ///< per DMA engine, at most one per channel

  // Timing.
  uint32_t clockMhz = 1000;
  DramParams dram;
  TimingConstants timing;

  HostParams host; ///< in no digest

  uint32_t accumulatorRowBytes() const { return cols * 4; }
  uint64_t accumulatorRows() const { return accumulator.capacityBytes / accumulatorRowBytes(); }
  double peakMacsPerCycle() const { return double(rows) * cols; }
  /// The name as reports print it: with what was changed.
  std::string title() const { return overrides.empty() ? name : name + " (" + overrides + ")"; }
};

} // namespace tw::timing

#endif // ISA_TIMING_MACHINEPARAMS_H
