// All three have two outputs in a vector; what goes from one to the next stays on chip, without gaps between its pixels.
plan.network attributes {schedule = "pipelined"} {
  plan.kernel "*" {pixel_packing = true}
  plan.kernel "first" {on_chip = true}
  plan.kernel "second" {on_chip = true}
}
