// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels=cpu-only=true | FileCheck %s
// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels=array=fp32 | FileCheck %s --check-prefix=ACCEL

// A slice and a transpose of a gather's table are the way it is read; what follows element by element joins too.
// CHECK: func.func private @rows
// CHECK-SAME: tilewright.nodes = ["part", "turned", "rows", "relu"]
// The accelerator has engines for slices and transposes, the gather is the CPU's.
// ACCEL: func.func private @turned
// ACCEL-SAME: tilewright.nodes = ["part", "turned"], tilewright.target = "accel"
// ACCEL: func.func private @rows
// ACCEL-SAME: tilewright.nodes = ["rows"]
func.func @main(%x: tensor<3x7x5xf32>, %i: tensor<1x3x1xi32>) -> tensor<3x3x2xf32> {
  %0 = graph.slice %x {starts = array<i64: 1, 1, 0>, steps = array<i64: 1, 1, 2>} : (tensor<3x7x5xf32>) -> tensor<2x6x3xf32> loc("part")
  %1 = graph.transpose %0 {perm = array<i64: 2, 1, 0>} : (tensor<2x6x3xf32>) -> tensor<3x6x2xf32> loc("turned")
  %2 = graph.gather %1, %i : (tensor<3x6x2xf32>, tensor<1x3x1xi32>) -> tensor<3x3x2xf32> loc("rows")
  %3 = graph.relu %2 : tensor<3x3x2xf32> loc("relu")
  return %3 : tensor<3x3x2xf32>
}

// -----

// A table that something else reads too is there already, and no view runs backwards.
// CHECK: func.func private @turned
// CHECK: func.func private @rows
// CHECK-SAME: tilewright.nodes = ["rows"]
// CHECK: func.func private @back
// CHECK: func.func private @others
// CHECK-SAME: tilewright.nodes = ["others"]
func.func @main(%x: tensor<5x4x3xf32>, %i: tensor<1x2x1xi32>) -> (tensor<3x4x5xf32>, tensor<3x2x5xf32>, tensor<5x2x3xf32>) {
  %0 = graph.transpose %x {perm = array<i64: 2, 1, 0>} : (tensor<5x4x3xf32>) -> tensor<3x4x5xf32> loc("turned")
  %1 = graph.gather %0, %i : (tensor<3x4x5xf32>, tensor<1x2x1xi32>) -> tensor<3x2x5xf32> loc("rows")
  %2 = graph.slice %x {starts = array<i64: 0, 3, 0>, steps = array<i64: 1, -1, 1>} : (tensor<5x4x3xf32>) -> tensor<5x4x3xf32> loc("back")
  %3 = graph.gather %2, %i : (tensor<5x4x3xf32>, tensor<1x2x1xi32>) -> tensor<5x2x3xf32> loc("others")
  return %0, %1, %3 : tensor<3x4x5xf32>, tensor<3x2x5xf32>, tensor<5x2x3xf32>
}
