//===- Directives.td - Ops of schedule files -----------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===-----------------------------------------------------------------------------===//
#ifndef COMPILER_DIRECTIVES_DIRECTIVES_TD
#define COMPILER_DIRECTIVES_DIRECTIVES_TD

include "mlir/Dialect/Transform/IR/TransformDialect.td"
include "mlir/Dialect/Transform/IR/TransformTypes.td"
include "mlir/Dialect/Transform/Interfaces/MatchInterfaces.td"
include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class ScheduleOp<string mnemonic, list<Trait> traits = []>
    : Op<Transform_Dialect, "tilewright." # mnemonic, traits # [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let cppNamespace = "::tw::directives";
}

def MatchNodeOp : ScheduleOp<"match_node", [DeclareOpInterfaceMethods<TransformOpInterface>]> {
  let summary = "the kernel of a node";
  let description = [{
    `name` is a kernel, else an ONNX node that is part of one, else a pattern such as "Conv_*" for both. The result is the kernel
    functions; that there is none is an error.
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs Transform_AnyOpType:$kernels);
  let assemblyFormat = "$name attr-dict";
}

def StepOp : ScheduleOp<"step", [MatchOpInterface, TransformOpInterface]> {
  let summary = "counts the op behind it";
  let description = [{
    Stands before each op of a schedule file that was read, and in no file. A step is an op that is applied, a kernel that it is
    applied to, or a hundred kernels that it looks at. More than `kMostSteps` of them are an error: includes and loops can make a short file endless.
  }];
  let arguments = (ins Variadic<Transform_AnyHandleOrParamType>:$handles);
  let extraClassDeclaration = [{
    ::mlir::DiagnosedSilenceableFailure apply(::mlir::transform::TransformRewriter &rewriter,
                                              ::mlir::transform::TransformResults &results,
                                              ::mlir::transform::TransformState &state);
  }];
}

/// Leaves its attributes on kernel functions, where the compiler finds them. A key said again replaces what was said before.
class DirectiveOp<string mnemonic> : ScheduleOp<mnemonic, [TransformOpInterface, TransformEachOpTrait]> {
  let assemblyFormat = "$kernels attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::DiagnosedSilenceableFailure applyToOne(::mlir::transform::TransformRewriter &rewriter, ::mlir::Operation *kernel,
                                                   ::mlir::transform::ApplyToEachResultList &results,
                                                   ::mlir::transform::TransformState &state);
  }];
}

def TileOp : DirectiveOp<"tile"> {
  let summary = "which tile a kernel takes, and in which order";
  let arguments = (ins Transform_AnyOpType:$kernels, OptionalAttr<I64ArrayAttr>:$sizes, OptionalAttr<I64Attr>:$ic,
                       OptionalAttr<StrAttr>:$order, OptionalAttr<BoolAttr>:$packed, OptionalAttr<I64ArrayAttr>:$first,
                       OptionalAttr<I64ArrayAttr>:$last);
}

def BuffersOp : DirectiveOp<"buffers"> {
  let summary = "how many tiles of each operand are on chip at once";
  let arguments = (ins Transform_AnyOpType:$kernels, OptionalAttr<I64Attr>:$depth, OptionalAttr<StrAttr>:$panel, OptionalAttr<I64ArrayAttr>:$banks,
                       OptionalAttr<BoolAttr>:$behind, OptionalAttr<BoolAttr>:$overlap, OptionalAttr<BoolAttr>:$one_sum, OptionalAttr<BoolAttr>:$by_block, OptionalAttr<BoolAttr>:$begins_small, OptionalAttr<BoolAttr>:$ends_small,
                       OptionalAttr<BoolAttr>:$begins_wide, OptionalAttr<BoolAttr>:$one_loader, OptionalAttr<BoolAttr>:$whole_banks,
                       OptionalAttr<BoolAttr>:$spreads, OptionalAttr<BoolAttr>:$serpentine, OptionalAttr<BoolAttr>:$keeps_sums, OptionalAttr<BoolAttr>:$carries_maxima,
                       OptionalAttr<BoolAttr>:$as_made, OptionalAttr<I64Attr>:$rolling);
}

def KeepOp : DirectiveOp<"keep"> {
  let summary = "whether the kernel's result stays on chip for its readers";
  let arguments = (ins Transform_AnyOpType:$kernels, BoolAttr:$on_chip, OptionalAttr<I64Attr>:$bands,
                       OptionalAttr<I64Attr>:$from, OptionalAttr<BoolAttr>:$placed_first);
}

def AssignOp : DirectiveOp<"assign"> {
  let summary = "which engine computes the kernel";
  let arguments = (ins Transform_AnyOpType:$kernels, StrAttr:$engine, OptionalAttr<I64Attr>:$array_channels);
}

#endif // COMPILER_DIRECTIVES_DIRECTIVES_TD
