// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

func.func @channels(%x: tensor<1x4x8x8xf32>, %w: tensor<6x3x3x3xf32>) {
  // expected-error@+1 {{weights of shape [6, 3, 3, 3] take 3 channels per group, the input [1, 4, 8, 8] has 4}}
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x4x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<1x6x8x8xf32>
  return
}

// -----

func.func @result_shape(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@+1 {{result has shape [1, 6, 8, 8], expected [1, 6, 4, 4]}}
  %0 = graph.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  return
}

// -----

func.func @window_larger_than_input(%x: tensor<1x4x2x2xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@+1 {{the window covers 5 positions, but the padded input has only 2}}
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 2, 2>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x4x2x2xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x1x1xf32>
  return
}

// -----

func.func @group(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@+1 {{group is 3, it must divide 4 input and 6 output channels}}
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
    group = 3 : i64, layout = "nchw"} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  return
}

// -----

func.func @stride(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@+1 {{strides is [0, 1], every value must be at least 1 and at most 2^40}}
  %0 = graph.conv %x, %w {strides = array<i64: 0, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  return
}

// -----

func.func @layout(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // expected-error@+1 {{attribute 'layout' failed to satisfy constraint: string attribute being nchw or nhwc}}
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "chwn"} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  return
}

// -----

func.func @bias(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x1x1xf32>, %b: tensor<4xf32>) {
  // expected-error@+1 {{bias has shape [4], expected [6]}}
  %0 = graph.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x4x8x8xf32>, tensor<6x4x1x1xf32>, tensor<4xf32>) -> tensor<1x6x8x8xf32>
  return
}

// -----

func.func @zero_point(%x: tensor<1x4x8x8xi8>, %w: tensor<6x4x1x1xi8>) {
  // expected-error@+1 {{x_zero_point is 128, expected -128 to 127}}
  %0 = graph.conv_integer %x, %w {x_zero_point = 128 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>,
    pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"}
    : (tensor<1x4x8x8xi8>, tensor<6x4x1x1xi8>) -> tensor<1x6x8x8xi32>
  return
}

// -----

func.func @zero_point_count(%x: tensor<1x4x8x8xi8>, %w: tensor<6x4x1x1xi8>) {
  // expected-error@+1 {{w_zero_points has 4 values, expected 1 or 6}}
  %0 = graph.conv_integer %x, %w {x_zero_point = 0 : i32, w_zero_points = array<i32: 0, 0, 0, 0>, strides = array<i64: 1, 1>,
    pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"}
    : (tensor<1x4x8x8xi8>, tensor<6x4x1x1xi8>) -> tensor<1x6x8x8xi32>
  return
}

// -----

func.func @matmul(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  // expected-error@+1 {{shapes [2, 3] and [4, 5] do not multiply: 3 columns against 4 rows}}
  %0 = graph.matmul %a, %b : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @broadcast(%a: tensor<2x3xf32>, %b: tensor<2xf32>) {
  // expected-error@+1 {{shapes [2, 3] and [2] do not broadcast: dims 3 and 2 differ and neither is 1}}
  %0 = graph.add %a, %b : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @mixed_types(%a: tensor<2xf32>, %b: tensor<2xi32>) {
  // expected-error@+1 {{requires the same element type for all operands and results}}
  %0 = graph.add %a, %b : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>
  return
}

// -----

func.func @dynamic(%a: tensor<?xf32>) {
  // expected-error@+1 {{must be statically shaped tensor}}
  %0 = graph.relu %a : tensor<?xf32>
  return
}

// -----

func.func @scale(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected a positive number}}
  %0 = graph.quantize %x {scales = array<f32: -1.0>, zero_points = array<i32: 0>, axis = 0 : i64}
    : (tensor<2x3xf32>) -> tensor<2x3xi8>
  return
}

// -----

func.func @scale_count(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{scales has 2 values, expected 1 or 3}}
  %0 = graph.quantize %x {scales = array<f32: 1.0, 1.0>, zero_points = array<i32: 0, 0>, axis = 1 : i64}
    : (tensor<2x3xf32>) -> tensor<2x3xi8>
  return
}

// -----

func.func @axis(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{axis is 2, expected 0 to rank - 1 of [2, 3]}}
  %0 = graph.softmax %x {axis = 2 : i64} : tensor<2x3xf32>
  return
}

// -----

func.func @layer_norm_axis(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{axis is -1, expected 0 to rank - 1 of [2, 3]}}
  %0 = graph.layer_norm %x {axis = -1 : i64, epsilon = 1.0e-5 : f32} : tensor<2x3xf32>
  return
}

// -----

func.func @reduce(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{axes are [1, 0], expected ascending dims of [2, 3]}}
  %0 = graph.reduce %x {kind = "sum", axes = array<i64: 1, 0>, keepdims = true} : (tensor<2x3xf32>) -> tensor<1x1xf32>
  return
}

// -----

func.func @batch_norm(%x: tensor<1x3x4x4xf32>, %c: tensor<3xf32>, %d: tensor<4xf32>) {
  // expected-error@+1 {{var has shape [4], expected [3]}}
  %0 = graph.batch_norm %x, %c, %c, %c, %d {epsilon = 1.0e-5 : f32}
    : (tensor<1x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4xf32>) -> tensor<1x3x4x4xf32>
  return
}

// -----

func.func @concat(%a: tensor<2x3xf32>, %b: tensor<3x3xf32>) {
  // expected-error@+1 {{inputs of shapes [2, 3] and [3, 3] differ in more than dim 1}}
  %0 = graph.concat %a, %b {axis = 1 : i64} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x6xf32>
  return
}

// -----

func.func @reshape(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{result of shape [4] has 4 elements, the input of shape [2, 3] has 6}}
  %0 = graph.reshape %a : (tensor<2x3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @transpose(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{perm is [0, 0], expected a permutation of the dims of [2, 3]}}
  %0 = graph.transpose %a {perm = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @slice(%a: tensor<4xf32>) {
  // expected-error@+1 {{dim 0 starts at 1 and takes 3 elements in steps of 2, which leaves the 4 elements of the input}}
  %0 = graph.slice %a {starts = array<i64: 1>, steps = array<i64: 2>} : (tensor<4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @pad(%a: tensor<4xf32>) {
  // expected-error@+1 {{value is of 'i32', expected 'f32'}}
  %0 = graph.pad %a {low = array<i64: 1>, high = array<i64: 0>, value = 0 : i32} : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @operands_of_a_function(%x: tensor<2xf32>) {
  // expected-error@+1 {{less has 1 operands, expected 2}}
  %0 = graph.elementwise less %x : (tensor<2xf32>) -> tensor<2xi1>
  return
}

// -----

func.func @condition(%x: tensor<2xf32>) {
  // expected-error@+1 {{the condition is of 'f32', expected i1}}
  %0 = graph.elementwise select %x, %x, %x : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @two_types(%x: tensor<2xf32>, %y: tensor<2xi32>) {
  // expected-error@+1 {{operands are of 'f32' and 'i32', expected one type}}
  %0 = graph.elementwise equal %x, %y : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xi1>
  return
}

// -----

func.func @no_such_function(%x: tensor<2xi32>) {
  // expected-error@+1 {{sin is not defined for elements of 'i32'}}
  %0 = graph.elementwise sin %x : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @result_of_a_predicate(%x: tensor<2xi32>) {
  // expected-error@+1 {{result is of 'i32', expected 'i1'}}
  %0 = graph.elementwise less %x, %x : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @shape_of_a_function(%x: tensor<2x1xi32>, %y: tensor<3xi32>) {
  // expected-error@+1 {{result has shape [2, 1], expected [2, 3]}}
  %0 = graph.elementwise mod %x, %y : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x1xi32>
  return
}

// -----

func.func @gather_ranks(%x: tensor<2x5xf32>, %i: tensor<1x7x1xi64>) {
  // expected-error@+1 {{x has shape [2, 5] and indices [1, 7, 1], expected [O, N, I] and [O or 1, K, I or 1]}}
  %0 = graph.gather %x, %i : (tensor<2x5xf32>, tensor<1x7x1xi64>) -> tensor<2x7xf32>
  return
}

// -----

func.func @gather_types(%x: tensor<2x5x3xf32>, %i: tensor<1x7x1xi64>) {
  // expected-error@+1 {{x is of 'f32', the result of 'f64', expected one type}}
  %0 = graph.gather %x, %i : (tensor<2x5x3xf32>, tensor<1x7x1xi64>) -> tensor<2x7x3xf64>
  return
}
