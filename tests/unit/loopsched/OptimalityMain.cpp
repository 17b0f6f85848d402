//===- OptimalityMain.cpp - Schedulers against proven optima --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright-optimality [--kernels N] [--seconds S] [--every] [--load-plugin SO] [--scheduler NAME] [--budget B]
//                       [--dump SEED --ii II]
//===----------------------------------------------------------------------===//
#include "compiler/research/loopsched/SchedulerPlugin.h"
#include "tests/unit/loopsched/ExactModel.h"
#include "tests/unit/loopsched/RandomKernel.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

using namespace tw;
using namespace tw::loopsched;

namespace {

int fail(const std::string &message) {
  std::fprintf(stderr, "tilewright-optimality: %s\n", message.c_str());
  return 1;
}

double gap(Cycles ii, Cycles optimum) { return 100.0 * double(ii - optimum) / double(optimum); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// The same with memory for everything.
Problem unlimited(Problem problem) {
  for (Problem::Memory &memory : problem.memories)
    memory.banks = 1000;
  return problem;
}

} // namespace

int main(int argc, char **argv) {
  unsigned kernels = 100, seconds = 60;
  bool every = false;
  uint64_t dump = 0;
  Cycles dumpIi = 0;
  std::vector<std::string> plugins, chosen;
  SchedulerOptions options;
  CLI::App app("Schedules small random tile loops and proves with z3 how far each scheduler is from the least "
               "initiation interval");
  app.add_option("--kernels", kernels, "how many, seeds 1, 2, ...")->capture_default_str()->check(CLI::Range(1u, 100000u));
  app.add_option("--seconds", seconds, "limit of one question to z3")->capture_default_str()->check(CLI::Range(1u, 100000u));
  app.add_flag("--every", every,
               "ask z3 for every initiation interval from the lower bound on, not only for the one below the optimum");
  app.add_option("--budget", options.budget, "of scheduler search")->capture_default_str();
  app.add_option("--load-plugin", plugins, "shared library with further schedulers")->allow_extra_args(false)->take_all();
  app.add_option("--scheduler", chosen, "only this scheduler; may be repeated; default: all, those of plug-ins too")
      ->allow_extra_args(false)
      ->take_all();
  app.add_option("--dump", dump, "print the SMT-LIB text of this kernel instead, at --ii");
  app.add_option("--ii", dumpIi, "for --dump")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (dump) {
    std::printf("%s(check-sat)\n", test::smtModel(test::randomKernel(dump), std::max<Cycles>(1, dumpIi)).c_str());
    return 0;
  }
  for (const std::string &path : plugins)
    if (auto loaded = loadPlugin(path); !loaded)
      return fail(loaded.message());
  std::vector<std::string> names = schedulers().names();
  std::string allowed;
  for (const std::string &name : names)
    allowed += (allowed.empty() ? "" : ", ") + name;
  for (const std::string &name : chosen)
    if (!schedulers().find(name))
      return fail("--scheduler is '" + name + "' but must be one of " + allowed);
  if (!chosen.empty())
    names = chosen;
  if (!test::haveZ3())
    return fail("z3 is needed (Debian package z3)");

  std::string header = "| kernel | operations | ResMII | RecMII | optimum | refuted |",
              rule = "|---:|---:|---:|---:|---:|---:|";
  for (const std::string &name : names) {
    header += " " + name + " |";
    rule += "---:|";
  }
  std::printf("%s\n%s\n", header.c_str(), rule.c_str());
  unsigned proved = 0, everyProved = 0, aboveBound = 0, binding = 0;
  std::map<std::string, std::vector<double>> gaps;
  std::map<std::string, unsigned> failures;
  std::map<std::string, double> time;
  for (uint64_t seed = 1; seed <= kernels; ++seed) {
    Problem problem = test::randomKernel(seed);
    std::map<std::string, Cycles> ii;
    std::optional<Schedule> best;
    for (const std::string &name : names) {
      auto begin = std::chrono::steady_clock::now();
      Result<Schedule> schedule = runScheduler(name, problem, options);
      time[name] += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (!schedule) {
        std::fprintf(stderr, "tilewright-optimality: kernel %llu: %s\n", static_cast<unsigned long long>(seed),
                     schedule.message().c_str());
        ++failures[name];
        continue;
      }
      ii[name] = schedule->ii;
      if (!best || schedule->ii < best->ii)
        best = *schedule;
    }
    Cycles resources = resourceBound(problem), recurrences = recurrenceBound(problem), lower = std::max(resources, recurrences);
    if (!best)
      continue;
    test::Optimum optimum = test::findOptimum(problem, lower, *best, seconds, every);
    if (!optimum.contradiction.empty())
      return fail("kernel " + std::to_string(seed) + ": " + optimum.contradiction);
    proved += optimum.proved;
    everyProved += optimum.every;
    aboveBound += optimum.ii > lower;
    Result<Schedule> roomy = runScheduler("search", unlimited(problem), options);
    binding += roomy && roomy->ii < optimum.ii;
    std::string row = "| " + std::to_string(seed) + " | " + std::to_string(problem.operations.size()) + " | " +
                      std::to_string(resources) + " | " + std::to_string(recurrences) + " | " + std::to_string(optimum.ii) +
                      (optimum.proved ? "" : " (not proved)") + " | " + std::to_string(optimum.refuted) + " |";
    for (const std::string &name : names) {
      if (!ii.count(name)) {
        row += " - |";
        continue;
      }
      double excess = gap(ii[name], optimum.ii);
      if (optimum.proved)
        gaps[name].push_back(excess);
      char text[64];
      std::snprintf(text, sizeof(text), excess == 0 ? " %lld |" : " %lld (+%.1f %%) |", static_cast<long long>(ii[name]),
                    excess);
      row += text;
    }
    std::printf("%s\n", row.c_str());
    std::fflush(stdout);
  }
  std::printf(
      "\n%u of %u optima are proved%s; in %u the optimum is above max(ResMII, RecMII), in %u it is above what "
      "unlimited memory allows.\n",
      proved, kernels,
      every ? (", " + std::to_string(everyProved) + " of them at every initiation interval from the lower bound on").c_str()
            : "",
      aboveBound, binding);
  std::printf("\n| scheduler | median gap %% | largest gap %% | optimal | without a schedule |\n|---|---:|---:|---:|---:|\n");
  for (const std::string &name : names) {
    const std::vector<double> &all = gaps[name];
    if (all.empty())
      continue;
    std::printf("| %s | %.1f | %.1f | %zu of %zu | %u |\n", name.c_str(), median(all),
                *std::max_element(all.begin(), all.end()), size_t(std::count(all.begin(), all.end(), 0.0)), all.size(),
                failures[name]);
  }
  for (const std::string &name : names)
    std::fprintf(stderr, "%s: %.1f ms a kernel\n", name.c_str(), 1e3 * time[name] / kernels);
  return 0;
}
