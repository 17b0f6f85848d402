// A padded int8 convolution with requantisation: one load with its border filled, weights and parameters laid out in the order of
// use, a hardware loop over taps, one vector instruction, one store.
// RUN: tilewright-opt %s --accel-emit-tiles="machine=gemmini_16x16_int8 schedule=serial" | FileCheck %s --check-prefix=TILES
// RUN: tilewright-opt %s --accel-emit-tiles="machine=gemmini_16x16_int8" --accel-synchronize --accel-verify-schedule \
// RUN:   | FileCheck %s --check-prefix=SYNC
// RUN: tilewright-opt %s --accel-emit-tiles="machine=gemmini_16x16_int8 schedule=serial" --accel-synchronize --accel-verify-schedule \
// RUN:   | FileCheck %s --check-prefix=SERIAL

// TILES-LABEL: func.func @program
// TILES-NOT: wait=
// The input box: 16 channels, 10 x 10 with a border of one, filled with the zero point -3.
// TILES: isa.load({{.*}}counts=[16,10,10,1,1]{{.*}}low=[0,1,1{{.*}}high=[0,1,1{{.*}}fill=0xfd
// 9 taps of one 16 x 16 tile: the first preload and the last tensor instruction stand outside the loop.
// TILES: isa.preload
// TILES: isa.loop(count=8
// TILES-NEXT: isa.tensor({{.*}}zero_point=-3
// TILES-NEXT: isa.preload
// TILES-NEXT: isa.tensor({{.*}}accumulate=1
// bias, to float, scale, round and add the zero point; saturation does the clamp.
// TILES: isa.vector({{.*}}num_stages=4 stage=[iadd:p0,i2f:none,fmul:p1,quantize:imm0]
// TILES-NEXT: isa.store
// TILES-NEXT: isa.halt

// SYNC-LABEL: func.func @program
// SYNC: isa.loop(count=9
// SYNC-NEXT: isa.preload({{.*}}wait=
// SYNC-NEXT: isa.tensor({{.*}}wait={{.*}}post=
// SYNC: isa.vector({{.*}}wait={{.*}}post=
// SYNC: isa.store({{.*}}wait=

// In a serial loop every tensor instruction posts and every preload waits, in all iterations.
// SERIAL: isa.loop(count=8
// SERIAL-NEXT: isa.tensor({{.*}}post=[2:1]
// SERIAL-NEXT: isa.preload({{.*}}wait=[2:1]
#in = affine_map<(n,h,w,o,y,x,c) -> (n,h+y,w+x,c)>
#wt = affine_map<(n,h,w,o,y,x,c) -> (y,x,c,o)>
#ot = affine_map<(n,h,w,o,y,x,c) -> (n,h,w,o)>
#id = affine_map<(n,h,w,o) -> (n,h,w,o)>
#ch = affine_map<(n,h,w,o) -> (o)>
func.func private @conv(%x: tensor<1x8x8x16xi8>) -> tensor<1x8x8x16xi8> {
  %w = arith.constant dense<3> : tensor<3x3x16x16xi8>
  %bias = arith.constant dense<7> : tensor<16xi32>
  %m = arith.constant dense<0.01> : tensor<16xf32>
  %zp = arith.constant -3 : i8
  %p = tensor.pad %x low[0,1,1,0] high[0,1,1,0] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zp : i8
  } : tensor<1x8x8x16xi8> to tensor<1x10x10x16xi8>
  %c0 = arith.constant 0 : i32
  %z = arith.constant -3 : i32
  %e = tensor.empty() : tensor<1x8x8x16xi32>
  %f = linalg.fill ins(%c0 : i32) outs(%e : tensor<1x8x8x16xi32>) -> tensor<1x8x8x16xi32>
  %acc = linalg.generic {indexing_maps = [#in, #wt, #ot], iterator_types = ["parallel","parallel","parallel","parallel","reduction","reduction","reduction"]}
    ins(%p, %w : tensor<1x10x10x16xi8>, tensor<3x3x16x16xi8>) outs(%f : tensor<1x8x8x16xi32>) {
  ^bb0(%a: i8, %b: i8, %c: i32):
    %a32 = arith.extsi %a : i8 to i32
    %az = arith.subi %a32, %z : i32
    %b32 = arith.extsi %b : i8 to i32
    %mu = arith.muli %az, %b32 : i32
    %s = arith.addi %c, %mu : i32
    linalg.yield %s : i32
  } -> tensor<1x8x8x16xi32>
  %eo = tensor.empty() : tensor<1x8x8x16xi8>
  %y = linalg.generic {indexing_maps = [#id, #ch, #ch, #id], iterator_types = ["parallel","parallel","parallel","parallel"]}
    ins(%acc, %bias, %m : tensor<1x8x8x16xi32>, tensor<16xi32>, tensor<16xf32>) outs(%eo : tensor<1x8x8x16xi8>) {
  ^bb0(%a: i32, %b: i32, %c: f32, %o: i8):
    %lo = arith.constant -125.0 : f32
    %hi = arith.constant 130.0 : f32
    %1 = arith.addi %a, %b : i32
    %2 = arith.sitofp %1 : i32 to f32
    %3 = arith.mulf %2, %c : f32
    %4 = math.roundeven %3 : f32
    %5 = arith.maximumf %4, %lo : f32
    %6 = arith.minimumf %5, %hi : f32
    %7 = arith.fptosi %6 : f32 to i32
    %8 = arith.addi %7, %z : i32
    %9 = arith.trunci %8 : i32 to i8
    linalg.yield %9 : i8
  } -> tensor<1x8x8x16xi8>
  return %y : tensor<1x8x8x16xi8>
}
func.func @main(%x: tensor<1x8x8x16xi8>) -> tensor<1x8x8x16xi8> {
  %y = call @conv(%x) : (tensor<1x8x8x16xi8>) -> tensor<1x8x8x16xi8>
  return %y : tensor<1x8x8x16xi8>
}
