#loc = loc("g")
module {
  func.func @main(%arg0: tensor<1x2x6x6xf32> {graph.name = "x"} loc("g")) -> (tensor<1x3x3x3xf32> {graph.name = "y"}) {
    %0 = graph.constant dense<[5.000000e-01, -1.000000e+00, 2.000000e+00]> : tensor<3xf32> loc(#loc1)
    %1 = graph.constant dense<[[[[1.000000e+00, 0.000000e+00, -1.000000e+00], [2.000000e+00, 0.000000e+00, -2.000000e+00], [1.000000e+00, 0.000000e+00, -1.000000e+00]], [[1.000000e+00, 2.000000e+00, 1.000000e+00], [0.000000e+00, 0.000000e+00, 0.000000e+00], [-1.000000e+00, -2.000000e+00, -1.000000e+00]]], [[[0.000000e+00, 1.000000e+00, 0.000000e+00], [1.000000e+00, -4.000000e+00, 1.000000e+00], [0.000000e+00, 1.000000e+00, 0.000000e+00]], [[0.000000e+00, 0.000000e+00, 0.000000e+00], [0.000000e+00, 1.000000e+00, 0.000000e+00], [0.000000e+00, 0.000000e+00, 0.000000e+00]]], [[[1.000000e+00, 1.000000e+00, 1.000000e+00], [1.000000e+00, 1.000000e+00, 1.000000e+00], [1.000000e+00, 1.000000e+00, 1.000000e+00]], [[2.000000e+00, 0.000000e+00, 0.000000e+00], [0.000000e+00, 2.000000e+00, 0.000000e+00], [0.000000e+00, 0.000000e+00, 2.000000e+00]]]]> : tensor<3x2x3x3xf32> loc(#loc2)
    %2 = graph.conv %arg0, %1, %0 {dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw", pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>} : (tensor<1x2x6x6xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<1x3x6x6xf32> loc(#loc3)
    %3 = graph.relu %2 : tensor<1x3x6x6xf32> loc(#loc4)
    %4 = graph.max_pool %3 {dilations = array<i64: 1, 1>, kernel = array<i64: 2, 2>, layout = "nchw", pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>} : (tensor<1x3x6x6xf32>) -> tensor<1x3x3x3xf32> loc(#loc5)
    return %4 : tensor<1x3x3x3xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("b")
#loc2 = loc("w")
#loc3 = loc("c")
#loc4 = loc("r")
#loc5 = loc("y")

