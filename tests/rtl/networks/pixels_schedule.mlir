// The tensor between the two stays on chip, without gaps between its pixels.
module attributes {transform.with_named_sequence, tilewright.base = "pipelined"} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    %all = transform.tilewright.match_node "*"
    transform.tilewright.tile %all {packed = true}
    %first = transform.tilewright.match_node "first"
    transform.tilewright.keep %first {on_chip = true}
    transform.yield
  }
}
