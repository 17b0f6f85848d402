// RUN: tilewright-opt %s -graph-partition-kernels=cpu-only -graph-legalize-types="target=cpu narrow=f16" -canonicalize | FileCheck %s
// RUN: not tilewright-opt %s -graph-legalize-types=narrow=f8 2>&1 | FileCheck %s --check-prefix=OTHER

// OTHER: option narrow is 'f8' but must be bf16 or f16

// Inputs and outputs that are float16 in the model are f16 again, and so is what lies between; an output that is f32 in the model stays f32.
// A sum is not narrowed: it may be more than a float16 holds. Weights beyond its range stay f32.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<16x16xf16> {graph.name = "x"}
// CHECK-SAME: -> (tensor<16x16xf16> {graph.name = "y"}, tensor<16x16xf32>, tensor<16x1xf32>)
// CHECK: call @product(%[[X]]) : (tensor<16x16xf16>) -> tensor<16x16xf16>
// CHECK: call @other({{.*}}) : (tensor<16x16xf16>) -> tensor<16x16xf32>
func.func @main(%x: tensor<16x16xf32> {graph.name = "x", graph.widened_from = "float16"}) -> (tensor<16x16xf32> {graph.name = "y", graph.widened_from = "float16"}, tensor<16x16xf32>, tensor<16x1xf32>) {
  %w = graph.constant dense<1.5> : tensor<16x16xf32>
  %large = graph.constant dense<1.0e+06> : tensor<16x16xf32>
  %0 = graph.matmul %x, %w : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("product")
  %1 = graph.matmul %0, %large : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("other")
  %2 = graph.reduce %0 {kind = "sum", axes = array<i64: 1>, keepdims = true} : (tensor<16x16xf32>) -> tensor<16x1xf32> loc("sum")
  return %0, %1, %2 : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x1xf32>
}
