//===- Technology.h - Joules and square micrometres -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an event costs and how large a unit is in one silicon technology, read
// from hw-configs/technology. Every number is an estimate with its source;
// docs/energy.md says what each is used for.
//===----------------------------------------------------------------------===//
#ifndef HW_CONFIGS_TECHNOLOGY_H
#define HW_CONFIGS_TECHNOLOGY_H

#include "isa/Diagnostic.h"
#include "isa/timing/MachineParams.h"

#include <array>
#include <limits>
#include <string>
#include <vector>

namespace tw::hwconfigs {

/// A number that a file may leave out, and does.
constexpr double kNotGiven = std::numeric_limits<double>::quiet_NaN();

/// One supply of a DRAM device: volts, and milliamperes in the states that datasheets name.
struct DramSupply {
  double volts = 0, idd0 = 0, idd2n = 0, idd3n = 0, idd4r = 0, idd4w = 0, idd5b = 0;
};

/// What one channel of a DRAM costs: derived from currents, unless the energy itself is given.
struct DramEnergy {
  std::array<DramSupply, 3> supplies; ///< VDD (VDD1 of LPDDR), VDD2, VDDQ
  double devicesPerChannel = 1;       ///< that work together; a half where currents are those of two channels
  double currentClockMhz = kNotGiven; ///< command clock at which idd4r and idd4w hold; the machine's by default
  double activatePj = kNotGiven;      ///< activate and precharge of a row
  double readPjPerBit = kNotGiven, writePjPerBit = kNotGiven;
  double refreshPj = kNotGiven; ///< of all banks of a rank
  double backgroundMw = kNotGiven;
  double ioPjPerBit = 0; ///< added to reads and writes
};

/// Gates in units of a two-input gate, as scripts/rtl/area.py counts them; flip-flops in bits.
struct LogicUnits {
  double peInt8Gates = 0, peInt8FlipFlops = 0, peBf16Gates = 0, peBf16FlipFlops = 0, peFp32Gates = 0, peFp32FlipFlops = 0;
  double columnIntGates = 0, columnFloatGates = 0; ///< accumulation below a column of the array
  double laneGates = 0, laneFlipFlops = 0;         ///< of the vector engine, without its stages
  double stageGates = 0, stageFlipFlops = 0;       ///< of one stage of one lane
  double laneMemoryBits = 0, laneRomBits = 0;
  double loadGates = 0, loadFlipFlops = 0, loadMemoryBits = 0, storeGates = 0, storeFlipFlops = 0, storeMemoryBits = 0;
  double bankGates = 0, bankFlipFlops = 0;               ///< of each bank of scratchpads and accumulator: ports and arbitration
  double writeBufferGates = 0, writeBufferFlipFlops = 0; ///< of each burst of the write buffer
  double controlGates = 0, controlFlipFlops = 0;         ///< sequencer, issue, semaphores, queues, DRAM port
};

/// A number of a file, for people.
struct TechnologyEntry {
  std::string key;
  double value = 0;
  bool isEstimate = false; ///< `provenance` is a reasoning, not a document
  std::string provenance;
};

struct Technology {
  std::string name, description;
  double nodeNm = 0;

  // Picojoules of one operation.
  double int8MultiplyPj = 0, int32AddPj = 0, int32MultiplyPj = 0, int32DividePj = 0;
  double bf16MultiplyPj = 0, fp32AddPj = 0, fp32MultiplyPj = 0, fp32DividePj = 0, fp32SquareRootPj = 0;
  double convertPj = 0;     ///< between int32 and fp32
  double functionPj = 0;    ///< exp, tanh, ... by table
  double registerBitPj = 0; ///< a bit of a register is written and read

  /// Picojoules of 64 bits that an SRAM of 8 KiB, 32 KiB, 1 MiB reads or writes.
  double sram8KibPj = 0, sram32KibPj = 0, sram1MibPj = 0;
  /// Picojoules of 64 bits from or to a memory of a fixed rate (DramKind::Ideal).
  double dramAccessPj = 0;

  // Area.
  double gateUm2 = 0;       ///< a two-input NAND
  double flipFlopGates = 0; ///< two-input gates that are as large as a flip-flop
  double logicDensity = 1;  ///< part of a placed block that gates fill
  double sramBitUm2 = 0, romBitUm2 = 0;
  double sramEfficiency = 1; ///< part of a memory that its cells fill
  double logicLeakageMwPerMm2 = 0, sramLeakageMwPerMm2 = 0;

  LogicUnits logic;
  std::array<DramEnergy, 7> dram; ///< by timing::DramKind; that of Ideal is not used

  /// Everything above that files gave, in the order of the manual.
  std::vector<TechnologyEntry> entries;

  /// Picojoules of 64 bits of a memory of `bytes`: on the straight line through the logarithms of the two sizes round it. No size is
  /// extrapolated: below 8 KiB and above 1 MiB the nearest one counts.
  double sramAccessPj(double bytes) const;
};

/// The technology of a machine that names none.
constexpr const char *kDefaultTechnology = "45nm";

/// Reads a technology: a file, or the name of one in the folder `technology` of machineFolders(). The files that it names for logic and
/// DRAM lie beside it, or in that folder. A failure holds every problem with its place.
Result<Technology> loadTechnology(const std::string &technology);
/// The same from text; `file` names it in messages.
Result<Technology> loadTechnologyText(const std::string &text, const std::string &file);

/// Names that loadTechnology() knows, sorted.
std::vector<std::string> shippedTechnologies();

/// Every number with its unit (in its key) and its source, a line each.
std::string describe(const Technology &technology);

/// Paths of all keys, in the order of the manual.
std::vector<std::string> technologyKeys();

} // namespace tw::hwconfigs

#endif // HW_CONFIGS_TECHNOLOGY_H
