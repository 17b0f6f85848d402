//===- Program.cpp - A compiled program and its image -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Image: "TWPROG\r\n", format version, length and checksum of the payload,
// payload. The payload is a sequence of little-endian numbers; a list is its
// length and its elements. The line ending in the magic catches transfers in
// text mode.
//===----------------------------------------------------------------------===//
#include "isa/Program.h"
#include "isa/ProgramImage.h"

#include "isa/Legality.h"

#include <algorithm>
#include <cstring>

namespace tw::isa {
namespace {

constexpr char kMagic[8] = {'T', 'W', 'P', 'R', 'O', 'G', '\r', '\n'};
constexpr uint32_t kFormatVersion = 1;
constexpr size_t kPreambleBytes = sizeof kMagic + 4 + 8 + 8;
constexpr uint64_t kCodeAlignment = 64;

/// FNV-1a over 8 bytes at a time with a final mix; every step is a bijection of
/// the state, so that one damaged piece always shows.
uint64_t checksum(const uint8_t *bytes, size_t size) {
  uint64_t hash = 0xcbf29ce484222325ull ^ size;
  for (size_t i = 0; i < size; i += 8) {
    uint64_t piece = 0;
    for (size_t j = 0; j < std::min<size_t>(8, size - i); ++j)
      piece |= uint64_t(bytes[i + j]) << (8 * j);
    hash = (hash ^ piece) * 0x100000001b3ull;
    hash ^= hash >> 29;
  }
  return hash;
}

class Writer {
public:
  void raw(const void *from, size_t size) {
    const uint8_t *first = static_cast<const uint8_t *>(from);
    bytes.insert(bytes.end(), first, first + size);
  }
  template <typename T> void number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i)
      bytes.push_back(uint8_t(uint64_t(value) >> (8 * i)));
  }
  void text(const std::string &value) {
    number<uint64_t>(value.size());
    raw(value.data(), value.size());
  }
  template <typename List, typename Each> void list(const List &items, Each each) {
    number<uint64_t>(items.size());
    for (const auto &item : items)
      each(item);
  }
  void tensor(const TensorInfo &tensor) {
    text(tensor.name);
    number<uint8_t>(uint8_t(tensor.type));
    list(tensor.shape, [&](int64_t extent) { number<int64_t>(extent); });
    number<uint64_t>(tensor.address);
    number<uint64_t>(tensor.bytes);
  }
  std::vector<uint8_t> bytes;
};

/// Reads the payload; after the first problem everything reads as 0 and lists
/// are empty.
class Reader {
public:
  Reader(const uint8_t *at, size_t left) : at(at), left(left) {}

  void fail(const std::string &text) {
    if (error.empty())
      error = text;
    left = 0;
  }
  template <typename T> T number() {
    if (left < sizeof(T)) {
      fail("the program image ends in the middle of a value");
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i)
      value |= uint64_t(at[i]) << (8 * i);
    at += sizeof(T);
    left -= sizeof(T);
    return T(value);
  }
  /// The length of a list whose elements take at least `leastBytes` each: never
  /// more than the image can hold.
  size_t length(size_t leastBytes) {
    uint64_t count = number<uint64_t>();
    if (count > left / leastBytes) {
      fail("a list of " + std::to_string(count) + " elements does not fit the program image");
      return 0;
    }
    return size_t(count);
  }
  std::string text() {
    size_t size = length(1);
    std::string value(reinterpret_cast<const char *>(at), size);
    at += size;
    left -= size;
    return value;
  }
  std::vector<uint8_t> blob() {
    size_t size = length(1);
    std::vector<uint8_t> value(at, at + size);
    at += size;
    left -= size;
    return value;
  }
  template <typename T, typename Each> void list(std::vector<T> &items, size_t leastBytes, Each each) {
    size_t count = length(leastBytes);
    items.reserve(count);
    for (size_t i = 0; i < count && error.empty(); ++i)
      items.push_back(each());
  }
  TensorInfo tensor() {
    TensorInfo tensor;
    tensor.name = text();
    uint8_t type = number<uint8_t>();
    if (type >= kNumElementKinds)
      fail("element type " + std::to_string(type) + " of '" + tensor.name + "' is unknown");
    tensor.type = ElementKind(type);
    list(tensor.shape, 8, [&] { return number<int64_t>(); });
    tensor.address = number<uint64_t>();
    tensor.bytes = number<uint64_t>();
    return tensor;
  }

  const uint8_t *at;
  size_t left;
  std::string error;
};

/// True if [address, address + bytes) lies in [0, capacity), whatever the
/// values.
bool within(uint64_t address, uint64_t bytes, uint64_t capacity) { return address <= capacity && bytes <= capacity - address; }

std::string contradiction(const Program &program) {
  auto place = [](uint64_t address, uint64_t bytes) {
    return std::to_string(bytes) + " bytes at address " + std::to_string(address);
  };
  const std::string limit = " do not fit dram_bytes = " + std::to_string(program.dramBytes);
  if (program.codeAddress % kCodeAlignment)
    return "the code's address " + std::to_string(program.codeAddress) + " is not a multiple of 64";
  if (!within(program.codeAddress, program.code.size() * kWordBytes, program.dramBytes))
    return "code: " + place(program.codeAddress, program.code.size() * kWordBytes) + limit;
  for (const Segment &segment : program.constants)
    if (!within(segment.address, segment.bytes.size(), program.dramBytes))
      return "constants: " + place(segment.address, segment.bytes.size()) + limit;
  for (const std::vector<TensorInfo> *tensors : {&program.inputs, &program.outputs})
    for (const TensorInfo &tensor : *tensors) {
      unsigned __int128 bytes = elementBytes(tensor.type);
      for (int64_t extent : tensor.shape) {
        if (extent < 0)
          return "'" + tensor.name + "' has the extent " + std::to_string(extent);
        // Nothing larger than 2^64 can equal tensor.bytes; an extent of 0 still
        // makes it 0.
        bytes = std::min<unsigned __int128>(bytes, ~uint64_t(0)) * uint64_t(extent);
      }
      if (bytes != tensor.bytes)
        return "'" + tensor.name + "' has " + std::to_string(tensor.bytes) + " bytes, which its shape contradicts";
      if (!within(tensor.address, tensor.bytes, program.dramBytes))
        return "'" + tensor.name + "': " + place(tensor.address, tensor.bytes) + limit;
    }
  if (program.layerOf.size() != (program.layers.empty() ? 0 : program.code.size()))
    return std::to_string(program.layerOf.size()) + " words have a layer, the code has " + std::to_string(program.code.size()) +
           " words and " + std::to_string(program.layers.size()) + " layers";
  for (uint32_t layer : program.layerOf)
    if (layer >= program.layers.size())
      return "layer " + std::to_string(layer) + " is named, there are " + std::to_string(program.layers.size());
  return "";
}

} // namespace

const char *name(ElementKind kind) {
  static constexpr const char *names[kNumElementKinds] = {"i8", "u8", "i32", "f32", "bf16", "i64", "bool"};
  return names[size_t(kind)];
}

uint32_t elementBytes(ElementKind kind) {
  static constexpr uint32_t sizes[kNumElementKinds] = {1, 1, 4, 4, 2, 8, 1};
  return sizes[size_t(kind)];
}

std::vector<uint8_t> serialize(const Program &program) {
  Writer payload;
  payload.number<uint32_t>(program.isaVersion);
  payload.text(program.machine);
  payload.number<uint64_t>(program.architecturalDigest);
  payload.number<uint64_t>(program.timingDigest);
  payload.list(program.code, [&](const Word &word) {
    for (uint64_t element : word)
      payload.number<uint64_t>(element);
  });
  payload.number<uint64_t>(program.codeAddress);
  payload.number<uint64_t>(program.dramBytes);
  payload.list(program.constants, [&](const Segment &segment) {
    payload.number<uint64_t>(segment.address);
    payload.number<uint64_t>(segment.bytes.size());
    payload.raw(segment.bytes.data(), segment.bytes.size());
  });
  payload.list(program.inputs, [&](const TensorInfo &tensor) { payload.tensor(tensor); });
  payload.list(program.outputs, [&](const TensorInfo &tensor) { payload.tensor(tensor); });
  payload.list(program.layers, [&](const Layer &layer) {
    payload.text(layer.name);
    payload.list(layer.nodes, [&](const std::string &node) { payload.text(node); });
    payload.number<uint64_t>(layer.macs);
    payload.number<uint64_t>(layer.boundCycles);
    payload.text(layer.boundBy);
  });
  payload.list(program.layerOf, [&](uint32_t layer) { payload.number<uint32_t>(layer); });

  std::vector<uint8_t> image(kPreambleBytes);
  image.insert(image.end(), payload.bytes.begin(), payload.bytes.end());
  sealImage(image);
  return image;
}

void sealImage(std::vector<uint8_t> &image) {
  image.resize(std::max(image.size(), kPreambleBytes));
  const uint64_t size = image.size() - kPreambleBytes;
  Writer preamble;
  preamble.raw(kMagic, sizeof kMagic);
  preamble.number<uint32_t>(kFormatVersion);
  preamble.number<uint64_t>(size);
  preamble.number<uint64_t>(checksum(image.data() + kPreambleBytes, size));
  std::copy(preamble.bytes.begin(), preamble.bytes.end(), image.begin());
}

Result<Program> deserialize(const std::vector<uint8_t> &image, const std::string &fileName) {
  auto fail = [&](const std::string &text) { return Diagnostic{fileName, 0, 0, text}; };
  if (image.size() < sizeof kMagic || std::memcmp(image.data(), kMagic, sizeof kMagic) != 0)
    return fail("not a program image: it does not begin with TWPROG");
  if (image.size() < kPreambleBytes)
    return fail("the program image is cut off in its first " + std::to_string(kPreambleBytes) + " bytes");
  Reader preamble(image.data() + sizeof kMagic, kPreambleBytes - sizeof kMagic);
  const uint32_t format = preamble.number<uint32_t>();
  if (format != kFormatVersion)
    return fail("the program image has format version " + std::to_string(format) + ", this build reads version " +
                std::to_string(kFormatVersion));
  const uint64_t size = preamble.number<uint64_t>();
  const uint64_t sum = preamble.number<uint64_t>();
  if (size != image.size() - kPreambleBytes)
    return fail("the program image has " + std::to_string(image.size() - kPreambleBytes) +
                " bytes after its preamble, it should have " + std::to_string(size));
  if (checksum(image.data() + kPreambleBytes, image.size() - kPreambleBytes) != sum)
    return fail("the program image is damaged: its checksum does not match");

  Reader in(image.data() + kPreambleBytes, image.size() - kPreambleBytes);
  Program program;
  program.isaVersion = in.number<uint32_t>();
  if (program.isaVersion != uint32_t(kIsaVersion))
    return fail("the program is for ISA version " + std::to_string(program.isaVersion) + ", this build has version " +
                std::to_string(kIsaVersion));
  program.machine = in.text();
  program.architecturalDigest = in.number<uint64_t>();
  program.timingDigest = in.number<uint64_t>();
  in.list(program.code, kWordBytes, [&] {
    Word word;
    for (uint64_t &element : word)
      element = in.number<uint64_t>();
    return word;
  });
  program.codeAddress = in.number<uint64_t>();
  program.dramBytes = in.number<uint64_t>();
  in.list(program.constants, 16, [&] {
    Segment segment;
    segment.address = in.number<uint64_t>();
    segment.bytes = in.blob();
    return segment;
  });
  in.list(program.inputs, 33, [&] { return in.tensor(); });
  in.list(program.outputs, 33, [&] { return in.tensor(); });
  in.list(program.layers, 40, [&] {
    Layer layer;
    layer.name = in.text();
    in.list(layer.nodes, 8, [&] { return in.text(); });
    layer.macs = in.number<uint64_t>();
    layer.boundCycles = in.number<uint64_t>();
    layer.boundBy = in.text();
    return layer;
  });
  in.list(program.layerOf, 4, [&] { return in.number<uint32_t>(); });
  if (!in.error.empty())
    return fail(in.error);
  if (in.left)
    return fail("the program image has " + std::to_string(in.left) + " bytes too many");
  if (std::string text = contradiction(program); !text.empty())
    return fail(text);
  return program;
}

Diagnostics verify(const Program &program, const timing::MachineParams &machine, const std::string &file) {
  Diagnostics problems;
  auto report = [&](size_t word, const std::string &text) {
    problems.push_back({file, 0, 0, "word " + std::to_string(word) + ": " + text});
  };
  std::vector<size_t> loopEnds; // of the open loops, outermost first
  const std::vector<Word> &code = program.code;
  bool halted = false;
  for (size_t at = 0; at < code.size();) {
    while (!loopEnds.empty() && loopEnds.back() <= at)
      loopEnds.pop_back();
    Decoded decoded = decode(&code[at], code.size() - at);
    if (!decoded) {
      report(at, decoded.error);
      return problems; // where the next instruction begins is not known
    }
    const Instruction &instruction = decoded.instruction;
    if (halted)
      report(at, "an instruction after halt");
    if (std::optional<std::string> text = illegal(instruction, machine))
      report(at, *text);
    const size_t next = at + instruction.words();
    if (!loopEnds.empty() && next > loopEnds.back())
      report(at, "the loop body ends at word " + std::to_string(loopEnds.back()) + ", inside this instruction");
    if (const Loop *loop = instruction.getIf<Loop>()) {
      const size_t end = next + size_t(loop->body_words);
      if (end > (loopEnds.empty() ? code.size() : loopEnds.back()))
        report(at, "the loop body ends at word " + std::to_string(end) + ", after the end of " +
                       (loopEnds.empty() ? "the code" : "the loop around it"));
      loopEnds.push_back(end);
      if (int64_t(loopEnds.size()) > kMaxLoopDepth)
        report(at, "loops nest " + std::to_string(loopEnds.size()) + " deep, allowed are " + std::to_string(kMaxLoopDepth));
    }
    if (instruction.getIf<Halt>()) {
      if (!loopEnds.empty())
        report(at, "halt inside a loop");
      halted = true;
    }
    at = next;
  }
  if (!halted)
    report(code.size(), "the code does not end with halt");
  return problems;
}

} // namespace tw::isa
