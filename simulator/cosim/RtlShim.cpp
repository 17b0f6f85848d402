//===- RtlShim.cpp - A Verilated machine behind a C interface -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled on demand together with what Verilator makes of the RTL (see
// RtlBuild.h), never as a part of the simulator: the only file that sees a
// Verilated header, and it sees no SystemC.
//===----------------------------------------------------------------------===//
#include "simulator/cosim/RtlAbi.h"

#include "Vtw_top.h"
#include "verilated.h"
#include "verilated_syms.h"
#if VM_TRACE_FST
#include "verilated_fst_c.h"
#endif
#if VM_COVERAGE
#include "verilated_cov.h"
#include <unistd.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ports are read as bytes");

namespace {

using namespace tw::cosim;

/// A port as its bytes, lowest first, whichever of Verilator's types it has.
template <typename Port> uint8_t *bytesOf(Port &port) { return reinterpret_cast<uint8_t *>(&port); }

/// Bits [lsb, lsb + width) of a port. Precondition: width <= 57.
template <typename Port> uint64_t bits(Port &port, unsigned lsb, unsigned width) {
  uint64_t value = 0;
  const unsigned first = lsb / 8, last = (lsb + width - 1) / 8;
  std::memcpy(&value, bytesOf(port) + first, last - first + 1);
  return (value >> (lsb % 8)) & ((uint64_t(1) << width) - 1);
}

/// Memories are instances of these names in tw_top; their banks are found by the index in the scope's name.
const char *instanceOf(uint32_t memory) {
  return memory == 0 ? ".u_scratchpad0." : memory == 1 ? ".u_scratchpad1." : memory == 7 ? ".u_accumulator." : nullptr;
}

/// The model is elaborated once in a process; each program begins with a reset and memories of zeros.
VerilatedContext context;
std::unique_ptr<Vtw_top> top;

#if VM_COVERAGE
/// Counts add up over the programs of a process; each process writes a file of its own to the folder the variable names.
struct CoverageWriter {
  ~CoverageWriter() {
    if (const char *folder = std::getenv("TILEWRIGHT_RTL_COVERAGE"); folder && top)
      context.coveragep()->write((std::string(folder) + "/" + std::to_string(getpid()) + "-" +
                                  std::to_string(reinterpret_cast<uintptr_t>(&top) >> 12) + ".dat")
                                     .c_str());
  }
} coverageWriter;
#endif

class Machine {
public:
  explicit Machine(RtlHost *host) : host(host) {
    if (!top) {
#if VM_TRACE_FST
      context.traceEverOn(true);
#endif
      // With --x-initial unique, what has no reset begins with random bits of this seed: scripts/rtl/unknown.sh.
      if (const char *seed = std::getenv("TILEWRIGHT_RTL_RANDOM")) {
        context.randReset(2);
        context.randSeed(std::atoi(seed));
      }
      top = std::make_unique<Vtw_top>(&context, "TOP");
    }
    clearMemories();
    top->clk_i = 0;
    top->rst_ni = 0;
    top->reg_write_i = 0;
    // The run before may have been stopped by a fault.
    std::memset(bytesOf(top->dram_rsp_valid_i), 0, sizeof top->dram_rsp_valid_i);
    std::memset(bytesOf(top->dram_done_valid_i), 0, sizeof top->dram_done_valid_i);
    for (int i = 0; i < 4; ++i)
      clock();
    top->rst_ni = 1;
    clock();
  }
  ~Machine() {
#if VM_TRACE_FST
    if (fst)
      fst->close();
#endif
  }

  void write(uint32_t address, uint64_t value) {
    top->reg_write_i = 1;
    top->reg_address_i = SData(address);
    top->reg_wdata_i = value;
    clock();
    top->reg_write_i = 0;
  }
  uint64_t read(uint32_t address) {
    top->reg_address_i = SData(address);
    clock();
    return top->reg_rdata_o;
  }
  bool dump(const char *file, uint64_t from, uint64_t to) {
#if VM_TRACE_FST
    fst = std::make_unique<VerilatedFstC>();
    top->trace(fst.get(), 99);
    dumpFile = file;
    dumpFrom = from;
    dumpTo = to;
    return true;
#else
    return false;
#endif
  }
  uint64_t run(uint64_t cycles, bool *stopped);
  bool memory(uint32_t which, uint8_t *bytes, uint64_t size);

private:
  void clearMemories();
  void edge(bool high) {
    top->clk_i = high;
    top->eval();
#if VM_TRACE_FST
    if (fst && t >= dumpFrom && t < dumpTo) {
      if (!fst->isOpen())
        fst->open(dumpFile.c_str());
      fst->dump(2 * t + high);
    }
#endif
  }
  void clock() {
    edge(false);
    edge(true);
  }
  void drive();
  void requests();
  void events();

  RtlHost *host;
  uint64_t t = 0;
  bool driven = true; ///< response ports may hold something
  std::vector<RtlRequest> burst;
#if VM_TRACE_FST
  std::unique_ptr<VerilatedFstC> fst;
  std::string dumpFile;
  uint64_t dumpFrom = 0, dumpTo = 0;
#endif
};

void Machine::drive() {
  if (t < host->nextInput) {
    if (driven) {
      std::memset(bytesOf(top->dram_rsp_valid_i), 0, sizeof top->dram_rsp_valid_i);
      std::memset(bytesOf(top->dram_done_valid_i), 0, sizeof top->dram_done_valid_i);
      driven = false;
    }
    return;
  }
  RtlInputs inputs;
  host->before(host->context, t, &inputs);
  const uint64_t rspValid = (uint64_t(1) << inputs.reads) - 1, doneValid = (uint64_t(1) << inputs.writes) - 1;
  std::memcpy(bytesOf(top->dram_rsp_valid_i), &rspValid, sizeof top->dram_rsp_valid_i);
  std::memcpy(bytesOf(top->dram_done_valid_i), &doneValid, sizeof top->dram_done_valid_i);
  std::memcpy(bytesOf(top->dram_bus_busy_i), &inputs.busBusy, sizeof top->dram_bus_busy_i);
  for (uint32_t i = 0; i < inputs.reads; ++i) {
    std::memcpy(bytesOf(top->dram_rsp_tag_i) + 2 * i, &inputs.readTag[i], 2);
    std::memcpy(bytesOf(top->dram_rsp_data_i) + size_t(i) * host->burstBytes, inputs.readData[i], host->burstBytes);
  }
  for (uint32_t i = 0; i < inputs.writes; ++i)
    std::memcpy(bytesOf(top->dram_done_tag_i) + 2 * i, &inputs.writeTag[i], 2);
  driven = inputs.reads || inputs.writes;
}

void Machine::requests() {
  const uint64_t valid = bits(top->dram_req_valid_o, 0, host->burstsPerCycle);
  if (!valid && t < host->nextDecision)
    return;
  burst.clear();
  for (uint32_t i = 0; i < host->burstsPerCycle; ++i) {
    if (!(valid >> i & 1))
      continue;
    RtlRequest request;
    request.address = bits(top->dram_req_address_o, 40 * i, 40);
    request.tag = uint32_t(bits(top->dram_req_tag_o, 16 * i, 16));
    request.write = top->dram_req_write_o;
    request.data = bytesOf(top->dram_req_data_o) + size_t(i) * host->burstBytes;
    request.mask = bytesOf(top->dram_req_mask_o) + size_t(i) * (host->burstBytes / 8);
    burst.push_back(request);
  }
  host->after(host->context, t, burst.data(), uint32_t(burst.size()));
}

void Machine::events() {
  if (!(top->trace_dispatch_o | top->trace_start_o | top->trace_issue_free_o | top->trace_retire_o))
    return;
  RtlEvents events;
  events.dispatch = top->trace_dispatch_o;
  events.dispatchEngine = top->trace_dispatch_engine_o;
  events.dispatchPc = top->trace_dispatch_pc_o;
  events.start = top->trace_start_o;
  events.issueFree = top->trace_issue_free_o;
  events.retire = top->trace_retire_o;
  host->events(host->context, t, &events);
}

uint64_t Machine::run(uint64_t cycles, bool *stopped) {
  *stopped = false;
  for (const uint64_t end = t + cycles; t < end && !*stopped;) {
    if (t <= 1) {
      top->reg_write_i = t == 0;
      top->reg_address_i = kRtlStart;
      top->reg_wdata_i = 1;
    }
    drive();
    clock();
    requests();
    events();
    ++t;
    *stopped = top->done_o || top->fault_o;
  }
  return t;
}

/// A bank's rows: the even and the odd ones are an array each.
struct BankRows {
  unsigned index;
  const VerilatedVar *even, *odd;
};

/// The banks of a memory by index. Empty: the machine has no such memory.
std::vector<BankRows> banksOf(uint32_t which) {
  std::vector<BankRows> banks;
  const char *instance = instanceOf(which);
  const VerilatedScopeNameMap *scopes = instance ? context.scopeNameMap() : nullptr;
  if (!scopes)
    return banks;
  for (const auto &[name, scope] : *scopes) {
    const std::string full = name;
    const size_t at = full.find(instance), index = full.rfind('[');
    if (at == std::string::npos || index == std::string::npos || !scope->varsp())
      continue;
    const VerilatedVar *even = scope->varFind("even_q"), *odd = scope->varFind("odd_q");
    if (even && odd)
      banks.push_back({unsigned(std::strtoul(full.c_str() + index + 1, nullptr, 10)), even, odd});
  }
  std::sort(banks.begin(), banks.end(), [](const BankRows &a, const BankRows &b) { return a.index < b.index; });
  return banks;
}

void Machine::clearMemories() {
  for (uint32_t which : {0, 1, 7})
    for (const BankRows &bank : banksOf(which))
      for (const VerilatedVar *half : {bank.even, bank.odd})
        std::memset(half->datap(), 0, size_t(half->unpacked().elements()) * half->entSize());
}

bool Machine::memory(uint32_t which, uint8_t *bytes, uint64_t size) {
  const std::vector<BankRows> banks = banksOf(which);
  if (banks.empty())
    return false;
  uint64_t at = 0;
  for (const BankRows &bank : banks) {
    const uint64_t rowBytes = uint64_t(bank.even->packed().elements()) / 8, stride = bank.even->entSize(),
                   rows = uint64_t(bank.even->unpacked().elements()) + uint64_t(bank.odd->unpacked().elements());
    for (uint64_t row = 0; row < rows; ++row, at += rowBytes) {
      if (at + rowBytes > size)
        return false;
      const VerilatedVar *half = row % 2 ? bank.odd : bank.even;
      std::memcpy(bytes + at, static_cast<const uint8_t *>(half->datap()) + row / 2 * stride, rowBytes);
    }
  }
  return at == size;
}

Machine *of(void *machine) { return static_cast<Machine *>(machine); }

const RtlTable table = {
    kRtlAbi,
    bool(VM_TRACE_FST),
    [](RtlHost *host) -> void * { return new Machine(host); },
    [](void *machine) { delete of(machine); },
    [](void *machine, uint32_t address, uint64_t value) { of(machine)->write(address, value); },
    [](void *machine, uint32_t address) { return of(machine)->read(address); },
    [](void *machine, const char *file, uint64_t from, uint64_t to) { return of(machine)->dump(file, from, to); },
    [](void *machine, uint64_t cycles, bool *stopped) { return of(machine)->run(cycles, stopped); },
    [](void *machine, uint32_t memory, uint8_t *bytes, uint64_t size) { return of(machine)->memory(memory, bytes, size); },
};

} // namespace

extern "C" const tw::cosim::RtlTable *twRtl() { return &table; }
