//===- Sequence.h - Tile programs one after the other -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_SCHEDULE_SEQUENCE_H
#define COMPILER_SCHEDULE_SEQUENCE_H

#include "compiler/schedule/TileProgram.h"

namespace tw::schedule {

/// One program of all `parts`, in which each starts when everything before it has retired.
TileProgram inSequence(std::vector<TileProgram> parts, const timing::MachineParams &machine);

} // namespace tw::schedule

#endif // COMPILER_SCHEDULE_SEQUENCE_H
