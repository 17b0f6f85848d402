//===- Isa.td - The instruction set, the only place it is written ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// isa-tblgen turns these records into the C++ structures, encoder, decoder and
// assembler tables, the SystemVerilog package, the isa dialect and the manual.
// It refuses overlapping bits, gaps, duplicate names and duplicate opcodes.
//===----------------------------------------------------------------------===//
#ifndef ISA_ISA_TD
#define ISA_ISA_TD

include "IsaBase.td"

//===----------------------------------------------------------------------===//
// Limits and enumerations
//===----------------------------------------------------------------------===//

def IsaVersion       : Limit<"isa_version", 1, "version of encodings and meanings, stored in every program image">;
def WordBits         : Limit<"word_bits", 256, "width of one instruction word">;
def MaxLevels        : Limit<"max_levels", 6, "odometer levels of one instruction">;
def LevelBits        : Limit<"level_bits", 128, "bits of one odometer level; two levels share a word">;
def MaxWaits         : Limit<"max_waits", 3, "semaphores one instruction may wait for">;
def MaxPosts         : Limit<"max_posts", 3, "semaphores one instruction may post">;
def MaxLoopDepth     : Limit<"max_loop_depth", 4, "nested hardware loops">;
def MaxStages        : Limit<"max_stages", 12, "stages of a vector chain">;
def MaxImmediates    : Limit<"max_immediates", 8, "constants of a vector chain">;
def MaxMacTaps       : Limit<"max_mac_taps", 256, "taps of a window with window_op mac: weights the vector engine holds">;
def MaxElementLog2   : Limit<"max_element_log2", 2, "largest element of a load or store, log2 of bytes">;
def MaxParams        : Limit<"max_params", 4, "parameter vectors per channel block">;

def Memory : Enumeration<"memory", "where an operand lies", [
  Case<"scratchpad0", 0, "the unified scratchpad, or the activation scratchpad">,
  Case<"scratchpad1", 1, "the weight scratchpad, where the machine has one">,
  Case<"accumulator", 7, "the accumulator; byte address = row * cols * 4">
]>;

def Predicate : Enumeration<"predicate", "when an instruction in a loop runs; otherwise the sequencer drops it", [
  Case<"always", 0, "every time">,
  Case<"first", 1, "while every level in predicate_mask is in its first iteration">,
  Case<"not_first", 2, "unless every level in predicate_mask is in its first iteration">,
  Case<"last", 3, "while every level in predicate_mask is in its last iteration">,
  Case<"not_last", 4, "unless every level in predicate_mask is in its last iteration">
]>;

def VectorType : Enumeration<"vector_type", "element types the vector engine reads and writes", [
  Case<"i8", 0, "signed byte; read as int32, written with saturation">,
  Case<"u8", 1, "unsigned byte; read as int32, written with saturation">,
  Case<"i32", 2, "int32">,
  Case<"f32", 3, "binary32">,
  Case<"bf16", 4, "bfloat16; read as fp32 exactly, written with round to nearest even">
]>;

def WindowOp : Enumeration<"window_op", "how the taps of a window become one vector, in tap order (vertical outer, horizontal inner)", [
  Case<"none", 0, "the single tap itself">,
  Case<"max", 1, "maximum; fp32: NaN wins, +0 above -0">,
  Case<"sum", 2, "sum from the first tap on; int32 modulo 2^32, fp32 rounded after each addition">,
  Case<"mac", 3, "sum of A tap * B tap, from 0 on; fp32 rounds each product and each sum">,
  Case<"sum_squares", 4, "mac with the A tap itself for B: a row's squares are summed in one pass">
]>;

def Conversion : Enumeration<"conversion", "how source B reaches the chain", [
  Case<"none", 0, "integers minus b_zero_point as int32, bf16 and fp32 as fp32">,
  Case<"to_float", 1, "the same, integers then converted to fp32">,
  Case<"dequantize", 2, "integers minus b_zero_point, to fp32, times immediates[b_scale]">
]>;

// x is the value in the chain, y the stage's operand. i*: int32 modulo 2^32; f*: binary32, round to nearest even, subnormals kept,
// NaN results canonical (0x7fc00000). An integer stage after a float one (or the reverse) is an illegal instruction.
def StageOp : Enumeration<"stage_op", "one step of the vector chain", [
  Case<"nop", 0, "x">,
  Case<"iadd", 1, "x + y">, Case<"isub", 2, "x - y">, Case<"irsub", 3, "y - x">, Case<"imul", 4, "x * y">,
  Case<"imax", 5, "max(x, y)">, Case<"imin", 6, "min(x, y)">,
  Case<"idiv", 7, "x / y towards zero; x / 0 = 0; min / -1 = min">, Case<"iridiv", 8, "y / x, as idiv">,
  Case<"ishr", 9, "x >> (y & 31), arithmetic">, Case<"iand", 10, "x & y">, Case<"ior", 11, "x | y">, Case<"ixor", 12, "x ^ y">,
  Case<"fadd", 16, "x + y">, Case<"fsub", 17, "x - y">, Case<"frsub", 18, "y - x">, Case<"fmul", 19, "x * y">,
  Case<"fdiv", 20, "x / y">, Case<"frdiv", 21, "y / x">,
  Case<"fmax", 22, "maximum: NaN if either is NaN, +0 above -0">, Case<"fmin", 23, "minimum: NaN if either is NaN, -0 below +0">,
  Case<"ffma", 24, "x * immediates[j] + immediates[j+1] rounded once; the operand names immediate j">,
  Case<"ffma_b", 25, "B * immediates[j] + x rounded once; the operand names immediate j">,
  Case<"fabs", 26, "|x|">, Case<"fneg", 27, "-x">, Case<"ffloor", 28, "largest integer not above x">,
  Case<"fsqrt", 29, "square root">, Case<"frsqrt", 30, "1 / fsqrt(x), two roundings">,
  Case<"fexp", 32, "exp by table">, Case<"fsigmoid", 33, "logistic function by table">, Case<"ftanh", 34, "tanh by table">,
  Case<"ferf", 35, "erf by table">, Case<"flog", 36, "natural logarithm by table">,
  Case<"i2f", 40, "int32 to fp32, round to nearest even">,
  Case<"f2i", 41, "fp32 to int32, round to nearest even, saturating; NaN gives 0">,
  Case<"f2i_trunc", 42, "fp32 to int32 towards zero, saturating; NaN gives 0">,
  Case<"quantize", 43, "f2i(x) + immediates[j], saturating at int32; the operand names immediate j">,
  Case<"dequantize", 44, "i2f(x - immediates[j]) * immediates[j+1]; the operand names immediate j">,
  Case<"save", 45, "saved = x; x stays. Before any save, saved is the value that entered the chain, in its own domain">,
  Case<"load_b", 46, "x = B: replaces the chain's value and takes B's domain">,
  Case<"load_saved", 47, "x = saved, in the domain it was saved in">
]>;

def StageOperand : Enumeration<"stage_operand", "where y of a stage comes from", [
  Case<"none", 0, "the stage has no operand">,
  Case<"b", 1, "source B">, Case<"saved", 2, "the saved value">,
  Case<"p0", 8, "parameter 0">, Case<"p1", 9, "parameter 1">, Case<"p2", 10, "parameter 2">, Case<"p3", 11, "parameter 3">,
  Case<"imm0", 16, "immediate 0">, Case<"imm1", 17, "immediate 1">, Case<"imm2", 18, "immediate 2">,
  Case<"imm3", 19, "immediate 3">, Case<"imm4", 20, "immediate 4">, Case<"imm5", 21, "immediate 5">,
  Case<"imm6", 22, "immediate 6">, Case<"imm7", 23, "immediate 7">
]>;

//===----------------------------------------------------------------------===//
// Encodings shared by all instructions
//===----------------------------------------------------------------------===//

/// The low bits of the first word of every instruction.
def Header : BitLayout<"header", 140> {
  let fields = [
    Field<"opcode", 0, 6, 0, 1, "operation">,
    Field<"words", 6, 4, 0, 1, "length of the instruction in words, odometer words included">,
    Field<"unit", 10, 2, 0, 1, "which engine of its class executes it">,
    Field<"wait_semaphore", 12, 6, 0, 3, "semaphores taken at start">,
    Field<"wait_count", 30, 4, 0, 3, "how many posts each wait takes; 0 means no wait">,
    Field<"post_semaphore", 42, 6, 0, 3, "semaphores posted at retire">,
    Field<"post_count", 60, 4, 0, 3, "how many posts are made; 0 means no post">,
    BoundedField<"num_levels", 72, 3, 0, 1, "odometer levels that follow the operand words", MaxLevels>,
    Field<"wait_mask", 75, 6, 0, 1, "waits apply only while every level in this mask is in its first iteration">,
    Field<"post_mask", 81, 6, 0, 1, "posts are made only while every level in this mask is in its last iteration">,
    Field<"predicate_mask", 87, 6, 0, 1, "levels the predicate looks at">,
    EnumField<"predicate", 93, 3, 0, 1, "when it runs", Predicate>,
    Field<"edge_level", 96, 3, 0, 2, "odometer level whose last iteration changes an extent">,
    Field<"edge_index", 102, 3, 0, 2, "which element of counts changes">,
    Field<"edge_value", 108, 16, 0, 2, "the extent in that iteration; 0 means no edge">
  ];
  let groups = [
    Group<"wait", ["wait_semaphore", "wait_count"]>,
    Group<"post", ["post_semaphore", "post_count"]>,
    Group<"edge", ["edge_level", "edge_index", "edge_value"]>
  ];
}

/// One odometer level. Level 0 turns fastest. Levels lie two to a word after the operand words, level 0 in the low half of the first.
def Level : BitLayout<"level", 128> {
  let fields = [
    Field<"count", 0, 16, 0, 1, "iterations of this level, at least 1">,
    Field<"wrap", 16, 8, 0, 1, "addresses use (counter modulo wrap); 0 means the counter itself">,
    Field<"stride_a", 24, 32, 1, 1, "added to the first address (load, store: dram_address; vector: p_address) per iteration, bytes">,
    Field<"stride_b", 56, 24, 1, 1, "added to the second address (address; vector: a_address) per iteration, bytes">,
    Field<"stride_c", 80, 24, 1, 1, "added to the third address (tensor: acc_address, rows; vector: b_address, bytes) per iteration">,
    Field<"stride_d", 104, 24, 1, 1, "added to the fourth address (vector: d_address) per iteration, bytes">
  ];
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

def Halt : Instruction<"halt", 0, Sequencer, 1> {
  let summary = "end of the program";
  let description = [{
Must be the last instruction. The program is done when every engine has retired all it was given and every write has
left the write buffer.
  }];
  let fields = [
    Reserved<140, 116>
  ];
}

def Loop : Instruction<"loop", 1, Sequencer, 1> {
  let summary = "repeat the words that follow";
  let description = [{
The next body_words words run count times. A body that does not fit the loop buffer, ends inside an instruction or
nests deeper than max_loop_depth is an illegal instruction. When the outermost loop is entered, every odometer in its
body is reset.
  }];
  let fields = [
    Field<"count", 140, 20, 0, 1, "how often the body runs, at least 1">,
    Field<"body_words", 160, 16, 0, 1, "length of the body that follows, in words">,
    Reserved<176, 80>
  ];
}

def Load : Instruction<"load", 2, LoadEngine, 3> {
  let summary = "copy a box from DRAM to a scratchpad";
  let description = [{
For every index (i0..i4) of the box in order, i0 fastest: the scratchpad element at
address + i0 * element_bytes + sum over d >= 1 of i_d * strides[d-1] becomes the DRAM element at
dram_address + (broadcast ? 0 : i0 - low[0]) * element_bytes + sum over d >= 1 of (i_d - low[d]) * dram_strides[d-1]
if low[d] <= i_d < counts[d] - high[d] for every d, else fill.
Precondition: every scratchpad byte written lies in [address, address + span); low[d] + high[d] <= counts[d].
  }];
  let fields = [
    Field<"dram_address", 140, 40, 0, 1, "byte address of the first element that lies in DRAM">,
    EnumField<"memory", 180, 3, 0, 1, "scratchpad", Memory>,
    Field<"address", 183, 28, 0, 1, "byte address of the box in the scratchpad">,
    Field<"span", 211, 28, 0, 1, "bytes from address that the instruction may touch: decides banks and range check">,
    BoundedField<"element_log2", 239, 2, 0, 1, "log2 of the element size in bytes", MaxElementLog2>,
    Field<"counts", 241, 20, 0, 5, "extents of the box, innermost first; the innermost counts elements of one run">,
    Field<"dram_strides", 341, 32, 1, 4, "DRAM strides of dimensions 1 to 4, bytes">,
    Field<"strides", 469, 24, 1, 4, "scratchpad strides of dimensions 1 to 4, bytes">,
    Field<"low", 565, 12, 0, 5, "leading indices of each dimension that are filled, not read">,
    Field<"high", 625, 12, 0, 5, "trailing indices of each dimension that are filled, not read">,
    Field<"fill", 685, 32, 0, 1, "fill pattern, the low element_bytes are used">,
    Field<"broadcast", 717, 1, 0, 1, "the innermost dimension repeats one DRAM element">,
    Reserved<718, 50>
  ];
}

def Preload : Instruction<"preload", 3, PreloadEngine, 1> {
  let summary = "copy a weight tile to the array's shadow registers";
  let description = [{
shadow[k][n] = stored element (k, n) - zero_point for k < k_count and n < n_count, else 0. The element lies at
address + k * row_stride + n * element_bytes (transpose: address + n * row_stride + k * element_bytes).
Starts only when the shadow registers are free: the tensor instruction that takes the tile before it has started.
  }];
  let fields = [
    EnumField<"memory", 140, 3, 0, 1, "scratchpad", Memory>,
    Field<"address", 143, 28, 0, 1, "byte address of the weight tile">,
    Field<"span", 171, 28, 0, 1, "bytes from address that the instruction may touch">,
    Field<"row_stride", 199, 24, 1, 1, "bytes from one stored row to the next">,
    Field<"k_count", 223, 9, 0, 1, "array rows that get weights; the others get 0">,
    Field<"n_count", 232, 9, 0, 1, "array columns that get weights; the others get 0">,
    Field<"transpose", 241, 1, 0, 1, "the tile is stored as n_count rows of k_count elements">,
    Field<"is_signed", 242, 1, 0, 1, "int8 arrays: weights are int8, else uint8">,
    Field<"zero_point", 243, 9, 1, 1, "int8 arrays: subtracted from every weight">,
    Reserved<252, 4>
  ];
}

def Tensor : Instruction<"tensor", 4, TensorEngine, 2> {
  let summary = "stream activations through the array into the accumulator";
  let description = [{
For every position (i0, i1, i2), i0 fastest: a vector of rows elements begins at address + sum i_d * strides[d]; elements
from k_count on are not read and count as 0 (after the zero point). Row acc_address + sum i_d * acc_strides[d] becomes, for every column n,
(accumulate ? old : 0) + sum over k of (a[k] - zero_point) * weight[k][n].
int8: modulo 2^32. bf16, fp32: products rounded to fp32, summed in a balanced tree over rows (neighbours first), then added to
the accumulator; on overwrite the tree's result is written as it is. No row may be visited twice in one instruction.
  }];
  let fields = [
    EnumField<"memory", 140, 3, 0, 1, "scratchpad of the activations", Memory>,
    Field<"address", 143, 28, 0, 1, "byte address of the first activation vector">,
    Field<"span", 171, 28, 0, 1, "bytes from address that the instruction may touch">,
    Field<"acc_address", 199, 20, 0, 1, "first accumulator row">,
    Field<"acc_span", 219, 20, 0, 1, "accumulator rows from acc_address that the instruction may touch">,
    Field<"counts", 239, 16, 0, 3, "output positions, innermost first">,
    Field<"strides", 287, 24, 1, 3, "bytes between activation vectors along each count">,
    Field<"acc_strides", 359, 20, 1, 3, "accumulator rows between results along each count">,
    Field<"swap", 419, 1, 0, 1, "shadow weights become active at start">,
    Field<"accumulate", 420, 1, 0, 1, "add to the accumulator, else overwrite it">,
    Field<"clear_mask", 421, 6, 0, 1, "if not 0: overwrite while every level in this mask is in its first iteration, else add">,
    Field<"is_signed", 427, 1, 0, 1, "int8 arrays: activations are int8, else uint8">,
    Field<"zero_point", 428, 9, 1, 1, "int8 arrays: subtracted from every activation">,
    Field<"k_count", 437, 9, 0, 1, "elements of each activation vector that are used; the others count as 0">,
    Reserved<446, 66>
  ];
}

def Vector : Instruction<"vector", 5, VectorEngine, 5> {
  let summary = "window, chain of element operations and conversion over a tile";
  let description = [{
For every channel block c = counts[3] (outermost), then positions i2, i1, i0 (i0 fastest): taps of A are read at
a_address + sum i_d * a_strides[d] + c * a_strides[3] + h * a_window_strides[0] + v * a_window_strides[1] for v < window[1],
h < window[0], each lanes elements of a_type, integers minus a_zero_point, and become one vector by window_op (mac: tap
(v, h) times B at b_address + c * b_strides[3] + (v * window[0] + h) * b_tap_stride). lane_reduce then reduces over lanes
with max, or for sum and sum_squares by addition (balanced tree, neighbours first; lanes from tail_lanes on of the last horizontal tap are left out).
The chain of num_stages stages follows; its result is converted to d_type and written at d_address + sum i_d * d_strides[d]
+ c * d_strides[3]. B (not for mac) is read at b_address + sum i_d * b_strides[d] + c * b_strides[3]. Parameter i of block c
is the vector of lanes words at p_address + (c * p_count + i) * lanes * 4. Integer results go to integer types, float
results to float types. Unused windows are 1 x 1. A mac window has at most max_mac_taps taps, and a chain at most the machine's
vector.stages stages. No vector may be read from bytes that an earlier one of the same instruction is written to; to be
written where it was read is allowed.
  }];
  let fields = [
    EnumField<"a_memory", 140, 3, 0, 1, "memory of source A", Memory>,
    EnumField<"a_type", 143, 3, 0, 1, "element type of source A", VectorType>,
    Field<"a_address", 146, 28, 0, 1, "byte address of source A">,
    Field<"a_span", 174, 28, 0, 1, "bytes of source A that may be touched">,
    Field<"a_strides", 202, 24, 1, 4, "bytes between vectors of A along counts">,
    Field<"a_window_strides", 298, 24, 1, 2, "bytes between taps of A: horizontal, vertical">,
    Field<"a_zero_point", 346, 9, 1, 1, "subtracted from integer elements of A when read">,
    Field<"b_enable", 355, 1, 0, 1, "source B is used">,
    EnumField<"b_memory", 356, 3, 0, 1, "memory of source B", Memory>,
    EnumField<"b_type", 359, 3, 0, 1, "element type of source B", VectorType>,
    Field<"b_address", 362, 28, 0, 1, "byte address of source B">,
    Field<"b_span", 390, 28, 0, 1, "bytes of source B that may be touched">,
    Field<"b_strides", 418, 24, 1, 4, "bytes between vectors of B along counts">,
    Field<"b_tap_stride", 514, 24, 1, 1, "depthwise: bytes from the weights of one tap to the next">,
    Field<"b_zero_point", 538, 9, 1, 1, "subtracted from integer elements of B when read">,
    EnumField<"b_convert", 547, 2, 0, 1, "how B reaches the chain", Conversion>,
    Field<"b_scale", 549, 3, 0, 1, "index of the immediate that scales B for Conversion dequantize">,
    EnumField<"d_memory", 552, 3, 0, 1, "memory of the destination", Memory>,
    EnumField<"d_type", 555, 3, 0, 1, "element type of the destination", VectorType>,
    Field<"d_address", 558, 28, 0, 1, "byte address of the destination">,
    Field<"d_span", 586, 28, 0, 1, "bytes of the destination that may be touched">,
    Field<"d_strides", 614, 24, 1, 4, "bytes between vectors of the destination along counts">,
    EnumField<"p_memory", 710, 3, 0, 1, "memory of the per-channel parameters", Memory>,
    Field<"p_address", 713, 28, 0, 1, "byte address of the parameters: [block][p_count][lanes] words of 4 bytes">,
    Field<"p_span", 741, 28, 0, 1, "bytes of the parameters that may be touched">,
    BoundedField<"p_count", 769, 3, 0, 1, "parameter vectors per channel block", MaxParams>,
    Field<"counts", 772, 16, 0, 4, "output vectors: positions innermost first, then channel blocks; the block loop is outermost">,
    Field<"window", 836, 12, 0, 2, "taps of the window: horizontal, vertical">,
    EnumField<"window_op", 860, 3, 0, 1, "how the taps become one vector", WindowOp>,
    Field<"window_step", 863, 3, 0, 1, "horizontal reuse: taps by which the window advances along counts[0]; 0 means no reuse">,
    Field<"lane_reduce", 866, 1, 0, 1, "after the window, reduce over lanes and give every lane the result">,
    Field<"tail_lanes", 867, 9, 0, 1, "lane_reduce: lanes of the last horizontal tap that count; 0 means all">,
    BoundedField<"num_stages", 876, 4, 0, 1, "stages of the chain", MaxStages>,
    EnumField<"stage_op", 880, 6, 0, 12, "operation of each stage", StageOp>,
    EnumField<"stage_operand", 952, 6, 0, 12, "operand of each stage", StageOperand>,
    Field<"immediates", 1024, 32, 0, 8, "constants of the chain: fp32 or int32 bit patterns">
  ];
  let groups = [
    Group<"stage", ["stage_op", "stage_operand"]>
  ];
}

def Store : Instruction<"store", 6, StoreEngine, 3> {
  let summary = "copy a box from a scratchpad to DRAM";
  let description = [{
For every index (i0..i4) of the box in order, i0 fastest: the DRAM element at dram_address + i0 * element_bytes + sum over
d >= 1 of i_d * dram_strides[d-1] becomes the scratchpad element at address + i0 * element_bytes + sum over d >= 1 of
i_d * strides[d-1].
  }];
  let fields = [
    Field<"dram_address", 140, 40, 0, 1, "byte address of the first element that lies in DRAM">,
    EnumField<"memory", 180, 3, 0, 1, "scratchpad", Memory>,
    Field<"address", 183, 28, 0, 1, "byte address of the box in the scratchpad">,
    Field<"span", 211, 28, 0, 1, "bytes from address that the instruction may touch: decides banks and range check">,
    BoundedField<"element_log2", 239, 2, 0, 1, "log2 of the element size in bytes", MaxElementLog2>,
    Field<"counts", 241, 20, 0, 5, "extents of the box, innermost first; the innermost counts elements of one run">,
    Field<"dram_strides", 341, 32, 1, 4, "DRAM strides of dimensions 1 to 4, bytes">,
    Field<"strides", 469, 24, 1, 4, "scratchpad strides of dimensions 1 to 4, bytes">,
    Reserved<565, 203>
  ];
}

#endif // ISA_ISA_TD
