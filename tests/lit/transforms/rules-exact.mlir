// Rules that keep every bit, by their cost: --math exact applies no others. A function whose name ends in _stays is one that no rule may change.
// RUN: tilewright-opt %s -graph-apply-rules | FileCheck %s

// CHECK-LABEL: @transpose_of_transpose
// CHECK-NEXT: %[[T:.*]] = graph.transpose %arg0 {perm = array<i64: 1, 2, 0>}
// CHECK-NEXT: return %arg0, %[[T]]
func.func @transpose_of_transpose(%a: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<3x4x2xf32>) {
  %p = graph.transpose %a {perm = array<i64: 1, 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %back = graph.transpose %p {perm = array<i64: 1, 0, 2>} : (tensor<3x2x4xf32>) -> tensor<2x3x4xf32>
  %q = graph.transpose %p {perm = array<i64: 0, 2, 1>} : (tensor<3x2x4xf32>) -> tensor<3x4x2xf32>
  return %back, %q : tensor<2x3x4xf32>, tensor<3x4x2xf32>
}

// CHECK-LABEL: @reshapes_and_casts
// CHECK-NEXT: %[[R:.*]] = graph.reshape %arg0 : (tensor<2x3xf32>) -> tensor<3x2xf32>
// CHECK-NEXT: return %[[R]], %arg1
func.func @reshapes_and_casts(%a: tensor<2x3xf32>, %h: tensor<4xf16>) -> (tensor<3x2xf32>, tensor<4xf16>) {
  %flat = graph.reshape %a : (tensor<2x3xf32>) -> tensor<6xf32>
  %b = graph.reshape %flat : (tensor<6xf32>) -> tensor<3x2xf32>
  %wide = graph.cast %h : (tensor<4xf16>) -> tensor<4xf32>
  %back = graph.cast %wide : (tensor<4xf32>) -> tensor<4xf16>
  return %b, %back : tensor<3x2xf32>, tensor<4xf16>
}

// What was narrowed first has lost bits.
// CHECK-LABEL: @narrow_and_widen_stays
// CHECK-COUNT-2: graph.cast
func.func @narrow_and_widen_stays(%a: tensor<4xf32>) -> tensor<4xf32> {
  %h = graph.cast %a : (tensor<4xf32>) -> tensor<4xf16>
  %b = graph.cast %h : (tensor<4xf16>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// The dims that stay are 0 and 2 of both: one order. Of @max_of_transpose_stays they change places.
// CHECK-LABEL: @max_of_transpose(
// CHECK-NEXT: %[[M:.*]] = graph.reduce %arg0 {axes = array<i64: 1>, keepdims = false, kind = "max"}
// CHECK-NEXT: return %[[M]]
func.func @max_of_transpose(%a: tensor<2x3x4xf32>) -> tensor<2x4xf32> {
  %t = graph.transpose %a {perm = array<i64: 1, 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %m = graph.reduce %t {kind = "max", axes = array<i64: 0>, keepdims = false} : (tensor<3x2x4xf32>) -> tensor<2x4xf32>
  return %m : tensor<2x4xf32>
}
// CHECK-LABEL: @max_of_transpose_stays
// CHECK: graph.transpose
func.func @max_of_transpose_stays(%a: tensor<2x3x4xf32>) -> tensor<4x2xf32> {
  %t = graph.transpose %a {perm = array<i64: 2, 1, 0>} : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>
  %m = graph.reduce %t {kind = "max", axes = array<i64: 1>, keepdims = false} : (tensor<4x3x2xf32>) -> tensor<4x2xf32>
  return %m : tensor<4x2xf32>
}
// A sum in another order is another sum.
// CHECK-LABEL: @sum_of_transpose_stays
// CHECK: graph.transpose
func.func @sum_of_transpose_stays(%a: tensor<2x3x4xf32>) -> tensor<2x4xf32> {
  %t = graph.transpose %a {perm = array<i64: 1, 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %m = graph.reduce %t {kind = "sum", axes = array<i64: 0>, keepdims = false} : (tensor<3x2x4xf32>) -> tensor<2x4xf32>
  return %m : tensor<2x4xf32>
}

// Rows and columns change places: so does all that the pool says of them.
// CHECK-LABEL: @pool_of_transpose(
// CHECK-NEXT: %[[P:.*]] = graph.max_pool %arg0 {dilations = array<i64: 1, 1>, kernel = array<i64: 3, 2>, layout = "nchw", pads = array<i64: 1, 0, 1, 0>, strides = array<i64: 1, 2>}
// CHECK-NEXT: graph.transpose %[[P]] {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x2x6x4xf32>) -> tensor<1x2x4x6xf32>
func.func @pool_of_transpose(%a: tensor<1x2x6x8xf32>) -> tensor<1x2x4x6xf32> {
  %t = graph.transpose %a {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x2x6x8xf32>) -> tensor<1x2x8x6xf32>
  %p = graph.max_pool %t {kernel = array<i64: 2, 3>, strides = array<i64: 2, 1>, pads = array<i64: 0, 1, 0, 1>, dilations = array<i64: 1, 1>,
                          layout = "nchw"} : (tensor<1x2x8x6xf32>) -> tensor<1x2x4x6xf32>
  return %p : tensor<1x2x4x6xf32>
}
// Channels become rows.
// CHECK-LABEL: @pool_of_transpose_stays
// CHECK: graph.transpose
// CHECK-NEXT: graph.max_pool
func.func @pool_of_transpose_stays(%a: tensor<1x4x6x8xf32>) -> tensor<1x6x2x4xf32> {
  %t = graph.transpose %a {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x4x6x8xf32>) -> tensor<1x6x4x8xf32>
  %p = graph.max_pool %t {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
                          layout = "nchw"} : (tensor<1x6x4x8xf32>) -> tensor<1x6x2x4xf32>
  return %p : tensor<1x6x2x4xf32>
}

// CHECK-LABEL: @pool_of_widening(
// CHECK-NEXT: %[[P:.*]] = graph.max_pool %arg0 {{.*}} : (tensor<1x2x4x4xi8>) -> tensor<1x2x2x2xi8>
// CHECK-NEXT: graph.cast %[[P]] : (tensor<1x2x2x2xi8>) -> tensor<1x2x2x2xf32>
// CHECK-NEXT: %[[Q:.*]] = graph.max_pool %arg0
// CHECK-NEXT: graph.dequantize %[[Q]]
func.func @pool_of_widening(%a: tensor<1x2x4x4xi8>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  %w = graph.cast %a : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %p = graph.max_pool %w {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
                          layout = "nchw"} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %d = graph.dequantize %a {scales = array<f32: 0.5, 0.25>, zero_points = array<i32: 0, 1>, axis = 1 : i64} : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %q = graph.max_pool %d {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
                          layout = "nchw"} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  return %p, %q : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}
// A scale for each row: a window has several. Another reader wants the wide numbers anyway.
// CHECK-LABEL: @pool_of_widening_stays
// CHECK: graph.cast %arg0
// CHECK: graph.max_pool {{.*}}xf32>) -> tensor<1x2x2x2xf32>
// CHECK: graph.dequantize %arg0
// CHECK: graph.max_pool {{.*}}xf32>) -> tensor<1x2x2x2xf32>
func.func @pool_of_widening_stays(%a: tensor<1x2x4x4xi8>) -> (tensor<1x2x4x4xf32>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  %w = graph.cast %a : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %p = graph.max_pool %w {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
                          layout = "nchw"} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %d = graph.dequantize %a {scales = array<f32: 0.5, 0.25, 1.0, 2.0>, zero_points = array<i32: 0, 1, 0, 1>, axis = 2 : i64} : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %q = graph.max_pool %d {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
                          layout = "nchw"} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  return %w, %p, %q : tensor<1x2x4x4xf32>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}

// CHECK-LABEL: @maxima
// CHECK-NEXT: %[[M:.*]] = graph.reduce %arg0 {axes = array<i64: 0, 2>, keepdims = false, kind = "max"}
// CHECK-NEXT: %[[R:.*]] = graph.relu %[[M]]
// CHECK-NEXT: return %[[R]]
func.func @maxima(%a: tensor<2x3x4xf32>) -> tensor<3xf32> {
  %r = graph.relu %a : tensor<2x3x4xf32>
  %m = graph.reduce %r {kind = "max", axes = array<i64: 0>, keepdims = false} : (tensor<2x3x4xf32>) -> tensor<3x4xf32>
  %n = graph.reduce %m {kind = "max", axes = array<i64: 1>, keepdims = false} : (tensor<3x4xf32>) -> tensor<3xf32>
  return %n : tensor<3xf32>
}

// CHECK-LABEL: @elements
// CHECK-DAG: %[[ABS:.*]] = graph.abs %arg0
// CHECK-DAG: %[[RELU:.*]] = graph.relu %arg0
// CHECK-DAG: %[[CLIP:.*]] = graph.clip %arg0 {max = 6.000000e+00 : f32, min = 0.000000e+00 : f32}
// CHECK: return %[[RELU]], %arg0, %[[ABS]], %[[CLIP]], %arg0
func.func @elements(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %r = graph.relu %a : tensor<4xf32>
  %rr = graph.relu %r : tensor<4xf32>
  %n = graph.neg %a : tensor<4xf32>
  %nn = graph.neg %n : tensor<4xf32>
  %abs = graph.abs %n : tensor<4xf32>
  %c = graph.clip %a {min = 0.0 : f32, max = 8.0 : f32} : tensor<4xf32>
  %cc = graph.clip %c {min = -1.0 : f32, max = 6.0 : f32} : tensor<4xf32>
  %one = graph.constant dense<1.0> : tensor<1xf32>
  %m = graph.mul %one, %a : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %rr, %nn, %abs, %cc, %m : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// -0 + 0 is 0; a factor that broadcasts makes another shape; intervals that do not meet clip to one number.
// CHECK-LABEL: @elements_stays
// CHECK: graph.add
// CHECK: graph.mul
// CHECK-COUNT-2: graph.clip
func.func @elements_stays(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>, tensor<4xf32>) {
  %zero = graph.constant dense<0.0> : tensor<4xf32>
  %s = graph.add %a, %zero : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %ones = graph.constant dense<1.0> : tensor<2x1xf32>
  %m = graph.mul %a, %ones : (tensor<4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %c = graph.clip %a {min = 0.0 : f32, max = 1.0 : f32} : tensor<4xf32>
  %cc = graph.clip %c {min = 2.0 : f32, max = 3.0 : f32} : tensor<4xf32>
  return %s, %m, %cc : tensor<4xf32>, tensor<2x4xf32>, tensor<4xf32>
}

// 2^-1 and 2^2 have exact reciprocals, 3 has none.
// CHECK-LABEL: @divisors
// CHECK-DAG: %[[C:.*]] = graph.constant dense<[2.000000e+00, 2.500000e-01]>
// CHECK-DAG: graph.mul %arg0, %[[C]]
// CHECK-DAG: graph.div %arg0
func.func @divisors(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %c = graph.constant dense<[0.5, 4.0]> : tensor<2xf32>
  %three = graph.constant dense<3.0> : tensor<2xf32>
  %x = graph.div %a, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = graph.div %a, %three : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %x, %y : tensor<2xf32>, tensor<2xf32>
}

// Integers wrap: a ring. Floats round, so the second function stays.
// CHECK-LABEL: @integers
// CHECK-NEXT: %[[S:.*]] = graph.add %arg1, %arg2 : (tensor<4xi32>, tensor<1xi32>) -> tensor<4xi32>
// CHECK-NEXT: %[[M:.*]] = graph.mul %arg0, %[[S]]
// CHECK: %[[R:.*]] = graph.reduce %arg3
// CHECK: graph.elementwise shift_left %[[R]], %{{.*}} : (tensor<ui8>, tensor<ui8>) -> tensor<ui8>
// CHECK: %[[I:.*]] = graph.reduce %arg0
// CHECK: graph.mul %[[I]], %{{.*}} : (tensor<i32>, tensor<i32>) -> tensor<i32>
func.func @integers(%a: tensor<4xi32>, %b: tensor<4xi32>, %c: tensor<1xi32>, %u: tensor<4xui8>) -> (tensor<4xi32>, tensor<ui8>, tensor<i32>) {
  %x = graph.mul %a, %b : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %y = graph.mul %c, %a : (tensor<1xi32>, tensor<4xi32>) -> tensor<4xi32>
  %s = graph.add %x, %y : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %two = graph.constant dense<2> : tensor<1xui8>
  %shifted = graph.elementwise shift_left %u, %two : (tensor<4xui8>, tensor<1xui8>) -> tensor<4xui8>
  %sum = graph.reduce %shifted {kind = "sum", axes = array<i64: 0>, keepdims = false} : (tensor<4xui8>) -> tensor<ui8>
  %scaled = graph.mul %a, %c : (tensor<4xi32>, tensor<1xi32>) -> tensor<4xi32>
  %isum = graph.reduce %scaled {kind = "sum", axes = array<i64: 0>, keepdims = false} : (tensor<4xi32>) -> tensor<i32>
  return %s, %sum, %isum : tensor<4xi32>, tensor<ui8>, tensor<i32>
}
// CHECK-LABEL: @floats_stays
// CHECK-COUNT-2: graph.mul
// CHECK-NEXT: graph.add
func.func @floats_stays(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> tensor<4xf32> {
  %x = graph.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = graph.mul %a, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = graph.add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// Two products of 8 columns fill the 16 columns of the array together: half the cycles, for a few bytes of slices.
// CHECK-LABEL: @parallel_products(
// CHECK: %[[B:.*]] = graph.concat {{.*}} -> tensor<512x16xf32>
// CHECK-NEXT: %[[Y:.*]] = graph.matmul %arg0, %[[B]]
// CHECK-DAG: graph.slice %[[Y]] {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>}
// CHECK-DAG: graph.slice %[[Y]] {starts = array<i64: 0, 8>, steps = array<i64: 1, 1>}
func.func @parallel_products(%a: tensor<32x512xf32>) -> (tensor<32x8xf32>, tensor<32x8xf32>) {
  %b = graph.constant dense<1.0> : tensor<512x8xf32>
  %c = graph.constant dense<2.0> : tensor<512x8xf32>
  %x = graph.matmul %a, %b : (tensor<32x512xf32>, tensor<512x8xf32>) -> tensor<32x8xf32>
  %y = graph.matmul %a, %c : (tensor<32x512xf32>, tensor<512x8xf32>) -> tensor<32x8xf32>
  return %x, %y : tensor<32x8xf32>, tensor<32x8xf32>
}
// Two gates of one step of a recurrent layer: two slices are kernels more, and each waits for DRAM longer than the array is busy.
// CHECK-LABEL: @parallel_products_of_one_row_stay(
// CHECK-COUNT-2: graph.matmul
// CHECK-NOT: graph.slice
func.func @parallel_products_of_one_row_stay(%a: tensor<1x16xf32>) -> (tensor<1x16xf32>, tensor<1x16xf32>) {
  %b = graph.constant dense<1.0> : tensor<16x16xf32>
  %c = graph.constant dense<2.0> : tensor<16x16xf32>
  %x = graph.matmul %a, %b : (tensor<1x16xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
  %y = graph.matmul %a, %c : (tensor<1x16xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
  return %x, %y : tensor<1x16xf32>, tensor<1x16xf32>
}
// CHECK-LABEL: @parallel_convolutions(
// CHECK: %[[Y:.*]] = graph.conv %arg0, %{{.*}} : (tensor<1x1024x4x4xf32>, tensor<16x1024x1x1xf32>) -> tensor<1x16x4x4xf32>
// CHECK-DAG: graph.slice %[[Y]] {starts = array<i64: 0, 0, 0, 0>
// CHECK-DAG: graph.slice %[[Y]] {starts = array<i64: 0, 8, 0, 0>
func.func @parallel_convolutions(%a: tensor<1x1024x4x4xf32>) -> (tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>) {
  %v = graph.constant dense<1.0> : tensor<8x1024x1x1xf32>
  %w = graph.constant dense<2.0> : tensor<8x1024x1x1xf32>
  %x = graph.conv %a, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"}
      : (tensor<1x1024x4x4xf32>, tensor<8x1024x1x1xf32>) -> tensor<1x8x4x4xf32>
  %y = graph.conv %a, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"}
      : (tensor<1x1024x4x4xf32>, tensor<8x1024x1x1xf32>) -> tensor<1x8x4x4xf32>
  return %x, %y : tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>
}
// Each has its activation in its kernel, Relu or x * sigmoid(x), and the array is full already: slices would take the wide results through DRAM.
// CHECK-LABEL: @parallel_products_stays
// CHECK-NOT: graph.slice
func.func @parallel_products_stays(%a: tensor<32x4xf32>) -> (tensor<32x64xf32>, tensor<32x64xf32>) {
  %b = graph.constant dense<1.0> : tensor<4x64xf32>
  %c = graph.constant dense<2.0> : tensor<4x64xf32>
  %x = graph.matmul %a, %b : (tensor<32x4xf32>, tensor<4x64xf32>) -> tensor<32x64xf32>
  %y = graph.matmul %a, %c : (tensor<32x4xf32>, tensor<4x64xf32>) -> tensor<32x64xf32>
  %rx = graph.relu %x : tensor<32x64xf32>
  %gate = graph.sigmoid %y : tensor<32x64xf32>
  %ry = graph.mul %y, %gate : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  return %rx, %ry : tensor<32x64xf32>, tensor<32x64xf32>
}

// A reduction of a reduction of its kind is one, over the dims of both: ONNX leaves the order of a sum open. What others read too, and a mean of
// integers, which is rounded, stay.
// CHECK-LABEL: @reductions_of_reductions
// CHECK-NEXT: %[[M:.*]] = graph.reduce %arg0 {axes = array<i64: 2, 3>, keepdims = false, kind = "mean"} : (tensor<2x3x4x5xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %[[A:.*]] = graph.reduce %arg0 {axes = array<i64: 0>, keepdims = false, kind = "max"}
// CHECK-NEXT: %[[B:.*]] = graph.reduce %[[A]] {axes = array<i64: 0, 2>, keepdims = false, kind = "max"}
// CHECK-NEXT: %[[C:.*]] = graph.reduce %arg1 {axes = array<i64: 0>
// CHECK-NEXT: %[[D:.*]] = graph.reduce %[[C]] {axes = array<i64: 0>
// CHECK-NEXT: %[[S:.*]] = graph.reduce %arg1 {axes = array<i64: 0, 2>, keepdims = true, kind = "sum"} : (tensor<2x3x4xi32>) -> tensor<1x3x1xi32>
// CHECK-NEXT: %[[R:.*]] = graph.reshape %[[S]] : (tensor<1x3x1xi32>) -> tensor<3x1xi32>
// CHECK-NEXT: return %[[M]], %[[B]], %[[A]], %[[D]], %[[R]]
func.func @reductions_of_reductions(%x: tensor<2x3x4x5xf32>, %i: tensor<2x3x4xi32>)
    -> (tensor<2x3xf32>, tensor<4xf32>, tensor<3x4x5xf32>, tensor<4xi32>, tensor<3x1xi32>) {
  %0 = graph.reduce %x {kind = "mean", axes = array<i64: 3>, keepdims = false} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4xf32>
  %1 = graph.reduce %0 {kind = "mean", axes = array<i64: 2>, keepdims = false} : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
  %2 = graph.reduce %x {kind = "max", axes = array<i64: 0>, keepdims = false} : (tensor<2x3x4x5xf32>) -> tensor<3x4x5xf32>
  %3 = graph.reduce %2 {kind = "max", axes = array<i64: 0, 2>, keepdims = false} : (tensor<3x4x5xf32>) -> tensor<4xf32>
  %4 = graph.reduce %i {kind = "mean", axes = array<i64: 0>, keepdims = false} : (tensor<2x3x4xi32>) -> tensor<3x4xi32>
  %5 = graph.reduce %4 {kind = "mean", axes = array<i64: 0>, keepdims = false} : (tensor<3x4xi32>) -> tensor<4xi32>
  %6 = graph.reduce %i {kind = "sum", axes = array<i64: 0>, keepdims = false} : (tensor<2x3x4xi32>) -> tensor<3x4xi32>
  %7 = graph.reduce %6 {kind = "sum", axes = array<i64: 1>, keepdims = true} : (tensor<3x4xi32>) -> tensor<3x1xi32>
  return %1, %3, %2, %5, %7 : tensor<2x3xf32>, tensor<4xf32>, tensor<3x4x5xf32>, tensor<4xi32>, tensor<3x1xi32>
}
