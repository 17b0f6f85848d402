// RUN: tilewright-opt %s -graph-partition-kernels=array=bf16 -graph-legalize-types -canonicalize | FileCheck %s

// Operands and results that are transposed on the way are narrow in memory too.
// CHECK: %[[N:.*]] = call @tilewright_cast_0(%{{.*}}) : (tensor<8x2x16xf32>) -> tensor<8x2x16xbf16>
// CHECK: %[[A:.*]] = call @first(%[[N]]) : (tensor<8x2x16xbf16>) -> tensor<8x2x16xbf16>
// CHECK: call @second(%[[A]])
// CHECK: func.func private @first
// CHECK: %[[T:.*]] = graph.transpose %{{.*}} -> tensor<2x8x16xbf16>
// CHECK: %[[W:.*]] = graph.cast %[[T]]
// CHECK: %[[P:.*]] = graph.matmul %[[W]]
// CHECK: %[[B:.*]] = graph.cast %[[P]] : (tensor<2x8x16xf32>) -> tensor<2x8x16xbf16>
// CHECK: graph.transpose %[[B]]
func.func @main(%x: tensor<8x2x16xf32>) -> tensor<8x2x16xf32> {
  %w = graph.constant dense<1.5> : tensor<16x16xf32>
  %0 = graph.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<8x2x16xf32>) -> tensor<2x8x16xf32> loc("in")
  %1 = graph.matmul %0, %w : (tensor<2x8x16xf32>, tensor<16x16xf32>) -> tensor<2x8x16xf32> loc("first")
  %2 = graph.transpose %1 {perm = array<i64: 1, 0, 2>} : (tensor<2x8x16xf32>) -> tensor<8x2x16xf32> loc("out")
  %3 = graph.sigmoid %2 : tensor<8x2x16xf32> loc("second")
  return %3 : tensor<8x2x16xf32>
}
