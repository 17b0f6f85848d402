// RUN: not tilewright-opt %s -graph-lower-to-linalg 2>&1 | FileCheck %s

// All nodes that no target has are named at once, with the importer's reasons.
// CHECK: 2 nodes cannot run on any target: LRN (1), NonZero (1)
// CHECK-NEXT: node "first" (LRN): it is unknown
// CHECK-NEXT: node "second" (NonZero): its result has no shape
func.func private @unsupported(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.fallback %x {onnx_op = "LRN", domain = "", opset = 13 : i64, node_attributes = {}, model = "", kinds = array<i32: 0, 0>, reason = "it is unknown"}
    : (tensor<4xf32>) -> tensor<4xf32> loc("first")
  %1 = graph.fallback %x {onnx_op = "NonZero", domain = "", opset = 13 : i64, node_attributes = {}, model = "", kinds = array<i32: 0, 0>, reason = "its result has no shape"}
    : (tensor<4xf32>) -> tensor<4xf32> loc("second")
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
