// A convolution that converts its input, once the load engine has packed its taps: what it does, and what it refuses. Zero, which the load
// engine fills padding with, must become what the convolution is padded with.
// RUN: sed -e 's/@PAD@/0.0/; s/@CHANNELS@/3/g; s/@BODY@/arith.addf %a, %zero/' %s > %t
// RUN: tilewright-opt %t --accel-emit-tiles="machine=gemmini_16x16_bf16 schedule=serial" | FileCheck %s
// RUN: sed -e 's/@PAD@/1.0/; s/@CHANNELS@/3/g; s/@BODY@/arith.addf %a, %one/' %s > %t
// RUN: tilewright-opt %t --accel-emit-tiles="machine=gemmini_16x16_bf16 schedule=serial" | FileCheck %s
// RUN: sed -e 's/@PAD@/1.0/; s/@CHANNELS@/3/g; s/@BODY@/arith.addf %a, %zero/' %s > %t
// RUN: not tilewright-opt %t --accel-emit-tiles="machine=gemmini_16x16_bf16 schedule=serial" 2>&1 | FileCheck %s --check-prefix=PADDING
// RUN: sed -e 's/@PAD@/0.0/; s/@CHANNELS@/32/g; s/@BODY@/arith.addf %a, %zero/' %s > %t
// RUN: not tilewright-opt %t --accel-emit-tiles="machine=gemmini_16x16_bf16 schedule=serial" 2>&1 | FileCheck %s --check-prefix=TAPS
// RUN: sed -e 's/@PAD@/0.0/; s/@CHANNELS@/3/g; s/@BODY@/math.tan %a/' %s > %t
// RUN: not tilewright-opt %t --accel-emit-tiles="machine=gemmini_16x16_bf16 schedule=serial" 2>&1 | FileCheck %s --check-prefix=FORM

// Taps of floats, converted to one run of bf16, and then the passes.
// CHECK: isa.load({{.*}}element_log2=2
// CHECK: isa.vector(a_type=f32{{.*}}d_type=bf16{{.*}}stage=[fadd:imm0]
// CHECK: isa.tensor
// PADDING: cannot be mapped to the accelerator: pads with something else than what the conversion before it makes of zero
// TAPS: stem: the conversion of its input needs taps that the load engine packs
// FORM: stem: the conversion of its input has no form on the vector engine
#in = affine_map<(n,h,w,o,y,x,c) -> (n,h*2+y,w*2+x,c)>
#wt = affine_map<(n,h,w,o,y,x,c) -> (y,x,c,o)>
#ot = affine_map<(n,h,w,o,y,x,c) -> (n,h,w,o)>
#id = affine_map<(n,h,w,c) -> (n,h,w,c)>
func.func private @stem(%x: tensor<1x9x9x@CHANNELS@xf32>) -> tensor<1x5x5x16xf32> {
  %w = arith.constant dense<1.5> : tensor<3x3x@CHANNELS@x16xbf16>
  %pad = arith.constant @PAD@ : bf16
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<1x9x9x@CHANNELS@xbf16>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel","parallel","parallel","parallel"]}
    ins(%x : tensor<1x9x9x@CHANNELS@xf32>) outs(%e : tensor<1x9x9x@CHANNELS@xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %r = @BODY@ : f32
    %n = arith.truncf %r : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<1x9x9x@CHANNELS@xbf16>
  %p = tensor.pad %b low[0,1,1,0] high[0,1,1,0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %pad : bf16
  } : tensor<1x9x9x@CHANNELS@xbf16> to tensor<1x11x11x@CHANNELS@xbf16>
  %s = tensor.empty() : tensor<1x5x5x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<1x5x5x16xf32>) -> tensor<1x5x5x16xf32>
  %y = linalg.generic {indexing_maps = [#in, #wt, #ot], iterator_types = ["parallel","parallel","parallel","parallel","reduction","reduction","reduction"]}
    ins(%p, %w : tensor<1x11x11x@CHANNELS@xbf16>, tensor<3x3x@CHANNELS@x16xbf16>) outs(%f : tensor<1x5x5x16xf32>) {
  ^bb0(%a: bf16, %c: bf16, %d: f32):
    %1 = arith.extf %a : bf16 to f32
    %2 = arith.extf %c : bf16 to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %d, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<1x5x5x16xf32>
  return %y : tensor<1x5x5x16xf32>
}
func.func @main(%x: tensor<1x9x9x@CHANNELS@xf32>) -> tensor<1x5x5x16xf32> {
  %y = call @stem(%x) : (tensor<1x9x9x@CHANNELS@xf32>) -> tensor<1x5x5x16xf32>
  return %y : tensor<1x5x5x16xf32>
}
