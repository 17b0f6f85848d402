//===- GraphDialect.td - The graph dialect -----------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A network as its author drew it: ONNX semantics, one op per node, static
// shapes, layouts written out, node names kept as locations.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_GRAPHDIALECT_TD
#define COMPILER_GRAPH_GRAPHDIALECT_TD

include "mlir/IR/OpBase.td"

def Graph_Dialect : Dialect {
  let name = "graph";
  let cppNamespace = "::tw::graph";
  let summary = "a neural network with ONNX semantics and static shapes";
  let description = [{
    A model is one `func.func @main`: the network's inputs are its arguments, its outputs the results; both carry their ONNX
    name in the attribute `graph.name`. Weights are `graph.constant`. What differs between versions of ONNX has been resolved
    by the importer: attributes stand for inputs that must be constant, paddings are explicit, axes are not negative.

    Element types: f32, bf16, f16, i8 (ONNX int8), ui8 (uint8), i32, i64, i1; where no arithmetic of the accelerator is meant, also f64,
    i16, ui16, ui32 and ui64.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
}

#endif // COMPILER_GRAPH_GRAPHDIALECT_TD
