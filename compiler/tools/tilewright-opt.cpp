//===- tilewright-opt.cpp - Every pass, one by one ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/Register.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  tw::pipeline::registerTilewright(registry);
  tw::pipeline::registerTilewrightPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Tilewright's optimizer driver\n", registry));
}
