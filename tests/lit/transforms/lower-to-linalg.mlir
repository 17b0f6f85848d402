// RUN: tilewright-opt %s -split-input-file -graph-lower-to-linalg | FileCheck %s

// CHECK: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 * 2 + d4, d2 * 2 + d5, d6)>
// CHECK: #[[WEIGHTS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d4, d5, d6, d3)>
// CHECK: #[[RESULT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
// uint8 is i8 read with extui; the padding is the zero point. Bounds 0 and 100 of the clip, less the zero point 3.
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<1x8x8x4xi8> {tilewright.unsigned}) -> (tensor<1x4x4x2xi8> {tilewright.unsigned})
// CHECK-LABEL: func.func private @conv_integer
// CHECK-SAME: (%[[X:.*]]: tensor<1x8x8x4xi8>) -> tensor<1x4x4x2xi8>
// CHECK: %[[ZERO:.*]] = arith.constant -128 : i8
// CHECK: %[[P:.*]] = tensor.pad %[[X]] low[0, 1, 1, 0] high[0, 0, 0, 0]
// CHECK: tensor.yield %[[ZERO]] : i8
// CHECK: %[[F:.*]] = linalg.fill
// CHECK: %[[C:.*]] = linalg.generic {indexing_maps = [#[[IMAGE]], #[[WEIGHTS]], #[[RESULT]]], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%[[P]], %{{.*}} : tensor<1x9x9x4xi8>, tensor<3x3x4x2xi8>) outs(%[[F]] : tensor<1x4x4x2xi32>)
// CHECK: arith.extui %{{.*}} : i8 to i32
// CHECK: arith.extsi %{{.*}} : i8 to i32
// CHECK: arith.constant 128 : i32
// CHECK: arith.subi
// CHECK: arith.muli
// CHECK: arith.addi
// CHECK: linalg.generic {{.*}} ins(%[[C]], %{{.*}}, %{{.*}} : tensor<1x4x4x2xi32>, tensor<2xi32>, tensor<2xf32>) outs(%{{.*}} : tensor<1x4x4x2xi8>)
// CHECK: arith.addi
// CHECK: arith.sitofp
// CHECK: arith.mulf
// CHECK: math.roundeven
// CHECK: arith.constant -3.000000e+00
// CHECK: arith.maximumf
// CHECK: arith.constant 9.700000e+01
// CHECK: arith.minimumf
// CHECK: arith.fptosi
// CHECK: arith.addi
// CHECK: arith.trunci %{{.*}} : i32 to i8
// CHECK-NEXT: linalg.yield
func.func @main(%x: tensor<1x8x8x4xui8>) -> tensor<1x4x4x2xui8> {
  %0 = call @conv_integer(%x) : (tensor<1x8x8x4xui8>) -> tensor<1x4x4x2xui8>
  return %0 : tensor<1x4x4x2xui8>
}
func.func private @conv_integer(%x: tensor<1x8x8x4xui8>) -> tensor<1x4x4x2xui8> {
  %w = graph.constant dense<1> : tensor<3x3x4x2xi8>
  %b = graph.constant dense<[5, 6]> : tensor<2xi32>
  %0 = graph.conv_integer %x, %w {x_zero_point = 128 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x8x8x4xui8>, tensor<3x3x4x2xi8>) -> tensor<1x4x4x2xi32>
  %1 = graph.requantize %0, %b {multipliers = array<f32: 0.5, 0.25>, axis = 3 : i64, zero_point = 3 : i32} : (tensor<1x4x4x2xi32>, tensor<2xi32>) -> tensor<1x4x4x2xui8>
  %2 = graph.clip %1 {min = 0.0 : f32, max = 100.0 : f32} : tensor<1x4x4x2xui8>
  return %2 : tensor<1x4x4x2xui8>
}

// -----

// Depthwise, and two groups of two channels.
// CHECK-DAG: #[[DEPTH:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1 + d4 * 2, d2 + d5, d3)>
// CHECK-DAG: #[[TAPS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d4, d5, d3)>
// CHECK-DAG: #[[GROUPS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1 + d5, d2 + d6, d3, d7)>
// CHECK-DAG: #[[GROUPWEIGHTS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d6, d3, d7, d4)>
// CHECK-LABEL: func.func private @groups
// CHECK: linalg.generic {indexing_maps = [#[[DEPTH]], #[[TAPS]], #{{.*}}], {{.*}} ins(%{{.*}}, %{{.*}} : tensor<1x8x8x4xf32>, tensor<3x3x4xf32>)
// CHECK: %[[X:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0], [1], [2], [3, 4]] output_shape [1, 4, 6, 2, 2]
// CHECK: %[[W:.*]] = arith.constant dense<{{.*}}1.000000e+00, 2.000000e+00{{.*}}> : tensor<1x1x2x2x3xf32>
// CHECK: %[[Y:.*]] = linalg.generic {indexing_maps = [#[[GROUPS]], #[[GROUPWEIGHTS]], #{{.*}}], {{.*}} ins(%[[X]], %[[W]]
// CHECK: tensor.collapse_shape %[[Y]] {{\[\[}}0], [1], [2], [3, 4]]
func.func private @groups(%x: tensor<1x8x8x4xf32>) -> tensor<1x4x6x6xf32> {
  %d = graph.constant dense<1.0> : tensor<3x3x1x4xf32>
  %g = graph.constant dense<[[[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0, 10.0, 11.0, 12.0]]]]> : tensor<1x1x2x6xf32>
  %0 = graph.conv %x, %d {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 2, 1>, group = 4 : i64,
    layout = "nhwc"} : (tensor<1x8x8x4xf32>, tensor<3x3x1x4xf32>) -> tensor<1x4x6x4xf32>
  %1 = graph.conv %0, %g {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 2 : i64,
    layout = "nhwc"} : (tensor<1x4x6x4xf32>, tensor<1x1x2x6xf32>) -> tensor<1x4x6x6xf32>
  return %1 : tensor<1x4x6x6xf32>
}

// -----

// Bias, activation and residual are one body; a number is a constant in it, a vector an operand without its dims of 1, a broadcast
// operand stays at 0 where it is broadcast.
// CHECK-DAG: #[[CHANNEL:.*]] = affine_map<(d0, d1, d2, d3) -> (d3)>
// CHECK-DAG: #[[BROADCAST:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, 0, 0, d3)>
// CHECK-LABEL: func.func private @elementwise
// CHECK-SAME: %[[X:.*]]: tensor<2x8x8x4xf32>, %[[S:.*]]: tensor<2x1x1x4xf32>
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[CHANNEL]], #[[BROADCAST]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%[[X]], %{{.*}}, %[[S]] : tensor<2x8x8x4xf32>, tensor<4xf32>, tensor<2x1x1x4xf32>)
// CHECK: arith.addf
// CHECK: arith.maximumf
// CHECK: arith.constant 2.000000e+00
// CHECK: arith.mulf
// CHECK: arith.mulf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func private @elementwise(%x: tensor<2x8x8x4xf32>, %s: tensor<2x1x1x4xf32>) -> tensor<2x8x8x4xf32> {
  %b = graph.constant dense<[[[[1.0, 2.0, 3.0, 4.0]]]]> : tensor<1x1x1x4xf32>
  %two = graph.constant dense<2.0> : tensor<1xf32>
  %0 = graph.add %x, %b : (tensor<2x8x8x4xf32>, tensor<1x1x1x4xf32>) -> tensor<2x8x8x4xf32>
  %1 = graph.relu %0 : tensor<2x8x8x4xf32>
  %2 = graph.mul %1, %two : (tensor<2x8x8x4xf32>, tensor<1xf32>) -> tensor<2x8x8x4xf32>
  %3 = graph.mul %2, %s : (tensor<2x8x8x4xf32>, tensor<2x1x1x4xf32>) -> tensor<2x8x8x4xf32>
  return %3 : tensor<2x8x8x4xf32>
}

// -----

// The reference's order: b first. aRatio 0.5 / 0.25 = 2, bRatio 0.125 / 0.25 = 0.5, constant 5 - (2 * 3 + 0.5 * 4) = -3.
// CHECK-LABEL: func.func private @qlinear_add
// CHECK: ^bb0(%[[A:.*]]: i8, %[[B:.*]]: i8, %{{.*}}: i8):
// CHECK: %[[BI:.*]] = arith.extui %[[B]]
// CHECK: %[[BF:.*]] = arith.sitofp %[[BI]]
// CHECK: %[[R:.*]] = arith.constant 5.000000e-01
// CHECK: %[[C:.*]] = arith.constant -3.000000e+00
// CHECK: %[[T:.*]] = math.fma %[[BF]], %[[R]], %[[C]]
// CHECK: %[[AI:.*]] = arith.extui %[[A]]
// CHECK: %[[AF:.*]] = arith.sitofp %[[AI]]
// CHECK: %[[Q:.*]] = arith.constant 2.000000e+00
// CHECK: %[[V:.*]] = math.fma %[[AF]], %[[Q]], %[[T]]
// CHECK: math.roundeven %[[V]]
func.func private @qlinear_add(%a: tensor<4xui8>, %b: tensor<4xui8>) -> tensor<4xui8> {
  %0 = graph.qlinear_add %a, %b {a_scale = 0.5 : f32, a_zero_point = 3 : i32, b_scale = 0.125 : f32, b_zero_point = 4 : i32, y_scale = 0.25 : f32,
    y_zero_point = 5 : i32} : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
  return %0 : tensor<4xui8>
}

// -----

// CHECK-DAG: #[[COUNTS:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d2)>
// CHECK-LABEL: func.func private @pools
// Padding of a maximum is the smallest number.
// CHECK: arith.constant 0xFF80 : bf16
// CHECK: tensor.pad
// CHECK: arith.maximumf %{{.*}}, %{{.*}} : bf16
// A mean over what lies inside: 1, 2, 2, 4 positions. bf16 is summed in f32.
// CHECK: tensor.pad
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK: arith.addf
// CHECK: arith.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00], [2.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// CHECK: arith.divf
func.func private @pools(%x: tensor<1x3x3x4xbf16>) -> tensor<1x2x2x4xf32> {
  %0 = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x3x3x4xbf16>) -> tensor<1x3x3x4xbf16>
  %1 = graph.cast %0 : (tensor<1x3x3x4xbf16>) -> tensor<1x3x3x4xf32>
  %2 = graph.average_pool %1 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 0, 0>, count_include_pad = false,
    layout = "nhwc"} : (tensor<1x3x3x4xf32>) -> tensor<1x2x2x4xf32>
  return %2 : tensor<1x2x2x4xf32>
}

// -----

// Row maximum, exponentials, row sum, quotient.
// CHECK-LABEL: func.func private @softmax
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
// CHECK: arith.maximumf
// CHECK: linalg.generic
// CHECK: arith.subf
// CHECK: math.exp
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
// CHECK: arith.addf
// CHECK: linalg.generic
// CHECK: arith.divf
func.func private @softmax(%x: tensor<3x10xf32>) -> tensor<3x10xf32> {
  %0 = graph.softmax %x {axis = 1 : i64} : tensor<3x10xf32>
  return %0 : tensor<3x10xf32>
}

// -----

// CHECK-LABEL: func.func private @softmax_of_batches
// CHECK-COUNT-2: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]
func.func private @softmax_of_batches(%x: tensor<2x3x10xf32>) -> tensor<2x3x10xf32> {
  %0 = graph.softmax %x {axis = 2 : i64} : tensor<2x3x10xf32>
  return %0 : tensor<2x3x10xf32>
}

// -----

// CHECK-DAG: #[[BACK:.*]] = affine_map<(d0, d1) -> (d0, d1 * -2 + 4)>
// CHECK-LABEL: func.func private @movement
// CHECK: tensor.extract_slice %{{.*}}[1, 0] [2, 5] [1, 1] : tensor<4x6xf32> to tensor<2x5xf32>
// CHECK: linalg.generic {indexing_maps = [#[[BACK]]
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: %[[P:.*]] = tensor.pad %{{.*}} low[1, 0] high[0, 2]
// CHECK: tensor.concat dim(1) %[[P]], %[[P]] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
func.func private @movement(%x: tensor<4x6xf32>) -> tensor<4x8xf32> {
  %0 = graph.slice %x {starts = array<i64: 1, 4>, steps = array<i64: 1, -2>} : (tensor<4x6xf32>) -> tensor<2x3xf32>
  %1 = graph.transpose %0 {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = graph.pad %1 {low = array<i64: 1, 0>, high = array<i64: 0, 2>, value = 1.0 : f32} : (tensor<3x2xf32>) -> tensor<4x4xf32>
  %3 = graph.concat %2, %2 {axis = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// -----

// CHECK-DAG: #[[A:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG: #[[B:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>
// CHECK-LABEL: func.func private @matmul
// CHECK: linalg.generic {indexing_maps = [#[[A]], #[[B]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
func.func private @matmul(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>) -> tensor<2x3x5xf32> {
  %0 = graph.matmul %a, %b : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}

// -----

// The chain of the vector engine scales what it carries and its second tensor by one number each: x + x reads x twice.
// CHECK-LABEL: func.func private @qlinear_double
// CHECK-SAME: %[[X:.*]]: tensor<4xi8>
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[X]] : tensor<4xi8>, tensor<4xi8>)
func.func private @qlinear_double(%x: tensor<4xui8>) -> tensor<4xui8> {
  %0 = graph.qlinear_add %x, %x {a_scale = 0.5 : f32, a_zero_point = 3 : i32, b_scale = 0.125 : f32, b_zero_point = 4 : i32, y_scale = 0.25 : f32,
    y_zero_point = 5 : i32} : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
  return %0 : tensor<4xui8>
}

// -----

// It scales no constants: what they add is a number, or one for each channel. aRatio 2 times 7; times 1 to 4.
// CHECK-LABEL: func.func private @qlinear_constant
// CHECK-SAME: %[[X:.*]]: tensor<4xi8>
// CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<4xi8>)
// CHECK: %[[T:.*]] = math.fma
// CHECK-NEXT: %[[K:.*]] = arith.constant 1.400000e+01 : f32
// CHECK-NEXT: arith.addf %[[T]], %[[K]]
// CHECK-LABEL: func.func private @qlinear_channels
// CHECK-SAME: %[[X:.*]]: tensor<2x4xi8>
// CHECK: %[[K:.*]] = arith.constant dense<[2.000000e+00, 4.000000e+00, 6.000000e+00, 8.000000e+00]> : tensor<4xf32>
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[K]] : tensor<2x4xi8>, tensor<4xf32>)
// CHECK: %[[T:.*]] = math.fma
// CHECK-NEXT: arith.addf %[[T]]
func.func private @qlinear_constant(%x: tensor<4xui8>) -> tensor<4xui8> {
  %c = graph.constant dense<7> : tensor<1xui8>
  %0 = graph.qlinear_add %c, %x {a_scale = 0.5 : f32, a_zero_point = 3 : i32, b_scale = 0.125 : f32, b_zero_point = 4 : i32, y_scale = 0.25 : f32,
    y_zero_point = 5 : i32} : (tensor<1xui8>, tensor<4xui8>) -> tensor<4xui8>
  return %0 : tensor<4xui8>
}
func.func private @qlinear_channels(%x: tensor<2x4xui8>) -> tensor<2x4xui8> {
  %c = graph.constant dense<[1, 2, 3, 4]> : tensor<4xui8>
  %0 = graph.qlinear_add %c, %x {a_scale = 0.5 : f32, a_zero_point = 3 : i32, b_scale = 0.125 : f32, b_zero_point = 4 : i32, y_scale = 0.25 : f32,
    y_zero_point = 5 : i32} : (tensor<4xui8>, tensor<2x4xui8>) -> tensor<2x4xui8>
  return %0 : tensor<2x4xui8>
}

// -----

// So does a sum of x and what is made of it.
// CHECK-LABEL: func.func private @qlinear_of_clip
// CHECK-SAME: %[[X:.*]]: tensor<4xi8>
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[X]] : tensor<4xi8>, tensor<4xi8>)
// CHECK-NEXT: ^bb0(%[[A:.*]]: i8, %[[B:.*]]: i8, %{{.*}}: i8):
// CHECK-NEXT: %[[W:.*]] = arith.extui %[[A]]
// CHECK-NEXT: %{{.*}} = arith.constant 3 : i32
// CHECK-NEXT: arith.maxsi %[[W]]
// CHECK: arith.extui %[[B]]
// CHECK-NEXT: arith.sitofp
// CHECK-NEXT: arith.constant
// CHECK-NEXT: math.fma
func.func private @qlinear_of_clip(%x: tensor<4xui8>) -> tensor<4xui8> {
  %0 = graph.clip %x {min = 3.0 : f32, max = 93.0 : f32} : tensor<4xui8>
  %1 = graph.qlinear_add %x, %0 {a_scale = 0.5 : f32, a_zero_point = 3 : i32, b_scale = 0.125 : f32, b_zero_point = 4 : i32, y_scale = 0.25 : f32,
    y_zero_point = 5 : i32} : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
  return %1 : tensor<4xui8>
}

// -----

// And a tensor that goes two ways. Equal conversions are one way.
// CHECK-LABEL: func.func private @two_conversions
// CHECK-SAME: %[[X:.*]]: tensor<4xi8>
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[X]] : tensor<4xi8>, tensor<4xi8>)
// CHECK-LABEL: func.func private @one_conversion
// CHECK-SAME: %[[Y:.*]]: tensor<4xi8>
// CHECK: linalg.generic {{.*}} ins(%[[Y]] : tensor<4xi8>)
// CHECK: arith.sitofp
// CHECK-NOT: arith.sitofp
// CHECK: arith.maximumf
// CHECK: return
func.func private @two_conversions(%x: tensor<4xi8>) -> tensor<4xf32> {
  %0 = graph.dequantize %x {axis = 0 : i64, scales = array<f32: 0.5>, zero_points = array<i32: 3>} : (tensor<4xi8>) -> tensor<4xf32>
  %1 = graph.dequantize %x {axis = 0 : i64, scales = array<f32: 0.25>, zero_points = array<i32: 3>} : (tensor<4xi8>) -> tensor<4xf32>
  %2 = graph.relu %0 : tensor<4xf32>
  %3 = graph.max %1, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
func.func private @one_conversion(%x: tensor<4xi8>) -> tensor<4xf32> {
  %0 = graph.dequantize %x {axis = 0 : i64, scales = array<f32: 0.5>, zero_points = array<i32: 3>} : (tensor<4xi8>) -> tensor<4xf32>
  %1 = graph.dequantize %x {axis = 0 : i64, scales = array<f32: 0.5>, zero_points = array<i32: 3>} : (tensor<4xi8>) -> tensor<4xf32>
  %2 = graph.tanh %0 : tensor<4xf32>
  %3 = graph.max %1, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}

// -----

// The vector engine keeps one value: what goes two ways from a sum, to meet again, takes two bodies. What meets its own share takes one.
// CHECK-LABEL: func.func private @two_ways
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<8x8xf32>)
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[P]] : tensor<4x8xf32>)
// CHECK: arith.maximumf
// CHECK: linalg.generic {{.*}} ins(%[[P]], %[[R]] : tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK: math.tanh
// CHECK-NEXT: arith.addf
// CHECK-LABEL: func.func private @share
// CHECK: %[[Q:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<8x8xf32>)
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<4x8xf32>)
// CHECK: return %[[S]]
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = call @two_ways(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = call @share(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}
func.func private @two_ways(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = graph.constant dense<1.0> : tensor<8x8xf32>
  %0 = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = graph.relu %0 : tensor<4x8xf32>
  %2 = graph.tanh %0 : tensor<4x8xf32>
  %3 = graph.add %1, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
func.func private @share(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = graph.constant dense<1.0> : tensor<8x8xf32>
  %0 = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = graph.sigmoid %0 : tensor<4x8xf32>
  %2 = graph.mul %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// A conversion that two bodies read is made by one: behind the window all the same.
// CHECK-LABEL: func.func private @behind_a_window
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x4x8xbf16>)
// CHECK-NOT: ins(%[[X]] :
// CHECK: %[[M:.*]] = linalg.generic {{.*}}"reduction", "reduction"]
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%[[X]] :
// CHECK: linalg.generic {{.*}} ins(%[[M]], %[[W]] :
func.func @main(%x: tensor<1x4x4x8xbf16>) -> tensor<1x4x4x8xf32> {
  %0 = call @behind_a_window(%x) : (tensor<1x4x4x8xbf16>) -> tensor<1x4x4x8xf32>
  return %0 : tensor<1x4x4x8xf32>
}
func.func private @behind_a_window(%x: tensor<1x4x4x8xbf16>) -> tensor<1x4x4x8xf32> {
  %w = graph.cast %x : (tensor<1x4x4x8xbf16>) -> tensor<1x4x4x8xf32>
  %0 = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x4x4x8xbf16>) -> tensor<1x4x4x8xbf16>
  %1 = graph.cast %0 : (tensor<1x4x4x8xbf16>) -> tensor<1x4x4x8xf32>
  %2 = graph.min %1, %w : (tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
  %3 = graph.mul %w, %2 : (tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
  %4 = graph.max %2, %3 : (tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
  return %4 : tensor<1x4x4x8xf32>
}

// -----

// A body too long to take the conversion of its other operand: that is made behind the contraction all the same.
// CHECK-LABEL: func.func private @behind
// CHECK-SAME: (%{{.*}}: tensor<4x8xi8>, %[[Q:.*]]: tensor<4x8xi8>)
// CHECK-NOT: ins(%[[Q]]
// CHECK: arith.muli
// CHECK: linalg.generic {{.*}} ins(%[[Q]]
func.func @main(%x: tensor<4x8xi8>, %q: tensor<4x8xi8>) -> tensor<4x8xi8> {
  %0 = call @behind(%x, %q) : (tensor<4x8xi8>, tensor<4x8xi8>) -> tensor<4x8xi8>
  return %0 : tensor<4x8xi8>
}
func.func private @behind(%x: tensor<4x8xi8>, %q: tensor<4x8xi8>) -> tensor<4x8xi8> {
  %w = graph.constant dense<1> : tensor<8x8xi8>
  %d = graph.dequantize %q {scales = array<f32: 0.5>, zero_points = array<i32: 3>, axis = 0 : i64} : (tensor<4x8xi8>) -> tensor<4x8xf32>
  %0 = graph.matmul_integer %x, %w {a_zero_point = 0 : i32, b_zero_points = array<i32: 0>} : (tensor<4x8xi8>, tensor<8x8xi8>) -> tensor<4x8xi32>
  %1 = graph.dequantize %0 {scales = array<f32: 0.25>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<4x8xi32>) -> tensor<4x8xf32>
  %2 = graph.add %d, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = graph.hard_swish %2 : tensor<4x8xf32>
  %4 = graph.quantize %3 {scales = array<f32: 0.03>, zero_points = array<i32: -5>, axis = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xi8>
  return %4 : tensor<4x8xi8>
}

// -----

// What goes element by element over one shape of few channels is one run. A number for each channel, or a row that all share, needs the dims.
// CHECK-LABEL: func.func private @few_channels
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0, 1, 2, 3]] : tensor<1x5x7x3xf32> into tensor<105xf32>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<105xf32>)
// CHECK-LABEL: func.func private @number_per_element
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<6xf32>)
// CHECK-LABEL: func.func private @many_channels
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x5x7x8xf32>)
// CHECK-LABEL: func.func private @number_per_channel
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x5x7x3xf32>)
// CHECK-LABEL: func.func private @shared_row
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x5x7x3xf32>)
func.func private @few_channels(%x: tensor<1x5x7x3xf32>, %y: tensor<1x5x7x3xf32>) -> tensor<1x5x7x3xf32> {
  %c = graph.constant dense<2.0> : tensor<1xf32>
  %0 = graph.mul %x, %c : (tensor<1x5x7x3xf32>, tensor<1xf32>) -> tensor<1x5x7x3xf32>
  %1 = graph.add %0, %y : (tensor<1x5x7x3xf32>, tensor<1x5x7x3xf32>) -> tensor<1x5x7x3xf32>
  return %1 : tensor<1x5x7x3xf32>
}
func.func private @number_per_element(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %c = graph.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %0 = graph.mul %x, %c : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
func.func private @many_channels(%x: tensor<1x5x7x8xf32>) -> tensor<1x5x7x8xf32> {
  %0 = graph.relu %x : tensor<1x5x7x8xf32>
  return %0 : tensor<1x5x7x8xf32>
}
func.func private @number_per_channel(%x: tensor<1x5x7x3xf32>) -> tensor<1x5x7x3xf32> {
  %c = graph.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %0 = graph.mul %x, %c : (tensor<1x5x7x3xf32>, tensor<3xf32>) -> tensor<1x5x7x3xf32>
  return %0 : tensor<1x5x7x3xf32>
}
func.func private @shared_row(%x: tensor<1x5x7x3xf32>, %y: tensor<1x1x7x3xf32>) -> tensor<1x5x7x3xf32> {
  %0 = graph.add %x, %y : (tensor<1x5x7x3xf32>, tensor<1x1x7x3xf32>) -> tensor<1x5x7x3xf32>
  return %0 : tensor<1x5x7x3xf32>
}

// -----

// Unsigned integers are compared as such.
// CHECK-LABEL: func.func private @largest
// CHECK-SAME: (%[[X:.*]]: tensor<4xi16>, %[[Y:.*]]: tensor<4xi16>)
// CHECK: %[[C:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[Y]] : tensor<4xi16>, tensor<4xi16>)
// CHECK: arith.cmpi ugt
// CHECK: linalg.generic {{.*}} ins(%[[C]], %[[X]], %[[Y]] : tensor<4xi1>, tensor<4xi16>, tensor<4xi16>)
// CHECK: arith.select
func.func @main(%x: tensor<4xui16>, %y: tensor<4xui16>) -> tensor<4xui16> {
  %0 = call @largest(%x, %y) : (tensor<4xui16>, tensor<4xui16>) -> tensor<4xui16>
  return %0 : tensor<4xui16>
}
func.func private @largest(%x: tensor<4xui16>, %y: tensor<4xui16>) -> tensor<4xui16> {
  %0 = graph.elementwise greater %x, %y : (tensor<4xui16>, tensor<4xui16>) -> tensor<4xi1>
  %1 = graph.elementwise select %0, %x, %y : (tensor<4xi1>, tensor<4xui16>, tensor<4xui16>) -> tensor<4xui16>
  return %1 : tensor<4xui16>
}

// -----

// Indices that are negative count from the end; every index ends inside of the dim.
// CHECK-LABEL: func.func private @rows
// CHECK-SAME: (%[[X:.*]]: tensor<2x5x3xf32>, %{{.*}}: tensor<1x7x1xi32> {tilewright.index_extent = 5 : i64})
// CHECK: linalg.generic
// CHECK: arith.extsi %{{.*}} : i32 to i64
// CHECK: arith.cmpi slt
// CHECK: arith.addi
// CHECK: arith.select
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: %[[I:.*]] = arith.index_cast
// CHECK: %[[O:.*]] = linalg.index 0
// CHECK: %[[L:.*]] = linalg.index 2
// CHECK: tensor.extract %[[X]][%[[O]], %[[I]], %[[L]]]
func.func @main(%x: tensor<2x5x3xf32>, %i: tensor<1x7x1xi32>) -> tensor<2x7x3xf32> {
  %0 = call @rows(%x, %i) : (tensor<2x5x3xf32>, tensor<1x7x1xi32>) -> tensor<2x7x3xf32>
  return %0 : tensor<2x7x3xf32>
}
func.func private @rows(%x: tensor<2x5x3xf32>, %i: tensor<1x7x1xi32>) -> tensor<2x7x3xf32> {
  %0 = graph.gather %x, %i : (tensor<2x5x3xf32>, tensor<1x7x1xi32>) -> tensor<2x7x3xf32>
  return %0 : tensor<2x7x3xf32>
}
