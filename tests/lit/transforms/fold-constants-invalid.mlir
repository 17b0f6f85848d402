// RUN: tilewright-opt %s -split-input-file -verify-diagnostics -graph-fold-constants=max-constant-bytes=100

func.func @grows() -> tensor<50xf32> {
  %a = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // expected-error@+1 {{its constants take 192 bytes, beside 0 before it; at most 100 are allowed (--max-constant-bytes)}}
  %0 = graph.pad %a {low = array<i64: 0>, high = array<i64: 48>, value = 0.0 : f32} : (tensor<2xf32>) -> tensor<50xf32>
  return %0 : tensor<50xf32>
}

// -----

// What takes the place of its operand is not counted.
func.func @moves() -> tensor<40xf32> {
  %a = graph.constant dense<[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 9.0]]>
    : tensor<5x8xf32>
  %0 = graph.transpose %a {perm = array<i64: 1, 0>} : (tensor<5x8xf32>) -> tensor<8x5xf32>
  %1 = graph.neg %0 : tensor<8x5xf32>
  %2 = graph.reshape %1 : (tensor<8x5xf32>) -> tensor<40xf32>
  return %2 : tensor<40xf32>
}
