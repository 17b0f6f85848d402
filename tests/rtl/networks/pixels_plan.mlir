// The tensor between the two stays on chip, without gaps between its pixels.
plan.network attributes {schedule = "pipelined"} {
  plan.kernel "*" {pixel_packing = true}
  plan.kernel "first" {on_chip = true}
}
