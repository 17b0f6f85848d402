// RUN: tilewright-opt %s | tilewright-opt | FileCheck %s

// A plan file is one op: knobs of the network, and of kernels by their names or by patterns. It comes back as it is.

// CHECK: plan.network attributes {bus = "alternating", fusion = "transfers", planned_tiles = true, priority = "alap", schedule = "pipelined"} {
plan.network attributes {schedule = "pipelined", priority = "alap", bus = "alternating", fusion = "transfers", planned_tiles = true} {
  // Sizes and choices; 0 leaves a size to the compiler.
  // CHECK-NEXT: plan.kernel "conv" {loop_order = "k_outer", stationary = "none", tile = [16, 0, 2, 1], tile_k = 64 : i64}
  plan.kernel "conv" {tile = [16, 0, 2, 1], tile_k = 64, loop_order = "k_outer", stationary = "none"}
  // Flags and counts.
  // CHECK-NEXT: plan.kernel "*wise" {depth = 3 : i64, on_chip = true, row_tile = 2 : i64, serpentine = false}
  plan.kernel "*wise" {depth = 3, serpentine = false, on_chip = true, row_tile = 2}
  // Ranges and splits.
  // CHECK-NEXT: plan.kernel "gemm" {banks = [4, 6], first_split = [1, 128], last_split = [3, 17]}
  plan.kernel "gemm" {first_split = [1, 128], last_split = [3, 17], banks = [4, 6]}
  // A number that may be 0.
  // CHECK-NEXT: plan.kernel "window" {array_channels = 0 : i64, engine = "vector"}
  plan.kernel "window" {engine = "vector", array_channels = 0}
  // A name with a quote.
  // CHECK-NEXT: plan.kernel "a\22b" {depth = 1 : i64}
  plan.kernel "a\"b" {depth = 1}
}

// Nothing is said: all is the compiler's choice.
// CHECK: plan.network {
// CHECK-NEXT: }
plan.network {
}

// Schedules that run one kernel after the other have no knobs of the network.
// CHECK: plan.network attributes {schedule = "serial"} {
plan.network attributes {schedule = "serial"} {
  // CHECK-NEXT: plan.kernel "conv" {tile = [16, 8, 2, 1]}
  plan.kernel "conv" {tile = [16, 8, 2, 1]}
}
