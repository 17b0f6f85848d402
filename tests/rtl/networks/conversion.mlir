// An image that its first convolution converts: two load engines share each tile, and wait for each other from round to round.
func.func @main(%image: tensor<1x3x33x45xf32>) -> tensor<1x17x23x24xi8> {
  %w = graph.constant dense<3> : tensor<24x3x3x3xi8>
  %q = graph.quantize %image {scales = array<f32: 0.05>, zero_points = array<i32: 7>, axis = 1 : i64}
    : (tensor<1x3x33x45xf32>) -> tensor<1x3x33x45xi8> loc("quantize")
  %0 = graph.conv_integer %q, %w {x_zero_point = 7 : i32, w_zero_points = array<i32: 1>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"} : (tensor<1x3x33x45xi8>, tensor<24x3x3x3xi8>) -> tensor<1x24x17x23xi32> loc("stem")
  %1 = graph.requantize %0 {multipliers = array<f32: 0.02>, axis = 1 : i64, zero_point = 3 : i32} : (tensor<1x24x17x23xi32>) -> tensor<1x24x17x23xi8> loc("stem")
  %2 = graph.transpose %1 {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x24x17x23xi8>) -> tensor<1x17x23x24xi8>
  return %2 : tensor<1x17x23x24xi8>
}
