// A convolution to eight channels and its pool, on an array of 16x16: the maxima of columns, two of which lie side by side, and then those along
// the row.
func.func @main(%x: tensor<1x43x39x3xi8>) -> tensor<1x10x9x8xi8> {
  %w = graph.constant dense<3> : tensor<3x3x3x8xi8>
  %0 = graph.conv_integer %x, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x43x39x3xi8>, tensor<3x3x3x8xi8>) -> tensor<1x22x20x8xi32> loc("conv")
  %1 = graph.requantize %0 {multipliers = array<f32: 0.02>, axis = 3 : i64, zero_point = 3 : i32} : (tensor<1x22x20x8xi32>) -> tensor<1x22x20x8xi8> loc("conv")
  %2 = graph.max_pool %1 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x22x20x8xi8>) -> tensor<1x10x9x8xi8> loc("pool")
  return %2 : tensor<1x10x9x8xi8>
}
