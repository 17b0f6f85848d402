//===- Program.h - A compiled program and its image -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef ISA_PROGRAM_H
#define ISA_PROGRAM_H

#include "isa/Diagnostic.h"
#include "isa/Isa.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tw::isa {

/// Element types of a program's inputs and outputs in DRAM.
enum class ElementKind : uint8_t { I8, U8, I32, F32, Bf16, I64, Bool };
constexpr unsigned kNumElementKinds = 7;
/// "i8", "u8", "i32", "f32", "bf16", "i64", "bool".
const char *name(ElementKind kind);
/// Bytes of one element; a bool is one byte, 0 or 1.
uint32_t elementBytes(ElementKind kind);

/// Bytes that lie in DRAM before the program starts.
struct Segment {
  uint64_t address = 0;
  std::vector<uint8_t> bytes;
};

/// An input or output: dense, row-major, in DRAM.
struct TensorInfo {
  std::string name;
  ElementKind type = ElementKind::F32;
  std::vector<int64_t> shape;
  uint64_t address = 0;
  uint64_t bytes = 0;
};

/// What a stretch of the program computes, for reports.
struct Layer {
  std::string name;
  std::vector<std::string> nodes; ///< names of the network's nodes
  uint64_t macs = 0;
  uint64_t boundCycles = 0; ///< lower bound on this machine
  std::string boundBy;      ///< what the bound comes from: "tensor", "dram", ...
};

/// Everything a machine needs to run a network once.
struct Program {
  uint32_t isaVersion = uint32_t(kIsaVersion);
  std::string machine; ///< name, for messages; the digests decide
  uint64_t architecturalDigest = 0, timingDigest = 0;
  std::vector<Word> code;
  uint64_t codeAddress = 0; ///< DRAM byte address of code[0], a multiple of 64
  uint64_t dramBytes = 0;   ///< DRAM the program needs, from address 0
  std::vector<Segment> constants;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<Layer> layers;
  /// Per code word, an index into layers; empty if there are no layers.
  std::vector<uint32_t> layerOf;
};

/// The image: equal programs give equal bytes on every host.
std::vector<uint8_t> serialize(const Program &program);
/// Errors: not an image, another format or ISA version, truncated, damaged, or
/// addresses and sizes that contradict each other.
Result<Program> deserialize(const std::vector<uint8_t> &image, const std::string &fileName = "");

/// Decodes the code and checks each instruction with illegal(), that loop
/// bodies end between instructions, nest at most max_loop_depth deep and inside
/// each other, and that halt stands at the end and only there. Diagnostics name
/// `file` and the word.
Diagnostics verify(const Program &program, const timing::MachineParams &machine, const std::string &file = "");

} // namespace tw::isa

#endif // ISA_PROGRAM_H
