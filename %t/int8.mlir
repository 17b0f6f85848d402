// A network's image is converted by the convolution that reads it, unless others want it too, or its windows share most
// of their pixels and DRAM has time for what is loaded again.
// INT8: func.func @main(%[[X:.*]]: tensor<1x3x16x16xf32>, %[[Y:.*]]: tensor<1x3x16x16xf32>, %[[Z:.*]]: tensor<1x3x16x16xf32>
// INT8-DAG: call @stem(%[[X]])
// INT8-DAG: %[[Q:.*]] = call @shared(%[[Y]])
// INT8-DAG: call @second(%[[Q]])
// INT8-DAG: %[[R:.*]] = call @wide(%[[Z]])
// INT8-DAG: call @seven(%[[R]])
// INT8: func.func private @stem(%[[I:.*]]: tensor<1x3x16x16xf32>)
// INT8: %[[C:.*]] = graph.quantize %[[I]]
// INT8: %[[T:.*]] = graph.transpose %[[C]]
// INT8: graph.conv_integer %[[T]]
// SLOW: func.func @main(%{{.*}}: tensor<1x3x16x16xf32>, %{{.*}}: tensor<1x3x16x16xf32>, %[[Z:.*]]: tensor<1x3x16x16xf32>
// SLOW: call @seven(%[[Z]])
// CPU: func.func private @converted
func.func @main(%x: tensor<1x3x16x16xf32>, %y: tensor<1x3x16x16xf32>, %z: tensor<1x3x16x16xf32>)
    -> (tensor<1x8x8x16xi32>, tensor<1x8x8x16xi32>, tensor<1x3x16x16xi8>, tensor<1x8x8x16xi32>) {
  %w = graph.constant dense<1> : tensor<3x3x3x16xi8>
  %v = graph.constant dense<1> : tensor<7x7x3x16xi8>
  %0 = graph.quantize %x {scales = array<f32: 0.5>, zero_points = array<i32: 1>, axis = 1 : i64} : (tensor<1x3x16x16xf32>) -> tensor<1x3x16x16xi8> loc("converted")
  %1 = graph.transpose %0 {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x3x16x16xi8>) -> tensor<1x16x16x3xi8> loc("input")
  %2 = graph.conv_integer %1, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 1, 1>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x16x16x3xi8>, tensor<3x3x3x16xi8>) -> tensor<1x8x8x16xi32> loc("stem")
  %3 = graph.quantize %y {scales = array<f32: 0.5>, zero_points = array<i32: 1>, axis = 1 : i64} : (tensor<1x3x16x16xf32>) -> tensor<1x3x16x16xi8> loc("shared")
  %4 = graph.transpose %3 {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x3x16x16xi8>) -> tensor<1x16x16x3xi8> loc("input2")
  %5 = graph.conv_integer %4, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 1, 1>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x16x16x3xi8>, tensor<3x3x3x16xi8>) -> tensor<1x8x8x16xi32> loc("second")
  %6 = graph.quantize %z {scales = array<f32: 0.5>, zero_points = array<i32: 1>, axis = 1 : i64} : (tensor<1x3x16x16xf32>) -> tensor<1x3x16x16xi8> loc("wide")
  %7 = graph.transpose %6 {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x3x16x16xi8>) -> tensor<1x16x16x3xi8> loc("input3")
  %8 = graph.conv_integer %7, %v {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 2, 2>, pads = array<i64: 2, 2, 3, 3>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x16x16x3xi8>, tensor<7x7x3x16xi8>) -> tensor<1x8x8x16xi32> loc("seven")
  return %2, %5, %3, %8 : tensor<1x8x8x16xi32>, tensor<1x8x8x16xi32>, tensor<1x3x16x16xi8>, tensor<1x8x8x16xi32>
}

