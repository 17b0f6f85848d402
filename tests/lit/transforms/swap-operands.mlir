// RUN: tilewright-opt %s -split-input-file -graph-swap-operands="rows=4 columns=4 preload-cycles=8 array=int8" | FileCheck %s
// RUN: tilewright-opt %s -split-input-file -graph-swap-operands="rows=4 columns=4 preload-cycles=5 array=int8" | FileCheck %s --check-prefix=FAST
// RUN: tilewright-opt %s -split-input-file -graph-swap-operands="rows=4 columns=4 preload-cycles=8 dram-bytes=1 array=int8" | FileCheck %s --check-prefix=SLOW

// The weights stream past the row, which is a column then; zero points change sides, and what is made of the result goes along. Not where
// the next tile of weights comes nearly as soon as a row of it would stream, nor where DRAM takes longer than either.
// CHECK-LABEL: func.func @row
// CHECK-SAME: %[[X:.*]]: tensor<1x40xi8>
// CHECK: %[[W:.*]] = graph.constant dense<1> : tensor<40x30xi8>
// CHECK: %[[WT:.*]] = graph.transpose %[[W]] {{.*}} -> tensor<30x40xi8>
// CHECK: %[[C:.*]] = graph.reshape %[[X]] {{.*}} -> tensor<40x1xi8>
// CHECK: %[[P:.*]] = graph.matmul_integer %[[WT]], %[[C]] {a_zero_point = 3 : i32, b_zero_points = array<i32: -7>} {{.*}} -> tensor<30x1xi32>
// CHECK: %[[Q:.*]] = graph.requantize %[[P]], %{{.*}} {axis = 0{{.*}} -> tensor<30x1xi8>
// CHECK: %[[Y:.*]] = graph.reshape %[[Q]] {{.*}} -> tensor<1x30xi8>
// CHECK: return %[[Y]]
// FAST-LABEL: func.func @row
// FAST: graph.matmul_integer {{.*}} -> tensor<1x30xi32>
// SLOW-LABEL: func.func @row
// SLOW: graph.matmul_integer {{.*}} -> tensor<1x30xi32>
func.func @row(%x: tensor<1x40xi8>) -> tensor<1x30xi8> {
  %w = graph.constant dense<1> : tensor<40x30xi8>
  %b = graph.constant dense<5> : tensor<30xi32>
  %0 = graph.matmul_integer %x, %w {a_zero_point = -7 : i32, b_zero_points = array<i32: 3>} : (tensor<1x40xi8>, tensor<40x30xi8>) -> tensor<1x30xi32>
  %1 = graph.requantize %0, %b {multipliers = array<f32: 0.5>, axis = 1 : i64, zero_point = 2 : i32} : (tensor<1x30xi32>, tensor<30xi32>) -> tensor<1x30xi8>
  return %1 : tensor<1x30xi8>
}

// -----

// Bias and ReLU of floats: the bias becomes a column too. A second reader of the product gets it as a row.
// CHECK-LABEL: func.func @floats
// CHECK: %[[P:.*]] = graph.matmul {{.*}} -> tensor<30x1xf32>
// CHECK: %[[B:.*]] = graph.reshape {{.*}} : (tensor<1x30xf32>) -> tensor<30x1xf32>
// CHECK: %[[S:.*]] = graph.add %[[P]], %[[B]]
// CHECK: %[[R:.*]] = graph.reshape %[[S]] {{.*}} -> tensor<1x30xf32>
// CHECK: %[[A:.*]] = graph.relu %[[R]] : tensor<1x30xf32>
// CHECK: return %[[A]], %[[R]]
func.func @floats(%x: tensor<1x40xf32>) -> (tensor<1x30xf32>, tensor<1x30xf32>) {
  %w = graph.constant dense<1.0> : tensor<40x30xf32>
  %b = graph.constant dense<2.0> : tensor<1x30xf32>
  %0 = graph.matmul %x, %w : (tensor<1x40xf32>, tensor<40x30xf32>) -> tensor<1x30xf32>
  %1 = graph.add %0, %b : (tensor<1x30xf32>, tensor<1x30xf32>) -> tensor<1x30xf32>
  %2 = graph.relu %1 : tensor<1x30xf32>
  return %2, %1 : tensor<1x30xf32>, tensor<1x30xf32>
}

// -----

// Elements with a bias and a scale of their own: the bias is added first.
// CHECK-LABEL: func.func @two
// CHECK: %[[P:.*]] = graph.matmul_integer {{.*}} -> tensor<20x1xi32>
// CHECK: %[[B:.*]] = graph.reshape {{.*}} : (tensor<1x20xi32>) -> tensor<20x1xi32>
// CHECK: %[[S:.*]] = graph.add %[[P]], %[[B]]
// CHECK: %[[Q:.*]] = graph.requantize %[[S]] {axis = 0 : i64{{.*}} : (tensor<20x1xi32>) -> tensor<20x1xi8>
// CHECK: %[[Y:.*]] = graph.reshape %[[Q]] {{.*}} -> tensor<1x20xi8>
// CHECK: return %[[Y]]
func.func @two(%z: tensor<1x40xi8>) -> tensor<1x20xi8> {
  %j = graph.constant dense<1> : tensor<40x20xi8>
  %b = graph.constant dense<5> : tensor<20xi32>
  %0 = graph.matmul_integer %z, %j {a_zero_point = 0 : i32, b_zero_points = array<i32: 0>} : (tensor<1x40xi8>, tensor<40x20xi8>) -> tensor<1x20xi32>
  %1 = graph.requantize %0, %b {multipliers = array<f32: 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25>,
    axis = 1 : i64, zero_point = 2 : i32} : (tensor<1x20xi32>, tensor<20xi32>) -> tensor<1x20xi8>
  return %1 : tensor<1x20xi8>
}

// -----

// Not two rows, not what is computed on both sides, not columns with zero points of their own.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-2: graph.matmul {{.*}} -> tensor<{{[12]}}x30xf32>
// CHECK: graph.matmul_integer {{.*}} -> tensor<1x30xi32>
func.func @others(%x: tensor<2x40xf32>, %y: tensor<1x40xf32>, %v: tensor<40x30xf32>, %z: tensor<1x40xi8>)
    -> (tensor<2x30xf32>, tensor<1x30xf32>, tensor<1x30xi32>) {
  %w = graph.constant dense<1.0> : tensor<40x30xf32>
  %i = graph.constant dense<1> : tensor<40x30xi8>
  %0 = graph.matmul %x, %w : (tensor<2x40xf32>, tensor<40x30xf32>) -> tensor<2x30xf32>
  %1 = graph.matmul %y, %v : (tensor<1x40xf32>, tensor<40x30xf32>) -> tensor<1x30xf32>
  %2 = graph.matmul_integer %z, %i {a_zero_point = 0 : i32, b_zero_points = array<i32: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
    17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29>} : (tensor<1x40xi8>, tensor<40x30xi8>) -> tensor<1x30xi32>
  return %0, %1, %2 : tensor<2x30xf32>, tensor<1x30xf32>, tensor<1x30xi32>
}
