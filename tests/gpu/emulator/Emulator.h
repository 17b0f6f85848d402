//===- Emulator.h - A device that runs PTX ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs PTX for Hopper without a GPU: a device with memory, tensor maps and launches, as a host of the CUDA driver sees it.
//
// What is modelled
// - The PTX that LLVM 19's NVPTX back end prints for sm_90a without calls, and the Hopper instructions of our inline assembly:
//   TMA (tiled and im2col, loads, stores, reductions, multicast), bulk and small asynchronous copies, mbarriers, named, cluster
//   and warp barriers, wgmma and mma.sync, ldmatrix and stmatrix, clusters with distributed shared memory, votes and shuffles.
//   An opcode or modifier that is not known is an error when the text is parsed.
// - Every thread by itself. Warp-wide instructions wait for the lanes of their membermask, wgmma for the 128 threads of its
//   warpgroup. wgmma.wait_group speaks for all of them.
// - Asynchronous operations take effect as late as the waits allow (Timing::Late): bulk copies when a thread waits on their
//   mbarrier, wgmma at wgmma.wait_group, bulk stores read shared memory at wait_group.read and write at wait_group or the end of
//   the grid, cp.async at cp.async.wait_group. Timing::Early does them at once, Timing::Random at moments drawn from the seed.
// - Threads run in order, in the reverse order, or at random: then warps take turns for a while, and for a while each runs only
//   when those before it wait, so that some are far ahead. mbarrier.try_wait then gives up in a quarter of all phases.
// - What is known of every register and byte: reads of what nobody wrote, of what an operation in flight has yet to write, writes
//   to what an operation in flight has yet to read, wgmma registers without wgmma.fence or wait_group, generic writes that the
//   async proxy meets before their thread's fence.proxy.async, .nc loads of what the launch has written, bounds, alignment,
//   mbarriers and their counts.
// - griddepcontrol: a launch with `programmatic` checks that no CTA touches what earlier launches wrote, and writes nothing,
//   before it has executed griddepcontrol.wait.
// What is not
// - Time. Caches and their hints, scopes and orders of the memory model (every access is sequentially consistent; races show only
//   through the order of threads), textures, calls, sparse matrices, tensor maps that a kernel modifies, interleaved tensor maps.
// - Generic writes are known by the last writer of each 4 bytes of shared and 16 bytes of global memory.
// - Registers of the machine: setmaxnreg is checked against the register file, spills are the business of ptxas.
// - Sums of tensor cores are in f32 in the order of k; the machine's order and truncation differ in the last bits.
//   Functions with .approx (ex2, tanh, rcp, ...) have the C library's accuracy, not the machine's.
//===----------------------------------------------------------------------===//
#pragma once

#include "tests/gpu/emulator/Memory.h"
#include "tests/gpu/emulator/Program.h"
#include "tests/gpu/emulator/TensorMap.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tw::ptxemu {

enum class Timing : uint8_t { Late, Early, Random };
enum class ThreadOrder : uint8_t { Forward, Reverse, Random };

struct LaunchOptions {
  Timing timing = Timing::Late;
  ThreadOrder order = ThreadOrder::Forward;
  /// Of every random choice: the same seed gives the same run.
  uint32_t seed = 0;
  /// Launched with programmatic stream serialization.
  bool programmatic = false;
  /// Clusters that run at the same time from the start; more begin when all of these wait for something.
  unsigned residentClusters = 1;
  /// Instructions of all threads before the launch fails.
  uint64_t maxInstructions = uint64_t(1) << 36;
};

struct Extent {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
};

struct LaunchShape {
  Extent grid, block, cluster;
  uint32_t dynamicSharedBytes = 0;
};

struct LaunchResult {
  /// Instructions of all threads together.
  uint64_t instructions = 0;
};

/// The 128 bytes of a tensor map, as a kernel takes them by value.
struct alignas(64) EncodedTensorMap {
  std::array<uint8_t, 128> bytes{};
};

/// The parameters of a launch in their order.
class Arguments {
public:
  template <typename T> Arguments &add(const T &value) {
    static_assert(std::is_trivially_copyable_v<T>, "parameters are copied bytes");
    const auto *begin = reinterpret_cast<const uint8_t *>(&value);
    values.emplace_back(begin, begin + sizeof value);
    return *this;
  }
  std::vector<std::vector<uint8_t>> values;
};

/// An address in device memory.
using DevicePointer = uint64_t;

/// A device: memory, tensor maps, and launches one after the other. Every function throws Error.
class Device {
public:
  /// Uninitialised memory, aligned to 256 bytes; `name` stands in messages.
  DevicePointer allocate(uint64_t bytes, const std::string &name = "");
  void free(DevicePointer pointer);
  void write(DevicePointer pointer, const void *values, uint64_t bytes);
  void fill(DevicePointer pointer, uint8_t value, uint64_t bytes);
  /// Fails for a byte that nobody has written.
  void read(void *values, DevicePointer pointer, uint64_t bytes);

  template <typename T> DevicePointer upload(const std::vector<T> &values, const std::string &name = "") {
    const DevicePointer pointer = allocate(values.size() * sizeof(T), name);
    write(pointer, values.data(), values.size() * sizeof(T));
    return pointer;
  }
  template <typename T> std::vector<T> download(DevicePointer pointer, size_t count) {
    std::vector<T> values(count);
    read(values.data(), pointer, count * sizeof(T));
    return values;
  }

  EncodedTensorMap encode(const TensorMap &map);
  /// The map of encoded bytes; null if they are none.
  const TensorMap *decode(const uint8_t *bytes) const;

  /// Runs the kernel to its end. Throws Error for the first rule that it breaks.
  LaunchResult launch(const Module &module, const std::string &kernel, const LaunchShape &shape, const Arguments &arguments,
                      const LaunchOptions &options = {});

  GlobalMemory memory;

private:
  friend struct Grid;
  std::vector<TensorMap> maps;
  uint32_t launches = 0;
  uint32_t unfinishedFrom = 1; // launches that may still run when the next one begins with programmatic serialization
  const Module *loaded = nullptr;
  std::map<const Module *, std::vector<GlobalMemory::Allocation>> modules;
};

} // namespace tw::ptxemu
