// Convolutions of eight channels: on an array of 16x16 two pixels lie side by side.
func.func @main(%x: tensor<1x12x12x8xi8>) -> tensor<1x12x12x8xi8> {
  %w = graph.constant dense<1> : tensor<3x3x8x8xi8>
  %0 = graph.conv_integer %x, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x12x12x8xi8>, tensor<3x3x8x8xi8>) -> tensor<1x12x12x8xi32> loc("first")
  %1 = graph.requantize %0 {multipliers = array<f32: 0.02>, axis = 3 : i64, zero_point = 3 : i32} : (tensor<1x12x12x8xi32>) -> tensor<1x12x12x8xi8> loc("first")
  %2 = graph.conv_integer %1, %w {x_zero_point = 3 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x12x12x8xi8>, tensor<3x3x8x8xi8>) -> tensor<1x12x12x8xi32> loc("second")
  %3 = graph.requantize %2 {multipliers = array<f32: 0.02>, axis = 3 : i64, zero_point = 3 : i32} : (tensor<1x12x12x8xi32>) -> tensor<1x12x12x8xi8> loc("second")
  return %3 : tensor<1x12x12x8xi8>
}
