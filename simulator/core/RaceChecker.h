//===- RaceChecker.h - Happens-before between accesses ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two accesses to one byte, one of them a write, must be ordered by the program
// and not by luck of timing. Vector clocks over the engines decide it; the same
// records tell a read of a byte nobody wrote. Used by all simulators.
//
// What orders B after A:
//   - B's engine waited, directly or through others, for a post made when A, or a later instruction of A's engine, retired;
//   - both are of one engine and B writes: engines read and write in order;
//   - both are tensor instructions, B accumulates, and every row that both visit comes again accumulatorDistance() cycles later at
//     least, whenever B starts (always so for equal walks: the interlock);
//   - the weight registers: a swapping tensor instruction starts after its preload retired, a preload after the tensor
//     instruction that took the tile before it started.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_CORE_RACECHECKER_H
#define SIMULATOR_CORE_RACECHECKER_H

#include "isa/Program.h"
#include "isa/timing/Engines.h"
#include "simulator/core/Accesses.h"
#include "simulator/core/RunResult.h"
#include "simulator/core/ZeroedMemory.h"

#include <array>
#include <deque>
#include <map>
#include <optional>

namespace tw::core {

/// Which checks a simulator makes.
struct CheckOptions {
  bool unwritten = true; ///< a read of a byte that was never written, and a write to one that the next run needs as it is
  bool unordered = true; ///< accesses, and semaphore owners, without happens-before
  bool any() const { return unwritten || unordered; }
};

struct Violation {
  FaultKind kind;
  std::string message;
};

class RaceChecker {
public:
  /// Constants, code and inputs of `program` count as written before the start.
  RaceChecker(const timing::MachineParams &machine, const isa::Program &program, CheckOptions options = {});

  /// The instruction starts: its waits are taken, and all its accesses happen between now and its retirement. Call it in the
  /// order of starts; within one cycle, in the arbiter's order. `pc` is for messages.
  std::optional<Violation> start(const isa::Instruction &resolved, uint64_t pc);
  /// The oldest started instruction of the engine retires and makes its posts.
  std::optional<Violation> retire(timing::EngineKind engine, unsigned unit);

private:
  /// Stores 0-3, vector 4, tensor 5, preload 6, loads 7-10.
  static constexpr unsigned kEngines = timing::kAllEngines.size() - 1; ///< without the sequencer
  /// Per engine, how many of its instructions are known to have retired.
  using Clock = std::array<uint32_t, kEngines>;
  /// One instruction as engine + 1 in the upper 4 bits and its number, from 1 on, below; 0 is nobody. The host has two: what it
  /// writes once for all runs must stay.
  using Id = uint32_t;
  static constexpr unsigned kNumberBits = 28;
  static constexpr Id kConstant = 14u << kNumberBits, kHost = 15u << kNumberBits;

  struct Started {
    uint32_t number;
    Clock clock;
    isa::Header header;
    bool isPreload;
  };
  /// The order in which a tensor instruction visits accumulator rows, innermost dimension first.
  struct Walk {
    int64_t address = 0;
    std::array<int64_t, 3> counts{1, 1, 1}, strides{};
    bool operator==(const Walk &other) const {
      return address == other.address && counts == other.counts && strides == other.strides;
    }
  };
  struct Engine {
    uint32_t started = 0;
    Clock clock{};
    std::deque<Started> inFlight;
    std::vector<uint64_t> pcs; ///< by number - 1
    std::vector<Walk> walks;   ///< tensor: by number - 1
  };
  struct Semaphore {
    int poster = -1, waiter = -1;
    uint64_t posted = 0, taken = 0;
    uint32_t lastTake = 0; ///< number of the waiter's latest instruction that waited
    struct Post {
      uint64_t upTo;
      Clock clock;
    };
    std::deque<Post> posts;
  };
  /// Accesses of one memory by granules, the largest size that every access of the program is a multiple of.
  struct Tracked {
    unsigned shift = 0;
    uint64_t granules = 0;
    ZeroedMemory writers;                       ///< Id of the last writer
    std::array<ZeroedMemory, kEngines> readers; ///< number of each engine's last reader
    /// Of the first `end` granules, until asked for again.
    uint32_t *writer(uint64_t end) const { return reinterpret_cast<uint32_t *>(writers.data(end * 4)); }
    uint32_t *reader(unsigned e, uint64_t end) const { return reinterpret_cast<uint32_t *>(readers[e].data(end * 4)); }
    /// Granules from here on were never read by engine `e`.
    uint64_t read(unsigned e) const { return readers[e].asked() / 4; }
  };

  static unsigned indexOf(timing::EngineKind engine, unsigned unit);
  static std::string nameOf(unsigned engine);
  std::string describe(Id id) const;
  void setGranules(const isa::Program &program);
  void mark(uint64_t address, uint64_t bytes, Id writer);
  static Walk walkOf(const isa::Tensor &tensor);
  bool keepsDistance(const Walk &first, const Walk &second);
  std::optional<Violation> takeWaits(unsigned engine, const isa::Header &header);
  std::optional<Violation> access(unsigned engine, const RunSet &set, bool accumulates);
  std::optional<Violation> read(unsigned engine, unsigned memory, int64_t begin, int64_t end, bool accumulates);
  std::optional<Violation> write(unsigned engine, unsigned memory, int64_t begin, int64_t end);
  std::optional<Violation> accessInOrder(unsigned engine, const isa::Vector &vector);
  Violation unordered(unsigned engine, const char *verb, unsigned memory, uint64_t granule, const char *otherVerb,
                      Id other) const;
  Id currentId(unsigned engine) const { return (engine + 1) << kNumberBits | engines[engine].started; }

  timing::MachineParams machine;
  CheckOptions options;
  /// keepsDistance() of two walks, the first one's address being 0.
  std::map<std::array<int64_t, 13>, bool> distances;
  std::array<Engine, kEngines> engines;
  std::vector<Semaphore> semaphores;
  std::array<Tracked, kNumMemories> memories;
  std::pair<uint64_t, uint64_t> codeRange;
  Clock shadowReady{}, shadowTaken{};
};

} // namespace tw::core

#endif // SIMULATOR_CORE_RACECHECKER_H
