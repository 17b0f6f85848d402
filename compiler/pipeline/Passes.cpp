//===- Passes.cpp - The accelerator's phases as passes ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The same functions that Compile.h strings together, one by one on text.
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/Passes.h"

#include "compiler/isa/IsaDialect.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/schedule/Synchronize.h"
#include "compiler/schedule/Verifier.h"
#include "hw-configs/Machine.h"

using namespace mlir;

namespace tw::pipeline {
#define GEN_PASS_DEF_EMITTILESPASS
#define GEN_PASS_DEF_SYNCHRONIZEPASS
#define GEN_PASS_DEF_VERIFYSCHEDULEPASS
#define GEN_PASS_REGISTRATION
#include "compiler/pipeline/Passes.h.inc"

namespace {
constexpr llvm::StringLiteral kProgram = "program", kBarrier = "barrier", kAlternates = "alternates", kTurns = "turns",
                              kRound = "round";

FailureOr<timing::MachineParams> machineFor(Operation *op, const std::string &name) {
  Result<timing::MachineParams> machine = hwconfigs::loadMachine(name);
  if (!machine)
    return op->emitError(machine.message());
  return *machine;
}

FailureOr<func::FuncOp> programOf(ModuleOp module) {
  auto program = module.lookupSymbol<func::FuncOp>(kProgram);
  if (!program)
    return module.emitError("has no function @program");
  return program;
}

/// The instructions of @program as blocks: a loop instruction and as many of the following as fill its body are one.
FailureOr<schedule::TileProgram> readBlocks(func::FuncOp program, const timing::MachineParams &machine) {
  schedule::TileProgram tiles;
  int64_t left = 0;
  for (Operation &op : program.getBody().front()) {
    if (!isa::isInstruction(&op))
      continue;
    isa::Instruction instruction = isa::toInstruction(&op);
    if (instruction.opcode() == isa::Opcode::Halt)
      continue;
    if (auto *loop = instruction.getIf<isa::Loop>()) {
      if (left > 0)
        return op.emitError("nested loops are not synchronised");
      tiles.blocks.push_back({uint64_t(loop->count), {}});
      left = loop->body_words;
      continue;
    }
    schedule::Operation operation;
    operation.instruction = instruction;
    operation.regions = schedule::regionsOf(instruction, machine);
    operation.barrier = op.hasAttr(kBarrier);
    operation.alternates = op.hasAttr(kAlternates);
    operation.turns = op.hasAttr(kTurns);
    if (auto round = op.getAttrOfType<mlir::IntegerAttr>(kRound))
      operation.round = uint32_t(round.getInt());
    if (left <= 0)
      tiles.blocks.push_back({1, {}});
    else
      left -= instruction.words();
    tiles.blocks.back().operations.push_back(std::move(operation));
  }
  return tiles;
}

struct EmitTilesPass : impl::EmitTilesPassBase<EmitTilesPass> {
  using EmitTilesPassBase::EmitTilesPassBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto params = machineFor(module, machine);
    if (failed(params))
      return signalPassFailure();
    std::optional<accel::Schedule> chosen = accel::scheduleNamed(schedule);
    if (!chosen) {
      module.emitError("schedule '" + schedule + "' is not one of serial, double_buffer, pipelined");
      return signalPassFailure();
    }
    CompileOptions options;
    options.machine = &*params;
    options.schedule = *chosen;
    llvm::Expected<Tiles> tiles = emitTiles(module, options);
    if (!tiles) {
      module.emitError(llvm::toString(tiles.takeError()));
      return signalPassFailure();
    }
    module.getBody()->clear();
    OpBuilder builder(module.getBodyRegion());
    auto program = builder.create<func::FuncOp>(module.getLoc(), kProgram, builder.getFunctionType({}, {}));
    builder.setInsertionPointToStart(program.addEntryBlock());
    for (const schedule::Block &block : tiles->network.tiles.blocks) {
      auto locationOf = [&](const schedule::Operation &operation) {
        return NameLoc::get(builder.getStringAttr(tiles->layers[operation.layer].name));
      };
      if (block.count > 1) {
        isa::Loop loop;
        loop.count = int64_t(block.count);
        for (const schedule::Operation &operation : block.operations)
          loop.body_words += operation.instruction->words();
        isa::build(builder, locationOf(block.operations.front()), isa::Instruction(loop));
      }
      for (const schedule::Operation &operation : block.operations) {
        Operation *op = isa::build(builder, locationOf(operation), operation.instruction);
        if (operation.barrier)
          op->setAttr(kBarrier, builder.getUnitAttr());
        if (operation.alternates)
          op->setAttr(kAlternates, builder.getUnitAttr());
        if (operation.turns)
          op->setAttr(kTurns, builder.getUnitAttr());
        if (operation.round)
          op->setAttr(kRound, builder.getI64IntegerAttr(operation.round));
      }
    }
    isa::build(builder, module.getLoc(), isa::Instruction(isa::Halt()));
    builder.create<func::ReturnOp>(module.getLoc());
  }
};

struct SynchronizePass : impl::SynchronizePassBase<SynchronizePass> {
  using SynchronizePassBase::SynchronizePassBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto params = machineFor(module, machine);
    auto program = programOf(module);
    if (failed(params) || failed(program))
      return signalPassFailure();
    FailureOr<schedule::TileProgram> tiles = readBlocks(*program, *params);
    if (failed(tiles))
      return signalPassFailure();
    Result<bool> done = schedule::synchronize(*tiles, *params);
    if (!done) {
      module.emitError(done.message());
      return signalPassFailure();
    }
    std::vector<const schedule::Operation *> operations;
    for (const schedule::Block &block : tiles->blocks)
      for (const schedule::Operation &operation : block.operations)
        operations.push_back(&operation);
    size_t next = 0;
    for (Operation &op : llvm::make_early_inc_range(program->getBody().front())) {
      if (!isa::isInstruction(&op) || isa::toInstruction(&op).engine() == timing::EngineKind::Sequencer)
        continue;
      OpBuilder builder(&op);
      isa::build(builder, op.getLoc(), operations[next++]->instruction);
      op.erase();
    }
  }
};

struct VerifySchedulePass : impl::VerifySchedulePassBase<VerifySchedulePass> {
  using VerifySchedulePassBase::VerifySchedulePassBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto params = machineFor(module, machine);
    auto function = programOf(module);
    if (failed(params) || failed(function))
      return signalPassFailure();
    isa::Program program;
    program.codeAddress = params->dram.capacityBytes; // it has no place yet that a store could reach
    for (Operation &op : function->getBody().front())
      if (isa::isInstruction(&op))
        isa::encode(isa::toInstruction(&op), program.code);
    for (const tw::Diagnostic &problem : schedule::verifySchedule(program, *params)) {
      module.emitError(problem.str());
      signalPassFailure();
    }
  }
};
} // namespace

void registerAcceleratorPasses() { registerPipelinePasses(); }

} // namespace tw::pipeline
