//===- Tilewright.td - Everything isa-tblgen reads ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

include "Isa.td"
include "Timing.td"
