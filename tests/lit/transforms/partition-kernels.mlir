// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels=array=fp32 | FileCheck %s
// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels="array=fp32 sums=1535" | FileCheck %s --check-prefix=FEW
// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels="array=fp32 scratchpad=16384" | FileCheck %s
// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels=array=int8 | FileCheck %s --check-prefix=INT8
// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels=cpu-only=true | FileCheck %s --check-prefix=CPU
// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels="array=fp32 scratchpad=16383" | FileCheck %s --check-prefix=SMALL
// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels="array=fp32 scratchpad=511" | FileCheck %s --check-prefix=PARTS

// A convolution takes what follows it: an activation that reads its value twice, and a residual computed before.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<1x8x8x4xf32>
// CHECK: %[[A:.*]] = call @first(%[[X]])
// CHECK: %[[B:.*]] = call @second(%[[A]])
// CHECK: return %[[B]]
// CHECK: func.func private @first(%[[I:.*]]: tensor<1x8x8x4xf32>)
// CHECK-SAME: tilewright.nodes = ["first", "plus", "clip", "times"], tilewright.target = "accel"
// CHECK: %[[C:.*]] = graph.conv %[[I]]
// CHECK: %[[P:.*]] = graph.add %[[C]]
// CHECK: %[[L:.*]] = graph.clip %[[P]]
// CHECK: graph.mul %[[C]], %[[L]]
// CHECK: func.func private @second(%[[J:.*]]: tensor<1x8x8x4xf32>)
// CHECK-SAME: tilewright.nodes = ["second", "residual"]
// CHECK: %[[D:.*]] = graph.conv %[[J]]
// CHECK: graph.add %[[D]], %[[J]]
// INT8-LABEL: func.func @main
// INT8: func.func private @first
// INT8-SAME: tilewright.reason = "the array multiplies int8, this convolution float numbers", tilewright.target = "cpu"
// The element-by-element ops behind it run on the accelerator all the same.
// INT8: func.func private @plus
// INT8-SAME: tilewright.nodes = ["plus", "clip", "times"], tilewright.target = "accel"
// CPU: func.func private @first
// CPU-SAME: tilewright.nodes = ["first", "plus", "clip", "times"], tilewright.target = "cpu"
func.func @main(%x: tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32> {
  %w = graph.constant dense<1.0> : tensor<1x1x4x4xf32>
  %three = graph.constant dense<3.0> : tensor<1xf32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x8x8x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x8x8x4xf32> loc("first")
  %1 = graph.add %0, %three : (tensor<1x8x8x4xf32>, tensor<1xf32>) -> tensor<1x8x8x4xf32> loc("plus")
  %2 = graph.clip %1 {min = 0.0 : f32, max = 6.0 : f32} : tensor<1x8x8x4xf32> loc("clip")
  %3 = graph.mul %0, %2 : (tensor<1x8x8x4xf32>, tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32> loc("times")
  %4 = graph.conv %3, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x8x8x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x8x8x4xf32> loc("second")
  %5 = graph.add %4, %3 : (tensor<1x8x8x4xf32>, tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32> loc("residual")
  return %5 : tensor<1x8x8x4xf32>
}

// -----

// Integers: the residual's dequantize joins the kernel that adds it, so that bytes travel. The result of a convolution that two
// kernels read ends the kernel.
// INT8-LABEL: func.func @main
// INT8: %[[A:.*]] = call @first(%{{.*}}) : (tensor<1x8x8x4xi8>) -> tensor<1x8x8x4xi8>
// INT8: %[[B:.*]] = call @second(%[[A]]) : (tensor<1x8x8x4xi8>) -> tensor<1x8x8x4xi8>
// INT8: call @max(%[[A]]) : (tensor<1x8x8x4xi8>) -> tensor<1x4x4x4xi8>
// INT8: func.func private @first
// INT8: graph.requantize
// INT8-NEXT: return
// INT8: func.func private @second(%[[J:.*]]: tensor<1x8x8x4xi8>)
// INT8: %[[D:.*]] = graph.dequantize %[[J]]
// INT8: %[[E:.*]] = graph.dequantize
// INT8: %[[S:.*]] = graph.add %[[E]], %[[D]]
// INT8: graph.quantize %[[S]]
// CHECK-LABEL: func.func @main
// CHECK: func.func private @first(%{{.*}}: tensor<1x8x8x4xi8>
// CHECK-SAME: tilewright.reason = "the array multiplies fp32, this convolution 8-bit integers"
func.func @main(%x: tensor<1x8x8x4xi8>) -> (tensor<1x8x8x4xi8>, tensor<1x4x4x4xi8>) {
  %w = graph.constant dense<1> : tensor<1x1x4x4xi8>
  %0 = graph.conv_integer %x, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x8x8x4xi8>, tensor<1x1x4x4xi8>) -> tensor<1x8x8x4xi32> loc("first")
  %1 = graph.requantize %0 {multipliers = array<f32: 0.5>, axis = 3 : i64, zero_point = 0 : i32} : (tensor<1x8x8x4xi32>) -> tensor<1x8x8x4xi8> loc("first")
  %2 = graph.dequantize %1 {scales = array<f32: 0.5>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<1x8x8x4xi8>) -> tensor<1x8x8x4xf32> loc("skip")
  %3 = graph.conv_integer %1, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x8x8x4xi8>, tensor<1x1x4x4xi8>) -> tensor<1x8x8x4xi32> loc("second")
  %4 = graph.requantize %3 {multipliers = array<f32: 0.5>, axis = 3 : i64, zero_point = 0 : i32} : (tensor<1x8x8x4xi32>) -> tensor<1x8x8x4xi8> loc("second")
  %5 = graph.dequantize %4 {scales = array<f32: 0.25>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<1x8x8x4xi8>) -> tensor<1x8x8x4xf32> loc("dq")
  %6 = graph.add %5, %2 : (tensor<1x8x8x4xf32>, tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32> loc("residual")
  %7 = graph.quantize %6 {scales = array<f32: 0.5>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xi8> loc("q")
  %8 = graph.max_pool %1 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x8x8x4xi8>) -> tensor<1x4x4x4xi8> loc("max")
  return %7, %8 : tensor<1x8x8x4xi8>, tensor<1x4x4x4xi8>
}

// -----

// Two convolutions meet: the one whose result is bytes goes first, whichever is written first, and the other adds what it has summed
// up. So bytes travel.
// INT8-LABEL: func.func @main
// INT8: %[[A:.*]] = call @main_branch(%{{.*}}) : (tensor<1x8x8x4xi8>) -> tensor<1x8x8x4xi8>
// INT8: call @shortcut(%[[A]], %{{.*}}) : (tensor<1x8x8x4xi8>, tensor<1x8x8x4xi8>) -> tensor<1x8x8x4xi8>
// INT8: func.func private @shortcut
// INT8-SAME: tilewright.nodes = ["dq", "shortcut", "sum", "add", "q"]
// CHECK-LABEL: func.func @main
// CHECK: call @main_branch_1
func.func @main(%x: tensor<1x8x8x4xi8>) -> tensor<1x8x8x4xi8> {
  %w = graph.constant dense<1> : tensor<1x1x4x4xi8>
  %0 = graph.conv_integer %x, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x8x8x4xi8>, tensor<1x1x4x4xi8>) -> tensor<1x8x8x4xi32> loc("main_branch")
  %1 = graph.requantize %0 {multipliers = array<f32: 0.5>, axis = 3 : i64, zero_point = 0 : i32} : (tensor<1x8x8x4xi32>) -> tensor<1x8x8x4xi8> loc("main_branch")
  %2 = graph.dequantize %1 {scales = array<f32: 0.25>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<1x8x8x4xi8>) -> tensor<1x8x8x4xf32> loc("dq")
  %3 = graph.conv_integer %x, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x8x8x4xi8>, tensor<1x1x4x4xi8>) -> tensor<1x8x8x4xi32> loc("shortcut")
  %4 = graph.dequantize %3 {scales = array<f32: 0.25>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<1x8x8x4xi32>) -> tensor<1x8x8x4xf32> loc("sum")
  %5 = graph.add %2, %4 : (tensor<1x8x8x4xf32>, tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32> loc("add")
  %6 = graph.quantize %5 {scales = array<f32: 0.5>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xi8> loc("q")
  return %6 : tensor<1x8x8x4xi8>
}

// -----

// What the longest chain needs goes first: the convolution that its last kernel alone waits for has the array while the chain does
// not.
// CHECK-LABEL: func.func @main
// CHECK: call @scores
// CHECK: call @norm
// CHECK: call @value
// CHECK: call @context
// The normalised rows take more than half of a small scratchpad: their reader takes part after part of them, next to their kernel.
// PARTS: call @value
// PARTS: call @scores
// PARTS: call @norm
// PARTS-NEXT: call @context
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %w = graph.constant dense<1.0> : tensor<8x8xf32>
  %value = graph.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("value")
  %scores = graph.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("scores")
  %norm = graph.layer_norm %scores {axis = 1 : i64, epsilon = 1.0e-5 : f32} : tensor<8x8xf32> loc("norm")
  %context = graph.matmul %norm, %value : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("context")
  return %context : tensor<8x8xf32>
}

// -----

// A softmax along the rows of a product joins it, where the accumulator holds enough of them.
// CHECK-LABEL: func.func @main
// CHECK: call @scores
// CHECK-NEXT: return
// FEW: call @scores
// FEW: call @softmax
func.func @main(%x: tensor<2x8x4xf32>, %y: tensor<2x4x40xf32>) -> tensor<2x8x40xf32> {
  %scores = graph.matmul %x, %y : (tensor<2x8x4xf32>, tensor<2x4x40xf32>) -> tensor<2x8x40xf32> loc("scores")
  %root = graph.constant dense<2.0> : tensor<1xf32>
  %scaled = graph.div %scores, %root : (tensor<2x8x40xf32>, tensor<1xf32>) -> tensor<2x8x40xf32> loc("scaled")
  %softmax = graph.softmax %scaled {axis = 2 : i64} : tensor<2x8x40xf32> loc("softmax")
  return %softmax : tensor<2x8x40xf32>
}

// -----

// ONNX Runtime's addition rounds its second operand first: only that one can come from the chain.
// CHECK-LABEL: func.func @main
// INT8-LABEL: func.func @main
// INT8: %[[A:.*]] = call @conv
// INT8: call @as_first(%[[A]], %{{.*}})
// INT8: call @conv_as_second
// INT8: func.func private @conv_as_second
// INT8-SAME: tilewright.nodes = ["conv_as_second", "as_second"]
func.func @main(%x: tensor<1x8x8x4xi8>) -> (tensor<1x8x8x4xi8>, tensor<1x8x8x4xi8>) {
  %w = graph.constant dense<1> : tensor<1x1x4x4xi8>
  %v = graph.constant dense<2> : tensor<1x1x4x4xi8>
  %0 = graph.conv_integer %x, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x8x8x4xi8>, tensor<1x1x4x4xi8>) -> tensor<1x8x8x4xi32> loc("conv")
  %1 = graph.requantize %0 {multipliers = array<f32: 0.5>, axis = 3 : i64, zero_point = 0 : i32} : (tensor<1x8x8x4xi32>) -> tensor<1x8x8x4xi8> loc("conv")
  %2 = graph.conv_integer %x, %v {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x8x8x4xi8>, tensor<1x1x4x4xi8>) -> tensor<1x8x8x4xi32> loc("conv_as_second")
  %3 = graph.requantize %2 {multipliers = array<f32: 0.5>, axis = 3 : i64, zero_point = 0 : i32} : (tensor<1x8x8x4xi32>) -> tensor<1x8x8x4xi8> loc("conv_as_second")
  %4 = graph.qlinear_add %1, %x {a_scale = 0.5 : f32, a_zero_point = 0 : i32, b_scale = 0.25 : f32, b_zero_point = 0 : i32, y_scale = 0.5 : f32,
    y_zero_point = 0 : i32} : (tensor<1x8x8x4xi8>, tensor<1x8x8x4xi8>) -> tensor<1x8x8x4xi8> loc("as_first")
  %5 = graph.qlinear_add %x, %3 {a_scale = 0.5 : f32, a_zero_point = 0 : i32, b_scale = 0.25 : f32, b_zero_point = 0 : i32, y_scale = 0.5 : f32,
    y_zero_point = 0 : i32} : (tensor<1x8x8x4xi8>, tensor<1x8x8x4xi8>) -> tensor<1x8x8x4xi8> loc("as_second")
  return %4, %5 : tensor<1x8x8x4xi8>, tensor<1x8x8x4xi8>
}

// -----

// What the machine has no type for, and what nothing implements. Reshapes stay with the caller.
// CHECK-LABEL: func.func @main
// CHECK: call @wide
// CHECK: graph.reshape
// CHECK: func.func private @wide
// CHECK-SAME: tilewright.reason = "the machine has no element type i64"
// CHECK: func.func private @unknown
// CHECK-SAME: tilewright.reason = "size 5 is asked for"
func.func @main(%x: tensor<4xi64>, %y: tensor<2xf32>) -> (tensor<2x2xi64>, tensor<2xf32>) {
  %0 = graph.add %x, %x : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64> loc("wide")
  %1 = graph.reshape %0 : (tensor<4xi64>) -> tensor<2x2xi64> loc("reshape")
  %2 = graph.fallback %y {onnx_op = "LRN", domain = "", opset = 13 : i64, node_attributes = {}, model = "", kinds = array<i32: 0, 0>, reason = "size 5 is asked for"} : (tensor<2xf32>) -> tensor<2xf32> loc("unknown")
  return %1, %2 : tensor<2x2xi64>, tensor<2xf32>
}

// -----

// Movements in a row are one kernel: a walk with one padding. A slice after a padding, and one that runs backwards, are not.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = call @shortcut(%{{.*}}) : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x6xf32>
// CHECK: %[[B:.*]] = call @second(%[[A]])
// CHECK: call @backwards(%[[B]])
// CHECK: func.func private @shortcut
// CHECK-SAME: tilewright.nodes = ["first", "shortcut"]
// CHECK: graph.slice
// CHECK: graph.pad
// CHECK: func.func private @second
// CHECK-SAME: tilewright.nodes = ["second"]
// CHECK: func.func private @backwards
// CHECK-SAME: tilewright.nodes = ["backwards"]
func.func @main(%x: tensor<1x8x8x4xf32>) -> tensor<1x2x4x6xf32> {
  %0 = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, 2, 2, 1>} : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32> loc("first")
  %1 = graph.pad %0 {low = array<i64: 0, 0, 0, 1>, high = array<i64: 0, 0, 0, 1>, value = 0.0 : f32} : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x6xf32> loc("shortcut")
  %2 = graph.slice %1 {starts = array<i64: 0, 2, 0, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x4x4x6xf32>) -> tensor<1x2x4x6xf32> loc("second")
  %3 = graph.slice %2 {starts = array<i64: 0, 1, 0, 0>, steps = array<i64: 1, -1, 1, 1>} : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32> loc("backwards")
  return %3 : tensor<1x2x4x6xf32>
}

// -----

// Nothing follows the reduction of rows on the accelerator, whose kernels have one iteration space; on the CPU it may.
// CHECK: func.func private @sum
// CHECK-SAME: tilewright.nodes = ["sum"]
// CHECK: func.func private @root
// INT8: func.func private @sum
// CPU: func.func private @sum
// CPU-SAME: tilewright.nodes = ["sum", "root"]
func.func @main(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = graph.reduce %x {kind = "sum", axes = array<i64: 1>, keepdims = false} : (tensor<4x8xf32>) -> tensor<4xf32> loc("sum")
  %1 = graph.sqrt %0 : tensor<4xf32> loc("root")
  return %1 : tensor<4xf32>
}

// -----

// A conversion that one op reads twice is made once.
// INT8: func.func private @dequantize(%[[Q:.*]]: tensor<4x8xi8>)
// INT8: %[[D:.*]] = graph.dequantize %[[Q]]
// INT8-NEXT: graph.mul %[[D]], %[[D]]
// CHECK: func.func private @dequantize
// CPU: func.func private @dequantize
func.func @main(%q: tensor<4x8xi8>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = graph.dequantize %q {scales = array<f32: 0.5>, zero_points = array<i32: 3>, axis = 0 : i64} : (tensor<4x8xi8>) -> tensor<4x8xf32> loc("dequantize")
  %1 = graph.mul %0, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("square")
  %2 = graph.relu %0 : tensor<4x8xf32> loc("relu")
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// The mean of all positions joins the convolution: 64 positions of 16 columns are 4096 bytes, the image of 16 channels as many, and
// half of the scratchpad must hold both.
// CHECK: func.func private @pooled(
// CHECK-SAME: tilewright.nodes = ["pooled", "relu", "pool"]
// SMALL: func.func private @pooled(
// SMALL-SAME: tilewright.nodes = ["pooled", "relu"]
// SMALL: func.func private @pool(
func.func @main(%x: tensor<1x8x8x16xf32>) -> tensor<1x1x1x16xf32> {
  %w = graph.constant dense<1.0> : tensor<1x1x16x16xf32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x8x8x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x8x8x16xf32> loc("pooled")
  %1 = graph.relu %0 : tensor<1x8x8x16xf32> loc("relu")
  %2 = graph.average_pool %1 {kernel = array<i64: 8, 8>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    count_include_pad = false, layout = "nhwc"} : (tensor<1x8x8x16xf32>) -> tensor<1x1x1x16xf32> loc("pool")
  return %2 : tensor<1x1x1x16xf32>
}

// -----

// No engine of the accelerator compares, selects or gathers: the CPU does, and the accelerator has what is around it.
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<1x8x16xf32>, %{{.*}}: tensor<1x3x1xi32>)
// CHECK: func.func private @plus
// CHECK-SAME: tilewright.target = "accel"
// CHECK: func.func private @above
// CHECK-SAME: tilewright.nodes = ["above", "choice"], tilewright.reason = "the accelerator has no such operator", tilewright.target = "cpu"
// CHECK: func.func private @rows
// CHECK-SAME: tilewright.nodes = ["rows"], tilewright.reason = "the accelerator has no such operator", tilewright.target = "cpu"
func.func @main(%x: tensor<1x8x16xf32>, %i: tensor<1x3x1xi32>) -> tensor<1x3x16xf32> {
  %one = graph.constant dense<1.0> : tensor<1xf32>
  %0 = graph.add %x, %x : (tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> tensor<1x8x16xf32> loc("plus")
  %1 = graph.elementwise greater %0, %one : (tensor<1x8x16xf32>, tensor<1xf32>) -> tensor<1x8x16xi1> loc("above")
  %2 = graph.elementwise select %1, %0, %one : (tensor<1x8x16xi1>, tensor<1x8x16xf32>, tensor<1xf32>) -> tensor<1x8x16xf32> loc("choice")
  %3 = graph.gather %2, %i : (tensor<1x8x16xf32>, tensor<1x3x1xi32>) -> tensor<1x3x16xf32> loc("rows")
  return %3 : tensor<1x3x16xf32>
}
