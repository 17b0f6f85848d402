module attributes {transform.with_named_sequence, tilewright.base = "pipelined"} {
  transform.named_sequence @twice(%kernel: !transform.any_op {transform.readonly}) {
    transform.tilewright.buffers %kernel {depth = 2}
    transform.yield
  }
  transform.named_sequence @is_kernel(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["func.func"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @__transform_main(%model: !transform.any_op) {
    %all = transform.tilewright.match_node "g*"
    %some = transform.structured.match ops{["func.func"]} attributes{tilewright.target = "accel"} in %model
      : (!transform.any_op) -> !transform.any_op
    %both = transform.merge_handles %all, %some : !transform.any_op
    transform.foreach %both : !transform.any_op {
    ^bb0(%kernel: !transform.any_op):
      transform.include @twice failures(propagate) (%kernel) : (!transform.any_op) -> ()
    }
    transform.foreach_match in %model @is_kernel -> @twice : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
