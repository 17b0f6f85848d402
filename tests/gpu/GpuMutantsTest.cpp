//===- GpuMutantsTest.cpp - Planted faults in tile kernels are found ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that the compiler makes, with one fault each: in the text of the tile
// kernel, in a tensor map, or in the arguments of its launch. A fault is caught
// if one of a few runs on the emulator breaks a rule or gives other values.
// What no run catches has to stand in kEquivalent, with the reason why the
// program with that fault is as good as the one without.
//
// TILEWRIGHT_MUTANT=NAME runs the mutants whose name contains NAME, and says how each was caught.
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/MmaKernel.h"
#include "tests/gpu/EmulatedNetwork.h"
#include "tests/gpu/NetworkText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <set>

using namespace tw;

namespace {

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

struct Subject {
  const char *name, *text;
  const char *tile; ///< Variant::name
  unsigned stages;  ///< of its ring
  /// Blocks that the tiles go to, so that each has several and the ring of stages goes round. 0: as the compiler has it.
  uint32_t grid = 0;
  /// Of the GPU that the best tile is chosen for. 0: as the compiler has it.
  uint32_t multiprocessors = 0;
  gpu::Architecture architecture = gpu::Architecture::Sm90a;
  /// Its kernel has other arguments: no faults in them.
  bool isAttention = false;
  /// The faults are in the second launch, which adds up the parts of split tiles.
  bool isSum = false;

  bool isHopper() const { return architecture == gpu::Architecture::Sm90a; }
};

/// A product whose epilogue reads a residual: nine tiles of 64 x 64, of five stages of k.
constexpr const char *kResidualProduct =
    R"(func.func @main(%x: tensor<136x264xbf16>, %r: tensor<136x136xbf16>) -> tensor<136x136xbf16> {
  %a = graph.cast %x : (tensor<136x264xbf16>) -> tensor<136x264xf32>
  %q = graph.cast %r : (tensor<136x136xbf16>) -> tensor<136x136xf32>
  %w = graph.constant dense<0.0> : tensor<264x136xf32>
  %y = graph.matmul %a, %w : (tensor<136x264xf32>, tensor<264x136xf32>) -> tensor<136x136xf32>
  %s = graph.add %y, %q : (tensor<136x136xf32>, tensor<136x136xf32>) -> tensor<136x136xf32>
  %o = graph.cast %s : (tensor<136x136xf32>) -> tensor<136x136xbf16>
  return %o : tensor<136x136xbf16>
})";

/// The same of seven stages: more than a ring has, so that a block comes back to the last stage of a whole tile.
constexpr const char *kLongProduct =
    R"(func.func @main(%x: tensor<136x424xbf16>, %r: tensor<136x136xbf16>) -> tensor<136x136xbf16> {
  %a = graph.cast %x : (tensor<136x424xbf16>) -> tensor<136x424xf32>
  %q = graph.cast %r : (tensor<136x136xbf16>) -> tensor<136x136xf32>
  %w = graph.constant dense<0.0> : tensor<424x136xf32>
  %y = graph.matmul %a, %w : (tensor<136x424xf32>, tensor<424x136xf32>) -> tensor<136x136xf32>
  %s = graph.add %y, %q : (tensor<136x136xf32>, tensor<136x136xf32>) -> tensor<136x136xf32>
  %o = graph.cast %s : (tensor<136x136xf32>) -> tensor<136x136xbf16>
  return %o : tensor<136x136xbf16>
})";

const Subject kSubjects[] = {
    // Six tiles for two blocks; two chunks leave as boxes, from two buffers; the epilogue reads a residual.
    {"boxes", R"(func.func @main(%x: tensor<136x264xbf16>, %r: tensor<136x136xbf16>) -> tensor<136x136xbf16> {
  %a = graph.cast %x : (tensor<136x264xbf16>) -> tensor<136x264xf32>
  %q = graph.cast %r : (tensor<136x136xbf16>) -> tensor<136x136xf32>
  %w = graph.constant dense<0.0> : tensor<264x136xf32>
  %y = graph.matmul %a, %w : (tensor<136x264xf32>, tensor<264x136xf32>) -> tensor<136x136xf32>
  %s = graph.add %y, %q : (tensor<136x136xf32>, tensor<136x136xf32>) -> tensor<136x136xf32>
  %o = graph.cast %s : (tensor<136x136xf32>) -> tensor<136x136xbf16>
  return %o : tensor<136x136xbf16>
})",
     "64x128", 6, 2},
    // Blocks of a cluster that share k, in more stages than the ring has; rows that no box holds.
    {"split", R"(func.func @main(%x: tensor<70x1696xbf16>) -> tensor<70x66xbf16> {
  %a = graph.cast %x : (tensor<70x1696xbf16>) -> tensor<70x1696xf32>
  %w = graph.constant dense<0.0> : tensor<1696x66xf32>
  %y = graph.matmul %a, %w : (tensor<70x1696xf32>, tensor<1696x66xf32>) -> tensor<70x66xf32>
  %o = graph.cast %y : (tensor<70x66xf32>) -> tensor<70x66xbf16>
  return %o : tensor<70x66xbf16>
})",
     "64x64/2", 6},
    // The windows of two images, for two consumers.
    {"pixels", R"(func.func @main(%x: tensor<2x56x13x17xbf16>, %r: tensor<2x56x13x17xbf16>) -> tensor<2x56x13x17xbf16> {
  %a = graph.cast %x : (tensor<2x56x13x17xbf16>) -> tensor<2x56x13x17xf32>
  %q = graph.cast %r : (tensor<2x56x13x17xbf16>) -> tensor<2x56x13x17xf32>
  %w = graph.constant dense<0.0> : tensor<56x56x3x3xf32>
  %b = graph.constant dense<0.0> : tensor<56xf32>
  %y = graph.conv %a, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"} : (tensor<2x56x13x17xf32>, tensor<56x56x3x3xf32>, tensor<56xf32>) -> tensor<2x56x13x17xf32>
  %s = graph.add %y, %q : (tensor<2x56x13x17xf32>, tensor<2x56x13x17xf32>) -> tensor<2x56x13x17xf32>
  %o = graph.cast %s : (tensor<2x56x13x17xf32>) -> tensor<2x56x13x17xbf16>
  return %o : tensor<2x56x13x17xbf16>
})",
     "128x64", 6, 1},
    // Bytes: a zero point, and columns permuted so that boxes hold them.
    {"bytes", R"(func.func @main(%x: tensor<200x352xi8>) -> tensor<200x144xi8> {
  %w = graph.constant dense<0> : tensor<352x144xi8>
  %y = graph.matmul_integer %x, %w {a_zero_point = 3 : i32, b_zero_points = array<i32: 0>} : (tensor<200x352xi8>, tensor<352x144xi8>) -> tensor<200x144xi32>
  %o = graph.requantize %y {multipliers = array<f32: 0.0002>, axis = 1 : i64, zero_point = -5 : i32} : (tensor<200x144xi32>) -> tensor<200x144xi8>
  return %o : tensor<200x144xi8>
})",
     "64x128", 6, 2},
    // Products of computed matrices, B as it lies.
    {"batched", R"(func.func @main(%p: tensor<3x70x200xbf16>, %v: tensor<3x200x136xbf16>) -> tensor<3x70x136xbf16> {
  %a = graph.cast %p : (tensor<3x70x200xbf16>) -> tensor<3x70x200xf32>
  %b = graph.cast %v : (tensor<3x200x136xbf16>) -> tensor<3x200x136xf32>
  %s = graph.matmul %a, %b : (tensor<3x70x200xf32>, tensor<3x200x136xf32>) -> tensor<3x70x136xf32>
  %o = graph.cast %s : (tensor<3x70x136xf32>) -> tensor<3x70x136xbf16>
  return %o : tensor<3x70x136xbf16>
})",
     "64x128", 6, 4},
    // A grid that begins before the one in front of it ends.
    {"overlap", R"(func.func @main(%x: tensor<400x192xbf16>) -> tensor<400x64xbf16> {
  %a = graph.cast %x : (tensor<400x192xbf16>) -> tensor<400x192xf32>
  %v = graph.constant dense<0.0> : tensor<192x192xf32>
  %y = graph.matmul %a, %v : (tensor<400x192xf32>, tensor<192x192xf32>) -> tensor<400x192xf32>
  %r = graph.relu %y : tensor<400x192xf32>
  %h = graph.cast %r : (tensor<400x192xf32>) -> tensor<400x192xbf16>
  %b = graph.cast %h : (tensor<400x192xbf16>) -> tensor<400x192xf32>
  %w = graph.constant dense<0.0> : tensor<192x64xf32>
  %z = graph.matmul %b, %w : (tensor<400x192xf32>, tensor<192x64xf32>) -> tensor<400x64xf32>
  %o = graph.cast %z : (tensor<400x64xf32>) -> tensor<400x64xbf16>
  return %o : tensor<400x64xbf16>
})",
     "64x64", 5, 2},
    // The same, and the grid in front makes what is copied ahead for the epilogue.
    {"overlap_ahead", R"(func.func @main(%x: tensor<136x192xbf16>) -> tensor<136x192xbf16> {
  %a = graph.cast %x : (tensor<136x192xbf16>) -> tensor<136x192xf32>
  %v = graph.constant dense<0.0> : tensor<192x192xf32>
  %y = graph.matmul %a, %v : (tensor<136x192xf32>, tensor<192x192xf32>) -> tensor<136x192xf32>
  %r = graph.relu %y : tensor<136x192xf32>
  %h = graph.cast %r : (tensor<136x192xf32>) -> tensor<136x192xbf16>
  %b = graph.cast %h : (tensor<136x192xbf16>) -> tensor<136x192xf32>
  %w = graph.constant dense<0.0> : tensor<192x192xf32>
  %z = graph.matmul %b, %w : (tensor<136x192xf32>, tensor<192x192xf32>) -> tensor<136x192xf32>
  %c = graph.constant dense<0.0> : tensor<192xf32>
  %t = graph.add %z, %c : (tensor<136x192xf32>, tensor<192xf32>) -> tensor<136x192xf32>
  %s = graph.add %t, %b : (tensor<136x192xf32>, tensor<136x192xf32>) -> tensor<136x192xf32>
  %o = graph.cast %s : (tensor<136x192xf32>) -> tensor<136x192xbf16>
  return %o : tensor<136x192xbf16>
})",
     "64x128", 6, 2},
    // The epilogue's loads are its own. The best tile has this variant: on nine multiprocessors, for nine tiles, that is no split one.
    {"direct", kResidualProduct, "64x64 direct", 5, 2, 9},
    // Five blocks do a whole tile each, then share the k of the other four: 28 stages, so that pieces lie in two tiles.
    {"stream", kLongProduct, "64x64 stream-k 4/5", 5, 0, 5},
    {"stream_sum", kLongProduct, "64x64 stream-k 4/5", 5, 0, 5, gpu::Architecture::Sm90a, false, true},
    // All tiles are split; bytes of permuted columns.
    {"stream_bytes", R"(func.func @main(%x: tensor<136x1536xi8>) -> tensor<136x144xi8> {
  %w = graph.constant dense<0> : tensor<1536x144xi8>
  %y = graph.matmul_integer %x, %w {a_zero_point = 3 : i32, b_zero_points = array<i32: 0>} : (tensor<136x1536xi8>, tensor<1536x144xi8>) -> tensor<136x144xi32>
  %o = graph.requantize %y {multipliers = array<f32: 0.0001>, axis = 1 : i64, zero_point = -5 : i32} : (tensor<136x144xi32>) -> tensor<136x144xi8>
  return %o : tensor<136x144xi8>
})",
     "64x64 stream-k 9/10", 5, 0, 10},
    // Of sm_80, each with more stages of k than the ring has. A product whose epilogue reads a residual.
    {"mma", R"(func.func @main(%x: tensor<70x584xbf16>, %r: tensor<70x72xbf16>) -> tensor<70x72xbf16> {
  %a = graph.cast %x : (tensor<70x584xbf16>) -> tensor<70x584xf32>
  %q = graph.cast %r : (tensor<70x72xbf16>) -> tensor<70x72xf32>
  %w = graph.constant dense<0.0> : tensor<584x72xf32>
  %y = graph.matmul %a, %w : (tensor<70x584xf32>, tensor<584x72xf32>) -> tensor<70x72xf32>
  %s = graph.add %y, %q : (tensor<70x72xf32>, tensor<70x72xf32>) -> tensor<70x72xf32>
  %o = graph.cast %s : (tensor<70x72xf32>) -> tensor<70x72xbf16>
  return %o : tensor<70x72xbf16>
})",
     "64x64", 4, 0, 0, gpu::Architecture::Sm80},
    // Windows of an image, and a residual-free epilogue.
    {"mma_pixels", R"(func.func @main(%x: tensor<1x56x9x8xbf16>) -> tensor<1x56x9x8xbf16> {
  %a = graph.cast %x : (tensor<1x56x9x8xbf16>) -> tensor<1x56x9x8xf32>
  %w = graph.constant dense<0.0> : tensor<56x56x3x3xf32>
  %b = graph.constant dense<0.0> : tensor<56xf32>
  %y = graph.conv %a, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"} : (tensor<1x56x9x8xf32>, tensor<56x56x3x3xf32>, tensor<56xf32>) -> tensor<1x56x9x8xf32>
  %o = graph.cast %y : (tensor<1x56x9x8xf32>) -> tensor<1x56x9x8xbf16>
  return %o : tensor<1x56x9x8xbf16>
})",
     "128x64", 4, 0, 0, gpu::Architecture::Sm80},
    // Products of computed matrices, B as it lies, all split: a piece begins in one tile and ends in the next.
    {"mma_split", R"(func.func @main(%p: tensor<2x70x712xbf16>, %v: tensor<2x712x72xbf16>) -> tensor<2x70x72xbf16> {
  %a = graph.cast %p : (tensor<2x70x712xbf16>) -> tensor<2x70x712xf32>
  %b = graph.cast %v : (tensor<2x712x72xbf16>) -> tensor<2x712x72xf32>
  %s = graph.matmul %a, %b : (tensor<2x70x712xf32>, tensor<2x712x72xf32>) -> tensor<2x70x72xf32>
  %o = graph.cast %s : (tensor<2x70x72xf32>) -> tensor<2x70x72xbf16>
  return %o : tensor<2x70x72xbf16>
})",
     "64x64 stream-k 8/13", 4, 0, 13, gpu::Architecture::Sm80},
    // Whole tiles and split ones.
    {"mma_stream", kLongProduct, "64x64 stream-k 4/5", 4, 0, 5, gpu::Architecture::Sm80},
    {"mma_stream_sum", kLongProduct, "64x64 stream-k 4/5", 4, 0, 5, gpu::Architecture::Sm80, false, true},
    // Attention: whole tiles of keys, and a part of one.
    {"mma_attention",
     R"(func.func @main(%q: tensor<1x60x64xbf16>, %k: tensor<1x248x64xbf16>, %v: tensor<1x248x64xbf16>) -> tensor<1x60x64xbf16> {
  %a = graph.cast %q : (tensor<1x60x64xbf16>) -> tensor<1x60x64xf32>
  %b = graph.cast %k : (tensor<1x248x64xbf16>) -> tensor<1x248x64xf32>
  %c = graph.cast %v : (tensor<1x248x64xbf16>) -> tensor<1x248x64xf32>
  %t = graph.transpose %b {perm = array<i64: 0, 2, 1>} : (tensor<1x248x64xf32>) -> tensor<1x64x248xf32>
  %s = graph.matmul %a, %t : (tensor<1x60x64xf32>, tensor<1x64x248xf32>) -> tensor<1x60x248xf32>
  %f = graph.constant dense<0.05> : tensor<1xf32>
  %m = graph.mul %s, %f : (tensor<1x60x248xf32>, tensor<1xf32>) -> tensor<1x60x248xf32>
  %p = graph.softmax %m {axis = 2 : i64} : tensor<1x60x248xf32>
  %y = graph.matmul %p, %c : (tensor<1x60x248xf32>, tensor<1x248x64xf32>) -> tensor<1x60x64xf32>
  %o = graph.cast %y : (tensor<1x60x64xf32>) -> tensor<1x60x64xbf16>
  return %o : tensor<1x60x64xbf16>
})",
     "64x64", 4, 0, 0, gpu::Architecture::Sm80, true},
};

void PrintTo(const Subject &subject, std::ostream *stream) { *stream << subject.tile; }

/// Of every step the variant that the subject names; where there is none, the first one.
gpu::Program programOf(const Subject &subject) {
  gpu::GpuOptions options;
  options.mostVariants = 100;
  options.architecture = subject.architecture;
  if (subject.multiprocessors)
    options.multiprocessors = subject.multiprocessors;
  llvm::Expected<gpu::Program> program = test::compileText(subject.text, options);
  if (!program) {
    ADD_FAILURE() << llvm::toString(program.takeError());
    return {};
  }
  for (gpu::Step &step : program->steps) {
    auto variant = llvm::find_if(step.variants, [&](const gpu::Variant &v) { return v.name == subject.tile; });
    if (variant == step.variants.end()) {
      step.variants.resize(1);
      continue;
    }
    step.variants = {*variant};
    if (subject.grid)
      for (gpu::Launch &launch : step.variants[0].launches)
        launch.grid = subject.grid;
  }
  return std::move(*program);
}

/// The launch that gets the faults: the last one of tiles.
gpu::Launch &faultyLaunch(gpu::Program &program, const Subject &subject) {
  auto step = std::find_if(program.steps.rbegin(), program.steps.rend(),
                           [&](const gpu::Step &s) { return s.variants[0].name == subject.tile; });
  return step->variants[0].launches[subject.isSum ? 1 : 0];
}

std::vector<std::vector<uint8_t>> inputsOf(const gpu::Program &program) {
  std::vector<std::vector<uint8_t>> inputs;
  uint32_t state = 17;
  for (const gpu::Tensor &tensor : program.inputs) {
    std::vector<uint8_t> bytes(test::bytesOf(tensor));
    for (size_t i = 0; i < bytes.size(); ++i) {
      state = state * 1664525u + 1013904223u;
      // High bytes of bfloat16: 0.5 to 2, of both signs.
      bytes[i] = tensor.element == gpu::Element::Bf16 && i % 2 ? (state >> 24 & 0x80) | 0x3f : state >> 24;
    }
    inputs.push_back(std::move(bytes));
  }
  return inputs;
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

/// Where `token`s of a line are registers: the n-th, negative from the end; begin and length.
std::optional<std::pair<size_t, size_t>> registerIn(llvm::StringRef line, int n) {
  std::vector<std::pair<size_t, size_t>> found;
  for (size_t at = line.find('%'); at != llvm::StringRef::npos; at = line.find('%', at + 1)) {
    const size_t end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789", at + 1);
    found.push_back({at, end - at});
  }
  const int index = n < 0 ? int(found.size()) + n : n;
  if (index < 0 || index >= int(found.size()))
    return std::nullopt;
  return found[size_t(index)];
}

using Change = std::function<std::optional<std::string>(const std::string &line)>;

std::optional<std::string> removed(const std::string &) { return ""; }

/// The n-th register of the line becomes `op register, value`.
Change operand(int n, const char *op, int64_t value) {
  return [=](const std::string &line) -> std::optional<std::string> {
    auto place = registerIn(line, n);
    if (!place)
      return std::nullopt;
    const std::string name = line.substr(place->first, place->second);
    const bool isWide = llvm::StringRef(name).starts_with("%rd"), isShort = llvm::StringRef(name).starts_with("%rs");
    const std::string type = std::string(llvm::StringRef(op).starts_with("add") ? ".s" : ".b") + (isWide    ? "64"
                                                                                                  : isShort ? "16"
                                                                                                            : "32");
    std::string changed = line;
    changed.replace(place->first, place->second, "other");
    return "{\n.reg .b" + type.substr(2) + " other;\n" + op + type + " other, " + name + ", " + std::to_string(value) + ";\n" +
           changed + "\n}";
  };
}

Change replaced(std::string from, std::string to) {
  return [=](const std::string &line) -> std::optional<std::string> {
    const size_t at = line.find(from);
    if (at == std::string::npos)
      return std::nullopt;
    std::string changed = line;
    return changed.replace(at, from.size(), to);
  };
}

/// Two registers of the line change places.
Change exchanged(int i, int j) {
  return [=](const std::string &line) -> std::optional<std::string> {
    auto first = registerIn(line, i), second = registerIn(line, j);
    if (!first || !second)
      return std::nullopt;
    const std::string a = line.substr(first->first, first->second), b = line.substr(second->first, second->second);
    std::string changed = line;
    changed.replace(second->first, second->second, a);
    return changed.replace(first->first, first->second, b);
  };
}

/// The descriptor that an `or` makes gets other bits from `shift` on; `if16`: only where the field from bit 16 on is this.
Change descriptor(unsigned shift, uint64_t bits, uint64_t if16 = 0) {
  return [=](const std::string &line) -> std::optional<std::string> {
    const size_t at = line.rfind(' ');
    uint64_t value = 0;
    if (at == std::string::npos || llvm::StringRef(line).drop_front(at + 1).rtrim(";\r").getAsInteger(10, value) ||
        value >> 62 == 0)
      return std::nullopt;
    if (if16 && (value >> 16 & 0x3fff) != if16)
      return std::nullopt;
    return line.substr(0, at + 1) + std::to_string(int64_t(value ^ bits << shift)) + ";";
  };
}

/// Which of the lines get a fault, one after the other.
enum Places { First, Ends, All }; ///< Ends: the first and the last one

struct TextFault {
  const char *name;
  const char
      *line; ///< what lines have in them that get the fault; "\n" and the beginning of the line behind: those that it follows
  Change change;
  Places places = Ends;
  bool needsConsumers = false; ///< only of kernels with several warpgroups that multiply
};

const TextFault kTextFaults[] = {
    // What is missing.
    {"no mbarrier.init", "mbarrier.init.", removed},
    {"no fence.mbarrier_init", "fence.mbarrier_init", removed, All},
    {"no bar.sync of the block", "bar.sync 0;", removed, All},
    {"no bar.sync of a warpgroup", "bar.sync %", removed, All},
    {"no wait for an mbarrier", "@done bra", replaced("@done ", ""), All},
    {"no arrival", "mbarrier.arrive.release", removed, All},
    {"no arrive.expect_tx", "mbarrier.arrive.expect_tx", removed, All},
    {"no copy into shared memory", "cp.async.bulk.tensor.2d.shared::cluster", removed, All},
    {"no copy into shared memory", "cp.async.bulk.tensor.3d.shared::cluster", removed, All},
    {"no copy into shared memory", "cp.async.bulk.tensor.4d.shared::cluster", removed, All},
    {"no wgmma.fence", "wgmma.fence", removed, All},
    {"no wgmma.commit_group", "wgmma.commit_group", removed, All},
    {"no wgmma.wait_group", "wgmma.wait_group", removed, All},
    {"no wgmma", "wgmma.mma_async", removed, All},
    {"no fence.proxy.async", "fence.proxy.async", removed, All},
    {"no stmatrix", "stmatrix", removed, All},
    {"no bulk store", ".bulk_group [", removed, All},
    {"no bulk commit_group", "cp.async.bulk.commit_group", removed, All},
    {"no bulk wait_group.read", "cp.async.bulk.wait_group.read", removed, All},
    {"no bulk wait_group", "cp.async.bulk.wait_group 0", removed, All},
    {"no barrier.cluster.arrive", "barrier.cluster.arrive", removed, All},
    {"no barrier.cluster.wait", "barrier.cluster.wait", removed, All},
    {"no griddepcontrol.wait", "griddepcontrol.wait", removed, All},
    // What is weaker than it has to be.
    {"wgmma.wait_group 2 for 1", "wgmma.wait_group.sync.aligned 1", replaced("aligned 1", "aligned 2"), All},
    {"wgmma.wait_group 1 for 0", "wgmma.wait_group.sync.aligned 0", replaced("aligned 0", "aligned 1"), All},
    {"bulk wait_group.read 2 for 1", "cp.async.bulk.wait_group.read 1", replaced("read 1", "read 2"), All},
    {"bulk wait_group 1 for 0", "cp.async.bulk.wait_group 0", replaced("group 0", "group 1"), All},
    {"bulk wait_group.read for wait_group", "cp.async.bulk.wait_group 0", replaced("group 0", "group.read 0"), All},
    {"wait for the other parity", "mbarrier.try_wait", operand(1, "xor", 1), All},
    {"wait for another mbarrier", "mbarrier.try_wait", operand(0, "add", 8), All},
    {"arrival at another mbarrier", "mbarrier.arrive.release", operand(-1, "add", 8), First},
    {"bar.sync of half a warpgroup", "bar.sync %", replaced(", 128", ", 64"), All},
    {"one bar.sync for all warpgroups", "bar.sync %", operand(0, "or", 3), All, true},
    {"one arrival more is expected", "mbarrier.init.", operand(1, "add", 1)},
    {"16 bytes more are expected", "mbarrier.arrive.expect_tx", operand(-1, "add", 16)},
    {"16 bytes less are expected", "mbarrier.arrive.expect_tx", operand(-1, "add", -16)},
    // Wrong addresses and coordinates.
    {"a copy goes elsewhere", "shared::cluster.global", operand(0, "add", 128)},
    {"a copy comes from another column", "shared::cluster.global", operand(2, "add", 64)},
    {"a copy comes from another row", "shared::cluster.global", operand(3, "add", 1)},
    {"a copy comes from another product", "tensor.3d.shared::cluster", operand(4, "add", 1)},
    {"a copy comes from another line", "tensor.4d.shared::cluster", operand(4, "add", 1)},
    {"a copy comes from another image", "tensor.4d.shared::cluster", operand(5, "add", 1)},
    {"a copy counts on another mbarrier", "d.shared::cluster.global.mbarrier", operand(-1, "add", 8)},
    {"no copy of a vector", "cp.async.bulk.shared::cluster.global", removed},
    {"a vector goes elsewhere", "cp.async.bulk.shared::cluster.global", operand(0, "add", 16)},
    {"a vector comes from elsewhere", "cp.async.bulk.shared::cluster.global", operand(1, "add", 16)},
    {"16 bytes of a vector more", "cp.async.bulk.shared::cluster.global", operand(2, "add", 16)},
    {"a vector counts on another mbarrier", "bulk.shared::cluster.global.mbarrier", operand(-1, "add", 8)},
    {"the residual is read elsewhere", "ld.shared.b32", operand(-1, "add", 4)},
    {"a copy is of another tap", "shared::cluster.global.im2col", operand(-2, "add", 1)},
    {"a copy is of another line of taps", "shared::cluster.global.im2col", operand(-1, "add", 1)},
    {"a box goes to another column", ".bulk_group [", operand(1, "add", 8)},
    {"a box goes to another row", ".bulk_group [", operand(2, "add", 1)},
    {"a box comes from elsewhere", ".bulk_group [", operand(-1, "add", 128)},
    {"stmatrix without a part of the swizzle", "stmatrix", operand(0, "xor", 16)},
    {"stmatrix without another part of the swizzle", "stmatrix", operand(0, "xor", 32)},
    {"stmatrix one row further", "stmatrix", operand(0, "add", 128)},
    {"stmatrix of other matrices", "stmatrix", exchanged(1, 2)},
    {"sums in another order", "wgmma.mma_async", exchanged(0, 1)},
    {"sums are stored elsewhere", "st.shared.b32", operand(0, "add", 512)},
    {"sums of another block", "mapa.shared::cluster", operand(-1, "xor", 1)},
    {"another block of the cluster", "%cluster_ctarank", replaced("%cluster_ctarank", "0")},
    {"sums of a part go to other columns", "st.global.v2", operand(0, "add", 8)},
    // Descriptors.
    {"a descriptor of rows swizzled by 64 bytes", "or.b64", descriptor(62, 3), All},
    {"8 rows lie 512 bytes apart", "or.b64", descriptor(32, 64 ^ 32), All},
    {"64 columns lie less than 64 rows apart", "or.b64", descriptor(16, 512 ^ 256, 512), All},
    {"a step of k of A is 64 bytes", "add.s64 da", replaced(", 2;", ", 4;"), All},
    {"a step of k of B is another one", "add.s64 db", replaced(", 2;", ", 4;"), All},
    {"a step of k of B is another one", "add.s64 db", replaced(", 128;", ", 2;"), All},
    {"B is not transposed", "wgmma.mma_async", replaced("0, 1;", "0, 0;")},
    {"later products overwrite", "setp.eq.b32 p, 0, 0", replaced("setp.eq", "setp.ne"), All},
    {"the first product adds", "\nwgmma.fence", replaced("setp.ne.b32 p, %", "setp.ge.u32 p, %"), All},
    {"all threads arrive", "\n@p mbarrier.arrive", replaced("setp.ne.b32 p, %", "setp.ge.u32 p, %"), First},
    // The ring.
    {"a ring one stage shorter, for one side", ", @STAGES;", replaced(", @STAGES;", ", @SHORTER;"), All},
    {"a ring one stage longer, for one side", ", @STAGES;", replaced(", @STAGES;", ", @LONGER;"), All},
};

/// Of the kernels of sm_80.
const TextFault kMmaTextFaults[] = {
    {"no cp.async", "cp.async.cg.shared", removed},
    {"no cp.async.commit_group", "cp.async.commit_group", removed, All},
    {"no cp.async.wait_group", "cp.async.wait_group", removed, All},
    {"cp.async.wait_group 3 for 2", "cp.async.wait_group 2", replaced("group 2", "group 3"), All},
    {"no bar.sync", "bar.sync 0;", removed, All},
    {"a copy goes to another unit", "cp.async.cg.shared", operand(0, "xor", 16)},
    {"a copy goes to another row", "cp.async.cg.shared", operand(0, "xor", 128)},
    {"a copy comes from another unit", "cp.async.cg.shared", operand(1, "add", 16)},
    {"nothing is copied", "cp.async.cg.shared", operand(2, "and", 0)},
    {"half is copied", "cp.async.cg.shared", operand(2, "and", 8)},
    {"no ldmatrix", "ldmatrix", removed},
    {"ldmatrix without a part of the swizzle", "ldmatrix", operand(-1, "xor", 16)},
    {"ldmatrix without another part of the swizzle", "ldmatrix", operand(-1, "xor", 64)},
    {"ldmatrix of another row", "ldmatrix", operand(-1, "xor", 128)},
    {"ldmatrix of other matrices", "ldmatrix", exchanged(0, 1)},
    {"ldmatrix is not transposed", "ldmatrix", replaced(".trans", "")},
    {"no mma", "mma.sync", removed},
    {"mma of other rows of A", "mma.sync", exchanged(4, 5)},
    {"mma of other k of A", "mma.sync", exchanged(4, 6)},
    {"mma of other k of B", "mma.sync", exchanged(8, 9)},
    {"sums in another order", "mma.sync", exchanged(0, 1)},
    {"sums go elsewhere", "st.shared.v2", operand(0, "add", 8)},
    {"sums come from elsewhere", "ld.shared.v4", operand(-1, "add", 16)},
    {"a ring one stage shorter, for one side", ", @STAGES;", replaced(", @STAGES;", ", @SHORTER;"), All},
    {"a ring one stage longer, for one side", ", @STAGES;", replaced(", @STAGES;", ", @LONGER;"), All},
};

/// Of the kernel that adds up the parts of split tiles.
const TextFault kSumTextFaults[] = {
    {"parts come from other columns", "ld.global.v4", operand(-1, "add", 16)},
    {"a part is left out", "add.rn.f32", removed},
    {"another tile", "%ctaid.x", operand(0, "xor", 1)},
    {"results go elsewhere", "st.global", operand(0, "add", 8)},
};

struct Mutant {
  std::string name;
  gpu::Program program;
};

llvm::ArrayRef<TextFault> textFaultsOf(const Subject &subject) {
  return subject.isSum        ? llvm::ArrayRef(kSumTextFaults)
         : subject.isHopper() ? llvm::ArrayRef(kTextFaults)
                              : llvm::ArrayRef(kMmaTextFaults);
}

void addTextFaults(const gpu::Program &program, const Subject &subject, std::vector<Mutant> &mutants) {
  gpu::Program copy = program;
  const gpu::Launch &copyOfLaunch = faultyLaunch(copy, subject);
  const uint32_t kernel = copyOfLaunch.kernel;
  const unsigned stages = subject.stages;
  const std::string &text = program.kernels[kernel].ptx;
  // The ring: compared with the number of its stages.
  const std::string ringEnd = ", " + std::to_string(stages) + ";";
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n');
  for (const TextFault &fault : textFaultsOf(subject)) {
    if (fault.needsConsumers && copyOfLaunch.block <= 256)
      continue;
    llvm::SmallVector<std::pair<size_t, std::string>> places;
    for (size_t i = 0; i < lines.size(); ++i) {
      std::string line = lines[i].str();
      const bool isRing = llvm::StringRef(fault.line) == ", @STAGES;";
      if (isRing) {
        if (line.find("setp.eq.s32") == std::string::npos && line.find("setp.ne.s32") == std::string::npos)
          continue;
        if (size_t at = line.find(ringEnd); at != std::string::npos)
          line.replace(at, ringEnd.size(), ", @STAGES;");
      }
      const bool isPlace = fault.line[0] == '\n' ? i + 1 < lines.size() && lines[i + 1].starts_with(fault.line + 1)
                                                 : line.find(fault.line) != std::string::npos;
      if (!isPlace)
        continue;
      if (std::optional<std::string> changed = fault.change(line)) {
        for (auto [pattern, value] : {std::pair{"@SHORTER", stages - 1}, std::pair{"@LONGER", stages + 1}})
          if (size_t at = changed->find(pattern); at != std::string::npos)
            changed->replace(at, 8 - (pattern[1] == 'L'), std::to_string(value));
        places.push_back({i, *changed});
      }
    }
    for (size_t i = 0; i < places.size(); ++i) {
      if (i != 0 && fault.places != All && !(fault.places == Ends && i + 1 == places.size()))
        continue;
      std::string changed;
      for (size_t line = 0; line < lines.size(); ++line)
        changed += (line == places[i].first ? places[i].second : lines[line].str()) + "\n";
      Mutant mutant{std::string(subject.name) + ": " + fault.name + " #" + std::to_string(i + 1), program};
      mutant.program.kernels[kernel].ptx = std::move(changed);
      mutants.push_back(std::move(mutant));
    }
  }
}

/// In what the launch is told. False: the program has no place for the fault.
struct DataFault {
  const char *name;
  std::function<bool(gpu::Program &, gpu::Launch &)> plant;
};

gpu::TensorMap &mapOf(gpu::Program &program, gpu::Launch &launch, size_t argument) {
  return program.maps[std::get<gpu::MapIndex>(launch.arguments[argument]).index];
}

/// Adds to a number of the launch.
std::function<bool(gpu::Program &, gpu::Launch &)> number(size_t argument, int by) {
  return [=](gpu::Program &, gpu::Launch &launch) {
    std::get<uint32_t>(launch.arguments[argument]) += uint32_t(by);
    return true;
  };
}

/// The same of convolutions.
std::function<bool(gpu::Program &, gpu::Launch &)> windowNumber(size_t argument, int by) {
  return [=](gpu::Program &program, gpu::Launch &launch) {
    return mapOf(program, launch, 0).isIm2col() && number(argument, by)(program, launch);
  };
}

std::function<bool(gpu::Program &, gpu::Launch &)> map(size_t argument, std::function<void(gpu::TensorMap &)> change) {
  return [=](gpu::Program &program, gpu::Launch &launch) {
    if (argument == 2 && program.kernels[launch.kernel].ptx.find("bulk_group [") == std::string::npos)
      return false;
    change(mapOf(program, launch, argument));
    return true;
  };
}

std::function<bool(gpu::Program &, gpu::Launch &)> imageMap(std::function<void(gpu::TensorMap &)> change) {
  return [=](gpu::Program &program, gpu::Launch &launch) {
    gpu::TensorMap &image = mapOf(program, launch, 0);
    if (image.isIm2col())
      change(image);
    return image.isIm2col();
  };
}

/// Arguments of a tile kernel, in their order (compiler/codegen/gpu/TileKernel.h).
enum Parameter : size_t {
  MapA,
  MapB,
  MapOut,
  Batches,
  Rows,
  Columns,
  Stages,
  OutHeight,
  OutWidth,
  StrideHeight,
  StrideWidth,
  PadTop,
  PadLeft,
  DilationHeight,
  DilationWidth,
  FilterWidth,
  ChannelBlocks,
  InnerBatches,
  Split,
  Out,
  Slots,
  FirstPointer
};

/// The same of split tiles.
std::function<bool(gpu::Program &, gpu::Launch &)> splitNumber(size_t split, size_t argument, int by) {
  return [=](gpu::Program &program, gpu::Launch &launch) {
    return std::get<uint32_t>(launch.arguments[split]) && number(argument, by)(program, launch);
  };
}

std::function<bool(gpu::Program &, gpu::Launch &)> slotsElsewhere(size_t split, size_t argument) {
  return [=](gpu::Program &, gpu::Launch &launch) {
    std::get<gpu::Place>(launch.arguments[argument]).offset += 256;
    return std::get<uint32_t>(launch.arguments[split]) != 0;
  };
}

/// A change of the map of a residual that is copied ahead: the last argument.
auto residualMap(void (*change)(gpu::TensorMap &)) {
  return [change](gpu::Program &program, gpu::Launch &launch) {
    auto *map = std::get_if<gpu::MapIndex>(&launch.arguments.back());
    if (!map)
      return false;
    change(program.maps[map->index]);
    return true;
  };
}

const DataFault kDataFaults[] = {
    {"64 rows less", number(Rows, -64)},
    {"64 columns less", number(Columns, -64)},
    {"a stage of k less", number(Stages, -1)},
    {"another height of the output", windowNumber(OutHeight, 1)},
    {"another width of the output", windowNumber(OutWidth, -1)},
    {"another stride of windows", windowNumber(StrideHeight, 1)},
    {"another stride of windows in a line", windowNumber(StrideWidth, 1)},
    {"another padding above", windowNumber(PadTop, -1)},
    {"another padding before lines", windowNumber(PadLeft, -1)},
    {"another dilation", windowNumber(DilationHeight, 1)},
    {"another dilation in a line", windowNumber(DilationWidth, 1)},
    {"another width of the filter", windowNumber(FilterWidth, -1)},
    {"another number of blocks of channels", windowNumber(ChannelBlocks, 1)},
    {"a split tile less", splitNumber(Split, Split, -1)},
    {"a split tile more", splitNumber(Split, Split, 1)},
    {"the parts lie elsewhere", slotsElsewhere(Split, Slots)},
    {"the output lies elsewhere",
     [](gpu::Program &, gpu::Launch &launch) {
       std::get<gpu::Place>(launch.arguments[Out]).offset += 256;
       return launch.cluster > 1; // else it leaves through its map
     }},
    {"the residual lies elsewhere",
     [](gpu::Program &, gpu::Launch &launch) {
       if (launch.arguments.size() <= FirstPointer || std::holds_alternative<gpu::MapIndex>(launch.arguments.back()))
         return false;
       std::get<gpu::Place>(launch.arguments[FirstPointer]).offset += 256;
       return true;
     }},
    {"the residual's map lies elsewhere", residualMap([](gpu::TensorMap &m) { m.place.offset += 256; })},
    {"the residual is swizzled by 32 bytes", residualMap([](gpu::TensorMap &m) { m.swizzleBytes = 32; })},
    {"boxes of the residual have 8 rows less", residualMap([](gpu::TensorMap &m) { m.box[1] -= 8; })},
    {"1024 bytes of shared memory less",
     [](gpu::Program &, gpu::Launch &launch) {
       launch.sharedBytes -= 1088; // alignment may leave 1024 unused
       return true;
     }},
    {"a warpgroup less",
     [](gpu::Program &, gpu::Launch &launch) {
       launch.block -= 128;
       return true;
     }},
    {"a block less",
     [](gpu::Program &, gpu::Launch &launch) {
       launch.grid -= launch.cluster;
       // Else the others take its tiles.
       return launch.cluster > 1 || std::get<uint32_t>(launch.arguments[Split]);
     }},
    {"blocks without a cluster",
     [](gpu::Program &, gpu::Launch &launch) {
       const bool hasCluster = launch.cluster > 1;
       launch.cluster = 1;
       return hasCluster;
     }},
    {"A lies elsewhere", map(MapA, [](gpu::TensorMap &m) { m.place.offset += 256; })},
    {"A is swizzled by 64 bytes", map(MapA, [](gpu::TensorMap &m) { m.swizzleBytes = 64; })},
    {"A has one row less", map(MapA, [](gpu::TensorMap &m) { m.dims[1] -= 1; })},
    {"A has one number in a row less", map(MapA, [](gpu::TensorMap &m) { m.dims[0] -= 1; })},
    {"rows of A lie 16 bytes further apart", map(MapA, [](gpu::TensorMap &m) { m.strides[0] += 16; })},
    {"A is of another type", map(MapA, [](gpu::TensorMap &m) { m.element = m.element == gpu::Element::I8 ? gpu::Element::Bf16 : gpu::Element::I8; })},
    {"every second row of A", map(MapA, [](gpu::TensorMap &m) { m.elementStrides[1] += 1; })},
    {"boxes of A have 8 rows less",
     [](gpu::Program &program, gpu::Launch &launch) {
       gpu::TensorMap &a = mapOf(program, launch, MapA);
       (a.isIm2col() ? a.pixels : a.box[1]) -= 8;
       return true;
     }},
    {"boxes of A are half as wide",
     [](gpu::Program &program, gpu::Launch &launch) {
       gpu::TensorMap &a = mapOf(program, launch, MapA);
       (a.isIm2col() ? a.channels : a.box[0]) /= 2;
       return true;
     }},
    {"another lower corner", imageMap([](gpu::TensorMap &m) { m.lower[0] += 1; })},
    {"another lower corner of lines", imageMap([](gpu::TensorMap &m) { m.lower[1] += 1; })},
    {"another upper corner", imageMap([](gpu::TensorMap &m) { m.upper[0] -= 1; })},
    {"another upper corner of lines", imageMap([](gpu::TensorMap &m) { m.upper[1] += 1; })},
    {"lines of the image lie further apart", imageMap([](gpu::TensorMap &m) { m.strides[1] += 16; })},
    {"B lies elsewhere", map(MapB, [](gpu::TensorMap &m) { m.place.offset += 256; })},
    {"B is swizzled by 64 bytes", map(MapB, [](gpu::TensorMap &m) { m.swizzleBytes = 64; })},
    {"B has one row less", map(MapB, [](gpu::TensorMap &m) { m.dims[1] -= 1; })},
    {"rows of B lie 16 bytes further apart", map(MapB, [](gpu::TensorMap &m) { m.strides[0] += 16; })},
    {"boxes of B have 8 rows less", map(MapB, [](gpu::TensorMap &m) { m.box[1] -= 8; })},
    {"the output's map lies elsewhere", map(MapOut, [](gpu::TensorMap &m) { m.place.offset += 256; })},
    {"the output is swizzled by 32 bytes", map(MapOut, [](gpu::TensorMap &m) { m.swizzleBytes = 32; })},
    {"the output has one row less", map(MapOut, [](gpu::TensorMap &m) { m.dims[1] -= 1; })},
    {"rows of the output lie 16 bytes further apart", map(MapOut, [](gpu::TensorMap &m) { m.strides[0] += 16; })},
    {"boxes of the output have 8 rows less", map(MapOut, [](gpu::TensorMap &m) { m.box[1] -= 8; })},
};

/// Of convolutions on sm_80.
std::function<bool(gpu::Program &, gpu::Launch &)> mmaWindow(size_t argument, int by) {
  return [=](gpu::Program &program, gpu::Launch &launch) {
    return std::get<uint32_t>(launch.arguments[gpu::MmaKernel::Height]) > 1 && number(argument, by)(program, launch);
  };
}

std::function<bool(gpu::Program &, gpu::Launch &)> mmaBatch(size_t argument, int by) {
  return [=](gpu::Program &program, gpu::Launch &launch) {
    return std::get<uint32_t>(launch.arguments[gpu::MmaKernel::Batches]) > 1 && number(argument, by)(program, launch);
  };
}

std::function<bool(gpu::Program &, gpu::Launch &)> elsewhere(size_t argument) {
  return [=](gpu::Program &, gpu::Launch &launch) {
    std::get<gpu::Place>(launch.arguments[argument]).offset += 256;
    return true;
  };
}

const DataFault kMmaDataFaults[] = {
    {"64 rows less", number(gpu::MmaKernel::Rows, -64)},
    {"64 columns less", number(gpu::MmaKernel::Columns, -32)},
    {"a stage of k less", number(gpu::MmaKernel::Stages, -1)},
    {"a unit of A less", number(gpu::MmaKernel::DepthA, -1)},
    {"a unit of B less", number(gpu::MmaKernel::DepthB, -8)},
    {"rows of A lie further apart", number(gpu::MmaKernel::RowStrideA, 1)},
    {"rows of B lie further apart", number(gpu::MmaKernel::RowStrideB, 1)},
    {"products of A lie elsewhere", mmaBatch(gpu::MmaKernel::InnerStrideA, 1)},
    {"products of B lie elsewhere", mmaBatch(gpu::MmaKernel::InnerStrideB, 1)},
    {"another height of the image", mmaWindow(gpu::MmaKernel::Height, -1)},
    {"another width of the image", mmaWindow(gpu::MmaKernel::Width, 1)},
    {"another height of the output", mmaWindow(gpu::MmaKernel::OutHeight, -1)},
    {"another width of the output", mmaWindow(gpu::MmaKernel::OutWidth, 1)},
    {"another stride of windows", mmaWindow(gpu::MmaKernel::StrideHeight, 1)},
    {"another stride of windows in a line", mmaWindow(gpu::MmaKernel::StrideWidth, 1)},
    {"another padding above", mmaWindow(gpu::MmaKernel::PadTop, -1)},
    {"another padding before lines", mmaWindow(gpu::MmaKernel::PadLeft, 1)},
    {"another dilation", mmaWindow(gpu::MmaKernel::DilationHeight, 1)},
    {"another dilation in a line", mmaWindow(gpu::MmaKernel::DilationWidth, 1)},
    {"another width of the filter", mmaWindow(gpu::MmaKernel::FilterWidth, -1)},
    {"another number of blocks of channels", mmaWindow(gpu::MmaKernel::ChannelBlocks, 1)},
    {"a split tile less", splitNumber(gpu::MmaKernel::Split, gpu::MmaKernel::Split, -1)},
    {"a split tile more", splitNumber(gpu::MmaKernel::Split, gpu::MmaKernel::Split, 1)},
    {"a block of split tiles less", splitNumber(gpu::MmaKernel::Split, gpu::MmaKernel::Blocks, -1)},
    {"a block of split tiles more", splitNumber(gpu::MmaKernel::Split, gpu::MmaKernel::Blocks, 1)},
    {"the parts lie elsewhere", slotsElsewhere(gpu::MmaKernel::Split, gpu::MmaKernel::Slots)},
    {"A lies elsewhere", elsewhere(gpu::MmaKernel::A)},
    {"B lies elsewhere", elsewhere(gpu::MmaKernel::B)},
    {"the output lies elsewhere",
     [](gpu::Program &, gpu::Launch &launch) {
       std::get<gpu::Place>(launch.arguments[gpu::MmaKernel::Out]).offset += 256;
       return launch.arguments.size() > gpu::MmaKernel::FirstPointer; // else all tiles are split
     }},
    {"a kilobyte of shared memory less",
     [](gpu::Program &, gpu::Launch &launch) {
       launch.sharedBytes -= 1024;
       return true;
     }},
    {"a warp less",
     [](gpu::Program &, gpu::Launch &launch) {
       launch.block -= 32;
       return true;
     }},
    {"a block less",
     [](gpu::Program &, gpu::Launch &launch) {
       launch.grid -= 1;
       return true;
     }},
};

const DataFault kSumDataFaults[] = {
    {"64 rows less", number(gpu::SplitSum::Rows, -64)},
    {"64 columns less", number(gpu::SplitSum::Columns, -64)},
    {"one stage of k", number(gpu::SplitSum::Stages, -6)}, // with a few less, pieces end in the same tiles
    {"a split tile less", number(gpu::SplitSum::Split, -1)},
    {"a split tile more", number(gpu::SplitSum::Split, 1)},
    {"a block of split tiles less", number(gpu::SplitSum::Blocks, -1)},
    {"a block of split tiles more", number(gpu::SplitSum::Blocks, 1)},
    {"rows of the output lie further apart", number(gpu::SplitSum::RowStride, 4)},
    {"the parts lie elsewhere", elsewhere(gpu::SplitSum::Slots)},
    {"the output lies elsewhere", elsewhere(gpu::SplitSum::Out)},
    {"the residual lies elsewhere", elsewhere(gpu::SplitSum::FirstPointer)},
    {"a warp less",
     [](gpu::Program &, gpu::Launch &launch) {
       launch.block -= 32;
       return true;
     }},
    {"a tile less",
     [](gpu::Program &, gpu::Launch &launch) {
       launch.grid -= launch.grid / 4;
       return true;
     }},
};

llvm::ArrayRef<DataFault> dataFaultsOf(const Subject &subject) {
  if (subject.isSum)
    return kSumDataFaults;
  return subject.isHopper() ? llvm::ArrayRef(kDataFaults) : llvm::ArrayRef(kMmaDataFaults);
}

void addDataFaults(const gpu::Program &program, const Subject &subject, std::vector<Mutant> &mutants) {
  if (subject.isAttention)
    return;
  for (const DataFault &fault : dataFaultsOf(subject)) {
    Mutant mutant{std::string(subject.name) + ": " + fault.name, program};
    if (fault.plant(mutant.program, faultyLaunch(mutant.program, subject)))
      mutants.push_back(std::move(mutant));
  }
}

std::vector<Mutant> mutantsOf(const gpu::Program &program, const Subject &subject) {
  std::vector<Mutant> mutants;
  addTextFaults(program, subject, mutants);
  addDataFaults(program, subject, mutants);
  return mutants;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// Mutants whose name begins with `name`, or has it behind the subject's, compute what they should on every GPU.
struct Equivalent {
  const char *name, *reason;
};

const Equivalent kEquivalent[] = {
    {"bulk wait_group.read for wait_group", "a block has to stay while bulk stores read its shared memory; their writes belong "
                                            "to the grid, whose end, and griddepcontrol.wait behind it, waits for them"},
    {"split: no bar.sync of a warpgroup", "it orders several consumers; there is one, and its wgmma.wait_group 0, which speaks "
                                          "for all its warps, comes before its sums overwrite the stages"},
    {"split: bar.sync of half a warpgroup", "as without it"},
    {"boxes: no bulk commit_group #1",
     "a tile's chunks have a buffer each, and nobody waits between them: the second chunk's commit "
     "has both"},
    {"overlap_ahead: no bulk commit_group #1", "as in boxes"},
    {"boxes: no griddepcontrol.wait", "producer and consumers wait, and no grid in front writes what they read"},
    {"pixels: no griddepcontrol.wait", "as in boxes"},
    {"pixels: the residual is read elsewhere #16",
     "the last load is of the eight columns behind the 56 channels, which no box stores"},
    {"bytes: no griddepcontrol.wait", "as in boxes"},
    {"stream: no bulk wait_group.read #1",
     "a block has one whole tile: no store reads the buffers that its residual is copied to"},
    {"stream: no griddepcontrol.wait", "as in boxes"},
    {"stream_bytes: no griddepcontrol.wait", "as in boxes"},
    {"split: no arrival #2", "a block has one tile: nobody waits for the last stages to be empty"},
};

bool isEquivalent(llvm::StringRef mutant) {
  return llvm::any_of(kEquivalent, [&](const Equivalent &e) {
    return mutant.starts_with(e.name) || mutant.split(": ").second.starts_with(e.name);
  });
}

/// Runs of every mutant, and most runs of one that they do not catch: some faults show in few orders of the warps.
constexpr size_t kRuns = 8, kMostRuns = 120;

ptxemu::LaunchOptions run(size_t number) {
  using ptxemu::ThreadOrder, ptxemu::Timing;
  struct Plain {
    Timing timing;
    ThreadOrder order;
    unsigned resident;
  };
  constexpr Plain kPlain[] = {{Timing::Late, ThreadOrder::Forward, 2},
                              {Timing::Early, ThreadOrder::Reverse, 1},
                              {Timing::Late, ThreadOrder::Reverse, 2},
                              {Timing::Early, ThreadOrder::Forward, 2}};
  const Plain plain =
      number < std::size(kPlain) ? kPlain[number] : Plain{number % 2 ? Timing::Late : Timing::Random, ThreadOrder::Random, 2};
  ptxemu::LaunchOptions options;
  options.timing = plain.timing;
  options.order = plain.order;
  options.residentClusters = plain.resident;
  options.seed = uint32_t(number);
  options.maxInstructions = 200'000'000;
  return options;
}

/// How a mutant is caught; empty: it is not.
std::string caught(const Mutant &mutant, const std::vector<std::vector<uint8_t>> &inputs,
                   const std::vector<std::vector<uint8_t>> &expected, size_t runs) {
  for (size_t i = 0; i < runs; ++i)
    try {
      if (test::EmulatedNetwork(mutant.program).run(inputs, 0, run(i)) != expected)
        return "other values in run " + std::to_string(i);
    } catch (const ptxemu::Error &error) {
      return "run " + std::to_string(i) + ": " + error.what();
    }
  return "";
}

class GpuMutantsTest : public testing::TestWithParam<Subject> {};

} // namespace

TEST_P(GpuMutantsTest, FaultsAreCaught) {
  const Subject &subject = GetParam();
  const gpu::Program program = programOf(subject);
  ASSERT_TRUE(llvm::any_of(program.steps, [&](const gpu::Step &step) { return step.variants[0].name == subject.tile; }));
  const std::vector<std::vector<uint8_t>> inputs = inputsOf(program);
  std::vector<std::vector<uint8_t>> expected;
  for (size_t i = 0; i < kRuns; ++i)
    try {
      std::vector<std::vector<uint8_t>> outputs = test::EmulatedNetwork(program).run(inputs, 0, run(i));
      if (expected.empty())
        expected = outputs;
      ASSERT_EQ(outputs, expected) << "runs without a fault differ";
    } catch (const ptxemu::Error &error) {
      FAIL() << "without a fault: " << error.what();
    }

  const char *only = std::getenv("TILEWRIGHT_MUTANT");
  size_t planted = 0, found = 0;
  for (const Mutant &mutant : mutantsOf(program, subject)) {
    if (only && mutant.name.find(only) == std::string::npos)
      continue;
    ++planted;
    const std::string how = caught(mutant, inputs, expected, isEquivalent(mutant.name) ? kRuns : kMostRuns);
    if (only)
      printf("  %s: %s\n", mutant.name.c_str(), how.empty() ? "not caught" : how.c_str());
    if (!how.empty())
      ++found;
    else
      EXPECT_TRUE(isEquivalent(mutant.name)) << mutant.name << " is not caught, and no reason says that it changes nothing";
  }
  printf("  %zu faults planted, %zu caught\n", planted, found);
  if (only)
    return;
  EXPECT_GE(planted, subject.isSum ? 15u : subject.isHopper() ? 60u : subject.isAttention ? 30u : 40u);
  EXPECT_GE(double(found), 0.95 * double(planted));
}

TEST(GpuFaultsTest, EveryFaultHasAPlace) {
  std::map<const void *, std::set<std::string>> planted; // by their table
  for (const Subject &subject : kSubjects)
    for (const Mutant &mutant : mutantsOf(programOf(subject), subject))
      planted[textFaultsOf(subject).data()].insert(llvm::StringRef(mutant.name).split(": ").second.split(" #").first.str());
  for (const Subject &subject : kSubjects) {
    const std::set<std::string> &found = planted[textFaultsOf(subject).data()];
    for (const TextFault &fault : textFaultsOf(subject))
      EXPECT_TRUE(found.count(fault.name)) << fault.name;
    for (const DataFault &fault : dataFaultsOf(subject))
      EXPECT_TRUE(found.count(fault.name)) << fault.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GpuMutantsTest, testing::ValuesIn(kSubjects),
                         [](const auto &info) { return std::string(info.param.name); });
