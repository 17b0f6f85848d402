//===- Execute.cpp - Dispatch to the instruction's function ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulator/functional/Execute.h"

#include <cfenv>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace tw;
using namespace tw::functional;

namespace {

/// The machine's floating-point mode while an instruction executes: a library linked into the process may have changed the
/// thread's rounding or flush-to-zero bits.
class FloatMode {
public:
#if defined(__x86_64__)
  FloatMode() : saved(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~FloatMode() { _mm_setcsr(saved); }

private:
  unsigned saved;
#else
  FloatMode() { std::fegetenv(&saved), std::fesetenv(FE_DFL_ENV); }
  ~FloatMode() { std::fesetenv(&saved); }

private:
  std::fenv_t saved;
#endif
};

} // namespace

std::vector<Kernel> tw::functional::availableKernels() {
  std::vector<Kernel> kernels = {Kernel::Plain, Kernel::Portable};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    kernels.push_back(Kernel::Avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni"))
    kernels.push_back(Kernel::Avx512);
#endif
  return kernels;
}

Kernel tw::functional::bestKernel() {
  static const Kernel best = availableKernels().back();
  return best;
}

void tw::functional::execute(const isa::Instruction &resolved, core::MachineState &state, Kernel kernel) {
  FloatMode mode;
  switch (resolved.opcode()) {
  case isa::Opcode::Load:
    return executeLoad(std::get<isa::Load>(resolved.operands), state, kernel);
  case isa::Opcode::Preload:
    return executePreload(std::get<isa::Preload>(resolved.operands), state);
  case isa::Opcode::Tensor:
    return executeTensor(std::get<isa::Tensor>(resolved.operands), state, kernel);
  case isa::Opcode::Vector:
    return executeVector(std::get<isa::Vector>(resolved.operands), state, kernel);
  case isa::Opcode::Store:
    return executeStore(std::get<isa::Store>(resolved.operands), state, kernel);
  case isa::Opcode::Halt:
  case isa::Opcode::Loop:
    break;
  }
  assert(false && "halt and loop are the sequencer's");
}
