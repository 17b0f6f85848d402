//===- Ptxas.h - What ptxas says of a kernel, where it is ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_GPU_PTXAS_H
#define TESTS_GPU_PTXAS_H

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace tw::test {

inline bool hasPtxas() { return std::system("ptxas --version >/dev/null 2>&1") == 0; }

/// Expects that ptxas assembles the text without spilling a register. `architecture`: "sm_80".
inline void expectAssembles(const std::string &ptx, const std::string &architecture) {
  const std::string name = testing::TempDir() + "ptxas-" + std::to_string(getpid());
  std::ofstream(name + ".ptx") << ptx;
  const int status =
      std::system(("ptxas -v -arch=" + architecture + " " + name + ".ptx -o /dev/null >" + name + ".txt 2>&1").c_str());
  std::ifstream file(name + ".txt");
  const std::string said(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(status, 0) << said;
  EXPECT_NE(said.find(" 0 bytes spill stores, 0 bytes spill loads"), std::string::npos) << said;
  std::remove((name + ".ptx").c_str());
  std::remove((name + ".txt").c_str());
}

} // namespace tw::test

#endif // TESTS_GPU_PTXAS_H
