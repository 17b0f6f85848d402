// RUN: tilewright-opt %s -split-input-file -verify-diagnostics --transform-interpreter

module attributes {transform.with_named_sequence} {
  func.func private @conv() attributes {tilewright.nodes = ["Conv_0"], tilewright.target = "accel"}
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{no kernel is named 'Conv_1' or has a node of that name; the nearest is 'Conv_0'}}
    %k = transform.tilewright.match_node "Conv_1"
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func private @conv() attributes {tilewright.nodes = ["Conv_0"], tilewright.target = "accel"}
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{'Conv_[': invalid glob pattern, unmatched '['}}
    %k = transform.tilewright.match_node "Conv_["
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  func.func private @conv() attributes {tilewright.nodes = ["Conv_0"], tilewright.target = "cpu", tilewright.reason = "no Loop"}
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    %k = transform.tilewright.match_node "Conv_0"
    // expected-error @+1 {{kernel 'conv' is for target "cpu": no Loop}}
    transform.tilewright.buffers %k {depth = 2}
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{applies to kernel functions, as match_node finds them, not to 'builtin.module'}}
    transform.tilewright.keep %model {on_chip = true}
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{'sizes' is [16, 8] but must be four sizes, [channels, x, y, n], 0 where the compiler chooses}}
    transform.tilewright.tile %model {sizes = [16, 8]}
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{'sizes' is [16, -1, 1, 1] but must be four sizes}}
    transform.tilewright.tile %model {sizes = [16, -1, 1, 1]}
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{'order' is "rows_outer" but must be positions_outer, channels_outer, inputs_outer or inputs_channels_outer}}
    transform.tilewright.tile %model {order = "rows_outer"}
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{has no 'size', only first, ic, last, order, packed or sizes}}
    transform.tilewright.tile %model {size = [16, 8, 1, 1]}
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{'depth' is 0 but must be a positive number}}
    transform.tilewright.buffers %model {depth = 0}
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{'panel' is "three" but must be none, one, and_tile, two or all}}
    transform.tilewright.buffers %model {panel = "three"}
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{asks for nothing}}
    transform.tilewright.buffers %model
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{requires attribute 'on_chip'}}
    transform.tilewright.keep %model
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{'engine' is "gpu" but must be tensor or vector}}
    transform.tilewright.assign %model {engine = "gpu"}
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{'array_channels' is -8 but must be a number, 0 or more}}
    transform.tilewright.assign %model {engine = "vector", array_channels = -8}
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // expected-error @+1 {{'array_channels' is 8 but engine is tensor}}
    transform.tilewright.assign %model {engine = "tensor", array_channels = 8}
    transform.yield
  }
}
