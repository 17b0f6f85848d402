module attributes {transform.with_named_sequence, tilewright.base = "pipelined"} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    %all = transform.tilewright.match_node "*"
    transform.tilewright.tile %all {packed = true}
    transform.yield
  }
}
