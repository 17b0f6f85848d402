module attributes {transform.with_named_sequence, tilewright.base = "double_buffer"} {
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    %k = transform.tilewright.match_node "gemm"
    transform.tilewright.tile %k {sizes = [16, 8, 16], order = "channels_outer"}
    transform.tilewright.buffers %k {depth = 2, overlap = true}
    transform.tilewright.keep %k {on_chip = false}
    transform.yield
  }
}
