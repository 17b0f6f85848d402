//===- Program.h - PTX as data ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PTX as data: the statements that the parser reads, and the instructions that the decoder makes of them.
//===----------------------------------------------------------------------===//
#pragma once

#include "tests/gpu/emulator/Error.h"
#include "tests/gpu/emulator/Numbers.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace tw::ptxemu {

struct Thread;
struct Instruction;

// ---- Statements -----------------------------------------------------------------------------------------------------------

/// An operand as it is written.
struct Operand {
  enum Kind { Register, Immediate, Double, Special, Sink, Vector, Address, Pair, Name } kind = Immediate;
  int reg = -1;                  // Register
  bool negated = false;          // Register: !%p
  uint64_t value = 0;            // Immediate: the bits; Double: the bits of the 64-bit constant
  std::string name;              // Special, Name (a label)
  std::vector<Operand> elements; // Vector, Pair (d|p), Address: base, and behind it the vector of tensor coordinates
  int64_t offset = 0;            // Address
};

struct Statement {
  unsigned line = 0;
  std::string text;
  std::string opcode;                 // "wgmma"
  std::vector<std::string> modifiers; // "mma_async", "sync", ...
  std::vector<Operand> operands;
  int predicate = -1;
  bool predicateNegated = false;
  int target = -1; // of a branch: index of an instruction
};

// ---- Decoded instructions -------------------------------------------------------------------------------------------------

enum class Special : uint8_t {
  None,
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NwarpId,
  ClusterCtaRank,
  ClusterNctaRank,
  ClusterCtaidX,
  ClusterCtaidY,
  ClusterCtaidZ,
  ClusterNctaidX,
  ClusterNctaidY,
  ClusterNctaidZ,
  ClusteridX,
  ClusteridY,
  ClusteridZ,
  NclusteridX,
  NclusteridY,
  NclusteridZ,
  IsExplicitCluster,
  SmId,
  NsmId,
  GridId,
  Clock,
  GlobalTimer,
  LaneMaskEq,
  LaneMaskLt,
  LaneMaskLe,
  LaneMaskGt,
  LaneMaskGe,
  DynamicSharedSize,
  TotalSharedSize,
};

/// Where an input comes from: a register, a special register or a constant.
struct Source {
  int reg = -1;
  Special special = Special::None;
  bool negated = false; // predicates
  uint64_t value = 0;
};

enum class Space : uint8_t { Generic, Global, Shared, Local, Param, Const };

/// What a thread does after an instruction.
enum class Step : uint8_t {
  Next,  // goes on behind it
  Jump,  // the instruction has set the program counter
  Wait,  // runs it again when the thread is next scheduled; Thread::state says what it waits for
  Yield, // goes on behind it, but others first
  Exit
};

/// The threads that an instruction needs at the same place before it runs.
enum class Rendezvous : uint8_t { None, Warp, Warpgroup };

using Handler = Step (*)(Thread &, const Instruction &);
/// The threads in order of their lanes; a warp has null for a lane outside the membermask.
using GroupHandler = void (*)(Thread *const *threads, unsigned count, const Instruction &);

/// A load, store, atomic or matrix access.
struct MemoryForm {
  Space space;
  Type type;
  Source base;
  int64_t offset;
  bool readOnly = false; // ld.global.nc
};

enum class Major : uint8_t { K, MN };

/// wgmma.mma_async and mma.sync.
struct MmaForm {
  unsigned m, n, k;
  Type a, b, accumulator;
  std::vector<int> result;           // registers of the accumulator
  std::vector<Source> aRegisters;    // empty: `descriptorA`
  std::vector<Source> bRegisters, c; // mma.sync
  Source descriptorA, descriptorB, scaleD;
  float scaleA = 1, scaleB = 1;
  Major majorA = Major::K, majorB = Major::K;
  bool saturate = false;
};

/// cp.async.bulk and cp.async.bulk.tensor.
struct BulkForm {
  enum Direction { GlobalToShared, SharedToGlobal, SharedToShared } direction;
  enum Reduction { None, Add, Min, Max } reduction = None;
  bool tensor = false, im2col = false, multicast = false;
  Type type = Type::None; // of a reduction without a tensor map
  Source destination, source, barrier, size, mask;
  int64_t destinationOffset = 0, sourceOffset = 0, barrierOffset = 0;
  Source map;
  int64_t mapOffset = 0;
  std::vector<Source> coordinates, im2colOffsets;
};

/// Compact arguments that the other families share.
struct SimpleForm {
  Type from = Type::None;
  Rounding rounding = Rounding::NearestEven;
  int mode = 0;
  bool flag = false;
};

struct Instruction {
  Handler execute = nullptr;
  GroupHandler executeGroup = nullptr;
  Rendezvous rendezvous = Rendezvous::None;
  int predicate = -1;
  bool predicateNegated = false;
  bool flushSubnormals = false, saturate = false;
  Type type = Type::None;
  uint8_t destinationBits = 64; // declared width of the first destination
  int destination = -1, destination2 = -1;
  Source in[4];
  int target = -1;
  SimpleForm simple;
  std::vector<int> destinations; // vector loads, ldmatrix, unpacking moves
  std::vector<Source> sources;   // vector stores, stmatrix, packing moves
  std::variant<std::monostate, MemoryForm, MmaForm, BulkForm> form;
  unsigned line = 0;
  std::string text;
};

struct RegisterInfo {
  std::string name;
  Type type;
};

struct Parameter {
  std::string name;
  unsigned offset, size, alignment;
  bool array; // .b8 name[128]
};

/// A variable of the module in global, constant or shared memory, or of a kernel in shared or local memory.
struct Variable {
  std::string name;
  Space space;
  unsigned alignment;
  uint64_t size;
  bool external;               // .extern .shared name[]: the dynamic shared memory
  std::vector<uint8_t> values; // initial bytes; empty: none
  uint64_t address = 0;        // within its space
};

struct Kernel {
  std::string name;
  unsigned line = 0;
  std::vector<Parameter> parameters;
  unsigned parameterBytes = 0;
  /// Zero where the directive is absent.
  unsigned maxntid[3] = {0, 0, 0}, reqntid[3] = {0, 0, 0}, cluster[3] = {0, 0, 0};
  unsigned maxnreg = 0;
  unsigned staticSharedBytes = 0, dynamicSharedAlignment = 1, localBytes = 0;
  std::vector<RegisterInfo> registers;
  std::vector<Instruction> code;
  std::vector<Statement> statements; // one for each instruction
};

/// PTX text, parsed and decoded.
class Module {
public:
  /// Throws Error: Parse, or Unsupported for what the emulator does not know, with line and text.
  static std::shared_ptr<const Module> parse(const std::string &text);
  static std::shared_ptr<const Module> load(const std::string &path);

  /// Throws Error(Launch) that lists the kernels, if there is none of that name.
  const Kernel &kernel(const std::string &name) const;

  std::map<std::string, Kernel> kernels;
  std::vector<Variable> variables;
  std::string version, target;
};

/// Fills `instruction` from `statement`; throws Error(Unsupported) for an opcode or modifier that the emulator does not know.
void decode(const Kernel &kernel, const Statement &statement, Instruction &instruction);

/// Where module variables in global and constant memory lie: variable i at (moduleVariableBase + i) << 32.
constexpr uint64_t moduleVariableBase = 0x800;
/// The first byte of a CTA's shared memory: the machine keeps the first kilobyte.
constexpr uint32_t sharedBase = 1024;

} // namespace tw::ptxemu
