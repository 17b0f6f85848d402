// RUN: tilewright-opt %s -graph-convert-layout=rows=16 | FileCheck %s --check-prefixes=CHECK,ARRAY
// RUN: tilewright-opt %s '-graph-convert-layout=rows=0 dram-bytes=64 dram-latency=10' | FileCheck %s --check-prefixes=CHECK,NONE

// An array of 16 rows reads three channels as they lie: the conversion stands in front of the convolution, whose kernel takes it. Where nothing
// does, bytes move before they become floats.
// CHECK-LABEL: func.func @image
// ARRAY: %[[D:.*]] = graph.dequantize %{{.*}} : (tensor<1x3x32x32xui8>) -> tensor<1x3x32x32xf32>
// ARRAY: %[[T:.*]] = graph.transpose %[[D]] {graph.conversion
// ARRAY: graph.conv %[[T]]
// 3,072 bytes there and as many back, 1.44 times, at 64 a cycle, and twice 10.
// NONE: %[[T:.*]] = graph.transpose %{{.*}} {graph.conversion = 158 : i64
// NONE: %[[D:.*]] = graph.dequantize %[[T]]
// NONE: graph.conv %[[D]]
func.func @image(%x: tensor<1x3x32x32xui8>) -> tensor<1x16x30x30xf32> {
  %w = graph.constant dense<1.0> : tensor<16x3x3x3xf32>
  %d = graph.dequantize %x {axis = 0 : i64, scales = array<f32: 0.5>, zero_points = array<i32: 0>} : (tensor<1x3x32x32xui8>) -> tensor<1x3x32x32xf32>
  %y = graph.conv %d, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x3x32x32xf32>, tensor<16x3x3x3xf32>) -> tensor<1x16x30x30xf32>
  return %y : tensor<1x16x30x30xf32>
}
