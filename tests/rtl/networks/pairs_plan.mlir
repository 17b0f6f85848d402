plan.network attributes {schedule = "pipelined"} {
  plan.kernel "*" {pixel_packing = true}
}
