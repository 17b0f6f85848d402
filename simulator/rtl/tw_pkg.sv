// Constants derived from the machine's parameters, and types that several modules share.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
package tw_pkg;

  // A package offers more than one module uses.
  /* verilator lint_off UNUSEDPARAM */

  // Values of tw_machine_pkg::ArrayType.
  parameter int unsigned ArrayInt8 = 0;
  parameter int unsigned ArrayBf16 = 1;
  parameter int unsigned ArrayFp32 = 2;

  // Engine numbers: the order of all fixed priorities.
  parameter int unsigned EngineStore0 = 0;
  parameter int unsigned EngineVector = 4;
  parameter int unsigned EngineTensor = 5;
  parameter int unsigned EnginePreload = 6;
  parameter int unsigned EngineLoad0 = 7;
  parameter int unsigned EngineSequencer = 11;
  // Engines that have a queue.
  parameter int unsigned NumQueues = 11;
  parameter int unsigned NumEngines = 12;

  // Requesters of the DRAM port, the upper bits of a tag.
  parameter int unsigned RequesterFetch = 4;
  parameter int unsigned RequesterWrites = 5;

  // Labels of an engine's cycle, in the order of their precedence.
  parameter int unsigned LabelBusy = 0;
  parameter int unsigned LabelOperand = 1;
  parameter int unsigned LabelInterlock = 2;
  parameter int unsigned LabelBankConflict = 3;
  parameter int unsigned LabelDramBandwidth = 4;
  parameter int unsigned LabelDramLatency = 5;
  parameter int unsigned LabelBufferFull = 6;
  parameter int unsigned LabelStarved = 7;
  parameter int unsigned LabelIdle = 8;
  parameter int unsigned NumLabels = 9;

  // Why the machine stopped.
  parameter int unsigned FaultNone = 0;
  parameter int unsigned FaultIllegal = 1;
  parameter int unsigned FaultOutOfRange = 2;
  parameter int unsigned FaultOverflow = 3;
  parameter int unsigned FaultDeadlock = 4;

  // Bytes of one operand of the array.
  parameter int unsigned ElementBytes =
      tw_machine_pkg::ArrayType == ArrayInt8 ? 1 : tw_machine_pkg::ArrayType == ArrayBf16 ? 2 : 4;
  // An accumulator row, and one vector of lanes in its widest type.
  parameter int unsigned AccRowBytes = tw_machine_pkg::Cols * 4;
  parameter int unsigned VectorBytes = tw_machine_pkg::Lanes * 4;
  parameter int unsigned ArrayRowBytes =
      (tw_machine_pkg::Rows > tw_machine_pkg::Cols ? tw_machine_pkg::Rows : tw_machine_pkg::Cols) *
      ElementBytes;
  // Row of an accumulator bank, and of a scratchpad bank: the widest access.
  parameter int unsigned AccBankRowBytes = AccRowBytes > VectorBytes ? AccRowBytes : VectorBytes;
  parameter int unsigned WideBytes = ArrayRowBytes > VectorBytes ? ArrayRowBytes : VectorBytes;
  parameter int unsigned RowBytes =
      WideBytes > tw_machine_pkg::BurstBytes ? WideBytes : tw_machine_pkg::BurstBytes;

  // Banks of all memories, numbered scratchpad 0, scratchpad 1, accumulator.
  parameter int unsigned FirstBank1 = tw_machine_pkg::ScratchpadBanks0;
  parameter int unsigned FirstBankAcc =
      tw_machine_pkg::ScratchpadBanks0 + tw_machine_pkg::ScratchpadBanks1;
  parameter int unsigned NumBanks = FirstBankAcc + tw_machine_pkg::AccumulatorBanks;

  // What travels with an instruction from dispatch to retirement, operands aside.
  typedef struct packed {
    logic                out_of_range;    // an address leaves its memory: a fault, no start
    logic [NumBanks-1:0] banks;           // owned from start to retirement
    logic [31:0]         pc;              // index of its first word
    logic [2:0][3:0]     post_count;      // 0: no post
    logic [2:0][5:0]     post_semaphore;
    logic [2:0][3:0]     wait_count;      // 0: no wait
    logic [2:0][5:0]     wait_semaphore;
  } control_t;
  parameter int unsigned ControlBits = 93 + NumBanks;

  /* verilator lint_on UNUSEDPARAM */
endpackage
