//===- Passes.td - The accelerator's phases as passes -------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===-----------------------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_PASSES_TD
#define COMPILER_PIPELINE_PASSES_TD

include "mlir/Pass/PassBase.td"

def EmitTilesPass : Pass<"accel-emit-tiles", "::mlir::ModuleOp"> {
  let summary = "kernels on tensors become instructions in program order, without semaphores";
  let description = [{
    Every kernel of @main is tiled for the machine; constants and tensors get their DRAM addresses. The result is one function
    @program of isa instructions. Attributes that synchronisation reads: `barrier` (nothing overlaps what came before),
    `alternates` (takes turns with its partner in a loop) and `turns` (loads and stores take turns at the data bus).
  }];
  let options = [
    Option<"machine", "machine", "std::string", "\"gemmini_16x16_int8\"", "a machine file, or the name of a shipped machine">,
    Option<"schedule", "schedule", "std::string", "\"pipelined\"", "serial, double_buffer or pipelined">
  ];
  let dependentDialects = ["::tw::isa::IsaDialect", "::mlir::func::FuncDialect"];
}

def SynchronizePass : Pass<"accel-synchronize", "::mlir::ModuleOp"> {
  let summary = "add the waits and posts that keep every hazard of @program in order";
  let options = [
    Option<"machine", "machine", "std::string", "\"gemmini_16x16_int8\"", "a machine file, or the name of a shipped machine">
  ];
}

def VerifySchedulePass : Pass<"accel-verify-schedule", "::mlir::ModuleOp"> {
  let summary = "refuse a @program with a hazard that nothing orders";
  let options = [
    Option<"machine", "machine", "std::string", "\"gemmini_16x16_int8\"", "a machine file, or the name of a shipped machine">
  ];
}

#endif // COMPILER_PIPELINE_PASSES_TD
