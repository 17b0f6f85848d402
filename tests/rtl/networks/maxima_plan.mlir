// Two strips of columns, and row tiles of two rows.
plan.network attributes {schedule = "pipelined"} {
  plan.kernel "conv" {tile = [48, 6, 2, 1], max_line_buffer = true, on_chip = true, row_tile = 2}
}
