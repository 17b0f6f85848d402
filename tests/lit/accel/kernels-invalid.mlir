// Kernels that compute something else than what the engines do are refused, never compiled to what they resemble.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics --accel-emit-tiles="machine=tiny_8x8 schedule=serial"

// A product added to an argument.
// expected-error @+1 {{a reduction begins with a tensor that is not one constant but must begin with 0}}
module {
  func.func private @kernel(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>, %f: tensor<6x9xi32>) -> tensor<6x9xi32> {
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x7xi8>, tensor<7x9xi8>) outs(%f : tensor<6x9xi32>) {
    ^bb0(%p: i8, %q: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %b = arith.extsi %q : i8 to i32
      %t = arith.muli %a, %b : i32
      %u = arith.addi %s, %t : i32
      linalg.yield %u : i32
    } -> tensor<6x9xi32>
    return %r : tensor<6x9xi32>
  }
  func.func @main(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>, %f: tensor<6x9xi32>) -> tensor<6x9xi32> {
    %0 = call @kernel(%x, %w, %f) : (tensor<6x7xi8>, tensor<7x9xi8>, tensor<6x9xi32>) -> tensor<6x9xi32>
    return %0 : tensor<6x9xi32>
  }
}

// -----

// A product added to ones.
// expected-error @+1 {{a reduction begins with 1 : i32 but must begin with 0, as it is a sum}}
module {
  func.func private @kernel(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>) -> tensor<6x9xi32> {
    %init = arith.constant 1 : i32
    %e = tensor.empty() : tensor<6x9xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<6x9xi32>) -> tensor<6x9xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x7xi8>, tensor<7x9xi8>) outs(%f : tensor<6x9xi32>) {
    ^bb0(%p: i8, %q: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %b = arith.extsi %q : i8 to i32
      %t = arith.muli %a, %b : i32
      %u = arith.addi %s, %t : i32
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

// More than a product.
// expected-error @+1 {{a reduction takes the result of 'arith.muli' but must take elements of its first input as they are}}
module {
  func.func private @kernel(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>) -> tensor<6x9xi32> {
    %init = arith.constant 0 : i32
    %e = tensor.empty() : tensor<6x9xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<6x9xi32>) -> tensor<6x9xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x7xi8>, tensor<7x9xi8>) outs(%f : tensor<6x9xi32>) {
    ^bb0(%p: i8, %q: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %b = arith.extsi %q : i8 to i32
      %ab = arith.muli %a, %b : i32
      %t = arith.muli %ab, %a : i32
      %u = arith.addi %s, %t : i32
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

// The square of the input, and products that nobody sums.
// expected-error @+1 {{a reduction takes the result of 'arith.muli' but must take elements of its first input as they are}}
module {
  func.func private @kernel(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>) -> tensor<6x9xi32> {
    %init = arith.constant 0 : i32
    %e = tensor.empty() : tensor<6x9xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<6x9xi32>) -> tensor<6x9xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x7xi8>, tensor<7x9xi8>) outs(%f : tensor<6x9xi32>) {
    ^bb0(%p: i8, %q: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %b = arith.extsi %q : i8 to i32
      %ab = arith.muli %a, %b : i32
      %t = arith.muli %a, %a : i32
      %u = arith.addi %s, %t : i32
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

// Products that are subtracted.
// expected-error @+1 {{a reduction yields the result of 'arith.subi' but must yield a sum (addi, addf) or a maximum (maxsi, maxui, maximumf)}}
module {
  func.func private @kernel(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>) -> tensor<6x9xi32> {
    %init = arith.constant 0 : i32
    %e = tensor.empty() : tensor<6x9xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<6x9xi32>) -> tensor<6x9xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x7xi8>, tensor<7x9xi8>) outs(%f : tensor<6x9xi32>) {
    ^bb0(%p: i8, %q: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %b = arith.extsi %q : i8 to i32
      %t = arith.muli %a, %b : i32
      %u = arith.subi %s, %t : i32
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

// The largest product.
// expected-error @+1 {{a reduction takes the result of 'arith.muli' but must take elements of its first input as they are}}
module {
  func.func private @kernel(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>) -> tensor<6x9xi32> {
    %init = arith.constant -2147483648 : i32
    %e = tensor.empty() : tensor<6x9xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<6x9xi32>) -> tensor<6x9xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x7xi8>, tensor<7x9xi8>) outs(%f : tensor<6x9xi32>) {
    ^bb0(%p: i8, %q: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %b = arith.extsi %q : i8 to i32
      %t = arith.muli %a, %b : i32
      %u = arith.maxsi %s, %t : i32
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

// A zero point that no byte has.
// expected-error @+1 {{a reduction takes the result of 'arith.muli' but must take elements of its first input as they are}}
module {
  func.func private @kernel(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>) -> tensor<6x9xi32> {
    %init = arith.constant 0 : i32
    %e = tensor.empty() : tensor<6x9xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<6x9xi32>) -> tensor<6x9xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x7xi8>, tensor<7x9xi8>) outs(%f : tensor<6x9xi32>) {
    ^bb0(%p: i8, %q: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %b = arith.extsi %q : i8 to i32
      %zero = arith.constant 200 : i32
      %d = arith.subi %a, %zero : i32
      %t = arith.muli %d, %b : i32
      %u = arith.addi %s, %t : i32
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

// Two loops over channels.
// expected-error @+1 {{loop d2 walks its tensors as neither positions, channels, groups nor taps of a window do}}
module {
  func.func private @kernel(%x: tensor<6x5x7xi8>, %w: tensor<5x7x9xi8>) -> tensor<6x9xi32> {
    %init = arith.constant 0 : i32
    %e = tensor.empty() : tensor<6x9xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<6x9xi32>) -> tensor<6x9xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, j, k) -> (m, j, k)>, affine_map<(m, n, j, k) -> (j, k, n)>, affine_map<(m, n, j, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<6x5x7xi8>, tensor<5x7x9xi8>) outs(%f : tensor<6x9xi32>) {
    ^bb0(%p: i8, %q: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %b = arith.extsi %q : i8 to i32
      %t = arith.muli %a, %b : i32
      %u = arith.addi %s, %t : i32
      linalg.yield %u : i32
    } -> tensor<6x9xi32>
    return %r : tensor<6x9xi32>
  }
  func.func @main(%x: tensor<6x5x7xi8>, %w: tensor<5x7x9xi8>) -> tensor<6x9xi32> {
    %0 = call @kernel(%x, %w) : (tensor<6x5x7xi8>, tensor<5x7x9xi8>) -> tensor<6x9xi32>
    return %0 : tensor<6x9xi32>
  }
}

// -----

// The diagonal of matrices.
// expected-error @+1 {{loop d0 walks its tensors as neither positions, channels, groups nor taps of a window do}}
module {
  func.func private @kernel(%x: tensor<6x6x7xi8>, %w: tensor<7x9xi8>) -> tensor<6x9xi32> {
    %init = arith.constant 0 : i32
    %e = tensor.empty() : tensor<6x9xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<6x9xi32>) -> tensor<6x9xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x6x7xi8>, tensor<7x9xi8>) outs(%f : tensor<6x9xi32>) {
    ^bb0(%p: i8, %q: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %b = arith.extsi %q : i8 to i32
      %t = arith.muli %a, %b : i32
      %u = arith.addi %s, %t : i32
      linalg.yield %u : i32
    } -> tensor<6x9xi32>
    return %r : tensor<6x9xi32>
  }
  func.func @main(%x: tensor<6x6x7xi8>, %w: tensor<7x9xi8>) -> tensor<6x9xi32> {
    %0 = call @kernel(%x, %w) : (tensor<6x6x7xi8>, tensor<7x9xi8>) -> tensor<6x9xi32>
    return %0 : tensor<6x9xi32>
  }
}

// -----

// A result that lies the other way.
// expected-error @+1 {{loop d0 walks its tensors as neither positions, channels, groups nor taps of a window do}}
module {
  func.func private @kernel(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>) -> tensor<9x6xi32> {
    %init = arith.constant 0 : i32
    %e = tensor.empty() : tensor<9x6xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<9x6xi32>) -> tensor<9x6xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (n, m)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x7xi8>, tensor<7x9xi8>) outs(%f : tensor<9x6xi32>) {
    ^bb0(%p: i8, %q: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %b = arith.extsi %q : i8 to i32
      %t = arith.muli %a, %b : i32
      %u = arith.addi %s, %t : i32
      linalg.yield %u : i32
    } -> tensor<9x6xi32>
    return %r : tensor<9x6xi32>
  }
  func.func @main(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>) -> tensor<9x6xi32> {
    %0 = call @kernel(%x, %w) : (tensor<6x7xi8>, tensor<7x9xi8>) -> tensor<9x6xi32>
    return %0 : tensor<9x6xi32>
  }
}

// -----

// One matrix of two.
// expected-error @+1 {{the loops do not go through the whole result}}
module {
  func.func private @kernel(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>) -> tensor<2x6x9xi32> {
    %init = arith.constant 0 : i32
    %e = tensor.empty() : tensor<2x6x9xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<2x6x9xi32>) -> tensor<2x6x9xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (0, m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<6x7xi8>, tensor<7x9xi8>) outs(%f : tensor<2x6x9xi32>) {
    ^bb0(%p: i8, %q: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %b = arith.extsi %q : i8 to i32
      %t = arith.muli %a, %b : i32
      %u = arith.addi %s, %t : i32
      linalg.yield %u : i32
    } -> tensor<2x6x9xi32>
    return %r : tensor<2x6x9xi32>
  }
  func.func @main(%x: tensor<6x7xi8>, %w: tensor<7x9xi8>) -> tensor<2x6x9xi32> {
    %0 = call @kernel(%x, %w) : (tensor<6x7xi8>, tensor<7x9xi8>) -> tensor<2x6x9xi32>
    return %0 : tensor<2x6x9xi32>
  }
}

// -----

// Padding behind the channels.
// expected-error @+1 {{padded channels under a contraction}}
module {
  func.func private @kernel(%x: tensor<6x5xi8>, %w: tensor<7x9xi8>) -> tensor<6x9xi32> {
    %init = arith.constant 0 : i32
    %e = tensor.empty() : tensor<6x9xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<6x9xi32>) -> tensor<6x9xi32>
    %c = arith.constant 3 : i8
    %padded = tensor.pad %x low[0, 2] high[0, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %c : i8
    } : tensor<6x5xi8> to tensor<6x7xi8>
    %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%padded, %w : tensor<6x7xi8>, tensor<7x9xi8>) outs(%f : tensor<6x9xi32>) {
    ^bb0(%p: i8, %q: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %b = arith.extsi %q : i8 to i32
      %t = arith.muli %a, %b : i32
      %u = arith.addi %s, %t : i32
      linalg.yield %u : i32
    } -> tensor<6x9xi32>
    return %r : tensor<6x9xi32>
  }
  func.func @main(%x: tensor<6x5xi8>, %w: tensor<7x9xi8>) -> tensor<6x9xi32> {
    %0 = call @kernel(%x, %w) : (tensor<6x5xi8>, tensor<7x9xi8>) -> tensor<6x9xi32>
    return %0 : tensor<6x9xi32>
  }
}

// -----

// A sum over a window that begins with 3.
// expected-error @+1 {{a reduction begins with 3.000000e+00 : f32 but must begin with 0, as it is a sum}}
module {
  func.func private @kernel(%x: tensor<1x6x7x9xf32>) -> tensor<1x4x5x9xf32> {
    %init = arith.constant 3.0 : f32
    %e = tensor.empty() : tensor<1x4x5x9xf32>
    %f = linalg.fill ins(%init : f32) outs(%e : tensor<1x4x5x9xf32>) -> tensor<1x4x5x9xf32>
    %taps = tensor.empty() : tensor<3x3xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, c, y, x) -> (n, h + y, w + x, c)>, affine_map<(n, h, w, c, y, x) -> (y, x)>, affine_map<(n, h, w, c, y, x) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %taps : tensor<1x6x7x9xf32>, tensor<3x3xf32>) outs(%f : tensor<1x4x5x9xf32>) {
    ^bb0(%p: f32, %q: f32, %s: f32):
      %u = arith.addf %s, %p : f32
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

// A maximum that is never negative.
// expected-error @+1 {{a reduction begins with 0.000000e+00 : f32 but must begin with the least number, as it is a maximum}}
module {
  func.func private @kernel(%x: tensor<1x6x7x9xf32>) -> tensor<1x4x5x9xf32> {
    %init = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x4x5x9xf32>
    %f = linalg.fill ins(%init : f32) outs(%e : tensor<1x4x5x9xf32>) -> tensor<1x4x5x9xf32>
    %taps = tensor.empty() : tensor<3x3xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, c, y, x) -> (n, h + y, w + x, c)>, affine_map<(n, h, w, c, y, x) -> (y, x)>, affine_map<(n, h, w, c, y, x) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %taps : tensor<1x6x7x9xf32>, tensor<3x3xf32>) outs(%f : tensor<1x4x5x9xf32>) {
    ^bb0(%p: f32, %q: f32, %s: f32):
      %u = arith.maximumf %s, %p : f32
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

// A sum of squares in a window.
// expected-error @+1 {{a reduction takes the result of 'arith.mulf' but must take elements of its first input as they are}}
module {
  func.func private @kernel(%x: tensor<1x6x7x9xf32>) -> tensor<1x4x5x9xf32> {
    %init = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x4x5x9xf32>
    %f = linalg.fill ins(%init : f32) outs(%e : tensor<1x4x5x9xf32>) -> tensor<1x4x5x9xf32>
    %taps = tensor.empty() : tensor<3x3xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, c, y, x) -> (n, h + y, w + x, c)>, affine_map<(n, h, w, c, y, x) -> (y, x)>, affine_map<(n, h, w, c, y, x) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %taps : tensor<1x6x7x9xf32>, tensor<3x3xf32>) outs(%f : tensor<1x4x5x9xf32>) {
    ^bb0(%p: f32, %q: f32, %s: f32):
      %t = arith.mulf %p, %p : f32
      %u = arith.addf %s, %t : f32
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

// A sum of what is no element.
// expected-error @+1 {{a reduction takes an argument but must take elements of its first input as they are}}
module {
  func.func private @kernel(%x: tensor<1x6x7x9xf32>) -> tensor<1x4x5x9xf32> {
    %init = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<1x4x5x9xf32>
    %f = linalg.fill ins(%init : f32) outs(%e : tensor<1x4x5x9xf32>) -> tensor<1x4x5x9xf32>
    %taps = tensor.empty() : tensor<3x3xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, c, y, x) -> (n, h + y, w + x, c)>, affine_map<(n, h, w, c, y, x) -> (y, x)>, affine_map<(n, h, w, c, y, x) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %taps : tensor<1x6x7x9xf32>, tensor<3x3xf32>) outs(%f : tensor<1x4x5x9xf32>) {
    ^bb0(%p: f32, %q: f32, %s: f32):
      %u = arith.addf %s, %s : f32
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

// A row that is summed to 50.
// expected-error @+1 {{a reduction begins with 5.000000e+01 : f32 but must begin with 0, as it is a sum}}
module {
  func.func private @kernel(%x: tensor<6x37xf32>) -> tensor<6xf32> {
    %init = arith.constant 50.0 : f32
    %e = tensor.empty() : tensor<6xf32>
    %f = linalg.fill ins(%init : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x37xf32>) outs(%f : tensor<6xf32>) {
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

// -----

// Minus the elements of a row.
// expected-error @+1 {{a reduction takes the result of 'arith.negf' but must take elements of its first input as they are}}
module {
  func.func private @kernel(%x: tensor<6x37xf32>) -> tensor<6xf32> {
    %init = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<6xf32>
    %f = linalg.fill ins(%init : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x37xf32>) outs(%f : tensor<6xf32>) {
    ^bb0(%p: f32, %s: f32):
      %t = arith.negf %p : f32
      %u = arith.addf %s, %t : f32
      linalg.yield %u : f32
    } -> tensor<6xf32>
    return %r : tensor<6xf32>
  }
  func.func @main(%x: tensor<6x37xf32>) -> tensor<6xf32> {
    %0 = call @kernel(%x) : (tensor<6x37xf32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

// The product of a row.
// expected-error @+1 {{a reduction yields the result of 'arith.mulf' but must yield a sum (addi, addf) or a maximum (maxsi, maxui, maximumf)}}
module {
  func.func private @kernel(%x: tensor<6x37xf32>) -> tensor<6xf32> {
    %init = arith.constant 1.0 : f32
    %e = tensor.empty() : tensor<6xf32>
    %f = linalg.fill ins(%init : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x37xf32>) outs(%f : tensor<6xf32>) {
    ^bb0(%p: f32, %s: f32):
      %u = arith.mulf %s, %p : f32
      linalg.yield %u : f32
    } -> tensor<6xf32>
    return %r : tensor<6xf32>
  }
  func.func @main(%x: tensor<6x37xf32>) -> tensor<6xf32> {
    %0 = call @kernel(%x) : (tensor<6x37xf32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

// The sum of a row without the one of those before.
// expected-error @+1 {{a reduction must end with the sum or maximum of what it has made so far and another element}}
module {
  func.func private @kernel(%x: tensor<6x37xf32>) -> tensor<6xf32> {
    %init = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<6xf32>
    %f = linalg.fill ins(%init : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x37xf32>) outs(%f : tensor<6xf32>) {
    ^bb0(%p: f32, %s: f32):
      %u = arith.addf %p, %p : f32
      linalg.yield %u : f32
    } -> tensor<6xf32>
    return %r : tensor<6xf32>
  }
  func.func @main(%x: tensor<6x37xf32>) -> tensor<6xf32> {
    %0 = call @kernel(%x) : (tensor<6x37xf32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

// A sum of bytes in a byte.
// expected-error @+1 {{a reduction sums in 'i8' but must do so in f32 or i32}}
module {
  func.func private @kernel(%x: tensor<6x37xi8>) -> tensor<6xi8> {
    %init = arith.constant 0 : i8
    %e = tensor.empty() : tensor<6xi8>
    %f = linalg.fill ins(%init : i8) outs(%e : tensor<6xi8>) -> tensor<6xi8>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x37xi8>) outs(%f : tensor<6xi8>) {
    ^bb0(%p: i8, %s: i8):
      %u = arith.addi %s, %p : i8
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

// A maximum of unsigned words.
// expected-error @+1 {{arith.maxui takes 'i32' for numbers of another sign}}
module {
  func.func private @kernel(%x: tensor<6x37xi32>) -> tensor<6xi32> {
    %init = arith.constant 0 : i32
    %e = tensor.empty() : tensor<6xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<6xi32>) -> tensor<6xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x37xi32>) outs(%f : tensor<6xi32>) {
    ^bb0(%p: i32, %s: i32):
      %u = arith.maxui %s, %p : i32
      linalg.yield %u : i32
    } -> tensor<6xi32>
    return %r : tensor<6xi32>
  }
  func.func @main(%x: tensor<6x37xi32>) -> tensor<6xi32> {
    %0 = call @kernel(%x) : (tensor<6x37xi32>) -> tensor<6xi32>
    return %0 : tensor<6xi32>
  }
}

// -----

// A maximum less a zero point.
// expected-error @+1 {{a maximum is taken of elements less a zero point but must be of elements as they are}}
module {
  func.func private @kernel(%x: tensor<6x37xi8>) -> tensor<6xi32> {
    %init = arith.constant -2147483648 : i32
    %e = tensor.empty() : tensor<6xi32>
    %f = linalg.fill ins(%init : i32) outs(%e : tensor<6xi32>) -> tensor<6xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<6x37xi8>) outs(%f : tensor<6xi32>) {
    ^bb0(%p: i8, %s: i32):
      %a = arith.extsi %p : i8 to i32
      %zero = arith.constant 3 : i32
      %d = arith.subi %a, %zero : i32
      %u = arith.maxsi %s, %d : i32
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

// Rows in another order.
// expected-error @+1 {{a step must write its result in the order of its loops}}
module {
  func.func private @kernel(%x: tensor<6x6x37xf32>) -> tensor<6x6xf32> {
    %init = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<6x6xf32>
    %f = linalg.fill ins(%init : f32) outs(%e : tensor<6x6xf32>) -> tensor<6x6xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(a, m, k) -> (a, m, k)>, affine_map<(a, m, k) -> (m, a)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<6x6x37xf32>) outs(%f : tensor<6x6xf32>) {
    ^bb0(%p: f32, %s: f32):
      %u = arith.addf %s, %p : f32
      linalg.yield %u : f32
    } -> tensor<6x6xf32>
    return %r : tensor<6x6xf32>
  }
  func.func @main(%x: tensor<6x6x37xf32>) -> tensor<6x6xf32> {
    %0 = call @kernel(%x) : (tensor<6x6x37xf32>) -> tensor<6x6xf32>
    return %0 : tensor<6x6xf32>
  }
}

// -----

// A step that transposes its result.
// expected-error @+1 {{a step must write its result in the order of its loops}}
module {
  func.func private @kernel(%x: tensor<6x6xf32>) -> tensor<6x6xf32> {
    %r_e = tensor.empty() : tensor<6x6xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (k, m)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x6xf32>) outs(%r_e : tensor<6x6xf32>) {
    ^bb0(%p: f32, %s: f32):
      %u = arith.negf %p : f32
      linalg.yield %u : f32
    } -> tensor<6x6xf32>
    return %r : tensor<6x6xf32>
  }
  func.func @main(%x: tensor<6x6xf32>) -> tensor<6x6xf32> {
    %0 = call @kernel(%x) : (tensor<6x6xf32>) -> tensor<6x6xf32>
    return %0 : tensor<6x6xf32>
  }
}

// -----

// A step that transposes what an earlier one made.
// expected-error @+1 {{a step must read what an earlier one made in the order of its loops}}
module {
  func.func private @kernel(%x: tensor<6x6xf32>) -> tensor<6x6xf32> {
    %y_e = tensor.empty() : tensor<6x6xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m, k)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x6xf32>) outs(%y_e : tensor<6x6xf32>) {
    ^bb0(%p: f32, %s: f32):
      %u = arith.negf %p : f32
      linalg.yield %u : f32
    } -> tensor<6x6xf32>
    %r_e = tensor.empty() : tensor<6x6xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (k, m)>, affine_map<(m, k) -> (m, k)>],
      iterator_types = ["parallel", "parallel"]} ins(%y : tensor<6x6xf32>) outs(%r_e : tensor<6x6xf32>) {
    ^bb0(%p: f32, %s: f32):
      %u = math.absf %p : f32
      linalg.yield %u : f32
    } -> tensor<6x6xf32>
    return %r : tensor<6x6xf32>
  }
  func.func @main(%x: tensor<6x6xf32>) -> tensor<6x6xf32> {
    %0 = call @kernel(%x) : (tensor<6x6xf32>) -> tensor<6x6xf32>
    return %0 : tensor<6x6xf32>
  }
}

// -----

// A value is rounded and goes on: the engine rounds where it writes.
// expected-error @+1 {{k: a step has no form on the vector engine}}
module {
  func.func private @k(%x: tensor<6x6xf32>) -> tensor<6x6xf32> {
    %e = tensor.empty() : tensor<6x6xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m, k)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x6xf32>) outs(%e : tensor<6x6xf32>) {
    ^bb0(%p: f32, %s: f32):
      %u = arith.truncf %p : f32 to bf16
      %v = arith.extf %u : bf16 to f32
      %w = arith.subf %p, %v : f32
      linalg.yield %w : f32
    } -> tensor<6x6xf32>
    return %r : tensor<6x6xf32>
  }
  func.func @main(%x: tensor<6x6xf32>) -> tensor<6x6xf32> {
    %0 = call @k(%x) : (tensor<6x6xf32>) -> tensor<6x6xf32>
    return %0 : tensor<6x6xf32>
  }
}

// -----

// Sums of rows, transposed as they are narrowed.
// expected-error @+1 {{steps of one kernel must share their iteration space}}
module {
  func.func private @kernel(%x: tensor<6x6x37xf32>) -> tensor<6x6xbf16> {
    %init = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<6x6xf32>
    %f = linalg.fill ins(%init : f32) outs(%e : tensor<6x6xf32>) -> tensor<6x6xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(a, m, k) -> (a, m, k)>, affine_map<(a, m, k) -> (a, m)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<6x6x37xf32>) outs(%f : tensor<6x6xf32>) {
    ^bb0(%p: f32, %s: f32):
      %u = arith.addf %s, %p : f32
      linalg.yield %u : f32
    } -> tensor<6x6xf32>
    %r_e = tensor.empty() : tensor<6x6xbf16>
    %r = linalg.generic {indexing_maps = [affine_map<(m, k) -> (k, m)>, affine_map<(m, k) -> (m, k)>],
      iterator_types = ["parallel", "parallel"]} ins(%y : tensor<6x6xf32>) outs(%r_e : tensor<6x6xbf16>) {
    ^bb0(%p: f32, %s: bf16):
      %u = arith.truncf %p : f32 to bf16
      linalg.yield %u : bf16
    } -> tensor<6x6xbf16>
    return %r : tensor<6x6xbf16>
  }
  func.func @main(%x: tensor<6x6x37xf32>) -> tensor<6x6xbf16> {
    %0 = call @kernel(%x) : (tensor<6x6x37xf32>) -> tensor<6x6xbf16>
    return %0 : tensor<6x6xbf16>
  }
}

// -----

// The largest of unsigned bytes, read as a signed one.
// expected-error @+1 {{takes the maximum of bytes for bytes of another sign}}
module {
  func.func private @kernel(%x: tensor<1x6x7x9xi8>) -> tensor<1x4x5x9xi32> {
    %init = arith.constant 0 : i8
    %e = tensor.empty() : tensor<1x4x5x9xi8>
    %f = linalg.fill ins(%init : i8) outs(%e : tensor<1x4x5x9xi8>) -> tensor<1x4x5x9xi8>
    %taps = tensor.empty() : tensor<3x3xi8>
    %y = linalg.generic {indexing_maps = [affine_map<(n, h, w, c, y, x) -> (n, h + y, w + x, c)>, affine_map<(n, h, w, c, y, x) -> (y, x)>, affine_map<(n, h, w, c, y, x) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%x, %taps : tensor<1x6x7x9xi8>, tensor<3x3xi8>) outs(%f : tensor<1x4x5x9xi8>) {
    ^bb0(%p: i8, %q: i8, %s: i8):
      %u = arith.maxui %s, %p : i8
      linalg.yield %u : i8
    } -> tensor<1x4x5x9xi8>
    %r_e = tensor.empty() : tensor<1x4x5x9xi32>
    %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y : tensor<1x4x5x9xi8>) outs(%r_e : tensor<1x4x5x9xi32>) {
    ^bb0(%p: i8, %s: i32):
      %u = arith.extsi %p : i8 to i32
      linalg.yield %u : i32
    } -> tensor<1x4x5x9xi32>
    return %r : tensor<1x4x5x9xi32>
  }
  func.func @main(%x: tensor<1x6x7x9xi8>) -> tensor<1x4x5x9xi32> {
    %0 = call @kernel(%x) : (tensor<1x6x7x9xi8>) -> tensor<1x4x5x9xi32>
    return %0 : tensor<1x4x5x9xi32>
  }
}
