//===- Digest.h - Fingerprints of a machine ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program image names the machine it was compiled for by these two numbers.
//===----------------------------------------------------------------------===//
#ifndef ISA_TIMING_DIGEST_H
#define ISA_TIMING_DIGEST_H

#include "isa/timing/MachineParams.h"

#include <cstdint>

namespace tw::timing {

/// FNV-1a, 64 bit, over "key=value;" text of every architectural member: array, memories, lanes, engines, queues, port
/// widths. A program runs only on a machine with the same digest. The machine's name is not part of it.
uint64_t architecturalDigest(const MachineParams &machine);

/// The same over clocks, DRAM and latency constants. A program may run on a machine that differs here.
uint64_t timingDigest(const MachineParams &machine);

} // namespace tw::timing

#endif // ISA_TIMING_DIGEST_H
