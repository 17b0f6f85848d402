// Every op of the dialect reads, verifies and prints as written.
// RUN: tilewright-opt %s | tilewright-opt | FileCheck %s

// CHECK-LABEL: func.func @convolutions
func.func @convolutions(%x: tensor<1x4x8x8xf32>, %w: tensor<6x2x3x3xf32>, %b: tensor<6xf32>, %q: tensor<1x8x8x4xui8>,
                        %v: tensor<3x3x4x5xi8>) -> (tensor<1x6x4x4xf32>, tensor<1x8x8x5xi8>) {
  // CHECK: graph.conv %{{.*}}, %{{.*}}, %{{.*}} {dilations = array<i64: 1, 1>, group = 2 : i64, layout = "nchw"
  %0 = graph.conv %x, %w, %b {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
    group = 2 : i64, layout = "nchw"} : (tensor<1x4x8x8xf32>, tensor<6x2x3x3xf32>, tensor<6xf32>) -> tensor<1x6x4x4xf32>
  // CHECK: graph.conv_integer
  %1 = graph.conv_integer %q, %v {x_zero_point = 128 : i32, w_zero_points = array<i32: 0, 1, 2, 3, -4>,
    strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"}
    : (tensor<1x8x8x4xui8>, tensor<3x3x4x5xi8>) -> tensor<1x8x8x5xi32>
  // CHECK: graph.constant dense<[1, 2, 3, 4, 5]> : tensor<5xi32>
  %2 = graph.constant dense<[1, 2, 3, 4, 5]> : tensor<5xi32>
  // CHECK: graph.requantize %{{.*}}, %{{.*}} {axis = 3 : i64
  %3 = graph.requantize %1, %2 {multipliers = array<f32: 0.5, 0.25, 0.125, 1.0, 2.0>, axis = 3 : i64, zero_point = -3 : i32}
    : (tensor<1x8x8x5xi32>, tensor<5xi32>) -> tensor<1x8x8x5xi8>
  return %0, %3 : tensor<1x6x4x4xf32>, tensor<1x8x8x5xi8>
}

// CHECK-LABEL: func.func @matrices
func.func @matrices(%a: tensor<7x2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<2x3xi8>, %d: tensor<3x4xui8>)
    -> (tensor<7x2x4xf32>, tensor<2x4xi32>) {
  // CHECK: graph.matmul %
  %0 = graph.matmul %a, %b : (tensor<7x2x3xf32>, tensor<3x4xf32>) -> tensor<7x2x4xf32>
  // CHECK: graph.matmul_integer %
  %1 = graph.matmul_integer %c, %d {a_zero_point = -1 : i32, b_zero_points = array<i32: 1, 2, 3, 4>}
    : (tensor<2x3xi8>, tensor<3x4xui8>) -> tensor<2x4xi32>
  return %0, %1 : tensor<7x2x4xf32>, tensor<2x4xi32>
}

// CHECK-LABEL: func.func @quantisation
func.func @quantisation(%x: tensor<2x3xf32>) -> tensor<2x3xi32> {
  // CHECK: graph.quantize
  %0 = graph.quantize %x {scales = array<f32: 0.5, 0.25, 1.0>, zero_points = array<i32: 0, 1, 255>, axis = 1 : i64}
    : (tensor<2x3xf32>) -> tensor<2x3xui8>
  // CHECK: graph.dequantize
  %1 = graph.dequantize %0 {scales = array<f32: 0.5>, zero_points = array<i32: 7>, axis = 0 : i64}
    : (tensor<2x3xui8>) -> tensor<2x3xf32>
  // CHECK: graph.cast
  %2 = graph.cast %1 : (tensor<2x3xf32>) -> tensor<2x3xi32>
  return %2 : tensor<2x3xi32>
}

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> tensor<2x3xf32> {
  // CHECK: graph.add %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %0 = graph.add %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: graph.sub
  %1 = graph.sub %0, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: graph.mul
  %2 = graph.mul %1, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: graph.div
  %3 = graph.div %2, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: graph.max
  %4 = graph.max %3, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: graph.min
  %5 = graph.min %4, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: graph.relu %{{.*}} : tensor<2x3xf32>
  %6 = graph.relu %5 : tensor<2x3xf32>
  // CHECK: graph.clip
  %7 = graph.clip %6 {min = 0.0 : f32, max = 6.0 : f32} : tensor<2x3xf32>
  // CHECK: graph.sigmoid
  %8 = graph.sigmoid %7 : tensor<2x3xf32>
  // CHECK: graph.tanh
  %9 = graph.tanh %8 : tensor<2x3xf32>
  // CHECK: graph.hard_sigmoid
  %10 = graph.hard_sigmoid %9 {alpha = 0.2 : f32, beta = 0.5 : f32} : tensor<2x3xf32>
  // CHECK: graph.hard_swish
  %11 = graph.hard_swish %10 : tensor<2x3xf32>
  // CHECK: graph.leaky_relu
  %12 = graph.leaky_relu %11 {alpha = 0.01 : f32} : tensor<2x3xf32>
  // CHECK: graph.exp
  %13 = graph.exp %12 : tensor<2x3xf32>
  // CHECK: graph.sqrt
  %14 = graph.sqrt %13 : tensor<2x3xf32>
  // CHECK: graph.neg
  %15 = graph.neg %14 : tensor<2x3xf32>
  // CHECK: graph.abs
  %16 = graph.abs %15 : tensor<2x3xf32>
  // CHECK: graph.floor
  %17 = graph.floor %16 : tensor<2x3xf32>
  // CHECK: graph.erf
  %18 = graph.erf %17 : tensor<2x3xf32>
  return %18 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @reductions
func.func @reductions(%x: tensor<1x3x4x4xf32>, %c: tensor<3xf32>) -> tensor<1x3xf32> {
  // CHECK: graph.batch_norm
  %0 = graph.batch_norm %x, %c, %c, %c, %c {epsilon = 1.0e-5 : f32}
    : (tensor<1x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<1x3x4x4xf32>
  // CHECK: graph.max_pool
  %1 = graph.max_pool %0 {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 1, 1>,
    dilations = array<i64: 1, 1>, layout = "nchw"} : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  // CHECK: graph.average_pool
  %2 = graph.average_pool %1 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
    count_include_pad = false, layout = "nchw"} : (tensor<1x3x4x4xf32>) -> tensor<1x3x2x2xf32>
  // CHECK: graph.reduce %{{.*}} {axes = array<i64: 2, 3>, keepdims = false, kind = "mean"}
  %3 = graph.reduce %2 {kind = "mean", axes = array<i64: 2, 3>, keepdims = false} : (tensor<1x3x2x2xf32>) -> tensor<1x3xf32>
  // CHECK: graph.softmax %{{.*}} {axis = 1 : i64} : tensor<1x3xf32>
  %4 = graph.softmax %3 {axis = 1 : i64} : tensor<1x3xf32>
  // CHECK: graph.layer_norm %{{.*}} {axis = 1 : i64, epsilon = 5.000000e-01 : f32} : tensor<1x3xf32>
  %5 = graph.layer_norm %4 {axis = 1 : i64, epsilon = 0.5 : f32} : tensor<1x3xf32>
  return %5 : tensor<1x3xf32>
}

// CHECK-LABEL: func.func @movement
func.func @movement(%x: tensor<2x3xf32>) -> tensor<4x8xf32> {
  // CHECK: graph.concat %{{.*}}, %{{.*}} {axis = 1 : i64}
  %0 = graph.concat %x, %x {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  // CHECK: graph.reshape
  %1 = graph.reshape %0 : (tensor<2x6xf32>) -> tensor<3x4xf32>
  // CHECK: graph.transpose
  %2 = graph.transpose %1 {perm = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  // CHECK: graph.slice
  %3 = graph.slice %2 {starts = array<i64: 3, 0>, steps = array<i64: -1, 2>} : (tensor<4x3xf32>) -> tensor<4x2xf32>
  // CHECK: graph.pad
  %4 = graph.pad %3 {low = array<i64: 0, 5>, high = array<i64: 0, 1>, value = 0.0 : f32} : (tensor<4x2xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @integer_operators
func.func @integer_operators(%x: tensor<1x2x4x4xui8>) -> tensor<1x2x1x1xui8> {
  // CHECK: graph.qlinear_add
  %0 = graph.qlinear_add %x, %x {a_scale = 0.5 : f32, a_zero_point = 1 : i32, b_scale = 0.5 : f32, b_zero_point = 1 : i32,
    y_scale = 1.0 : f32, y_zero_point = 2 : i32} : (tensor<1x2x4x4xui8>, tensor<1x2x4x4xui8>) -> tensor<1x2x4x4xui8>
  // CHECK: graph.qlinear_average_pool
  %1 = graph.qlinear_average_pool %0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
    count_include_pad = false, x_scale = 1.0 : f32, x_zero_point = 2 : i32, y_scale = 1.0 : f32, y_zero_point = 2 : i32,
    layout = "nchw"} : (tensor<1x2x4x4xui8>) -> tensor<1x2x2x2xui8>
  // CHECK: graph.qlinear_softmax
  %2 = graph.qlinear_softmax %1 {axis = 1 : i64, x_scale = 1.0 : f32, x_zero_point = 2 : i32, y_scale = 0.00390625 : f32,
    y_zero_point = 0 : i32, opset = 13 : i64} : tensor<1x2x2x2xui8>
  // CHECK: graph.qlinear_global_average_pool
  %3 = graph.qlinear_global_average_pool %2 {x_scale = 1.0 : f32, x_zero_point = 2 : i32, y_scale = 1.0 : f32,
    y_zero_point = 2 : i32, layout = "nchw"} : (tensor<1x2x2x2xui8>) -> tensor<1x2x1x1xui8>
  return %3 : tensor<1x2x1x1xui8>
}

// CHECK-LABEL: func.func @fallback
func.func @fallback(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: graph.fallback
  %0 = graph.fallback %x {onnx_op = "Sin", domain = "", opset = 13 : i64, node_attributes = {}, model = "", kinds = array<i32: 0, 0>,
    reason = "this operator is not supported"} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: func.func @functions
func.func @functions(%x: tensor<2x3xf64>, %y: tensor<3xf64>, %k: tensor<2x3xui16>) -> (tensor<2x3xf64>, tensor<2x3xui16>) {
  // CHECK: graph.elementwise less %{{.*}}, %{{.*}} : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xi1>
  %0 = graph.elementwise less %x, %y : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xi1>
  // CHECK: graph.elementwise log %{{.*}} : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %1 = graph.elementwise log %x : (tensor<2x3xf64>) -> tensor<2x3xf64>
  // CHECK: graph.elementwise select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x3xi1>, tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  %2 = graph.elementwise select %0, %1, %y : (tensor<2x3xi1>, tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  // CHECK: graph.elementwise shift_left
  %3 = graph.elementwise shift_left %k, %k : (tensor<2x3xui16>, tensor<2x3xui16>) -> tensor<2x3xui16>
  return %2, %3 : tensor<2x3xf64>, tensor<2x3xui16>
}

// CHECK-LABEL: func.func @gathered
func.func @gathered(%x: tensor<2x5x3xui32>, %i: tensor<1x7x1xi32>) -> tensor<2x7x3xui32> {
  // CHECK: graph.gather %{{.*}}, %{{.*}} : (tensor<2x5x3xui32>, tensor<1x7x1xi32>) -> tensor<2x7x3xui32>
  %0 = graph.gather %x, %i : (tensor<2x5x3xui32>, tensor<1x7x1xi32>) -> tensor<2x7x3xui32>
  return %0 : tensor<2x7x3xui32>
}
