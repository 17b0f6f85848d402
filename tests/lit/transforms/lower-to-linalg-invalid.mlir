// RUN: tilewright-opt %s -split-input-file -graph-lower-to-linalg -verify-diagnostics

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{stands outside a kernel: run graph-partition-kernels before}}
  %0 = graph.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @layout(%x: tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32> {
  // expected-error@+1 {{has layout nchw, expected nhwc: run graph-convert-layout before}}
  %0 = graph.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nchw"} : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
  return %0 : tensor<1x4x4x4xf32>
}

// -----

func.func private @bias(%x: tensor<1x8x8x4xf32>, %w: tensor<1x1x4x4xf32>, %b: tensor<4xf32>) -> tensor<1x8x8x4xf32> {
  // expected-error@+1 {{has a bias, expected an addition: run graph-decompose-ops before}}
  %0 = graph.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x8x8x4xf32>, tensor<1x1x4x4xf32>, tensor<4xf32>) -> tensor<1x8x8x4xf32>
  return %0 : tensor<1x8x8x4xf32>
}

// -----

func.func private @vector(%a: tensor<4xf32>, %b: tensor<4x5xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{has a vector operand, expected matrices: run graph-decompose-ops before}}
  %0 = graph.matmul %a, %b : (tensor<4xf32>, tensor<4x5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

func.func private @reduction(%x: tensor<2x3x4x5xf32>) -> tensor<2x4x5xf32> {
  // expected-error@+1 {{is not over dim 1 of a matrix or [outer, n, inner]: run graph-decompose-ops before}}
  %0 = graph.reduce %x {kind = "sum", axes = array<i64: 1>, keepdims = false} : (tensor<2x3x4x5xf32>) -> tensor<2x4x5xf32>
  return %0 : tensor<2x4x5xf32>
}

// -----

func.func private @softmax(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  // expected-error@+1 {{is not along the rows of matrices: run graph-decompose-ops before}}
  %0 = graph.softmax %x {axis = 1 : i64} : tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}
