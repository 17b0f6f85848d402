// Two strips of columns, and bands of two rows.
module attributes {transform.with_named_sequence, tilewright.base = "pipelined"} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    %conv = transform.tilewright.match_node "conv"
    transform.tilewright.tile %conv {sizes = [48, 6, 2, 1]}
    transform.tilewright.buffers %conv {carries_maxima = true}
    transform.tilewright.keep %conv {on_chip = true, bands = 2}
    transform.yield
  }
}
