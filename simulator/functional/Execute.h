//===- Execute.h - The exact meaning of every instruction -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One function per instruction, shared by the functional and the SystemC model.
// Each has two forms: the plain loops are the definition, the kernels are what
// runs; tests hold them bit-equal.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_FUNCTIONAL_EXECUTE_H
#define SIMULATOR_FUNCTIONAL_EXECUTE_H

#include "isa/Isa.h"
#include "simulator/core/MachineState.h"

#include <vector>

namespace tw::functional {

/// How an instruction is computed on the host; the result is the same.
enum class Kernel : uint8_t {
  Plain,    ///< the definition, one element at a time
  Portable, ///< blocked loops in plain C++
  Avx2,     ///< AVX2 and FMA
  Avx512,   ///< AVX-512 F, BW, DQ, VL and VNNI
};

/// The kernels this host can run, slowest first.
std::vector<Kernel> availableKernels();
/// The last of availableKernels(), found once.
Kernel bestKernel();

/// Executes a load, preload, tensor, vector or store. `resolved` has its odometer applied (isa::resolve()); waits, posts and
/// the sequencer's instructions are the caller's. Precondition: isa::illegal() and isa::outOfRange() found nothing. Rounding is to nearest even and subnormals are kept, whatever the caller's floating-point mode.
void execute(const isa::Instruction &resolved, core::MachineState &state, Kernel kernel = bestKernel());

void executeLoad(const isa::Load &load, core::MachineState &state, Kernel kernel);
void executePreload(const isa::Preload &preload, core::MachineState &state);
/// NaN sums are canonical in the accumulator.
void executeTensor(const isa::Tensor &tensor, core::MachineState &state, Kernel kernel);
/// NaN payloads never change a value inside the chain, so they are made canonical once, where the result is written.
void executeVector(const isa::Vector &vector, core::MachineState &state, Kernel kernel);
void executeStore(const isa::Store &store, core::MachineState &state, Kernel kernel);

} // namespace tw::functional

#endif // SIMULATOR_FUNCTIONAL_EXECUTE_H
