#loc = loc("g")
#loc1 = loc("c")
#loc2 = loc("r")
#loc3 = loc("y")
#loc4 = loc(unknown)
#loc6 = loc(fused[#loc1, #loc2])
module {
  func.func @main(%arg0: tensor<1x2x6x6xf32> {graph.name = "x"} loc("g")) -> (tensor<1x3x3x3xf32> {graph.name = "y"}) {
    %0 = call @c(%arg0) : (tensor<1x2x6x6xf32>) -> tensor<1x6x6x3xf32> loc(#loc6)
    %1 = call @y(%0) : (tensor<1x6x6x3xf32>) -> tensor<1x3x3x3xf32> loc(#loc3)
    %2 = call @transpose(%1) : (tensor<1x3x3x3xf32>) -> tensor<1x3x3x3xf32> loc(#loc4)
    return %2 : tensor<1x3x3x3xf32> loc(#loc)
  } loc(#loc)
  func.func private @c(%arg0: tensor<1x2x6x6xf32> loc(fused[#loc1, #loc2])) -> tensor<1x6x6x3xf32> attributes {tilewright.nodes = ["c", "r"], tilewright.target = "accel"} {
    %0 = graph.transpose %arg0 {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x2x6x6xf32>) -> tensor<1x6x6x2xf32> loc(#loc4)
    %1 = graph.constant dense<[[[[1.000000e+00, 0.000000e+00, 1.000000e+00], [1.000000e+00, 0.000000e+00, 2.000000e+00]], [[0.000000e+00, 1.000000e+00, 1.000000e+00], [2.000000e+00, 0.000000e+00, 0.000000e+00]], [[-1.000000e+00, 0.000000e+00, 1.000000e+00], [1.000000e+00, 0.000000e+00, 0.000000e+00]]], [[[2.000000e+00, 1.000000e+00, 1.000000e+00], [0.000000e+00, 0.000000e+00, 0.000000e+00]], [[0.000000e+00, -4.000000e+00, 1.000000e+00], [0.000000e+00, 1.000000e+00, 2.000000e+00]], [[-2.000000e+00, 1.000000e+00, 1.000000e+00], [0.000000e+00, 0.000000e+00, 0.000000e+00]]], [[[1.000000e+00, 0.000000e+00, 1.000000e+00], [-1.000000e+00, 0.000000e+00, 0.000000e+00]], [[0.000000e+00, 1.000000e+00, 1.000000e+00], [-2.000000e+00, 0.000000e+00, 0.000000e+00]], [[-1.000000e+00, 0.000000e+00, 1.000000e+00], [-1.000000e+00, 0.000000e+00, 2.000000e+00]]]]> : tensor<3x3x2x3xf32> loc(#loc4)
    %2 = graph.conv %0, %1 {dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc", pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>} : (tensor<1x6x6x2xf32>, tensor<3x3x2x3xf32>) -> tensor<1x6x6x3xf32> loc(#loc1)
    %3 = graph.constant dense<[5.000000e-01, -1.000000e+00, 2.000000e+00]> : tensor<3xf32> loc(#loc5)
    %4 = graph.add %2, %3 : (tensor<1x6x6x3xf32>, tensor<3xf32>) -> tensor<1x6x6x3xf32> loc(#loc1)
    %5 = graph.relu %4 : tensor<1x6x6x3xf32> loc(#loc2)
    return %5 : tensor<1x6x6x3xf32> loc(#loc6)
  } loc(#loc6)
  func.func private @y(%arg0: tensor<1x6x6x3xf32> loc("y")) -> tensor<1x3x3x3xf32> attributes {tilewright.nodes = ["y"], tilewright.target = "accel"} {
    %0 = graph.max_pool %arg0 {dilations = array<i64: 1, 1>, kernel = array<i64: 2, 2>, layout = "nhwc", pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>} : (tensor<1x6x6x3xf32>) -> tensor<1x3x3x3xf32> loc(#loc3)
    return %0 : tensor<1x3x3x3xf32> loc(#loc3)
  } loc(#loc3)
  func.func private @transpose(%arg0: tensor<1x3x3x3xf32> loc(unknown)) -> tensor<1x3x3x3xf32> attributes {tilewright.nodes = [], tilewright.target = "accel"} {
    %0 = graph.transpose %arg0 {perm = array<i64: 0, 3, 1, 2>} : (tensor<1x3x3x3xf32>) -> tensor<1x3x3x3xf32> loc(#loc4)
    return %0 : tensor<1x3x3x3xf32> loc(#loc4)
  } loc(#loc4)
} loc(#loc)
#loc5 = loc("b")

