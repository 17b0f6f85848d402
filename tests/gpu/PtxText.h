//===- PtxText.h - Small kernels for the tests of the PTX emulator ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once

#include "tests/gpu/emulator/Emulator.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace tw::ptxtest {

using namespace tw::ptxemu;

/// A module with one kernel `k`. `parameters` as in PTX; `body` begins with its registers.
inline std::string moduleText(const std::string &parameters, const std::string &body, const std::string &directives = "") {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 dynamic[];\n.visible .entry k(" +
         parameters + ")\n" + directives + "\n{\n" + body + "\n}\n";
}

/// Runs `k` with one CTA of `threads`, a pointer `out` to `words` 32-bit words of zeros, and returns the words.
/// The body finds: %out (.b64, global), %t (thread), %sm (.b32, shared address), %r<32>, %rd<16>, %f<32>, %h<8> (.b16), %p<8>.
struct Words {
  unsigned threads = 32, words = 32, sharedBytes = 0;
  LaunchOptions options = {};

  static std::string text(const std::string &body) {
    return moduleText(".param .u64 out",
                      ".reg .b64 %out, %rd<16>;\n.reg .b32 %t, %sm, %r<32>;\n.reg .f32 %f<32>;\n.reg .b16 %h<8>;\n"
                      ".reg .pred %p<8>;\nld.param.u64 %out, [out];\ncvta.to.global.u64 %out, %out;\n"
                      "mov.u32 %t, %tid.x;\nmov.u64 %rd15, dynamic;\ncvt.u32.u64 %sm, %rd15;\n" +
                          body + "\nret;");
  }
  std::vector<uint32_t> run(const std::string &body) const {
    auto module = Module::parse(text(body));
    Device device;
    const DevicePointer out = device.upload(std::vector<uint32_t>(words, 0), "out");
    LaunchShape shape;
    shape.block.x = threads;
    shape.dynamicSharedBytes = sharedBytes;
    device.launch(*module, "k", shape, Arguments().add(out), options);
    return device.download<uint32_t>(out, words);
  }
};

/// Body text: stores register `value` (.b32) of each thread to out[thread].
inline std::string storeByThread(const std::string &value) {
  return "mul.wide.u32 %rd14, %t, 4;\nadd.s64 %rd14, %out, %rd14;\nst.global.b32 [%rd14], " + value + ";\n";
}

/// The result of `instruction`, which sets `d` from `a`, `b` and `c`. All are registers of `bits` (16, 32 or 64); `wide` is a
/// 64-bit result, `p` and `q` predicates.
inline uint64_t evaluate(unsigned bits, const std::string &instruction, uint64_t a, uint64_t b = 0, uint64_t c = 0,
                         unsigned resultBits = 0) {
  if (resultBits == 0)
    resultBits = bits;
  const std::string type = ".b" + std::to_string(bits), result = ".b" + std::to_string(resultBits);
  const std::string body = ".reg .b64 %out;\n.reg " + type + " a, b, c;\n.reg " + result + " d;\n.reg .pred p, q;\n" +
                           "ld.param.u64 %out, [out];\nld.param" + type + " a, [x];\nld.param" + type + " b, [y];\nld.param" +
                           type + " c, [z];\n" + instruction + "\nst.global" + result + " [%out], d;\nret;";
  auto module = Module::parse(moduleText(".param .u64 out, .param .u64 x, .param .u64 y, .param .u64 z", body));
  Device device;
  const DevicePointer out = device.upload(std::vector<uint64_t>(1, 0), "out");
  device.launch(*module, "k", {}, Arguments().add(out).add(a).add(b).add(c));
  return device.download<uint64_t>(out, 1)[0];
}
inline uint32_t bitsOfFloat(float value) { return bitCast<uint32_t>(value); }
/// The same for f32.
inline float evaluateFloat(const std::string &instruction, float a, float b = 0, float c = 0) {
  return bitCast<float>(uint32_t(evaluate(32, instruction, bitsOfFloat(a), bitsOfFloat(b), bitsOfFloat(c))));
}

/// The error that `run` throws; fails the test if there is none.
inline Error errorOf(const std::function<void()> &run) {
  try {
    run();
  } catch (const Error &error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::Parse, "no error");
}

/// Expects an error of `kind` whose message contains `part`.
#define EXPECT_FAULT(expectedKind, part, ...)                                                                                  \
  do {                                                                                                                         \
    const ::tw::ptxemu::Error fault = ::tw::ptxtest::errorOf([&] { __VA_ARGS__; });                                            \
    EXPECT_STREQ(::tw::ptxemu::name(fault.kind), ::tw::ptxemu::name(expectedKind)) << fault.what();                            \
    EXPECT_NE(std::string(fault.what()).find(part), std::string::npos) << fault.what();                                        \
  } while (false)

} // namespace tw::ptxtest
