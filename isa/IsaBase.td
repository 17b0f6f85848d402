//===- IsaBase.td - Classes of the instruction set description ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef ISA_ISABASE_TD
#define ISA_ISABASE_TD

/// A number every artefact shares.
class Limit<string name_, int value_, string doc_> {
  string name = name_;
  int value = value_;
  string doc = doc_;
}

class Case<string name_, int value_, string doc_> {
  string name = name_;
  int value = value_;
  string doc = doc_;
}

class Enumeration<string name_, string doc_, list<Case> cases_> {
  string name = name_;
  string doc = doc_;
  list<Case> cases = cases_;
}

/// A run of bits [lsb, lsb + width * count) of one instruction: one value, or `count` values side by side, element 0 lowest.
class Field<string name_, int lsb_, int width_, bit isSigned_, int count_, string doc_> {
  string name = name_;
  int lsb = lsb_;
  int width = width_;
  bit isSigned = isSigned_;
  int count = count_;
  string doc = doc_;
  Enumeration enumeration = ?;
  Limit limit = ?;
}

/// Other values than those of `cases` are no encoding.
class EnumField<string name, int lsb, int width, bit isSigned, int count, string doc, Enumeration cases>
    : Field<name, lsb, width, isSigned, count, doc> {
  let enumeration = cases;
}

/// Values above `maximum` are no encoding.
class BoundedField<string name, int lsb, int width, bit isSigned, int count, string doc, Limit maximum>
    : Field<name, lsb, width, isSigned, count, doc> {
  let limit = maximum;
}

/// Bits that must be 0.
class Reserved<int lsb, int width> : Field<"", lsb, width, 0, 1, "must be 0">;

/// Fields with equally many elements that the assembler writes side by side: name=[member0:member1:..., ...].
class Group<string name_, list<string> members_> {
  string name = name_;
  list<string> members = members_;
}

/// A named group of bits; positions count from its own bit 0.
class BitLayout<string name_, int numBits_> {
  string name = name_;
  int numBits = numBits_;
  list<Field> fields = [];
  list<Group> groups = [];
}

/// An engine class. `priority`: the fixed arbitration order within a cycle, lower first. The order of the C++ enum EngineKind.
class Engine<string name_, int priority_, string doc_> {
  string name = name_;
  int priority = priority_;
  string doc = doc_;
}
def StoreEngine   : Engine<"store", 0, "scratchpad to DRAM">;
def VectorEngine  : Engine<"vector", 1, "element operations, windows, reductions, conversion">;
def TensorEngine  : Engine<"tensor", 2, "the MAC array">;
def PreloadEngine : Engine<"preload", 3, "weights to the array's shadow registers">;
def LoadEngine    : Engine<"load", 4, "DRAM to scratchpad">;
def Sequencer     : Engine<"sequencer", 5, "fetch, loops, dispatch">;

/// `words` = header and operand words; odometer words come on top. Field positions count from bit 0 of the first word; the header
/// occupies the low bits.
class Instruction<string mnemonic_, int opcode_, Engine engine_, int words_> {
  string mnemonic = mnemonic_;
  int opcode = opcode_;
  Engine engine = engine_;
  int words = words_;
  string summary = "";
  string description = "";
  list<Field> fields = [];
  list<Group> groups = [];
}

/// A latency in cycles. A member of TimingConstants with this default, and a SystemVerilog parameter.
class TimingConstant<string name_, int value_, string doc_> {
  string name = name_;
  int value = value_;
  string doc = doc_;
}

/// A machine-dependent latency: an expression over timing constants and the arguments, in the common subset of C++ and
/// SystemVerilog (+ - * / ?: comparisons, clog2(x)).
class TimingFormula<string name_, list<string> arguments_, string expression_, string doc_> {
  string name = name_;
  list<string> arguments = arguments_;
  string expression = expression_;
  string doc = doc_;
}

#endif // ISA_ISABASE_TD
