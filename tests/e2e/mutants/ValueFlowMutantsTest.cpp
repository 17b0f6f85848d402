//===- ValueFlowMutantsTest.cpp - Planted faults of slots and order ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emitted programs in their final order with one fault each, of the kinds that an emitter or a scheduler makes: a transfer or a reader in another
// slot, a load ahead of the last reader of its slot, a store ahead of the operation that computes its bytes. verifyValueFlow() refuses all of
// them. Synchronised, some of them are programs whose every hazard is ordered, which verifySchedule() has to accept.
//===----------------------------------------------------------------------===//
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/schedule/ValueFlow.h"
#include "hw-configs/Machine.h"
#include "runtime/InlineKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::schedule;

namespace {

struct Network {
  const char *model, *machine;
  accel::Schedule schedule;
};

constexpr char kDigits[] = TILEWRIGHT_SOURCE_DIR "/tests/data/digits/digits_int8_qdq.onnx";
constexpr char kConv[] = "conv:1x14x14x32:3x3x32:s1:p1:int8";
constexpr char kGemm[] = "gemm:64x128x96:int8";

const Network kNetworks[] = {
    {kDigits, "gemmini_16x16_int8", accel::Schedule::DoubleBuffer}, {kDigits, "gemmini_16x16_int8", accel::Schedule::Pipelined},
    {kDigits, "tiny_8x8", accel::Schedule::DoubleBuffer},           {kDigits, "tiny_8x8", accel::Schedule::Pipelined},
    {kConv, "vdla_16x16", accel::Schedule::DoubleBuffer},           {kConv, "vdla_16x16", accel::Schedule::Pipelined},
    {kGemm, "vdla_16x16", accel::Schedule::DoubleBuffer},           {kGemm, "vdla_16x16", accel::Schedule::Pipelined},
};

/// Faults of one kind are planted at so many places of a program at most, evenly spread.
constexpr size_t kPlaces = 25;

llvm::Expected<TileProgram> emit(const Network &network, const timing::MachineParams &machine) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  pipeline::CompileOptions options;
  options.machine = &machine;
  options.schedule = network.schedule;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  if (runtime::isInlineKernel(network.model)) {
    module = runtime::buildInlineKernel(context, *runtime::parseInlineKernel(network.model), 1);
  } else {
    auto imported = pipeline::importModel(context, network.model, options);
    if (!imported)
      return imported.takeError();
    module = std::move(*imported);
  }
  if (llvm::Error error = pipeline::optimizeGraph(*module, options))
    return std::move(error);
  if (llvm::Error error = pipeline::lowerToLinalg(*module, options))
    return std::move(error);
  auto tiles = pipeline::emitTiles(*module, options);
  if (!tiles)
    return tiles.takeError();
  return std::move(tiles->network.tiles);
}

bool meets(const Region &a, const Region &b) { return a.space == b.space && a.begin < b.end && b.begin < a.end; }

/// Whether `writer` writes bytes on chip that `reader` reads.
bool feeds(const Operation &writer, const Operation &reader) {
  for (const Region &written : writer.regions)
    for (const Region &read : reader.regions)
      if (written.write && !read.write && written.space != kDramSpace && meets(written, read))
        return true;
  return false;
}

/// The only operation of a block that is executed once.
const Operation *single(const Block &block) {
  return block.count == 1 && block.operations.size() == 1 ? &block.operations.front() : nullptr;
}

/// Its place on chip.
int64_t *addressOf(isa::Instruction &instruction) {
  if (auto *load = instruction.getIf<isa::Load>())
    return &load->address;
  if (auto *store = instruction.getIf<isa::Store>())
    return &store->address;
  if (auto *preload = instruction.getIf<isa::Preload>())
    return &preload->address;
  auto *vector = instruction.getIf<isa::Vector>();
  return vector ? &vector->a_address : nullptr;
}

class Mutants {
public:
  Mutants(const TileProgram &program, const timing::MachineParams &machine) : program(program), machine(machine) {}

  /// Load `later` ahead of the operation that last read the slot's bytes before it.
  void hoistLoads() {
    plant([&](size_t at) -> std::optional<TileProgram> {
      const Operation *load = single(program.blocks[at]);
      if (!load || !load->instruction->getIf<isa::Load>())
        return std::nullopt;
      for (size_t i = at; i-- > 0;)
        if (const Operation *reader = single(program.blocks[i]);
            reader && feeds(*load, *reader) && isWrittenBefore(i, *reader, *load))
          return moved(at, i);
      return std::nullopt;
    });
  }
  /// A store ahead of the operation that last wrote its bytes.
  void hoistStores() {
    plant([&](size_t at) -> std::optional<TileProgram> {
      const Operation *store = single(program.blocks[at]);
      if (!store || !store->instruction->getIf<isa::Store>())
        return std::nullopt;
      for (size_t i = at; i-- > 0;)
        if (feeds(program.blocks[i].operations.back(), *store))
          return moved(at, i);
      return std::nullopt;
    });
  }
  /// A transfer, preload or vector operand in the slot of another one of its kind that lies elsewhere.
  void swapSlots() {
    plant([&](size_t at) -> std::optional<TileProgram> {
      const Operation *operation = single(program.blocks[at]);
      if (!operation || operation->values.value[0] == 0)
        return std::nullopt;
      isa::Instruction own = operation->instruction;
      const int64_t *address = addressOf(own);
      if (!address || (own.getIf<isa::Load>() && !isRead(at)))
        return std::nullopt;
      for (size_t i = 0; i < program.blocks.size(); ++i) {
        const Operation *other = single(program.blocks[i]);
        if (!other || other->layer != operation->layer || other->instruction->opcode() != own.opcode())
          continue;
        isa::Instruction there = other->instruction;
        if (other->values.value[0] == operation->values.value[0] || *addressOf(there) == *address)
          continue;
        TileProgram mutant = program;
        *addressOf(mutant.blocks[at].operations.front().instruction.edit()) = *addressOf(there);
        return mutant;
      }
      return std::nullopt;
    });
  }

  size_t planted = 0;

private:
  const TileProgram &program;
  const timing::MachineParams &machine;

  template <typename Mutate> void plant(Mutate mutate) {
    std::vector<size_t> places;
    for (size_t at = 0; at < program.blocks.size(); ++at)
      if (mutate(at))
        places.push_back(at);
    for (size_t i = 0; i < std::min(places.size(), kPlaces); ++i) {
      const size_t at = places[i * places.size() / std::min(places.size(), kPlaces)];
      ++planted;
      EXPECT_FALSE(verifyValueFlow(*mutate(at), machine).empty())
          << "block " << at << ", " << isa::print(program.blocks[at].operations.front().instruction);
    }
  }
  TileProgram moved(size_t from, size_t to) const {
    TileProgram mutant = program;
    std::rotate(mutant.blocks.begin() + long(to), mutant.blocks.begin() + long(from), mutant.blocks.begin() + long(from) + 1);
    return mutant;
  }
  /// Whether the reader's value is defined where the load writes.
  bool isWrittenBefore(size_t at, const Operation &reader, const Operation &load) const {
    for (size_t i = at; i-- > 0;)
      for (const Operation &writer : program.blocks[i].operations)
        for (const Region &written : writer.regions)
          for (const Region &read : reader.regions)
            for (const Region &overwritten : load.regions)
              if (written.write && !read.write && overwritten.write && meets(written, read) && meets(written, overwritten) &&
                  meets(read, overwritten))
                return hasValueOf(writer, reader);
    return false;
  }
  static bool hasValueOf(const Operation &writer, const Operation &reader) {
    for (uint32_t value : writer.values.value)
      for (uint32_t other : reader.values.value)
        if (value && value == other)
          return true;
    return false;
  }
  bool isRead(size_t at) const {
    for (size_t i = at + 1; i < program.blocks.size(); ++i)
      for (const Operation &reader : program.blocks[i].operations)
        if (feeds(program.blocks[at].operations.front(), reader))
          return hasValueOf(program.blocks[at].operations.front(), reader);
    return false;
  }
};

class ValueFlowMutantsTest : public ::testing::TestWithParam<Network> {};

TEST_P(ValueFlowMutantsTest, AreRefused) {
  const Network &network = GetParam();
  Result<timing::MachineParams> machine = hwconfigs::loadMachine(network.machine);
  ASSERT_TRUE(bool(machine)) << machine.message();
  llvm::Expected<TileProgram> program = emit(network, *machine);
  ASSERT_TRUE(bool(program)) << llvm::toString(program.takeError());
  const Diagnostics problems = verifyValueFlow(*program, *machine);
  ASSERT_TRUE(problems.empty()) << problems.front().str();
  Mutants mutants(*program, *machine);
  mutants.hoistStores();
  const size_t stores = mutants.planted;
  mutants.swapSlots();
  const size_t slots = mutants.planted - stores;
  mutants.hoistLoads();
  const size_t loads = mutants.planted - slots - stores;
  printf("planted: %zu stores ahead, %zu operands in other slots, %zu loads ahead\n", stores, slots, loads);
  EXPECT_GT(stores, 0u);
  EXPECT_GT(slots, 0u);
}

INSTANTIATE_TEST_SUITE_P(Networks, ValueFlowMutantsTest, ::testing::ValuesIn(kNetworks));

} // namespace
