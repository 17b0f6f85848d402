//===- RtlAbi.h - Between the simulator and a Verilated machine -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C interface of the shared object that is built for each machine. The
// object steps many cycles per call and asks its host only in cycles in which
// the DRAM has something to say or to hear. Both sides run on one machine, so
// layouts need no care beyond kRtlAbi.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_COSIM_RTLABI_H
#define SIMULATOR_COSIM_RTLABI_H

#include <cstdint>

namespace tw::cosim {

/// Changes with every change of this file.
constexpr uint32_t kRtlAbi = 3;

/// At most so many completions of one kind in a cycle.
constexpr unsigned kMaxRtlResponses = 64;
/// One bit of RtlInputs::busBusy each.
constexpr unsigned kMaxRtlChannels = 64;
/// Of one requester: the low bits of a tag name its entry.
constexpr unsigned kRtlTagBits = 12, kMaxRtlBursts = 1u << kRtlTagBits;
/// As many processes as Verilator makes of one loop.
constexpr unsigned kMaxRtlWriteBuffer = 1024;

/// Registers of the host interface, as in tw_registers.sv.
constexpr uint32_t kRtlStart = 0x000, kRtlCodeAddress = 0x008, kRtlCodeWords = 0x010, kRtlStatus = 0x018, kRtlFaultPc = 0x020,
                   kRtlCycles = 0x028, kRtlCounters = 0x400;

/// What the DRAM drives in one cycle.
struct RtlInputs {
  uint32_t reads, writes; ///< completions
  uint16_t readTag[kMaxRtlResponses], writeTag[kMaxRtlResponses];
  const uint8_t *readData[kMaxRtlResponses]; ///< one burst each
  uint64_t busBusy;                          ///< per channel: its bus moved something in the cycle before
};

/// A burst that the machine asks for.
struct RtlRequest {
  uint64_t address;
  uint32_t tag;
  bool write;
  const uint8_t *data; ///< writes: one burst
  const uint8_t *mask; ///< writes: one bit per byte
};

/// What happened in one cycle, for records of instructions. Bit e of a vector is engine e.
struct RtlEvents {
  bool dispatch;
  uint32_t dispatchEngine, dispatchPc;
  uint32_t start, issueFree, retire;
};

/// The host's side.
struct RtlHost {
  void *context;
  uint32_t burstBytes, burstsPerCycle, responses;
  /// before() must be called in cycles from this one on; the host moves it.
  uint64_t nextInput;
  /// after() must be called in cycles from this one on, even without a request; the host moves it.
  uint64_t nextDecision;
  /// Fills in what the DRAM drives in `cycle`.
  void (*before)(void *context, uint64_t cycle, RtlInputs *inputs);
  /// The requests of `cycle`, in the order of the port; all of them have been made.
  void (*after)(void *context, uint64_t cycle, const RtlRequest *requests, uint32_t count);
  /// Not called for cycles without an event.
  void (*events)(void *context, uint64_t cycle, const RtlEvents *events);
};

/// The shared object exports `twRtl`, a function that returns this table.
struct RtlTable {
  uint32_t abi;
  /// Whether it can dump waves.
  bool traced;
  /// A machine in reset, all memories zero. `host` must outlive it.
  void *(*create)(RtlHost *host);
  void (*destroy)(void *machine);
  /// Host register accesses before the start and after the end; each takes cycles that do not count.
  void (*write)(void *machine, uint32_t address, uint64_t value);
  uint64_t (*read)(void *machine, uint32_t address);
  /// Dumps cycles [from, to) to an FST file. False: the object is not traced.
  bool (*dump)(void *machine, const char *file, uint64_t from, uint64_t to);
  /// Steps up to `cycles` cycles, the first call from cycle 0, in which the start register is written. Returns the number of
  /// the next cycle; `stopped` tells whether done or fault is visible in it.
  uint64_t (*run)(void *machine, uint64_t cycles, bool *stopped);
  /// Copies an on-chip memory, a value of isa::Memory, to `bytes`. False: it is not there or has another size.
  bool (*memory)(void *machine, uint32_t memory, uint8_t *bytes, uint64_t size);
};

} // namespace tw::cosim

#endif // SIMULATOR_COSIM_RTLABI_H
