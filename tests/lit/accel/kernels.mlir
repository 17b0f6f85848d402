// What reductions may be made of: operands in either order, bytes of either sign less a zero point, constants for what they begin with.
// RUN: tilewright-opt %s -split-input-file --accel-emit-tiles="machine=tiny_8x8 schedule=serial" | FileCheck %s

// CHECK: isa.tensor({{.*}}zero_point=-3
// The product commuted, the input less a zero point, to a constant tensor of zeros.
module {
  func.func private @kernel(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>) -> tensor<6x9xi32> {
    %f = arith.constant dense<0> : tensor<6x9xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x7xi8>, tensor<7x9xi8>) outs(%f : tensor<6x9xi32>) {
    ^bb0(%p: i8, %q: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %zero = arith.constant -3 : i32
      %d = arith.subi %a, %zero : i32
      %b = arith.extsi %q : i8 to i32
      %t = arith.muli %b, %d : i32
      %u = arith.addi %t, %s : i32
      linalg.yield %u : i32
    } -> tensor<6x9xi32>
    return %r : tensor<6x9xi32>
  }
  func.func @main(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>) -> tensor<6x9xi32> {
    %0 = call @kernel(%x, %w) : (tensor<6x7xi8>, tensor<7x9xi8>) -> tensor<6x9xi32>
    return %0 : tensor<6x9xi32>
  }
}

// -----

// CHECK: isa.vector({{.*}}window=[3,3] {{.*}}window_op=max
// The largest number of each window.
module {
  func.func private @kernel(%x: tensor<1x6x7x9xf32>) -> tensor<1x4x5x9xf32> {
    %init = arith.constant 0xFF800000 : f32
    %e = tensor.empty() : tensor<1x4x5x9xf32>
    %f = linalg.fill ins(%init : f32) outs(%e : tensor<1x4x5x9xf32>) -> tensor<1x4x5x9xf32>
    %taps = tensor.empty() : tensor<3x3xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, c, y, x) -> (n, h + y, w + x, c)>, affine_map<(n, h, w, c, y, x) -> (y, x)>, affine_map<(n, h, w, c, y, x) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %taps : tensor<1x6x7x9xf32>, tensor<3x3xf32>) outs(%f : tensor<1x4x5x9xf32>) {
    ^bb0(%p: f32, %q: f32, %s: f32):
      %u = arith.maximumf %p, %s : f32
      linalg.yield %u : f32
    } -> tensor<1x4x5x9xf32>
    return %r : tensor<1x4x5x9xf32>
  }
  func.func @main(%x: tensor<1x6x7x9xf32>) -> tensor<1x4x5x9xf32> {
    %0 = call @kernel(%x) : (tensor<1x6x7x9xf32>) -> tensor<1x4x5x9xf32>
    return %0 : tensor<1x4x5x9xf32>
  }
}

// -----

// CHECK: isa.vector(a_type=bf16{{.*}}d_type=f32{{.*}}window=[7,6] {{.*}}window_op=max
// The largest number of each channel, wider than those it is found among.
module {
  func.func private @kernel(%x: tensor<1x6x7x9xbf16>) -> tensor<1x1x1x9xf32> {
    %init = arith.constant 0xFF800000 : f32
    %e = tensor.empty() : tensor<1x1x1x9xf32>
    %f = linalg.fill ins(%init : f32) outs(%e : tensor<1x1x1x9xf32>) -> tensor<1x1x1x9xf32>
    %taps = tensor.empty() : tensor<6x7xbf16>
    %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, c, y, x) -> (n, h + y, w + x, c)>, affine_map<(n, h, w, c, y, x) -> (y, x)>, affine_map<(n, h, w, c, y, x) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %taps : tensor<1x6x7x9xbf16>, tensor<6x7xbf16>) outs(%f : tensor<1x1x1x9xf32>) {
    ^bb0(%p: bf16, %q: bf16, %s: f32):
      %w = arith.extf %p : bf16 to f32
      %u = arith.maximumf %s, %w : f32
      linalg.yield %u : f32
    } -> tensor<1x1x1x9xf32>
    return %r : tensor<1x1x1x9xf32>
  }
  func.func @main(%x: tensor<1x6x7x9xbf16>) -> tensor<1x1x1x9xf32> {
    %0 = call @kernel(%x) : (tensor<1x6x7x9xbf16>) -> tensor<1x1x1x9xf32>
    return %0 : tensor<1x1x1x9xf32>
  }
}

// -----

// CHECK: isa.vector(a_type=u8{{.*}}a_zero_point=5{{.*}}window_op=sum lane_reduce=1
// Bytes of a row, unsigned and less a zero point.
module {
  func.func private @kernel(%x: tensor<6x37xi8>) -> tensor<6xi32> {
    %init = arith.constant 0 : i32
    %e = tensor.empty() : tensor<6xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<6xi32>) -> tensor<6xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x37xi8>) outs(%f : tensor<6xi32>) {
    ^bb0(%p: i8, %s: i32):
      %a = arith.extui %p : i8 to i32
      %zero = arith.constant 5 : i32
      %d = arith.subi %a, %zero : i32
      %u = arith.addi %s, %d : i32
      linalg.yield %u : i32
    } -> tensor<6xi32>
    return %r : tensor<6xi32>
  }
  func.func @main(%x: tensor<6x37xi8>) -> tensor<6xi32> {
    %0 = call @kernel(%x) : (tensor<6x37xi8>) -> tensor<6xi32>
    return %0 : tensor<6xi32>
  }
}

// -----

// CHECK: isa.vector(a_type=u8{{.*}}d_type=u8{{.*}}window_op=max lane_reduce=1
// The largest unsigned byte of a row.
module {
  func.func private @kernel(%x: tensor<6x37xi8>) -> tensor<6xi8> {
    %init = arith.constant 0 : i8
    %e = tensor.empty() : tensor<6xi8>
    %f = linalg.fill ins(%init : i8) outs(%e : tensor<6xi8>) -> tensor<6xi8>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x37xi8>) outs(%f : tensor<6xi8>) {
    ^bb0(%p: i8, %s: i8):
      %u = arith.maxui %s, %p : i8
      linalg.yield %u : i8
    } -> tensor<6xi8>
    return %r : tensor<6xi8>
  }
  func.func @main(%x: tensor<6x37xi8>) -> tensor<6xi8> {
    %0 = call @kernel(%x) : (tensor<6x37xi8>) -> tensor<6xi8>
    return %0 : tensor<6xi8>
  }
}

// -----

// CHECK: isa.vector({{.*}}window_op=sum_squares lane_reduce=1
// Squares are a step of their own, and one instruction with their sum.
module {
  func.func private @kernel(%x: tensor<6x37xf32>) -> tensor<6xf32> {
    %y_e = tensor.empty() : tensor<6x37xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m, k)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x37xf32>) outs(%y_e : tensor<6x37xf32>) {
    ^bb0(%p: f32, %s: f32):
      %u = arith.mulf %p, %p : f32
      linalg.yield %u : f32
    } -> tensor<6x37xf32>
    %init = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<6xf32>
    %f = linalg.fill ins(%init : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
      iterator_types = ["parallel", "reduction"]} ins(%y : tensor<6x37xf32>) outs(%f : tensor<6xf32>) {
    ^bb0(%p: f32, %s: f32):
      %u = arith.addf %s, %p : f32
      linalg.yield %u : f32
    } -> tensor<6xf32>
    return %r : tensor<6xf32>
  }
  func.func @main(%x: tensor<6x37xf32>) -> tensor<6xf32> {
    %0 = call @kernel(%x) : (tensor<6x37xf32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}
