// An image whose taps the load engine packs is narrowed by its convolution, where it lies; a result of the network stays wide.
// BF16: func.func @main(%[[X:.*]]: tensor<1x3x16x16xf32>
// BF16: call @stem(%[[X]]) : (tensor<1x3x16x16xf32>) -> tensor<1x8x8x16xf32>
// BF16: func.func private @stem(%[[I:.*]]: tensor<1x3x16x16xf32>)
// BF16: %[[N:.*]] = graph.cast %[[I]] : (tensor<1x3x16x16xf32>) -> tensor<1x3x16x16xbf16>
// BF16: %[[T:.*]] = graph.transpose %[[N]] {{.*}} -> tensor<1x16x16x3xbf16>
// BF16: %[[W:.*]] = graph.cast %[[T]]
// BF16: graph.conv %[[W]]
func.func @main(%x: tensor<1x3x16x16xf32>) -> tensor<1x8x8x16xf32> {
  %w = graph.constant dense<1.0> : tensor<3x3x3x16xf32>
  %0 = graph.transpose %x {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x3x16x16xf32>) -> tensor<1x16x16x3xf32> loc("input")
  %1 = graph.conv %0, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x16x16x3xf32>, tensor<3x3x3x16xf32>) -> tensor<1x8x8x16xf32> loc("stem")
  return %1 : tensor<1x8x8x16xf32>
}
