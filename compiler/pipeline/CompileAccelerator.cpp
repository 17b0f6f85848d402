//===- CompileAccelerator.cpp - A module to a program for the accelerator --===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/NetworkCompiler.h"

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;

namespace {
/// How often a program that a search would like is tried, each time without what has failed before.
constexpr unsigned kAttempts = 4;

/// Runs `compile`, again if it failed but has learned how not to, `most` times at most.
template <typename Compile> auto attempt(Compile compile, unsigned most = UINT_MAX) {
  NetworkCompiler::Lessons lessons;
  auto result = compile(lessons);
  for (unsigned times = 1; !result && std::exchange(lessons.isNew, false) && times < most; ++times) {
    llvm::consumeError(result.takeError());
    result = compile(lessons);
  }
  return result;
}

llvm::Expected<CompiledNetwork> compileOnce(ModuleOp module, const CompileOptions &options, accel::Rankings &rankings,
                                            const Picks &picks = {}, const CompiledNetwork *first = nullptr,
                                            bool onlyTimed = false) {
  return attempt(
      [&](NetworkCompiler::Lessons &lessons) {
        return NetworkCompiler(module, options, lessons, rankings, picks, first, onlyTimed).run();
      },
      first ? kAttempts : UINT_MAX);
}
} // namespace

llvm::Expected<Tiles> pipeline::emitTiles(ModuleOp module, const CompileOptions &options) {
  accel::Rankings rankings;
  return attempt(
      [&](NetworkCompiler::Lessons &lessons) { return NetworkCompiler(module, options, lessons, rankings).runTiles(); });
}

llvm::Expected<CompiledNetwork> pipeline::compileForAccelerator(ModuleOp module, const CompileOptions &options) {
  accel::Rankings rankings;
  if (options.schedule != accel::Schedule::Search || !options.search.evaluate)
    return compileOnce(module, options, rankings);
  // In a copy of this process no pool has its threads: no passes run there, and none of these is at work when one is made.
  MLIRContext *context = module.getContext();
  const bool hadThreads = options.search.jobs > 1 && context->isMultithreadingEnabled();
  if (hadThreads)
    context->disableMultithreading();
  auto restore = llvm::make_scope_exit([&] {
    if (hadThreads)
      context->enableMultithreading();
  });
  CompiledNetwork first; // without its program
  struct Start {
    Pinned pinned;
    std::vector<Aspect> aspects;
  };
  std::map<Picks, Start> starts; // of walks
  auto isUnknown = [] {
    return llvm::createStringError("the search cache knows other ways to change this program: delete it");
  };
  // Decisions, and behind them what is otherwise in the program that they make.
  auto readProgram = [&](llvm::ArrayRef<unsigned> &picks) -> llvm::Expected<Pinned> {
    if (picks.size() < first.decisions.size())
      return isUnknown();
    const Picks begin(picks.begin(), picks.begin() + long(first.decisions.size()));
    auto start = starts.find(begin);
    if (start == starts.end()) {
      llvm::Expected<CompiledNetwork> network = compileOnce(module, options, rankings, begin, &first);
      if (!network)
        return network.takeError();
      start = starts.emplace(begin, Start{std::move(network->pinned), std::move(network->aspects)}).first;
    }
    const std::vector<Aspect> &aspects = start->second.aspects;
    picks = picks.drop_front(begin.size());
    if (picks.size() < aspects.size())
      return isUnknown();
    Pinned pinned = start->second.pinned;
    for (const Aspect &aspect : aspects) {
      if (picks.front() > aspect.values.size())
        return isUnknown();
      if (picks.front())
        aspect.values[picks.front() - 1](pinned);
      picks = picks.drop_front();
    }
    return pinned;
  };
  // And layers that are as in others.
  auto readMix = [&](llvm::ArrayRef<unsigned> picks) -> llvm::Expected<Pinned> {
    llvm::Expected<Pinned> pinned = readProgram(picks);
    if (!pinned || picks.empty())
      return pinned;
    std::vector<std::vector<plan::KernelPlan>> requests{pinned->requests};
    const size_t parents = 1 + picks.front();
    picks = picks.drop_front();
    while (requests.size() < parents) {
      if (picks.empty() || picks.size() - 1 < picks.front())
        return isUnknown();
      llvm::ArrayRef<unsigned> own = picks.slice(1, picks.front());
      picks = picks.drop_front(1 + own.size());
      llvm::Expected<Pinned> other = readProgram(own);
      if (!other)
        return other;
      if (!own.empty())
        return isUnknown();
      requests.push_back(std::move(other->requests));
    }
    if (picks.size() != pinned->requests.size())
      return isUnknown();
    for (auto [layer, owner] : llvm::enumerate(picks)) {
      if (owner >= parents)
        return isUnknown();
      pinned->requests[layer] = requests[owner][layer];
    }
    return pinned;
  };
  auto compilePinned = [&](const Picks &picks, bool onlyTimed) -> llvm::Expected<CompiledNetwork> {
    llvm::Expected<Pinned> pinned = readMix(picks);
    if (!pinned)
      return pinned.takeError();
    CompileOptions chosen = options;
    chosen.schedule = accel::Schedule::Pipelined;
    return attempt(
        [&](NetworkCompiler::Lessons &lessons) {
          return NetworkCompiler(module, chosen, lessons, rankings, *pinned, onlyTimed).run();
        },
        kAttempts);
  };
  auto compile = [&](const Picks &picks, bool onlyTimed) -> llvm::Expected<CompiledNetwork> {
    if (!first.weighed.empty() && picks.size() > first.decisions.size())
      return compilePinned(picks, onlyTimed);
    if (!first.weighed.empty())
      return compileOnce(module, options, rankings, picks, &first, onlyTimed);
    auto weigh = [&](const CompileOptions &asked) {
      return attempt(
          [&](NetworkCompiler::Lessons &lessons) { return NetworkCompiler(module, asked, lessons, rankings).weighAll(); });
    };
    auto others = weigh(options);
    if (!others)
      return others.takeError();
    // What is best with each order goes first: the orders differ by less than the estimate may err.
    for (plan::Priority order : {plan::Priority::ProgramOrder, plan::Priority::Alap, plan::Priority::Interleaved}) {
      CompileOptions asked = options;
      asked.network.priority = order;
      if (options.network.priority || options.across == Across::None)
        break;
      if (auto found = weigh(asked))
        others->insert(others->begin(), found->front());
      else
        llvm::consumeError(found.takeError());
    }
    llvm::Expected<CompiledNetwork> network = attempt([&](NetworkCompiler::Lessons &lessons) {
      NetworkCompiler compiler(module, options, lessons, rankings);
      compiler.others = *others;
      return compiler.run();
    });
    if (network) {
      first.weighed = network->weighed;
      first.elsewhere = network->elsewhere;
      first.otherwise = network->otherwise;
      first.chains = network->chains;
      first.decisions = network->decisions;
    }
    return network;
  };
  auto estimate = [&](const Picks &picks) {
    return attempt(
        [&](NetworkCompiler::Lessons &lessons) {
          return NetworkCompiler(module, options, lessons, rankings, picks, &first).estimate();
        },
        kAttempts);
  };
  // One layer's tiles are in the order of their estimates, and layers that drain are not planned.
  return options.across == Across::None ? search(compile, options.search) : search(compile, options.search, estimate);
}
