//===- Schema.cpp - Every key of a machine file -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/Schema.h"

#include "isa/FieldLimits.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tw::hwconfigs {

using timing::DramParams;
using timing::MachineParams;
using timing::MemoryParams;

namespace {

constexpr uint64_t kMaxTicks = 4096;

/// The largest power of two whose indices a field of that maximum holds.
constexpr uint64_t powerOfTwoIn(int64_t maximum) {
  uint64_t size = 1;
  while (size * 2 <= uint64_t(maximum) + 1)
    size *= 2;
  return size;
}

using isa::Opcode;
/// As counts: the fields must hold all of them.
constexpr uint64_t kMaxRows = powerOfTwoIn(isa::maximumOf(Opcode::Preload, "k_count") - 1);
constexpr uint64_t kMaxCols = powerOfTwoIn(isa::maximumOf(Opcode::Preload, "n_count") - 1);
constexpr uint64_t kMaxLanes = powerOfTwoIn(isa::maximumOf(Opcode::Vector, "tail_lanes"));
constexpr uint64_t kMaxMemoryBytes = powerOfTwoIn(isa::maximumOf(Opcode::Load, "address"));
constexpr uint64_t kMaxDramBytes = powerOfTwoIn(isa::maximumOf(Opcode::Load, "dram_address"));
constexpr uint64_t kMaxUnits = uint64_t(isa::maximumOf(isa::headerFields(), "unit")) + 1;
constexpr uint64_t kMaxSemaphores = uint64_t(isa::maximumOf(isa::headerFields(), "wait_semaphore")) + 1;

/// Makes a key read and write the parameter that `access` refers to: a number, a choice, a flag or a text.
template <typename Access> void bind(Key &key, Access access) {
  using T = std::decay_t<decltype(access(std::declval<MachineParams &>()))>;
  key.assign = [access](MachineParams &machine, const Value &value) {
    if constexpr (std::is_same_v<T, std::string>)
      access(machine) = value.text;
    else
      access(machine) = T(value.integer);
  };
  key.read = [access](const MachineParams &machine) {
    Value value;
    const T &held = access(const_cast<MachineParams &>(machine));
    if constexpr (std::is_same_v<T, std::string>)
      value.text = held;
    else
      value.integer = uint64_t(held);
    return std::optional<Value>(std::move(value));
  };
}

class Table {
public:
  std::vector<Key> keys;

  Key &add(std::string path, ValueKind kind, Need need, std::string unit, std::string meaning) {
    Key key;
    key.path = std::move(path);
    key.kind = kind;
    key.need = need;
    key.unit = std::move(unit);
    key.meaning = std::move(meaning);
    keys.push_back(std::move(key));
    return keys.back();
  }

  Key &integer(std::string path, Need need, std::string unit, uint64_t minimum, uint64_t maximum, std::string meaning,
               uint32_t MachineParams::*member = nullptr) {
    Key &key = add(std::move(path), ValueKind::Integer, need, std::move(unit), std::move(meaning));
    key.minimum = minimum;
    key.maximum = maximum;
    if (member)
      bind(key, [member](MachineParams &machine) -> uint32_t & { return machine.*member; });
    return key;
  }

  Key &powerOfTwo(std::string path, Need need, std::string unit, uint64_t minimum, uint64_t maximum, std::string meaning,
                  uint32_t MachineParams::*member = nullptr) {
    Key &key = integer(std::move(path), need, std::move(unit), minimum, maximum, std::move(meaning), member);
    key.powerOfTwo = true;
    return key;
  }

  /// An optional rate per accelerator cycle, that `access` refers to.
  template <typename Access> void rate(std::string path, std::string unit, std::string meaning, Access access) {
    Key &key = add(std::move(path), ValueKind::Ratio, Need::Optional, std::move(unit), std::move(meaning));
    key.minimum = 1;
    key.maximum = 1000000;
    key.assign = [access](MachineParams &machine, const Value &value) {
      access(machine) = {value.numerator, value.denominator};
    };
    key.read = [access](const MachineParams &machine) {
      const timing::Rate &held = access(const_cast<MachineParams &>(machine));
      Value value;
      value.numerator = held.numerator;
      value.denominator = held.denominator;
      return std::optional<Value>(value);
    };
  }

  /// A `dram.` number.
  Key &dram(std::string leaf, DramScope scope, std::string unit, uint64_t minimum, uint64_t maximum, std::string meaning,
            uint32_t DramParams::*member) {
    Need need = scope == DramScope::Machine ? Need::Optional : Need::RequiredOfDevice;
    Key &key = integer("dram." + leaf, need, std::move(unit), minimum, maximum, std::move(meaning));
    key.scope = scope;
    if (member)
      bind(key, [member](MachineParams &machine) -> uint32_t & { return machine.dram.*member; });
    return key;
  }

  Key &ticks(std::string leaf, uint64_t minimum, std::string meaning, uint32_t DramParams::*member) {
    return dram(std::move(leaf), DramScope::Timed, "DRAM clock cycles", minimum, kMaxTicks, std::move(meaning), member);
  }
};

/// The scratchpad of that name, made on first use.
MemoryParams &scratchpad(MachineParams &machine, const std::string &name) {
  for (MemoryParams &memory : machine.scratchpads)
    if (memory.name == name)
      return memory;
  MemoryParams memory;
  memory.name = name;
  machine.scratchpads.push_back(memory);
  return machine.scratchpads.back();
}

/// Makes a key read and write a parameter of the scratchpad of that name.
template <typename T> void bindScratchpad(Key &key, const std::string &name, T MemoryParams::*member) {
  key.assign = [name, member](MachineParams &machine, const Value &value) {
    scratchpad(machine, name).*member = T(value.integer);
  };
  key.read = [name, member](const MachineParams &machine) -> std::optional<Value> {
    for (const MemoryParams &memory : machine.scratchpads)
      if (memory.name == name) {
        Value value;
        value.integer = memory.*member;
        return value;
      }
    return std::nullopt;
  };
}

std::vector<Key> makeSchema() {
  Table table;
  bind(table.add("name", ValueKind::Text, Need::Required, "", "name of the machine"),
       [](MachineParams &machine) -> std::string & { return machine.name; });
  table.add("description", ValueKind::Text, Need::Optional, "", "one line for people");
  table.add("technology", ValueKind::Text, Need::Optional, "",
            "whose joules and square micrometres reports count: a name under technology/, or a file; default 45nm");
  table.integer("clock_mhz", Need::Required, "MHz", 1, 100000, "clock of the accelerator", &MachineParams::clockMhz);

  Key &type = table.add("array.type", ValueKind::Choice, Need::Required, "", "element type of the MAC array");
  type.choices = {"int8", "bf16", "fp32"};
  bind(type, [](MachineParams &machine) -> timing::ArrayType & { return machine.arrayType; });
  table.powerOfTwo("array.rows", Need::Required, "MACs", 1, kMaxRows, "rows of the MAC array (reduction)",
                   &MachineParams::rows);
  table.powerOfTwo("array.cols", Need::Required, "MACs", 1, kMaxCols, "columns of the MAC array (outputs)",
                   &MachineParams::cols);
  table.powerOfTwo("array.preload_rows_per_cycle", Need::Optional, "rows per cycle", 1, kMaxRows,
                   "weight rows that enter the shadow registers in one cycle; "
                   "default 4 if rows >= 64, else 1",
                   &MachineParams::preloadRowsPerCycle);

  table.powerOfTwo("vector.lanes", Need::Optional, "lanes", 1, kMaxLanes, "lanes of the vector engine; default cols",
                   &MachineParams::lanes);
  table.integer("vector.stages", Need::Optional, "ALUs", 1, isa::kMaxStages,
                "chained ALUs of a lane, the longest chain; default 12", &MachineParams::vectorStages);

  for (std::string name : {"unified", "activation", "weight"}) {
    std::string what =
        name == "unified" ? "the one scratchpad, instead of activation and weight" : "the " + name + " scratchpad";
    std::string banks = name == "weight" ? "8" : "16";
    bindScratchpad(table.powerOfTwo("scratchpads." + name + ".capacity_bytes", Need::Optional, "bytes", 64, kMaxMemoryBytes,
                                    "size of " + what),
                   name, &MemoryParams::capacityBytes);
    bindScratchpad(table.powerOfTwo("scratchpads." + name + ".banks", Need::Optional, "banks", 1, 64,
                                    "equal, contiguous banks of " + what + "; default " + banks),
                   name, &MemoryParams::banks);
  }
  bind(table.powerOfTwo("accumulator.capacity_bytes", Need::Required, "bytes", 64, kMaxMemoryBytes,
                        "size of the accumulator, in rows of cols x 4 bytes"),
       [](MachineParams &machine) -> uint64_t & { return machine.accumulator.capacityBytes; });
  bind(table.powerOfTwo("accumulator.banks", Need::Optional, "banks", 1, 64, "banks of the accumulator; default 4"),
       [](MachineParams &machine) -> uint32_t & { return machine.accumulator.banks; });

  table.integer("dma.load_engines", Need::Optional, "engines", 1, kMaxUnits, "DRAM to scratchpad engines; default 2",
                &MachineParams::loadEngines);
  table.integer("dma.store_engines", Need::Optional, "engines", 1, kMaxUnits, "scratchpad to DRAM engines; default 1",
                &MachineParams::storeEngines);
  table.integer("dma.outstanding_bursts", Need::Optional, "bursts", 1, 65536,
                "bursts each DMA engine may have in flight; default: what "
                "Little's law asks for, at least 16",
                &MachineParams::outstandingBursts);
  table.integer("dma.bursts_per_cycle", Need::Optional, "bursts per cycle", 1, 256,
                "bursts each DMA engine may issue in one cycle, at most one "
                "per channel; default 1",
                &MachineParams::burstsPerCycle);

  table.integer("control.queue_depth_instructions", Need::Optional, "instructions", 1, 256,
                "depth of each engine's queue; default 8", &MachineParams::queueDepth);
  table.integer("control.loop_buffer_words", Need::Optional, "instruction words", 1,
                uint64_t(isa::maximumOf(Opcode::Loop, "body_words")), "longest loop body; default 256",
                &MachineParams::loopBufferWords);
  table.integer("control.prefetch_words", Need::Optional, "instruction words", 1, 65536,
                "program words fetched ahead; default 32", &MachineParams::prefetchWords);
  table.integer("control.semaphores", Need::Optional, "semaphores", 1, kMaxSemaphores, "number of semaphores; default 64",
                &MachineParams::semaphores);
  table.integer("control.semaphore_max_count", Need::Optional, "posts", 1, 65535, "largest count of a semaphore; default 63",
                &MachineParams::semaphoreMax);

  table.rate(
      "host_link.bytes_per_cycle", "bytes per cycle",
      "rate of the link between the host's memory and the accelerator's; default 15.754 GB/s (PCI Express 3.0, 16 lanes)",
      [](MachineParams &machine) -> timing::Rate & { return machine.host.linkBytes; });
  bind(table.integer("host_link.latency_cycles", Need::Optional, "cycles", 0, 100000000,
                     "of each tensor that crosses the link; default 900 ns"),
       [](MachineParams &machine) -> uint32_t & { return machine.host.linkLatencyCycles; });
  table.rate("host.bytes_per_cycle", "bytes per cycle",
             "rate of the host's memory; default 19.2 GB/s (one channel of DDR4-2400)",
             [](MachineParams &machine) -> timing::Rate & { return machine.host.memoryBytes; });
  table.rate("host.operations_per_cycle", "operations per cycle",
             "multiply-accumulates or elements that the host computes; default 48 in a nanosecond (16 in a cycle of 3 GHz)",
             [](MachineParams &machine) -> timing::Rate & { return machine.host.operations; });

  Key &device = table.add("dram.device", ValueKind::Text, Need::Required, "",
                          "device file: a name under dram/, or a path ending in .yaml");
  bind(device, [](MachineParams &machine) -> std::string & { return machine.dram.device; });
  Key &controller = table.add("dram.controller", ValueKind::Choice, Need::Optional, "",
                              "order of requests: as they arrive, or first-ready within a "
                              "window, reads and writes apart; default windowed");
  controller.choices = {"in_order", "windowed"};
  bind(controller, [](MachineParams &machine) -> timing::DramController & { return machine.dram.controller; });
  table.dram("path_latency_cycles", DramScope::Machine, "cycles", 0, 1000000, "added to the latency of any device; default 0",
             &DramParams::pathLatencyCycles);
  table.dram("window_requests", DramScope::Machine, "requests", 1, 256,
             "requests per channel a controller looks at (windowed: reads, until their row is opened for them); default 32",
             &DramParams::window);
  table.dram("age_cap_ticks", DramScope::Machine, "DRAM clock cycles", 1, 1 << 20,
             "windowed controller: a request that has been looked at for so long goes "
             "first; default 2048",
             &DramParams::ageCapTicks);
  table.dram("grant_bursts", DramScope::Machine, "bursts", 1, 65536,
             "bursts a granted port may send before others get their turn; default 32", &DramParams::grantBursts);
  table.dram(
      "write_buffer_bursts", DramScope::Machine, "bursts", 1, 65536,
      "writes held back; the windowed controller divides them, and both watermarks, among the channels (at least one write "
      "each); default 32",
      &DramParams::writeBufferBursts);
  table.dram("write_high_watermark_bursts", DramScope::Machine, "bursts", 1, 65536,
             "held writes at which draining starts, if reads wait; default 26 with the windowed controller, else 24",
             &DramParams::writeHighWatermark);
  table.dram("write_low_watermark_bursts", DramScope::Machine, "bursts", 0, 65535,
             "held writes at which draining stops, if reads wait; default 6 with the windowed controller, else 8",
             &DramParams::writeLowWatermark);
  Key &interleave = table.add("dram.interleave_bank_groups", ValueKind::Flag, Need::Optional, "",
                              "consecutive bursts of a channel go to different "
                              "bank groups; default true");
  bind(interleave, [](MachineParams &machine) -> bool & { return machine.dram.interleaveBankGroups; });

  Key &kind = table.add("dram.kind", ValueKind::Choice, Need::RequiredOfDevice, "", "kind of the device");
  kind.scope = DramScope::Any;
  kind.choices = {"ideal", "ddr4", "lpddr4", "hbm2", "ddr5", "lpddr5", "hbm3"};
  bind(kind, [](MachineParams &machine) -> timing::DramKind & { return machine.dram.kind; });
  Key &capacity = table.powerOfTwo("dram.capacity_bytes", Need::RequiredOfDevice, "bytes", 1 << 20, kMaxDramBytes,
                                   "size of all channels and ranks together");
  capacity.scope = DramScope::Any;
  bind(capacity, [](MachineParams &machine) -> uint64_t & { return machine.dram.capacityBytes; });
  table.dram("burst_bytes", DramScope::Any, "bytes", 8, 4096, "size of one access", &DramParams::burstBytes).powerOfTwo = true;
  table.dram("latency_cycles", DramScope::Ideal, "cycles", 0, 1000000, "from the last byte moved to its arrival",
             &DramParams::latencyCycles);
  Key &rate =
      table.add("dram.bytes_per_cycle", ValueKind::Ratio, Need::RequiredOfDevice, "bytes per cycle", "rate of the data bus");
  rate.scope = DramScope::Ideal;
  rate.minimum = 1;
  rate.maximum = 1000000;
  rate.assign = [](MachineParams &machine, const Value &value) {
    machine.dram.bytesPerCycleNumerator = value.numerator;
    machine.dram.bytesPerCycleDenominator = value.denominator;
  };
  rate.read = [](const MachineParams &machine) {
    Value value;
    value.numerator = machine.dram.bytesPerCycleNumerator;
    value.denominator = machine.dram.bytesPerCycleDenominator;
    return std::optional<Value>(value);
  };
  table.dram("clock_mhz", DramScope::Timed, "MHz", 1, 10000, "command clock", &DramParams::clockMhz);
  table
      .dram("channels", DramScope::Timed, "channels", 1, 256, "independent channels (pseudo-channels of HBM)",
            &DramParams::channels)
      .powerOfTwo = true;
  table.dram("ranks", DramScope::Timed, "ranks", 1, 8, "ranks of a channel", &DramParams::ranks).powerOfTwo = true;
  table.dram("bank_groups", DramScope::Timed, "bank groups", 1, 16, "bank groups of a rank", &DramParams::bankGroups)
      .powerOfTwo = true;
  table.dram("banks_per_group", DramScope::Timed, "banks", 1, 32, "banks of a bank group", &DramParams::banksPerGroup)
      .powerOfTwo = true;
  table
      .dram("row_bytes", DramScope::Timed, "bytes", 64, 1 << 20, "open row of one bank over the channel's width",
            &DramParams::rowBytes)
      .powerOfTwo = true;
  table.ticks("burst_ticks", 1, "data bus time of one access", &DramParams::nBurst);
  table.ticks("cl_ticks", 1, "read command to read data", &DramParams::nCL);
  table.ticks("cwl_ticks", 1, "write command to write data", &DramParams::nCWL);
  table.ticks("rcd_read_ticks", 1, "activate to read", &DramParams::nRCDRD);
  table.ticks("rcd_write_ticks", 1, "activate to write", &DramParams::nRCDWR);
  table.ticks("rp_ticks", 1, "precharge to activate", &DramParams::nRP);
  table.ticks("rp_all_ticks", 1, "precharge of all banks to refresh", &DramParams::nRPAB);
  table.ticks("ras_ticks", 1, "activate to precharge", &DramParams::nRAS);
  table.ticks("ccd_short_ticks", 1, "column command to column command, other bank group", &DramParams::nCCDS);
  table.ticks("ccd_long_ticks", 1, "column command to column command, same bank group", &DramParams::nCCDL);
  table.ticks("ccd_long_write_ticks", 1, "write command to write command, same bank group", &DramParams::nCCDLWR);
  table.ticks("rrd_short_ticks", 1, "activate to activate, other bank group", &DramParams::nRRDS);
  table.ticks("rrd_long_ticks", 1, "activate to activate, same bank group", &DramParams::nRRDL);
  table.ticks("faw_ticks", 1, "window of at most four activates of a rank", &DramParams::nFAW);
  table.ticks("wr_ticks", 1, "end of write data to precharge", &DramParams::nWR);
  table.ticks("wtr_short_ticks", 1, "end of write data to read, other bank group", &DramParams::nWTRS);
  table.ticks("wtr_long_ticks", 1, "end of write data to read, same bank group", &DramParams::nWTRL);
  table.ticks("rtp_ticks", 1, "read to precharge", &DramParams::nRTP);
  table.ticks("read_to_write_ticks", 1, "read command to write command of a rank", &DramParams::nRTW);
  table.ticks("rank_switch_ticks", 0, "idle data bus between bursts of two ranks", &DramParams::nRTRS);
  Key &refresh = table.add("dram.refresh", ValueKind::Choice, Need::RequiredOfDevice, "",
                           "what a refresh takes: all banks of a rank at once, or one bank after the other");
  refresh.scope = DramScope::Timed;
  refresh.choices = {"all_bank", "per_bank"};
  bind(refresh, [](MachineParams &machine) -> timing::DramRefresh & { return machine.dram.refresh; });
  constexpr uint64_t kMaxInterval = 1 << 20;
  table.ticks("refi_ticks", 1, "one refresh of every rank in this time", &DramParams::nREFI).maximum = kMaxInterval;
  table.ticks("rfc_ticks", 1, "refresh to the next command", &DramParams::nRFC);
  for (auto [leaf, most, meaning, member] :
       {std::tuple("refi_bank_ticks", kMaxInterval, "one refresh of one bank of every rank in this time", &DramParams::nREFIPB),
        std::tuple("rfc_bank_ticks", kMaxTicks, "refresh of a bank to its next command, and to the rank's next refresh",
                   &DramParams::nRFCPB),
        std::tuple("rfc_bank_activate_ticks", kMaxTicks, "refresh of a bank to an activate of another bank of the rank",
                   &DramParams::nRREFD)}) {
    Key &key = table.ticks(leaf, 1, std::string(meaning) + "; only for devices that refresh per bank", member);
    key.need = Need::Optional;
    key.maximum = most;
  }
  Key &buses =
      table.add("dram.row_column_buses", ValueKind::Flag, Need::RequiredOfDevice, "",
                "row commands and column commands have a bus each, which every two channels (the pseudo-channels of an "
                "HBM channel) share; otherwise each channel has one command bus");
  buses.scope = DramScope::Timed;
  bind(buses, [](MachineParams &machine) -> bool & { return machine.dram.rowColumnBuses; });

  // Every latency constant of isa/Timing.td under its own name. None is 0: each path between engines has a register.
  for (const timing::TimingConstantInfo &constant : timing::kTimingConstants) {
    Key &key = table.integer("timing." + std::string(constant.name), Need::Optional, "cycles", 1, 4096, constant.doc);
    bind(key, [member = constant.member](MachineParams &machine) -> uint32_t & { return machine.timing.*member; });
  }
  return std::move(table.keys);
}

size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

} // namespace

std::string Key::block() const {
  size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string Key::leaf() const {
  size_t dot = path.rfind('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

std::string Key::spell(const Value &value) const {
  switch (kind) {
  case ValueKind::Integer:
    return std::to_string(value.integer);
  case ValueKind::Ratio:
    return std::to_string(value.numerator) + (value.denominator == 1 ? "" : "/" + std::to_string(value.denominator));
  case ValueKind::Flag:
    return value.integer ? "true" : "false";
  case ValueKind::Choice:
    return choices.at(value.integer);
  case ValueKind::Text:
    break;
  }
  return value.text;
}

std::string Key::allowed() const {
  switch (kind) {
  case ValueKind::Integer:
    return std::string(powerOfTwo ? "a power of two" : "an integer") + " from " + std::to_string(minimum) + " to " +
           std::to_string(maximum);
  case ValueKind::Ratio:
    return "a whole number or a ratio such as 64/3, parts " + std::to_string(minimum) + " to " + std::to_string(maximum);
  case ValueKind::Flag:
    return "true or false";
  case ValueKind::Choice: {
    std::string text = "one of";
    for (const std::string &choice : choices)
      text += (&choice == &choices.front() ? " " : ", ") + choice;
    return text;
  }
  case ValueKind::Text:
    return "a text";
  }
  return "";
}

const std::vector<Key> &schema() {
  static const std::vector<Key> keys = makeSchema();
  return keys;
}

const Key *findKey(const std::string &path) {
  static const std::map<std::string, const Key *> index = [] {
    std::map<std::string, const Key *> byPath;
    for (const Key &key : schema())
      byPath[key.path] = &key;
    return byPath;
  }();
  auto found = index.find(path);
  return found == index.end() ? nullptr : found->second;
}

bool isBlock(const std::string &path) {
  if (path.empty())
    return true;
  for (const Key &key : schema())
    if (key.path.compare(0, path.size() + 1, path + ".") == 0)
      return true;
  return false;
}

std::string nearest(const std::string &word, const std::vector<std::string> &candidates) {
  std::string best;
  // A guess that shares less than half its letters helps nobody.
  size_t bestDistance = std::max<size_t>(2, word.size() / 2);
  for (const std::string &candidate : candidates) {
    size_t distance = editDistance(word.substr(0, 128), candidate);
    if (distance < bestDistance || (distance == bestDistance && best.empty() && distance <= 2)) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

} // namespace tw::hwconfigs
