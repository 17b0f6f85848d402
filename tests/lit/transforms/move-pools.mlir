// RUN: tilewright-opt %s -split-input-file -graph-move-pools="packs-pixels=false" | FileCheck %s
// RUN: tilewright-opt %s -split-input-file -graph-move-pools | FileCheck %s --check-prefix=BESIDE
// RUN: tilewright-opt %s -split-input-file -graph-move-pools="finite-math=true" | FileCheck %s --check-prefix=FINITE
// RUN: tilewright-opt %s -split-input-file -graph-move-pools="rows=3 columns=4 sums=71" | FileCheck %s --check-prefix=FEW
// RUN: tilewright-opt %s -split-input-file -graph-move-pools="rows=3 columns=4 scratchpad=1046" | FileCheck %s --check-prefix=FITS
// RUN: tilewright-opt %s -split-input-file -graph-move-pools="rows=3 columns=4 scratchpad=1044 dram-bytes=8" | FileCheck %s --check-prefix=SLOW
// RUN: tilewright-opt %s -split-input-file -graph-move-pools="rows=16 columns=4 scratchpad=6552 dram-bytes=8" | FileCheck %s --check-prefix=PACKED
// RUN: tilewright-opt %s -split-input-file -graph-move-pools="rows=16 columns=4 scratchpad=6551 dram-bytes=8" | FileCheck %s --check-prefix=CROWDED
// RUN: tilewright-opt %s -split-input-file -graph-move-pools="rows=16 columns=8 scratchpad=1000 dram-bytes=16" | FileCheck %s --check-prefix=PAIRS
// RUN: tilewright-opt %s -split-input-file -graph-move-pools="rows=16 columns=8 scratchpad=1000 dram-bytes=16 packs-pixels=false" | FileCheck %s --check-prefix=ALONE

// Each part of a concatenation has its own pool, behind a kernel or not; the results are joined.
// CHECK-LABEL: func.func @parts
// CHECK: %[[A:.*]] = graph.relu
// CHECK: %[[B:.*]] = graph.sigmoid
// CHECK: %[[P:.*]] = graph.average_pool %[[A]] {{.*}} -> tensor<1x3x3x16xf32>
// CHECK: %[[Q:.*]] = graph.average_pool %[[B]] {{.*}} -> tensor<1x3x3x5xf32>
// CHECK: %[[C:.*]] = graph.concat %[[P]], %[[Q]] {axis = 3 : i64} : (tensor<1x3x3x16xf32>, tensor<1x3x3x5xf32>) -> tensor<1x3x3x21xf32>
// CHECK: return %[[C]]
func.func @parts(%x: tensor<1x7x7x16xf32>, %y: tensor<1x7x7x5xf32>) -> tensor<1x3x3x21xf32> {
  %0 = graph.relu %x : tensor<1x7x7x16xf32>
  %1 = graph.sigmoid %y : tensor<1x7x7x5xf32>
  %2 = graph.concat %0, %1 {axis = 3 : i64} : (tensor<1x7x7x16xf32>, tensor<1x7x7x5xf32>) -> tensor<1x7x7x21xf32>
  %3 = graph.average_pool %2 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, count_include_pad = false,
    layout = "nhwc"} : (tensor<1x7x7x21xf32>) -> tensor<1x3x3x21xf32>
  return %3 : tensor<1x3x3x21xf32>
}

// -----

// Not where the first part leaves lanes of its last vector empty, and not where the concatenation has another reader.
// CHECK-LABEL: func.func @whole
// CHECK: %[[C:.*]] = graph.concat
// CHECK: graph.max_pool %[[C]]
// CHECK: %[[D:.*]] = graph.concat
// CHECK: graph.max_pool %[[D]]
func.func @whole(%x: tensor<1x7x7x16xf32>, %y: tensor<1x7x7x5xf32>)
    -> (tensor<1x3x3x21xf32>, tensor<1x3x3x21xf32>, tensor<1x7x7x21xf32>) {
  %0 = graph.relu %x : tensor<1x7x7x16xf32>
  %1 = graph.sigmoid %y : tensor<1x7x7x5xf32>
  %2 = graph.concat %1, %0 {axis = 3 : i64} : (tensor<1x7x7x5xf32>, tensor<1x7x7x16xf32>) -> tensor<1x7x7x21xf32>
  %3 = graph.max_pool %2 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x7x7x21xf32>) -> tensor<1x3x3x21xf32>
  %4 = graph.tanh %x : tensor<1x7x7x16xf32>
  %5 = graph.exp %y : tensor<1x7x7x5xf32>
  %6 = graph.concat %4, %5 {axis = 3 : i64} : (tensor<1x7x7x16xf32>, tensor<1x7x7x5xf32>) -> tensor<1x7x7x21xf32>
  %7 = graph.max_pool %6 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x7x7x21xf32>) -> tensor<1x3x3x21xf32>
  return %3, %7, %6 : tensor<1x3x3x21xf32>, tensor<1x3x3x21xf32>, tensor<1x7x7x21xf32>
}

// -----

// The maximum is taken of the sums, and what never falls follows. An accumulator without room for two windows of a block of columns,
// 2 * 4 * 9 sums, leaves it where it is.
// CHECK-LABEL: func.func @sums
// CHECK: %[[S:.*]] = graph.conv_integer
// CHECK: %[[M:.*]] = graph.max_pool %[[S]] {{.*}} : (tensor<1x7x7x4xi32>) -> tensor<1x3x3x4xi32>
// CHECK: %[[Q:.*]] = graph.requantize %[[M]], %{{.*}} -> tensor<1x3x3x4xi8>
// CHECK: return %[[Q]]
// FEW-LABEL: func.func @sums
// FEW: %[[Q:.*]] = graph.requantize
// FEW: graph.max_pool %[[Q]]

// Four sums of a row share the columns of the array, if there are eight of them: one that no window sees. The maxima of their columns do as well.
// BESIDE-LABEL: func.func @sums
// BESIDE: %[[S:.*]] = graph.conv_integer {{.*}}pads = array<i64: 0, 0, 0, 1>{{.*}} -> tensor<1x7x8x4xi32>
// BESIDE: %[[C:.*]] = graph.max_pool %[[S]] {{.*}}kernel = array<i64: 3, 1>{{.*}}strides = array<i64: 2, 1>, tilewright.of_sums} {{.*}} -> tensor<1x3x8x4xi32>
// BESIDE: %[[Q:.*]] = graph.requantize %[[C]]
// BESIDE: %[[R:.*]] = graph.max_pool %[[Q]] {{.*}}kernel = array<i64: 1, 3>{{.*}}strides = array<i64: 1, 2>} {{.*}} -> tensor<1x3x3x4xi8>
// BESIDE: return %[[R]]
func.func @sums(%x: tensor<1x7x7x3xi8>) -> tensor<1x3x3x4xi8> {
  %w = graph.constant dense<1> : tensor<1x1x3x4xi8>
  %b = graph.constant dense<[1, -2, 3, -4]> : tensor<4xi32>
  %0 = graph.conv_integer %x, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x7x7x3xi8>, tensor<1x1x3x4xi8>) -> tensor<1x7x7x4xi32>
  %1 = graph.requantize %0, %b {multipliers = array<f32: 1.0>, axis = 3 : i64, zero_point = 0 : i32}
    : (tensor<1x7x7x4xi32>, tensor<4xi32>) -> tensor<1x7x7x4xi8>
  %2 = graph.max_pool %1 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x7x7x4xi8>) -> tensor<1x3x3x4xi8>
  return %2 : tensor<1x3x3x4xi8>
}

// -----

// Windows that reach into the padding take the sums that there are, and would see one more sum of a row.
// BESIDE-LABEL: func.func @padded
// BESIDE: graph.conv_integer {{.*}} -> tensor<1x7x7x4xi32>
// BESIDE: graph.max_pool {{.*}}kernel = array<i64: 3, 3>
// CHECK-LABEL: func.func @padded
// CHECK: %[[S:.*]] = graph.conv_integer
// CHECK: graph.max_pool %[[S]] {{.*}}pads = array<i64: 1, 1, 1, 1>{{.*}} : (tensor<1x7x7x4xi32>) -> tensor<1x4x4x4xi32>
func.func @padded(%x: tensor<1x7x7x3xi8>) -> tensor<1x4x4x4xi8> {
  %w = graph.constant dense<1> : tensor<1x1x3x4xi8>
  %0 = graph.conv_integer %x, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x7x7x3xi8>, tensor<1x1x3x4xi8>) -> tensor<1x7x7x4xi32>
  %1 = graph.requantize %0 {multipliers = array<f32: 1.0>, axis = 3 : i64, zero_point = 0 : i32} : (tensor<1x7x7x4xi32>) -> tensor<1x7x7x4xi8>
  %2 = graph.max_pool %1 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x7x7x4xi8>) -> tensor<1x4x4x4xi8>
  return %2 : tensor<1x4x4x4xi8>
}

// -----

// Two passes over 49 sums take less than the array's over 64 results. But four results of four channels have room in the 16 columns, and so
// have the maxima of their columns.
// CHECK-LABEL: func.func @fills
// CHECK: %[[S:.*]] = graph.conv_integer
// CHECK: graph.max_pool %[[S]] {{.*}}kernel = array<i64: 3, 3>
// BESIDE-LABEL: func.func @fills
// BESIDE: graph.conv_integer
// BESIDE: graph.max_pool {{.*}}kernel = array<i64: 3, 3>
func.func @fills(%x: tensor<1x8x8x3xi8>) -> tensor<1x3x3x16xi8> {
  %w = graph.constant dense<1> : tensor<3x3x3x16xi8>
  %0 = graph.conv_integer %x, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x8x8x3xi8>, tensor<3x3x3x16xi8>) -> tensor<1x8x8x16xi32>
  %1 = graph.requantize %0 {multipliers = array<f32: 1.0>, axis = 3 : i64, zero_point = 0 : i32} : (tensor<1x8x8x16xi32>) -> tensor<1x8x8x16xi8>
  %2 = graph.max_pool %1 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x8x8x16xi8>) -> tensor<1x3x3x16xi8>
  return %2 : tensor<1x3x3x16xi8>
}
// BESIDE-LABEL: func.func @shares
// BESIDE: %[[S:.*]] = graph.conv_integer {{.*}} -> tensor<1x8x8x4xi32>
// BESIDE: graph.max_pool %[[S]] {{.*}}kernel = array<i64: 3, 1>
// BESIDE: graph.requantize
// BESIDE: graph.max_pool {{.*}}kernel = array<i64: 1, 3>
func.func @shares(%x: tensor<1x8x8x3xi8>) -> tensor<1x3x3x4xi8> {
  %w = graph.constant dense<1> : tensor<3x3x3x4xi8>
  %0 = graph.conv_integer %x, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x8x8x3xi8>, tensor<3x3x3x4xi8>) -> tensor<1x8x8x4xi32>
  %1 = graph.requantize %0 {multipliers = array<f32: 1.0>, axis = 3 : i64, zero_point = 0 : i32} : (tensor<1x8x8x4xi32>) -> tensor<1x8x8x4xi8>
  %2 = graph.max_pool %1 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x8x8x4xi8>) -> tensor<1x3x3x4xi8>
  return %2 : tensor<1x3x3x4xi8>
}

// -----

// A sum with its bias that may wrap around can fall where the sum rises.
// CHECK-LABEL: func.func @wraps
// CHECK: %[[Q:.*]] = graph.requantize
// CHECK: graph.max_pool %[[Q]]
func.func @wraps(%x: tensor<1x7x7x3xi8>) -> tensor<1x3x3x4xi8> {
  %w = graph.constant dense<1> : tensor<1x1x3x4xi8>
  %b = graph.constant dense<[1, -2, 3, 2147480000]> : tensor<4xi32>
  %0 = graph.conv_integer %x, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x7x7x3xi8>, tensor<1x1x3x4xi8>) -> tensor<1x7x7x4xi32>
  %1 = graph.requantize %0, %b {multipliers = array<f32: 1.0>, axis = 3 : i64, zero_point = 0 : i32}
    : (tensor<1x7x7x4xi32>, tensor<4xi32>) -> tensor<1x7x7x4xi8>
  %2 = graph.max_pool %1 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x7x7x4xi8>) -> tensor<1x3x3x4xi8>
  return %2 : tensor<1x3x3x4xi8>
}

// -----

// What is multiplied by a constant, which may be negative, stays in front of the maximum.
// CHECK-LABEL: func.func @falls
// CHECK: %[[M:.*]] = graph.mul
// CHECK: graph.max_pool %[[M]]
func.func @falls(%x: tensor<1x7x7x3xf32>) -> tensor<1x3x3x4xf32> {
  %w = graph.constant dense<1.0> : tensor<1x1x3x4xf32>
  %f = graph.constant dense<[1.0, -2.0, 3.0, -4.0]> : tensor<4xf32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x7x7x3xf32>, tensor<1x1x3x4xf32>) -> tensor<1x7x7x4xf32>
  %1 = graph.mul %0, %f : (tensor<1x7x7x4xf32>, tensor<4xf32>) -> tensor<1x7x7x4xf32>
  %2 = graph.max_pool %1 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x7x7x4xf32>) -> tensor<1x3x3x4xf32>
  return %2 : tensor<1x3x3x4xf32>
}

// -----

// Nine passes take the array longer than the vector engine. Only DRAM gains: the result's 784 bytes are three quarters of 1046 bytes and less.
// FITS-LABEL: func.func @dram
// FITS: %[[R:.*]] = graph.relu
// FITS: graph.max_pool %[[R]]
// SLOW-LABEL: func.func @dram
// SLOW: %[[S:.*]] = graph.conv
// SLOW: %[[M:.*]] = graph.max_pool %[[S]] {{.*}}tilewright.of_sums
// SLOW: graph.relu %[[M]]
func.func @dram(%x: tensor<1x7x7x3xf32>) -> tensor<1x3x3x4xf32> {
  %w = graph.constant dense<1.0> : tensor<3x3x3x4xf32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x7x7x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x7x7x4xf32>
  %1 = graph.relu %0 : tensor<1x7x7x4xf32>
  %2 = graph.max_pool %1 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x7x7x4xf32>) -> tensor<1x3x3x4xf32>
  return %2 : tensor<1x3x3x4xf32>
}

// -----

// Five passes over 343 results take the array longer than the vector engine. Only DRAM gains, as in the case above; but packed taps come from there,
// and what begins there can stay on chip in bands, if there is room for three rows of 28 results and seven of 105 taps, twice: 6552 bytes.
// PACKED-LABEL: func.func @packed
// PACKED: %[[R:.*]] = graph.relu
// PACKED: graph.max_pool %[[R]]
// CROWDED-LABEL: func.func @packed
// CROWDED: graph.max_pool {{.*}}tilewright.of_sums
// CROWDED: graph.relu
func.func @packed(%x: tensor<1x49x7x3xf32>) -> tensor<1x24x3x4xf32> {
  %w = graph.constant dense<1.0> : tensor<5x5x3x4xf32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x49x7x3xf32>, tensor<5x5x3x4xf32>) -> tensor<1x49x7x4xf32>
  %1 = graph.relu %0 : tensor<1x49x7x4xf32>
  %2 = graph.max_pool %1 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x49x7x4xf32>) -> tensor<1x24x3x4xf32>
  return %2 : tensor<1x24x3x4xf32>
}

// -----

// The columns of windows can share vectors, windows that move by two pixels cannot: eight rows of two vectors, two cycles each, and nine
// vectors along the row are less than nine windows of six cycles.
// CHECK-LABEL: func.func @columns
// CHECK: graph.max_pool {{.*}}kernel = array<i64: 3, 3>
// BESIDE-LABEL: func.func @columns
// BESIDE: %[[R:.*]] = graph.relu
// BESIDE: %[[C:.*]] = graph.max_pool %[[R]] {{.*}}kernel = array<i64: 3, 1>{{.*}}pads = array<i64: 1, 0, 0, 0>, strides = array<i64: 2, 1>} {{.*}} -> tensor<1x4x8x4xf32>
// BESIDE: graph.max_pool %[[C]] {{.*}}kernel = array<i64: 1, 3>{{.*}}pads = array<i64: 0, 0, 0, 1>, strides = array<i64: 1, 2>} {{.*}} -> tensor<1x4x4x4xf32>
func.func @columns(%x: tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32> {
  %0 = graph.relu %x : tensor<1x8x8x4xf32>
  %1 = graph.max_pool %0 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 0, 0, 1>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32>
  return %1 : tensor<1x4x4x4xf32>
}

// -----

// Floats share the columns if none is infinite.
// BESIDE-LABEL: func.func @floats
// BESIDE: graph.conv
// BESIDE: graph.max_pool {{.*}}kernel = array<i64: 3, 3>
// FINITE-LABEL: func.func @floats
// FINITE: %[[S:.*]] = graph.conv
// FINITE: %[[C:.*]] = graph.max_pool %[[S]] {{.*}}kernel = array<i64: 3, 1>{{.*}}tilewright.of_sums
// FINITE: graph.relu %[[C]]
// FINITE: graph.max_pool {{.*}}kernel = array<i64: 1, 3>
func.func @floats(%x: tensor<1x8x8x3xf32>) -> tensor<1x3x3x4xf32> {
  %w = graph.constant dense<1.0> : tensor<3x3x3x4xf32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x8x8x4xf32>
  %1 = graph.relu %0 : tensor<1x8x8x4xf32>
  %2 = graph.max_pool %1 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x8x8x4xf32>) -> tensor<1x3x3x4xf32>
  return %2 : tensor<1x3x3x4xf32>
}

// -----

// Floats of two rows may share the columns of an array twice as wide: then the pool stays behind them. Not where pixels are not packed.
// PAIRS-LABEL: func.func @rows_in_pairs
// PAIRS: graph.max_pool
// PAIRS-NOT: tilewright.of_sums
// PAIRS: return
// ALONE-LABEL: func.func @rows_in_pairs
// ALONE: graph.max_pool {{.*}}tilewright.of_sums
func.func @rows_in_pairs(%x: tensor<1x16x16x8xf32>) -> tensor<1x8x8x4xf32> {
  %w = graph.constant dense<0.5> : tensor<3x3x8x4xf32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x16x16x8xf32>, tensor<3x3x8x4xf32>) -> tensor<1x16x16x4xf32>
  %1 = graph.max_pool %0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, layout = "nhwc"} : (tensor<1x16x16x4xf32>) -> tensor<1x8x8x4xf32>
  return %1 : tensor<1x8x8x4xf32>
}
