// One position of a decoder: the keys and values of two heads lie in caches whose last row is replaced where they lie.
func.func @main(%x: tensor<1x32xi8>, %past_key: tensor<2x24x16xi8> {graph.name = "past_key"}, %past_value: tensor<2x24x16xi8> {graph.name = "past_value"})
    -> (tensor<2x24x16xi8> {graph.name = "present_key", graph.alias = "past_key"},
        tensor<2x24x16xi8> {graph.name = "present_value", graph.alias = "past_value"}, tensor<1x32xi8>) {
  %w = graph.constant dense<1> : tensor<32x32xi8>
  %0 = graph.matmul_integer %x, %w {a_zero_point = 1 : i32, b_zero_points = array<i32: 0>} : (tensor<1x32xi8>, tensor<32x32xi8>) -> tensor<1x32xi32> loc("product")
  %query = graph.requantize %0 {multipliers = array<f32: 0.05>, axis = 1 : i64, zero_point = 3 : i32} : (tensor<1x32xi32>) -> tensor<1x32xi8> loc("query")
  %1 = graph.matmul_integer %x, %w {a_zero_point = 1 : i32, b_zero_points = array<i32: 2>} : (tensor<1x32xi8>, tensor<32x32xi8>) -> tensor<1x32xi32> loc("product2")
  %key = graph.requantize %1 {multipliers = array<f32: 0.08>, axis = 1 : i64, zero_point = 1 : i32} : (tensor<1x32xi32>) -> tensor<1x32xi8> loc("key")
  %2 = graph.matmul_integer %x, %w {a_zero_point = 1 : i32, b_zero_points = array<i32: 3>} : (tensor<1x32xi8>, tensor<32x32xi8>) -> tensor<1x32xi32> loc("product3")
  %value = graph.requantize %2 {multipliers = array<f32: 0.03>, axis = 1 : i64, zero_point = 0 : i32} : (tensor<1x32xi32>) -> tensor<1x32xi8> loc("value")
  %q = graph.reshape %query : (tensor<1x32xi8>) -> tensor<2x1x16xi8>
  %k = graph.reshape %key : (tensor<1x32xi8>) -> tensor<2x1x16xi8>
  %v = graph.reshape %value : (tensor<1x32xi8>) -> tensor<2x1x16xi8>
  %kept_key = graph.slice %past_key {starts = array<i64: 0, 0, 0>, steps = array<i64: 1, 1, 1>} : (tensor<2x24x16xi8>) -> tensor<2x23x16xi8>
  %kept_value = graph.slice %past_value {starts = array<i64: 0, 0, 0>, steps = array<i64: 1, 1, 1>} : (tensor<2x24x16xi8>) -> tensor<2x23x16xi8>
  %present_key = graph.concat %kept_key, %k {axis = 1 : i64} : (tensor<2x23x16xi8>, tensor<2x1x16xi8>) -> tensor<2x24x16xi8> loc("present_key")
  %present_value = graph.concat %kept_value, %v {axis = 1 : i64} : (tensor<2x23x16xi8>, tensor<2x1x16xi8>) -> tensor<2x24x16xi8> loc("present_value")
  %columns = graph.transpose %present_key {perm = array<i64: 0, 2, 1>} : (tensor<2x24x16xi8>) -> tensor<2x16x24xi8>
  %3 = graph.matmul_integer %q, %columns {a_zero_point = 3 : i32, b_zero_points = array<i32: 1>} : (tensor<2x1x16xi8>, tensor<2x16x24xi8>) -> tensor<2x1x24xi32> loc("scores")
  %4 = graph.dequantize %3 {scales = array<f32: 0.0005>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<2x1x24xi32>) -> tensor<2x1x24xf32> loc("scores")
  %5 = graph.softmax %4 {axis = 2 : i64} : tensor<2x1x24xf32> loc("softmax")
  %6 = graph.quantize %5 {scales = array<f32: 0.00390625>, zero_points = array<i32: -128>, axis = 0 : i64} : (tensor<2x1x24xf32>) -> tensor<2x1x24xi8> loc("softmax")
  %7 = graph.matmul_integer %6, %present_value {a_zero_point = -128 : i32, b_zero_points = array<i32: 0>} : (tensor<2x1x24xi8>, tensor<2x24x16xi8>) -> tensor<2x1x16xi32> loc("context")
  %8 = graph.requantize %7 {multipliers = array<f32: 0.004>, axis = 2 : i64, zero_point = 0 : i32} : (tensor<2x1x16xi32>) -> tensor<2x1x16xi8> loc("context")
  %9 = graph.reshape %8 : (tensor<2x1x16xi8>) -> tensor<1x32xi8>
  return %present_key, %present_value, %9 : tensor<2x24x16xi8>, tensor<2x24x16xi8>, tensor<1x32xi8>
}
