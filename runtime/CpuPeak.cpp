//===- CpuPeak.cpp - What this processor could do at most -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/CpuPeak.h"
#include "runtime/Stopwatch.h"

#include <algorithm>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

using namespace tw;
using namespace tw::runtime;

namespace {

/// Sums that do not depend on one another: more than a processor's latency times its units, and no more than half its registers.
constexpr int kSums = 12;
/// Multiply-adds of each sum in one call of a kernel.
constexpr int kSteps = 20000;

/// A kernel does kSums * kSteps instructions and returns something that depends on all.
struct Kernel {
  double (*run)() = nullptr;
  int macs = 0; ///< of one instruction
  const char *how = "";
};

// Each kernel needs its features for all of its code, so it is written out in full: `TARGET` names them, `STEP` is one multiply-add of
// `sum` with `a` and `b`. What the compiler must not see through goes past it in registers.
#define TW_PEAK_KERNEL(NAME, TARGET, REGISTER, SUM, FACTOR, ZERO, STEP)                                                        \
  TARGET __attribute__((noinline)) double NAME() {                                                                             \
    SUM sums[kSums];                                                                                                           \
    FACTOR a = ZERO, b = ZERO;                                                                                                 \
    asm volatile("" : "+" REGISTER(a), "+" REGISTER(b));                                                                       \
    for (SUM & sum : sums)                                                                                                     \
      sum = SUM{};                                                                                                             \
    for (int i = 0; i < kSteps; ++i) {                                                                                         \
      _Pragma("unroll") for (int k = 0; k < kSums; ++k) {                                                                      \
        SUM &sum = sums[k];                                                                                                    \
        sum = STEP;                                                                                                            \
        asm volatile("" : "+" REGISTER(sum));                                                                                  \
      }                                                                                                                        \
    }                                                                                                                          \
    double result = 0;                                                                                                         \
    for (SUM & sum : sums)                                                                                                     \
      result += double(sum[0]);                                                                                                \
    return result;                                                                                                             \
  }

#if defined(__x86_64__)
TW_PEAK_KERNEL(fp32Avx512, __attribute__((target("avx512f"))), "v", __m512, __m512, _mm512_set1_ps(1e-3f),
               _mm512_fmadd_ps(a, b, sum))
TW_PEAK_KERNEL(fp32Avx2, __attribute__((target("avx2,fma"))), "x", __m256, __m256, _mm256_set1_ps(1e-3f),
               _mm256_fmadd_ps(a, b, sum))
TW_PEAK_KERNEL(fp32Sse2, __attribute__((target("sse2"))), "x", __m128, __m128, _mm_set1_ps(1e-3f),
               _mm_add_ps(sum, _mm_mul_ps(a, b)))
TW_PEAK_KERNEL(int8Vnni512, __attribute__((target("avx512f,avx512vnni"))), "v", __m512i, __m512i, _mm512_set1_epi8(1),
               _mm512_dpbusd_epi32(sum, a, b))
TW_PEAK_KERNEL(int8Vnni256, __attribute__((target("avx2,avxvnni"))), "x", __m256i, __m256i, _mm256_set1_epi8(1),
               _mm256_dpbusd_avx_epi32(sum, a, b))
TW_PEAK_KERNEL(int8Avx2, __attribute__((target("avx2"))), "x", __m256i, __m256i, _mm256_set1_epi16(1),
               _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)))
TW_PEAK_KERNEL(int8Sse2, __attribute__((target("sse2"))), "x", __m128i, __m128i, _mm_set1_epi16(1),
               _mm_add_epi32(sum, _mm_madd_epi16(a, b)))
TW_PEAK_KERNEL(bf16Avx512, __attribute__((target("avx512f,avx512bf16"))), "v", __m512, __m512, _mm512_set1_ps(1e-3f),
               _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b))

Kernel kernelFor(Products products) {
  __builtin_cpu_init();
  if (products == Products::Int8) {
    if (__builtin_cpu_supports("avx512vnni"))
      return {int8Vnni512, 64, "int8, sums of four products in 512 bits"};
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    const bool hasAvxVnni = __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & 1u << 4);
    if (__builtin_cpu_supports("avx2") && hasAvxVnni)
      return {int8Vnni256, 32, "int8, sums of four products in 256 bits"};
    if (__builtin_cpu_supports("avx2"))
      return {int8Avx2, 16, "int8, sums of two products of 16 bits in 256 bits"};
    return {int8Sse2, 8, "int8, sums of two products of 16 bits in 128 bits"};
  }
  if (products == Products::Bf16 && __builtin_cpu_supports("avx512bf16"))
    return {bf16Avx512, 32, "bf16, sums of two products in 512 bits"};
  if (__builtin_cpu_supports("avx512f"))
    return {fp32Avx512, 16, "fp32, fused multiply-add of 512 bits"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {fp32Avx2, 8, "fp32, fused multiply-add of 256 bits"};
  return {fp32Sse2, 4, "fp32, multiplication and addition of 128 bits"};
}
#elif defined(__aarch64__)
TW_PEAK_KERNEL(fp32Neon, , "w", float32x4_t, float32x4_t, vdupq_n_f32(1e-3f), vfmaq_f32(sum, a, b))

/// No kernel of int8 or bf16 products: their share of the peak is not told.
Kernel kernelFor(Products products) {
  return products == Products::Fp32 ? Kernel{fp32Neon, 4, "fp32, fused multiply-add of 128 bits"} : Kernel{};
}
#else
Kernel kernelFor(Products) { return {}; }
#endif

/// The least wall time of several calls.
double leastSeconds(double (*run)()) {
  double least = 1e9;
  volatile double sink = 0;
  for (int i = 0; i < 20; ++i) {
    Stopwatch watch;
    sink = sink + run();
    least = std::min(least, watch.wallSeconds());
  }
  return least;
}

} // namespace

CpuPeak runtime::measureCpuPeak(Products products, unsigned threads) {
  Kernel kernel = kernelFor(products);
  if (!kernel.run)
    return {};
  threads = std::min(threads, std::max(1u, std::thread::hardware_concurrency())); // more run no faster
  std::vector<double> seconds(threads, 1);
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i)
    others.emplace_back([&, i] { seconds[i] = leastSeconds(kernel.run); });
  seconds[0] = leastSeconds(kernel.run);
  for (std::thread &other : others)
    other.join();
  CpuPeak peak;
  for (double each : seconds)
    peak.gmacPerSecond += double(kSums) * kSteps * kernel.macs / each * 1e-9;
  peak.how = kernel.how;
  return peak;
}
