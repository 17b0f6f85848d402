//===- Timing.td - Every latency constant of the machine ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rule 1: what cycle t sees was registered at t-1, so every path between engines costs at least one cycle.
// An instruction that starts at s is issue-free at s + occupancy and retires at s + occupancy + drain.
//===----------------------------------------------------------------------===//

include "IsaBase.td"

def : TimingConstant<"start_cycles", 2, "write of the start register to the first fetch request">;
def : TimingConstant<"done_cycles", 2, "last retirement and empty write buffer to done visible">;
def : TimingConstant<"fetch_cycles", 1, "arrival of a program burst to its words being takeable by the sequencer">;
def : TimingConstant<"dispatch_cycles", 1, "last word of an instruction taken to the instruction visible in its engine's queue">;
def : TimingConstant<"queue_free_cycles", 1, "start of an instruction to its queue slot being free for dispatch">;
def : TimingConstant<"semaphore_cycles", 1, "retirement to its posts being visible to waits">;
def : TimingConstant<"bank_release_cycles", 1, "retirement to its banks being free for other engines">;
def : TimingConstant<"shadow_free_cycles", 1, "start of a swapping tensor instruction to the shadow registers being free">;
def : TimingConstant<"shadow_ready_cycles", 1, "retirement of a preload to its tile being swappable">;
def : TimingConstant<"preload_drain_cycles", 2, "scratchpad read and register write of the last weight row">;
def : TimingConstant<"tensor_read_cycles", 2, "scratchpad read and operand registers">;
def : TimingConstant<"tensor_multiply_int_cycles", 1, "int8 product">;
def : TimingConstant<"tensor_multiply_float_cycles", 3, "bf16 or fp32 product">;
def : TimingConstant<"tensor_add_int_cycles", 1, "one level of the int32 adder tree">;
def : TimingConstant<"tensor_add_float_cycles", 3, "one level of the fp32 adder tree">;
def : TimingConstant<"acc_rmw_int_cycles", 2, "accumulator read, add, write; also the least distance of two accumulating instructions">;
def : TimingConstant<"acc_rmw_float_cycles", 4, "the same for fp32 accumulators">;
def : TimingConstant<"vector_base_cycles", 4, "read, convert, convert, write">;
def : TimingConstant<"vector_stage_cycles", 2, "one stage of the chain, the window, and one level of the lane tree">;
def : TimingConstant<"dma_setup_cycles", 2, "start of a load or store to its first burst request or gather">;
def : TimingConstant<"dma_drain_cycles", 2, "last scratchpad segment written (load) or last burst accepted (store) to retirement">;
def : TimingConstant<"dma_boxes", 16, "boxes (not cycles) that one load or store engine may have in flight">;

def : TimingFormula<"tensor_drain_int", ["rows"],
  "tensor_read_cycles + tensor_multiply_int_cycles + clog2(rows) * tensor_add_int_cycles + acc_rmw_int_cycles",
  "drain of a tensor instruction on an int8 array">;
def : TimingFormula<"tensor_drain_float", ["rows"],
  "tensor_read_cycles + tensor_multiply_float_cycles + clog2(rows) * tensor_add_float_cycles + acc_rmw_float_cycles",
  "drain of a tensor instruction on a bf16 or fp32 array">;
def : TimingFormula<"vector_drain", ["vector_stages", "lanes"],
  "vector_base_cycles + (vector_stages + 1 + clog2(lanes)) * vector_stage_cycles",
  "drain of every vector instruction: window, lane tree and all stages of the machine, used or not">;
