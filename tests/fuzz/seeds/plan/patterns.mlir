plan.network attributes {schedule = "pipelined", priority = "alap", bus = "alternating", weight_loader = "first", weight_prefetch = "early", result_places = "reused", residency = "worthwhile", fusion = "transfers", serpentine_contractions = true, planned_tiles = true} {
  plan.kernel "*" {depth = 3, stationary = "double", single_accumulator = true, drain_by_block = true}
  plan.kernel "g[a-f]mm" {tile = [0, 8, 0, 0], banks = [1, 3], serpentine = true, bank_exclusive = true}
  plan.kernel "ge?m" {depth = 2, first_split = [1, 8], last_split = [2, 4], wide_start = true, small_first_tile = true, small_last_tile = true, single_loader = false}
}
