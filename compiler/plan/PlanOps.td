//===- PlanOps.td - Plan files ---------------------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===--------------------------------------------------------------------------===//
#ifndef COMPILER_PLAN_PLANOPS_TD
#define COMPILER_PLAN_PLANOPS_TD

include "mlir/IR/OpBase.td"

def PlanDialect : Dialect {
  let name = "plan";
  let cppNamespace = "::tw::plan";
  let summary = "schedules of networks as data";
}

class PlanOp<string mnemonic, list<Trait> traits = []> : Op<PlanDialect, mnemonic, traits> { let hasVerifier = 1; }

def NetworkOp : PlanOp<"network", [NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "the plan of a network";
  let description = [{
    Its attributes are `schedule`, `order`, `kernels_begin_at` and the network knobs of Knobs.td; its ops plan kernels. What it does not say
    stays the compiler's choice.
  }];
  let regions = (region SizedRegion<1>:$kernels);
  let assemblyFormat = "attr-dict-with-keyword $kernels";
}

def KernelOp : PlanOp<"kernel", [HasParent<"NetworkOp">]> {
  let summary = "the plan of a kernel, or of several";
  let description = [{
    `name` is a kernel, else an ONNX node that is part of one, else a pattern such as "Conv_*" for both. Its attributes are the kernel knobs of
    Knobs.td. A later op replaces what earlier ones say about the same knob.
  }];
  let arguments = (ins StrAttr:$name);
  let assemblyFormat = "$name attr-dict";
}

#endif // COMPILER_PLAN_PLANOPS_TD
