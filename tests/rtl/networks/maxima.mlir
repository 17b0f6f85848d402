// A convolution of floats and its pool, which begins in padding, and a kernel that reads it: the maxima of sums that two tiles share are
// carried down, from band to band.
func.func @main(%x: tensor<1x18x23x16xf32>) -> tensor<1x9x12x24xf32> {
  %w = graph.constant dense<0.25> : tensor<1x1x16x40xf32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"}
    : (tensor<1x18x23x16xf32>, tensor<1x1x16x40xf32>) -> tensor<1x18x23x40xf32> loc("conv")
  %1 = graph.relu %0 : tensor<1x18x23x40xf32> loc("relu")
  %2 = graph.max_pool %1 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x18x23x40xf32>) -> tensor<1x9x12x40xf32> loc("pool")
  %v = graph.constant dense<0.5> : tensor<1x1x40x24xf32>
  %3 = graph.conv %2, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"}
    : (tensor<1x9x12x40xf32>, tensor<1x1x40x24xf32>) -> tensor<1x9x12x24xf32> loc("next")
  return %3 : tensor<1x9x12x24xf32>
}
