// RUN: tilewright-opt %s --transform-interpreter | FileCheck %s

// Directives leave their keys on the kernel, with the place they come from; what is said last counts.
module attributes {transform.with_named_sequence} {
  // CHECK-LABEL: func.func private @conv
  // CHECK-SAME: tilewright.schedule = {assign_at = #loc{{[0-9]*}}, buffers_at = #loc{{[0-9]*}}, depth = 3 : i64,
  // CHECK-SAME: engine = "tensor", order = "channels_outer", sizes = [16, 8, 2, 1], tile_at = #loc
  func.func private @conv() attributes {tilewright.nodes = ["Conv_0", "Relu_1"], tilewright.target = "accel"}

  // CHECK-LABEL: func.func private @pool
  // CHECK-SAME: tilewright.schedule = {buffers_at = #loc{{[0-9]*}}, depth = 2 : i64, keep_at = #loc{{[0-9]*}}, on_chip = false}
  func.func private @pool() attributes {tilewright.nodes = ["Pool_2"], tilewright.target = "accel"}

  // CHECK-LABEL: func.func private @other
  // CHECK-NOT: tilewright.schedule
  func.func private @other() attributes {tilewright.nodes = ["Conv_3"], tilewright.target = "accel"}

  transform.named_sequence @twice(%kernel: !transform.any_op {transform.readonly}) {
    transform.tilewright.buffers %kernel {depth = 2}
    transform.yield
  }

  // CHECK-LABEL: transform.named_sequence @__transform_main
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    // By a node, by a pattern, by the name of the kernel, by its attributes.
    %conv = transform.tilewright.match_node "Relu_1"
    %named = transform.tilewright.match_node "Conv_[0-2]"
    %pool = transform.tilewright.match_node "pool"
    %accel = transform.structured.match ops{["func.func"]} attributes{tilewright.nodes = ["Pool_2"]} in %model
      : (!transform.any_op) -> !transform.any_op
    transform.include @twice failures(propagate) (%pool) : (!transform.any_op) -> ()
    transform.include @twice failures(propagate) (%conv) : (!transform.any_op) -> ()
    transform.foreach %accel : !transform.any_op {
    ^bb0(%kernel: !transform.any_op):
      transform.tilewright.keep %kernel {on_chip = false}
    }
    transform.tilewright.tile %named {sizes = [16, 8, 2, 1], order = "channels_outer"}
    transform.tilewright.buffers %named {depth = 3}
    transform.tilewright.assign %conv {engine = "tensor"}
    transform.yield
  }
}
