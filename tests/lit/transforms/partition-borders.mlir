// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels="array=fp32 dram-bytes=16 scratchpad=131072" | FileCheck %s
// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels="array=fp32 dram-bytes=256 scratchpad=1048576" | FileCheck %s --check-prefix=WIDE

// Two convolutions meet in an addition. The first written takes it by the rules. DRAM is busy all the time in its kernel: 1024 cycles of the
// array and 64 KiB in and out, 8192 cycles. The other has 25 taps, 25600 cycles, behind which the other operand of the addition hides. Where
// DRAM is wide, the array is busiest either way.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = call @thin(
// CHECK: call @thick(
// CHECK-SAME: %[[A]]
// CHECK: func.func private @thin
// CHECK-SAME: tilewright.nodes = ["thin"]
// CHECK: func.func private @thick
// CHECK-SAME: tilewright.nodes = ["thick", "sum", "relu"]
// WIDE-LABEL: func.func @main
// WIDE: func.func private @thin
// WIDE-SAME: tilewright.nodes = ["thin", "sum", "relu"]
func.func @main(%x: tensor<1x32x32x16xf32>, %y: tensor<1x32x32x16xf32>) -> tensor<1x32x32x16xf32> {
  %w = graph.constant dense<1.0> : tensor<1x1x16x16xf32>
  %v = graph.constant dense<1.0> : tensor<5x5x16x16xf32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x32x32x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x32x32x16xf32> loc("thin")
  %1 = graph.conv %y, %v {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x32x32x16xf32>, tensor<5x5x16x16xf32>) -> tensor<1x32x32x16xf32> loc("thick")
  %2 = graph.add %0, %1 : (tensor<1x32x32x16xf32>, tensor<1x32x32x16xf32>) -> tensor<1x32x32x16xf32> loc("sum")
  %3 = graph.relu %2 : tensor<1x32x32x16xf32> loc("relu")
  return %3 : tensor<1x32x32x16xf32>
}

// -----

// A softmax behind a product wants tiles of whole rows: 16 of them, whose scores fill half of the accumulator. The 128 KiB of the other operand
// have no room on chip, and would come again for each of 256 tiles. That is more than what the scores take to DRAM and back.
// CHECK: func.func private @scores
// CHECK-SAME: tilewright.nodes = ["scores", "scale"]
// CHECK: func.func private @softmax
// WIDE: func.func private @scores
// WIDE-SAME: tilewright.nodes = ["scores", "scale", "softmax"]
func.func @main(%q: tensor<4096x64xf32>, %k: tensor<64x512xf32>) -> tensor<4096x512xf32> {
  %c = graph.constant dense<0.125> : tensor<1xf32>
  %0 = graph.matmul %q, %k : (tensor<4096x64xf32>, tensor<64x512xf32>) -> tensor<4096x512xf32> loc("scores")
  %1 = graph.mul %0, %c : (tensor<4096x512xf32>, tensor<1xf32>) -> tensor<4096x512xf32> loc("scale")
  %2 = graph.softmax %1 {axis = 1 : i64} : tensor<4096x512xf32> loc("softmax")
  return %2 : tensor<4096x512xf32>
}

// -----

// What a reduction of rows alone reads is made in its kernel, a value that it uses twice included.
// CHECK: func.func private @mean(%[[X:.*]]: tensor<4x8x64xf32>) -> tensor<4x8x1xf32>
// CHECK-SAME: tilewright.nodes = ["double", "square", "mean"]
// CHECK: %[[D:.*]] = graph.add %[[X]], %[[X]]
// CHECK: %[[S:.*]] = graph.mul %[[D]], %[[D]]
// CHECK: graph.reduce %[[S]]
func.func @main(%x: tensor<4x8x64xf32>) -> tensor<4x8x1xf32> {
  %0 = graph.add %x, %x : (tensor<4x8x64xf32>, tensor<4x8x64xf32>) -> tensor<4x8x64xf32> loc("double")
  %1 = graph.mul %0, %0 : (tensor<4x8x64xf32>, tensor<4x8x64xf32>) -> tensor<4x8x64xf32> loc("square")
  %2 = graph.reduce %1 {kind = "sum", axes = array<i64: 2>, keepdims = true} : (tensor<4x8x64xf32>) -> tensor<4x8x1xf32> loc("mean")
  return %2 : tensor<4x8x1xf32>
}

// -----

// Not what another op reads too, nor before a reduction of other dims.
// CHECK: func.func private @square
// CHECK-SAME: tilewright.nodes = ["square"]
// CHECK: func.func private @rows
// CHECK-SAME: tilewright.nodes = ["rows"]
// CHECK: func.func private @columns
// CHECK-SAME: tilewright.nodes = ["columns"]
func.func @main(%x: tensor<4x8x64xf32>) -> (tensor<4x8x1xf32>, tensor<4x1x64xf32>) {
  %0 = graph.mul %x, %x : (tensor<4x8x64xf32>, tensor<4x8x64xf32>) -> tensor<4x8x64xf32> loc("square")
  %1 = graph.reduce %0 {kind = "sum", axes = array<i64: 2>, keepdims = true} : (tensor<4x8x64xf32>) -> tensor<4x8x1xf32> loc("rows")
  %2 = graph.reduce %0 {kind = "sum", axes = array<i64: 1>, keepdims = true} : (tensor<4x8x64xf32>) -> tensor<4x1x64xf32> loc("columns")
  return %1, %2 : tensor<4x8x1xf32>, tensor<4x1x64xf32>
}

// -----

// A row of both tensors, of their sum and of its softmax must have room in half of the scratchpad: 4 * 8192 * 4 bytes.
// CHECK: func.func private @masked
// CHECK-SAME: tilewright.nodes = ["masked"]
// CHECK: func.func private @softmax
// WIDE: func.func private @softmax
// WIDE-SAME: tilewright.nodes = ["masked", "softmax"]
func.func @main(%x: tensor<4x8x8192xf32>, %m: tensor<4x1x8192xf32>) -> tensor<4x8x8192xf32> {
  %0 = graph.add %x, %m : (tensor<4x8x8192xf32>, tensor<4x1x8192xf32>) -> tensor<4x8x8192xf32> loc("masked")
  %1 = graph.softmax %0 {axis = 2 : i64} : tensor<4x8x8192xf32> loc("softmax")
  return %1 : tensor<4x8x8192xf32>
}

// -----

// A reshape that drops leading ones is no border.
// CHECK: func.func private @mean(%{{.*}}: tensor<1x8x64xf32>) -> tensor<8xf32>
// CHECK-SAME: tilewright.nodes = ["square", "flat", "mean"]
// Other reshapes are.
// CHECK: func.func private @other_square
// CHECK: func.func private @other_mean
func.func @main(%x: tensor<1x8x64xf32>, %y: tensor<2x4x64xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = graph.mul %x, %x : (tensor<1x8x64xf32>, tensor<1x8x64xf32>) -> tensor<1x8x64xf32> loc("square")
  %1 = graph.reshape %0 : (tensor<1x8x64xf32>) -> tensor<8x64xf32> loc("flat")
  %2 = graph.reduce %1 {kind = "sum", axes = array<i64: 1>, keepdims = false} : (tensor<8x64xf32>) -> tensor<8xf32> loc("mean")
  %3 = graph.mul %y, %y : (tensor<2x4x64xf32>, tensor<2x4x64xf32>) -> tensor<2x4x64xf32> loc("other_square")
  %4 = graph.reshape %3 : (tensor<2x4x64xf32>) -> tensor<8x64xf32> loc("other_flat")
  %5 = graph.reduce %4 {kind = "sum", axes = array<i64: 1>, keepdims = false} : (tensor<8x64xf32>) -> tensor<8xf32> loc("other_mean")
  return %2, %5 : tensor<8xf32>, tensor<8xf32>
}
