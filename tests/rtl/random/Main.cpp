//===- Main.cpp - Random programs against all models ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright-random --machine tiny_8x8 --programs 1000 --illegal 200 --seed 1
//
// Exit code 1, and the smallest program that shows it, at the first difference
// between two models.
//===----------------------------------------------------------------------===//
#include "hw-configs/Machine.h"
#include "isa/Assembler.h"
#include "isa/Legality.h"
#include "simulator/cosim/Compare.h"
#include "tests/rtl/random/Coverage.h"
#include "tests/rtl/random/Generator.h"
#include "tests/rtl/random/Models.h"
#include "tests/rtl/random/Shrink.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <random>
#include <stdexcept>

using namespace tw;
using namespace tw::programs;

namespace {

/// Hits that make a bin of the coverage well tried.
constexpr uint64_t kOften = 100;

struct Options {
  std::string machine = "tiny_8x8", output;
  std::vector<std::string> overrides;
  uint64_t programs = 200, illegal = 50, seed = std::random_device()();
  unsigned tries = 2000;
  bool noRtl = false, noStepped = false, noOtherDram = false, coverage = false, verbose = false;
};

/// What was wrong with a program, with the smallest one that shows it.
void report(const std::string &what, const isa::Program &program, const timing::MachineParams &machine,
            const Options &options) {
  std::cout << what << "\n";
  const std::string text = isa::disassemble(program);
  if (options.output.empty()) {
    std::cout << text;
    return;
  }
  std::ofstream(options.output) << text;
  std::cout << "the smallest program is in " << options.output << "\n";
}

int run(const Options &options) {
  const Result<timing::MachineParams> machine = hwconfigs::loadMachine(options.machine, options.overrides);
  if (!machine) {
    std::cerr << machine.message() << "\n";
    return 2;
  }
  ModelOptions models;
  models.stepped = !options.noStepped;
  if (!options.noRtl)
    models.rtl = [](const isa::Program &program, const timing::MachineParams &params) {
      cosim::CompareOptions compare;
      compare.maxCycles = 2000000;
      compare.progress = [](const std::string &text) { std::cout << text << std::endl; };
      const cosim::Agreement agreement = cosim::compare(program, params, {}, compare);
      // Without an RTL model nothing has been compared.
      if (agreement.rtl.result.fault && agreement.rtl.result.fault->kind == core::FaultKind::BadInput)
        throw std::runtime_error(agreement.rtl.result.fault->message);
      return agreement.difference;
    };
  Coverage coverage(*machine);
  std::cout << "machine " << machine->name << ", seed " << options.seed << std::endl;
  const auto begin = std::chrono::steady_clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  uint64_t cycles = 0, instructions = 0;
  for (uint64_t i = 0; i < options.programs; ++i) {
    const uint64_t seed = options.seed + i;
    const isa::Program program = randomProgram(*machine, seed);
    const timing::MachineParams params = options.noOtherDram || i % 2 == 0 ? *machine : otherDram(*machine, seed);
    if (options.verbose)
      std::cout << "program " << seed << ", " << program.code.size() << " words" << std::endl;
    const Verdict verdict = runModels(program, params, models);
    if (!verdict.difference.empty()) {
      std::cout << "seed " << seed << ": " << verdict.difference << std::endl;
      isa::Program small = program;
      if (verdict.isValid)
        small = shrink(
            program,
            [&](const isa::Program &candidate) {
              if (!isa::verify(candidate, params).empty())
                return false;
              const Verdict again = runModels(candidate, params, models);
              return again.isValid && !again.difference.empty();
            },
            options.tries);
      report("seed " + std::to_string(seed) + ", made smaller: " + runModels(small, params, models).difference, small, params,
             options);
      return 1;
    }
    cycles += verdict.systemc.totalCycles;
    instructions += verdict.systemc.instructionCount;
    coverage.add(program, verdict.systemc);
  }
  std::printf("%llu programs agree: %llu instructions, %llu cycles, %.1f s\n", (unsigned long long)options.programs,
              (unsigned long long)instructions, (unsigned long long)cycles, seconds());
  std::fflush(stdout);
  std::map<std::string, unsigned> kinds;
  for (uint64_t i = 0; i < options.illegal; ++i) {
    const uint64_t seed = options.seed + i;
    const Faulty faulty = randomFaultyProgram(*machine, seed);
    if (options.verbose)
      std::cout << "faulty program " << seed << ", " << faulty.planted << " at word " << faulty.pc << std::endl;
    const std::optional<uint64_t> pc =
        faulty.kind == core::FaultKind::Deadlock ? std::nullopt : std::optional<uint64_t>(faulty.pc);
    const Verdict verdict = runModels(faulty.program, *machine, models, faulty.kind, pc);
    if (!verdict.difference.empty()) {
      std::cout << "faulty seed " << seed << ", " << faulty.planted << " at word " << faulty.pc << ": " << verdict.difference
                << std::endl;
      isa::Program small = faulty.program;
      if (verdict.isValid)
        small = shrink(
            faulty.program,
            [&](const isa::Program &candidate) {
              const Verdict again = runModels(candidate, *machine, models, faulty.kind);
              return again.isValid && !again.difference.empty();
            },
            options.tries);
      report("made smaller: " + runModels(small, *machine, models, faulty.kind).difference, small, *machine, options);
      return 1;
    }
    ++kinds[core::faultKindName(faulty.kind)];
  }
  if (options.illegal) {
    std::printf("%llu faulty programs agree:", (unsigned long long)options.illegal);
    for (const auto &[kind, count] : kinds)
      std::printf(" %u %s;", count, kind.c_str());
    std::printf(" %.1f s in all\n", seconds());
  }
  if (options.coverage) {
    std::cout << coverage.table();
    std::cout << coverage.met() << " of " << coverage.reachable() << " bins met, " << coverage.met(kOften) << " at least "
              << kOften << " times\n";
    for (const std::string &bin : coverage.rare(kOften))
      std::cout << "rare: " << bin << "\n";
    for (const std::string &reason : Coverage::reasons())
      std::cout << "not reachable: " << reason << "\n";
    for (const std::string &bin : coverage.unexpected())
      std::cout << "met, but said to be not reachable: " << bin << "\n";
    return coverage.unexpected().empty() ? 0 : 1;
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app(
      "Random programs on the functional, the SystemC, the stepped and the RTL model: they must agree in every bit and "
      "every cycle.");
  app.add_option("--machine", options.machine, "name or file of a machine")->capture_default_str();
  app.add_option("--set", options.overrides, "override a key of the machine: key=value");
  app.add_option("--programs", options.programs, "legal programs")->capture_default_str();
  app.add_option("--illegal", options.illegal, "programs with a fault")->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the first program; the next ones have the next seeds; default: random");
  app.add_option("--shrink-tries", options.tries, "candidates to try for a smaller program")->capture_default_str();
  app.add_option("--output", options.output, "file for the smallest program that shows a difference; default: print it");
  app.add_flag("--no-rtl", options.noRtl, "leave out the RTL");
  app.add_flag("--no-stepped", options.noStepped, "leave out the cycle-by-cycle model of the rules");
  app.add_flag("--no-other-dram", options.noOtherDram, "keep the machine's DRAM for every program");
  app.add_flag("--coverage", options.coverage, "print what the programs have met");
  app.add_flag("--verbose", options.verbose, "print every seed before it runs");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::runtime_error &error) {
    std::cerr << "tilewright-random: " << error.what() << "\n";
    return 2;
  }
}
