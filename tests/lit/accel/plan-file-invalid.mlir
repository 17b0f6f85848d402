// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

plan.network {
  // expected-error @+1 {{'tile' is [16, 8] but must be four sizes, [channels, x, y, n], 0 where the compiler chooses}}
  plan.kernel "conv" {tile = [16, 8]}
}

// -----

plan.network {
  // expected-error @+1 {{'tile' is [16, -1, 1, 1] but must be four sizes}}
  plan.kernel "conv" {tile = [16, -1, 1, 1]}
}

// -----

plan.network {
  // expected-error @+1 {{'tile' is 16 but must be four sizes}}
  plan.kernel "conv" {tile = 16}
}

// -----

plan.network {
  // expected-error @+1 {{'tile_k' is 0 but must be a positive number}}
  plan.kernel "conv" {tile_k = 0}
}

// -----

plan.network {
  // expected-error @+1 {{'tile_k' is 16 but must be a positive number}}
  plan.kernel "conv" {tile_k = 16 : i8}
}

// -----

plan.network {
  // expected-error @+1 {{'depth' is 2.0}}
  plan.kernel "conv" {depth = 2.0}
}

// -----

plan.network {
  // expected-error @+1 {{'depth' is 2147483648 but must be a positive number}}
  plan.kernel "conv" {depth = 2147483648}
}

// -----

plan.network {
  // expected-error @+1 {{'loop_order' is "rows_outer" but must be positions_outer, channels_outer, k_outer or k_channels_outer}}
  plan.kernel "conv" {loop_order = "rows_outer"}
}

// -----

plan.network {
  // expected-error @+1 {{'loop_order' is 1 but must be positions_outer}}
  plan.kernel "conv" {loop_order = 1}
}

// -----

plan.network {
  // expected-error @+1 {{'stationary' is "three" but must be none, single, prefetch, double or resident}}
  plan.kernel "conv" {stationary = "three"}
}

// -----

plan.network {
  // expected-error @+1 {{'serpentine' is 1 but must be true or false}}
  plan.kernel "conv" {serpentine = 1}
}

// -----

plan.network {
  // expected-error @+1 {{'serpentine' is unit but must be true or false}}
  plan.kernel "conv" {serpentine}
}

// -----

plan.network {
  // expected-error @+1 {{'banks' is [3] but must be two numbers, [first, end), the first less than the end}}
  plan.kernel "conv" {banks = [3]}
}

// -----

plan.network {
  // expected-error @+1 {{'banks' is [3, 3] but must be two numbers}}
  plan.kernel "conv" {banks = [3, 3]}
}

// -----

plan.network {
  // expected-error @+1 {{'first_split' is [0, 8] but must be two positive numbers, [tiles, positions along x]}}
  plan.kernel "conv" {first_split = [0, 8]}
}

// -----

plan.network {
  // expected-error @+1 {{'array_channels' is -8 but must be a number, 0 or more}}
  plan.kernel "conv" {array_channels = -8}
}

// -----

plan.network {
  // expected-error @+1 {{'engine' is "gpu" but must be tensor or vector}}
  plan.kernel "conv" {engine = "gpu"}
}

// -----

plan.network {
  // expected-error @+1 {{unknown knob 'size', expected one of tile, tile_k, loop_order}}
  plan.kernel "conv" {size = [16, 8, 1, 1]}
}

// -----

plan.network {
  // expected-error @+1 {{unknown knob 'priority', expected one of tile}}
  plan.kernel "conv" {priority = "alap"}
}

// -----

plan.network {
  // expected-error @+1 {{sets no knob}}
  plan.kernel "conv"
}

// -----

plan.network {
  // expected-error @+1 {{'row_tile' is 2 but on_chip is not true}}
  plan.kernel "conv" {row_tile = 2}
}

// -----

plan.network {
  // expected-error @+1 {{'on_chip_from' is 8 but on_chip is not true}}
  plan.kernel "conv" {on_chip = false, on_chip_from = 8}
}

// -----

plan.network {
  // expected-error @+1 {{'on_chip_from' is 8 but there is a row_tile}}
  plan.kernel "conv" {on_chip = true, row_tile = 2, on_chip_from = 8}
}

// -----

plan.network {
  // expected-error @+1 {{'placed_first' is true but on_chip is not true}}
  plan.kernel "conv" {placed_first = true}
}

// -----

// expected-error @+1 {{'schedule' is "fast" but must be serial, double_buffer, pipelined or search}}
plan.network attributes {schedule = "fast"} {
}

// -----

// expected-error @+1 {{'schedule' is 1 but must be serial}}
plan.network attributes {schedule = 1} {
}

// -----

// expected-error @+1 {{'bus' is "both" but must be shared or alternating}}
plan.network attributes {bus = "both"} {
}

// -----

// expected-error @+1 {{'pack_windows' is "yes" but must be true or false}}
plan.network attributes {pack_windows = "yes"} {
}

// -----

// expected-error @+1 {{unknown knob 'depth', expected one of priority, bus}}
plan.network attributes {depth = 2} {
}

// -----

// expected-error @+1 {{'residency' is "all" but the schedule is double_buffer, and only pipelined and search have network knobs}}
plan.network attributes {schedule = "double_buffer", residency = "all"} {
}

// -----

// expected-error @+1 {{expects parent op 'plan.network'}}
plan.kernel "conv" {depth = 2}

// -----

plan.network {
  // expected-error @+1 {{a plan has plan.kernel ops and no others}}
  plan.network {
  }
}

// -----

// expected-error @+1 {{'order' is "shortest" but must be model or memory}}
plan.network attributes {order = "shortest"} {}

// -----

// expected-error @+1 {{'kernels_begin_at' is "relu" but must be a list of names of nodes}}
plan.network attributes {kernels_begin_at = "relu"} {}

// -----

// expected-error @+1 {{'kernels_begin_at' is ["relu", 1] but must be a list of names of nodes}}
plan.network attributes {kernels_begin_at = ["relu", 1 : i64]} {}
