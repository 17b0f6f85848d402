// Tensors of four channels on lanes for eight: two pixels lie side by side, in the array and in windows of the vector engine.
func.func @main(%x: tensor<1x6x8x4xi8>) -> tensor<1x6x8x4xi8> {
  %w = graph.constant dense<1> : tensor<3x3x4x4xi8>
  %d = graph.constant dense<[[[[1, 2, 3, 4]], [[5, -6, 7, -8]], [[9, 1, 2, 3]]], [[[4, 5, 6, 7]], [[-8, 9, 1, 2]], [[3, 4, 5, 6]]], [[[7, 8, 9, 1]], [[2, -3, 4, -5]], [[6, 7, 8, 9]]]]> : tensor<3x3x1x4xi8>
  %0 = graph.conv_integer %x, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x6x8x4xi8>, tensor<3x3x4x4xi8>) -> tensor<1x6x8x4xi32> loc("first")
  %1 = graph.requantize %0 {multipliers = array<f32: 0.02>, axis = 3 : i64, zero_point = 3 : i32} : (tensor<1x6x8x4xi32>) -> tensor<1x6x8x4xi8> loc("first")
  %2 = graph.conv_integer %1, %d {x_zero_point = 3 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, group = 4 : i64, layout = "nhwc"} : (tensor<1x6x8x4xi8>, tensor<3x3x1x4xi8>) -> tensor<1x6x8x4xi32> loc("second")
  %3 = graph.requantize %2 {multipliers = array<f32: 0.02, 0.01, 0.03, 0.04>, axis = 3 : i64, zero_point = 3 : i32} : (tensor<1x6x8x4xi32>) -> tensor<1x6x8x4xi8> loc("second")
  %4 = graph.max_pool %3 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, layout = "nhwc"} : (tensor<1x6x8x4xi8>) -> tensor<1x6x8x4xi8> loc("third")
  return %4 : tensor<1x6x8x4xi8>
}
