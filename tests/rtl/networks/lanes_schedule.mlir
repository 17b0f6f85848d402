// All three have two outputs in a vector; what goes from one to the next stays on chip, without gaps between its pixels.
module attributes {transform.with_named_sequence, tilewright.base = "pipelined"} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    %all = transform.tilewright.match_node "*"
    transform.tilewright.tile %all {packed = true}
    %first = transform.tilewright.match_node "first"
    transform.tilewright.keep %first {on_chip = true}
    %second = transform.tilewright.match_node "second"
    transform.tilewright.keep %second {on_chip = true}
    transform.yield
  }
}
