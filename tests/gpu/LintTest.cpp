//===- LintTest.cpp - Each rule of the PTX lint ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/Lint.h"
#include "tests/gpu/PtxText.h"

using namespace tw::ptxtest;

namespace {

const std::string map = ".param .align 64 .b8 map[128]";
const std::string registers =
    ".reg .b64 %map;\n.reg .b32 %sm;\n.reg .pred %p;\nmov.b64 %map, map;\ncvta.param.u64 %map, %map;\n"
    "mov.b32 %sm, 1024;\nsetp.eq.u32 %p, %sm, 0;\n";
const std::string write = "st.shared.u32 [%sm], 1;\n", fence = "fence.proxy.async.shared::cta;\n",
                  bulkStore = "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%map, {0}], [%sm];\n";

/// The messages for a kernel with a tensor map as its parameter.
std::vector<std::string> messages(const std::string &body, const std::string &directives = "",
                                  const std::string &parameters = map) {
  std::vector<std::string> result;
  for (const auto &finding : tw::ptxlint::lint(moduleText(parameters, body + "ret;", directives)))
    result.push_back(finding.message);
  return result;
}
void expectClean(const std::string &body, const std::string &directives = "") {
  EXPECT_EQ(messages(body, directives), std::vector<std::string>());
}
void expectOne(const std::string &part, const std::vector<std::string> &found) {
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find(part), std::string::npos) << found[0];
}

TEST(LintTest, CodeForAmpereHasNoInstructionsOfHopper) {
  auto inAmpere = [](const std::string &body) {
    std::string text = moduleText(map, registers + ".reg .b16 %h<3>;\n.reg .f32 %f;\n" + body + "ret;");
    text.replace(text.find("sm_90a"), 6, "sm_80");
    std::vector<std::string> found;
    for (const auto &finding : tw::ptxlint::lint(text))
      found.push_back(finding.message);
    return found;
  };
  EXPECT_EQ(inAmpere("cvt.rn.bf16.f32 %h0, %f;\ncvt.f32.bf16 %f, %h0;\ncp.async.cg.shared.global [%sm], [%map], "
                     "16;\ncp.async.wait_all;\n"),
            std::vector<std::string>());
  for (const std::string &each : {std::string("griddepcontrol.wait;\n"), std::string("mul.rn.bf16 %h0, %h1, %h2;\n"), fence})
    expectOne("sm_80 has no such instruction", inAmpere(each));
}

TEST(LintTest, BulkStoresComeBehindAProxyFence) {
  expectClean(registers + write + fence + bulkStore);
  expectClean(registers + bulkStore);
  const std::string message = "without fence.proxy.async";
  expectOne(message, messages(registers + write + bulkStore));
  expectOne(message, messages(registers + fence + write + bulkStore));
  expectOne(message, messages(registers + write + "@%p fence.proxy.async.shared::cta;\n" + bulkStore));
  expectOne(message, messages(registers + write + "fence.proxy.async.global;\n" + bulkStore));
  // One of two ways round.
  expectOne(message, messages(registers + write + "@%p bra end;\n" + fence + "end:\n" + bulkStore));
  // Round a loop.
  expectOne(message, messages(registers + "loop:\n" + bulkStore + write + "@%p bra loop;\n"));
  expectClean(registers + "loop:\n" + bulkStore + write + fence + "@%p bra loop;\n");
}

TEST(LintTest, TensorMapsAreTakenByAddress) {
  expectOne("it is copied, which grid_constant would prevent", messages(registers + "ld.param.b64 %map, [map+8];\n"));
  expectOne("has an alignment of 16 but needs 64", messages(registers, "", ".param .align 16 .b8 map[128]"));
}

TEST(LintTest, NoLocalMemory) { expectOne("uses 64 bytes of local memory", messages(".local .align 16 .b8 depot[64];\n")); }

TEST(LintTest, RegistersOfWarpgroups) {
  const std::string both = "setmaxnreg.dec.sync.aligned.u32 40;\nsetmaxnreg.inc.sync.aligned.u32 232;\n";
  expectClean(both, ".maxntid 384, 1, 1");
  expectOne("setmaxnreg without .maxntid", messages(both));
  expectOne("dec without an .inc", messages("setmaxnreg.dec.sync.aligned.u32 40;\n", ".maxntid 384, 1, 1"));
}

TEST(LintTest, WaitsOfTheClusterAreSlow) {
  expectOne(".acquire.cluster",
            messages(registers + "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [%sm], 0;\n"));
}

TEST(LintTest, DynamicSharedMemoryIsAligned) {
  std::string text = moduleText(map, registers + bulkStore + "ret;");
  text.replace(text.find(".align 1024"), 11, ".align 128");
  const auto found = tw::ptxlint::lint(text);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].message.find("need 1024"), std::string::npos);
}

TEST(LintTest, WhatDoesNotParseIsAFinding) {
  const auto call = tw::ptxlint::lint(moduleText("", "call helper;\nret;"));
  ASSERT_EQ(call.size(), 1u);
  EXPECT_NE(call[0].message.find("calls are not modelled"), std::string::npos);
  EXPECT_EQ(call[0].line, 8u);
}

} // namespace
