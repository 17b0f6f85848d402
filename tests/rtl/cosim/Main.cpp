//===- Main.cpp - Tests that run the RTL ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char **argv) {
  // Models are built in the build folder, unless somebody has a better place.
  setenv("TILEWRIGHT_RTL_CACHE", TILEWRIGHT_BINARY_DIR "/rtl-models", 0);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
