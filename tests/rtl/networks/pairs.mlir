// Convolutions of eight channels in floats: on an array of 16x16 two outputs, one below the other, lie side by side.
func.func @main(%x: tensor<1x13x12x8xf32>) -> tensor<1x13x12x8xf32> {
  %w = graph.constant dense<0.125> : tensor<3x3x8x8xf32>
  %b = graph.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %0 = graph.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x13x12x8xf32>, tensor<3x3x8x8xf32>, tensor<8xf32>) -> tensor<1x13x12x8xf32> loc("first")
  %1 = graph.relu %0 : tensor<1x13x12x8xf32> loc("first")
  %2 = graph.conv %1, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x13x12x8xf32>, tensor<3x3x8x8xf32>, tensor<8xf32>) -> tensor<1x13x12x8xf32> loc("second")
  %3 = graph.add %2, %x : (tensor<1x13x12x8xf32>, tensor<1x13x12x8xf32>) -> tensor<1x13x12x8xf32> loc("second")
  return %3 : tensor<1x13x12x8xf32>
}
