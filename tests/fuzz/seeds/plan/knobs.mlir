plan.network attributes {schedule = "double_buffer"} {
  plan.kernel "gemm" {tile = [16, 8, 1, 1], tile_k = 16, loop_order = "positions_outer", depth = 2, overlap = true, on_chip = false, engine = "tensor"}
}
