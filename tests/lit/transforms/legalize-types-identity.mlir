// RUN: tilewright-opt %s -graph-partition-kernels=array=bf16 -graph-legalize-types -canonicalize | FileCheck %s

// What is bf16 already is read where it is: no kernel is left of the conversion. Where the network returns it, it has to be written.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<16x16xbf16>, %[[Y:.*]]: tensor<16x16xbf16>
// CHECK-NOT: @widened
// CHECK: %[[P:.*]] = call @product(%[[X]])
// CHECK: %[[R:.*]] = call @returned(%[[Y]]) : (tensor<16x16xbf16>) -> tensor<16x16xbf16>
// CHECK: return %[[P]], %[[R]]
// CHECK-NOT: func.func private @widened
func.func @main(%x: tensor<16x16xbf16>, %y: tensor<16x16xbf16>) -> (tensor<16x16xbf16>, tensor<16x16xbf16>) {
  %w = graph.constant dense<1.5> : tensor<16x16xf32>
  %0 = graph.cast %x : (tensor<16x16xbf16>) -> tensor<16x16xf32> loc("widened")
  %1 = graph.matmul %0, %w : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("product")
  %2 = graph.cast %1 : (tensor<16x16xf32>) -> tensor<16x16xbf16> loc("narrowed")
  %3 = graph.cast %y : (tensor<16x16xbf16>) -> tensor<16x16xf32> loc("returned")
  %4 = graph.cast %3 : (tensor<16x16xf32>) -> tensor<16x16xbf16> loc("narrow again")
  return %2, %4 : tensor<16x16xbf16>, tensor<16x16xbf16>
}
