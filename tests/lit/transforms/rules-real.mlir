// Rules that are exact in real arithmetic, and the approximation; all of them here, whatever they cost. rules-linear.mlir has those that compute weights.
// RUN: tilewright-opt %s -graph-apply-rules=only=factor-out,divisor-out,factor-out-of-products,scale-out-of-sum,sum-of-sum,sum-of-transpose,reciprocal-of-product,multiply-by-reciprocal,divide-by-constant,product-of-exponentials,product-reduction-of-exponentials,root-of-square,product-of-transposes,product-chain,gelu-to-sigmoid | FileCheck %s

// RUN: not tilewright-opt %s -graph-apply-rules=only=factor-in 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: there is no rule 'factor-in'

// CHECK-LABEL: @factors(
// CHECK-NEXT: %[[S:.*]] = graph.add %arg1, %arg2 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: %[[M:.*]] = graph.mul %arg0, %[[S]]
// CHECK-NEXT: %[[T:.*]] = graph.add %arg0, %arg1
// CHECK-NEXT: %[[D:.*]] = graph.div %[[T]], %arg2
// CHECK-NEXT: return %[[M]], %[[D]]
func.func @factors(%a: tensor<2x4xf32>, %b: tensor<2x4xf32>, %c: tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %ac = graph.mul %a, %c : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %ba = graph.mul %b, %a : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = graph.add %ba, %ac : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %x = graph.div %a, %c : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %y = graph.div %b, %c : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %t = graph.add %x, %y : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %s, %t : tensor<2x4xf32>, tensor<2x4xf32>
}
// One product is an output too, so that nothing is saved.
// CHECK-LABEL: @factors_stays
// CHECK-COUNT-2: graph.mul
func.func @factors_stays(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %x = graph.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = graph.mul %a, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = graph.add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %x, %s : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: @products(
// CHECK-NEXT: %[[W:.*]] = graph.add %arg1, %arg2
// CHECK-NEXT: %[[Y:.*]] = graph.matmul %arg0, %[[W]]
// CHECK-NEXT: return %[[Y]]
func.func @products(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %x = graph.matmul %a, %b : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %y = graph.matmul %a, %c : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %s = graph.add %x, %y : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %s : tensor<2x4xf32>
}
// The second product is one row that all rows take: no sum of weights does that.
// CHECK-LABEL: @products_stays
// CHECK-COUNT-2: graph.matmul
func.func @products_stays(%a: tensor<2x3xf32>, %r: tensor<1x3xf32>, %c: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %x = graph.matmul %a, %c : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %y = graph.matmul %r, %c : (tensor<1x3xf32>, tensor<3x4xf32>) -> tensor<1x4xf32>
  %s = graph.add %x, %y : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %s : tensor<2x4xf32>
}

// CHECK-LABEL: @sums
// CHECK-NEXT: %[[R:.*]] = graph.reduce %arg0 {axes = array<i64: 0, 2>, keepdims = true, kind = "mean"}
// CHECK-NEXT: %[[C:.*]] = graph.reshape %arg1 : (tensor<1xf32>) -> tensor<f32>
// CHECK-NEXT: %[[Y:.*]] = graph.mul %[[R]], %[[C]]
// CHECK-NEXT: return %[[Y]]
func.func @sums(%a: tensor<2x3x4xf32>, %c: tensor<1xf32>) -> tensor<1x3x1xf32> {
  %m = graph.mul %a, %c : (tensor<2x3x4xf32>, tensor<1xf32>) -> tensor<2x3x4xf32>
  %x = graph.reduce %m {kind = "mean", axes = array<i64: 0>, keepdims = true} : (tensor<2x3x4xf32>) -> tensor<1x3x4xf32>
  %y = graph.reduce %x {kind = "mean", axes = array<i64: 2>, keepdims = true} : (tensor<1x3x4xf32>) -> tensor<1x3x1xf32>
  return %y : tensor<1x3x1xf32>
}
// CHECK-LABEL: @sum_of_transpose
// CHECK-NEXT: graph.reduce %arg0 {axes = array<i64: 1>, keepdims = false, kind = "sum"}
// CHECK-NEXT: return
func.func @sum_of_transpose(%a: tensor<2x3xf32>) -> tensor<2xf32> {
  %t = graph.transpose %a {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %y = graph.reduce %t {kind = "sum", axes = array<i64: 0>, keepdims = false} : (tensor<3x2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
// Sum of maxima; and a factor for each row.
// CHECK-LABEL: @sums_stays
// CHECK-COUNT-2: graph.reduce
// CHECK: graph.mul
// CHECK-NEXT: graph.reduce
func.func @sums_stays(%a: tensor<2x3xf32>, %c: tensor<3xf32>) -> (tensor<f32>, tensor<2xf32>) {
  %m = graph.reduce %a {kind = "max", axes = array<i64: 0>, keepdims = false} : (tensor<2x3xf32>) -> tensor<3xf32>
  %s = graph.reduce %m {kind = "sum", axes = array<i64: 0>, keepdims = false} : (tensor<3xf32>) -> tensor<f32>
  %x = graph.mul %a, %c : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %y = graph.reduce %x {kind = "sum", axes = array<i64: 1>, keepdims = false} : (tensor<2x3xf32>) -> tensor<2xf32>
  return %s, %y : tensor<f32>, tensor<2xf32>
}

// Two rules match the last product, and cost the same: the first of the table fires. Alone, the other one does.
// RUN: tilewright-opt %s -graph-apply-rules=only=multiply-by-reciprocal | FileCheck %s --check-prefix=RECIP
// RECIP-LABEL: @reciprocals
// RECIP: %[[AB:.*]] = graph.mul %arg0, %arg1
// RECIP: graph.div %{{.*}}, %[[AB]]
// CHECK-LABEL: @reciprocals
// CHECK: %[[X:.*]] = graph.div %{{.*}}, %arg0
// CHECK: %[[SQUARE:.*]] = graph.mul %[[X]], %[[X]]
// CHECK: graph.div %[[SQUARE]], %arg1
func.func @reciprocals(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %one = graph.constant dense<1.0> : tensor<f32>
  %ab = graph.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %x = graph.div %one, %a : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %y = graph.div %one, %ab : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %z = graph.mul %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}

// CHECK-LABEL: @functions
// CHECK-DAG: %[[THIRD:.*]] = graph.constant dense<0.333333343>
// CHECK-DAG: graph.mul %arg0, %[[THIRD]]
// CHECK-DAG: %[[S:.*]] = graph.add %arg0, %arg1
// CHECK-DAG: graph.exp %[[S]]
// CHECK-DAG: %[[R:.*]] = graph.reduce %arg0 {axes = array<i64: 0>, keepdims = false, kind = "sum"}
// CHECK-DAG: graph.exp %[[R]]
// CHECK-DAG: graph.abs %arg0
func.func @functions(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) {
  %three = graph.constant dense<3.0> : tensor<f32>
  %d = graph.div %a, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %x = graph.exp %a : tensor<4xf32>
  %y = graph.exp %b : tensor<4xf32>
  %p = graph.mul %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = graph.exp %a : tensor<4xf32>
  %prod = graph.fallback %e {domain = "", kinds = array<i32: 0, 0>, model = "", node_attributes = {axes = array<i64: -1>, keepdims = 0 : i64},
                             onnx_op = "ReduceProd", opset = 13 : i64, reason = ""} : (tensor<4xf32>) -> tensor<f32>
  %square = graph.mul %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %root = graph.sqrt %square : tensor<4xf32>
  return %d, %p, %prod, %root : tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>
}
// Axes that only the run time knows; the exponential of another number of elements; a divisor whose reciprocal overflows.
// CHECK-LABEL: @functions_stays
// CHECK: graph.fallback
// CHECK: graph.div
func.func @functions_stays(%a: tensor<4xf32>, %axes: tensor<1xi64>) -> (tensor<f32>, tensor<4xf32>) {
  %e = graph.exp %a : tensor<4xf32>
  %prod = graph.fallback %e, %axes {domain = "", kinds = array<i32: 0, 0, 0>, model = "", node_attributes = {keepdims = 0 : i64},
                                    onnx_op = "ReduceProd", opset = 18 : i64, reason = ""} : (tensor<4xf32>, tensor<1xi64>) -> tensor<f32>
  %tiny = graph.constant dense<1.0e-39> : tensor<f32>
  %d = graph.div %a, %tiny : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %prod, %d : tensor<f32>, tensor<4xf32>
}

// CHECK-LABEL: @product_of_transposes
// CHECK-NEXT: %[[P:.*]] = graph.matmul %arg1, %arg0 : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
// CHECK-NEXT: graph.transpose %[[P]] {perm = array<i64: 1, 0>}
func.func @product_of_transposes(%a: tensor<3x2xf32>, %b: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %x = graph.transpose %a {perm = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %y = graph.transpose %b {perm = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %p = graph.matmul %x, %y : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %p : tensor<2x4xf32>
}

// 8*2*8 + 8*8*1 multiplications become 2*8*1 + 8*2*1; from the left the other way round.
// CHECK-LABEL: @product_chain(
// CHECK-NEXT: %[[BC:.*]] = graph.matmul %arg1, %arg2 : (tensor<2x8xf32>, tensor<8x1xf32>) -> tensor<2x1xf32>
// CHECK-NEXT: graph.matmul %arg0, %[[BC]]
func.func @product_chain(%a: tensor<8x2xf32>, %b: tensor<2x8xf32>, %c: tensor<8x1xf32>) -> tensor<8x1xf32> {
  %ab = graph.matmul %a, %b : (tensor<8x2xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  %y = graph.matmul %ab, %c : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
  return %y : tensor<8x1xf32>
}
// CHECK-LABEL: @product_chain_stays
// CHECK-NEXT: %[[BC:.*]] = graph.matmul %arg1, %arg2
// CHECK-NEXT: graph.matmul %arg0, %[[BC]]
func.func @product_chain_stays(%a: tensor<8x2xf32>, %b: tensor<2x8xf32>, %c: tensor<8x1xf32>) -> tensor<8x1xf32> {
  %bc = graph.matmul %b, %c : (tensor<2x8xf32>, tensor<8x1xf32>) -> tensor<2x1xf32>
  %y = graph.matmul %a, %bc : (tensor<8x2xf32>, tensor<2x1xf32>) -> tensor<8x1xf32>
  return %y : tensor<8x1xf32>
}

// CHECK-LABEL: @gelu(
// CHECK-NEXT: %[[C:.*]] = graph.constant dense<1.702000e+00>
// CHECK-NEXT: %[[S:.*]] = graph.mul %arg0, %[[C]]
// CHECK-NEXT: %[[G:.*]] = graph.sigmoid %[[S]]
// CHECK-NEXT: graph.mul %arg0, %[[G]]
func.func @gelu(%a: tensor<4xf32>) -> tensor<4xf32> {
  %root = graph.constant dense<1.41421354> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %s = graph.div %a, %root : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = graph.erf %s : tensor<4xf32>
  %t = graph.add %e, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %x = graph.mul %a, %t : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = graph.mul %x, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
