//===- ExactModel.cpp - A problem for an SMT solver -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/unit/loopsched/ExactModel.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <unistd.h>

using namespace tw;
using namespace tw::loopsched;
using namespace tw::loopsched::test;

namespace {

std::string number(int64_t value) { return value < 0 ? "(- " + std::to_string(-value) + ")" : std::to_string(value); }
std::string variable(const char *letter, size_t index) { return letter + std::to_string(index); }
std::string plus(const std::string &a, const std::string &b) { return "(+ " + a + " " + b + ")"; }
std::string times(int64_t factor, const std::string &a) { return "(* " + number(factor) + " " + a + ")"; }
std::string atMost(const std::string &a, const std::string &b) { return "(<= " + a + " " + b + ")"; }

/// The buffers of each memory, largest slots first: a shared ring belongs to its first.
std::vector<std::vector<unsigned>> buffersByMemory(const Problem &problem) {
  std::vector<std::vector<unsigned>> result(problem.memories.size());
  for (unsigned b = 0; b < problem.buffers.size(); ++b)
    result[problem.buffers[b].memory].push_back(b);
  for (std::vector<unsigned> &buffers : result)
    std::stable_sort(buffers.begin(), buffers.end(), [&](unsigned a, unsigned b) {
      return problem.banksPerSlot(problem.buffers[a]) > problem.banksPerSlot(problem.buffers[b]);
    });
  return result;
}

} // namespace

std::string test::smtModel(const Problem &problem, Cycles ii) {
  std::ostringstream out;
  auto declare = [&](const std::string &name) { out << "(declare-const " << name << " Int)\n"; };
  auto require = [&](const std::string &fact) { out << "(assert " << fact << ")\n"; };
  out << "(set-logic QF_LIA)\n";
  // t = m + ii * s: the place of operation i in the interval, and its stage. Schedules may be moved in time: the first
  // is at 0.
  std::vector<std::string> t;
  for (size_t i = 0; i < problem.operations.size(); ++i) {
    declare(variable("m", i));
    declare(variable("s", i));
    require("(and (<= 0 " + variable("m", i) + ") (< " + variable("m", i) + " " + number(ii) + "))");
    t.push_back(plus(variable("m", i), times(ii, variable("s", i))));
  }
  require("(and (= m0 0) (= s0 0))");

  for (size_t i = 0; i < problem.operations.size(); ++i)
    for (size_t j = i + 1; j < problem.operations.size(); ++j)
      for (const Problem::Use &a : problem.operations[i].uses)
        for (const Problem::Use &b : problem.operations[j].uses) {
          if (a.resource != b.resource || a.cycles == 0 || b.cycles == 0)
            continue;
          auto order = [&](size_t first, Cycles firstCycles, size_t second, Cycles secondCycles) {
            return "(and " + atMost(plus(variable("m", first), number(firstCycles)), variable("m", second)) + " " +
                   atMost(plus(variable("m", second), number(secondCycles)), plus(variable("m", first), number(ii))) + ")";
          };
          require("(or " + order(i, a.cycles, j, b.cycles) + " " + order(j, b.cycles, i, a.cycles) + ")");
        }
  for (const Problem::Operation &operation : problem.operations)
    for (const Problem::Use &use : operation.uses)
      if (use.cycles > ii)
        require("false");

  for (const Problem::Dependence &it : problem.dependences)
    require(atMost(plus(t[it.from], number(it.delay)), plus(t[it.to], number(ii * it.distance))));

  // e: the end of a buffer's life. d: depth of its ring. r: the ring, named by its first buffer. o: iterations by which
  // its life is moved so that lives in one slot of a ring can be compared.
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    const Problem::Buffer &buffer = problem.buffers[b];
    for (const char *letter : {"e", "d", "r", "o"})
      declare(variable(letter, b));
    Cycles latency = problem.operations[buffer.producer].latency;
    require(atMost(plus(t[buffer.producer], number(latency)), variable("e", b)));
    for (const Problem::Reader &reader : buffer.readers) {
      std::string read = plus(t[reader.operation], number(ii * reader.distance));
      require(atMost(plus(t[buffer.producer], number(latency)), read));
      require(atMost(plus(read, number(problem.operations[reader.operation].latency)), variable("e", b)));
    }
    require(atMost("1", variable("d", b)));
    if (buffer.maxDepth)
      require(atMost(variable("d", b), number(buffer.maxDepth)));
    require(atMost(variable("e", b), plus(t[buffer.producer], times(ii, variable("d", b)))));
  }
  std::vector<std::vector<unsigned>> memories = buffersByMemory(problem);
  for (size_t m = 0; m < memories.size(); ++m) {
    std::string banks = "(+ 0";
    for (size_t i = 0; i < memories[m].size(); ++i) {
      unsigned b = memories[m][i];
      std::string own = "(= " + variable("r", b) + " " + number(b) + ")", joins = "(or " + own;
      for (size_t j = 0; j < i; ++j) {
        unsigned a = memories[m][j];
        joins += " (and (= " + variable("r", b) + " " + number(a) + ") (= " + variable("r", a) + " " + number(a) + "))";
        std::string beginA = plus(t[problem.buffers[a].producer], times(ii, variable("o", a)));
        std::string beginB = plus(t[problem.buffers[b].producer], times(ii, variable("o", b)));
        std::string endA = plus(variable("e", a), times(ii, variable("o", a))),
                    endB = plus(variable("e", b), times(ii, variable("o", b)));
        std::string turn = times(ii, variable("d", a));
        require("(=> (= " + variable("r", a) + " " + variable("r", b) + ") (and (= " + variable("d", a) + " " +
                variable("d", b) + ") (or (and " + atMost(endA, beginB) + " " + atMost(endB, plus(beginA, turn)) + ") (and " +
                atMost(endB, beginA) + " " + atMost(endA, plus(beginB, turn)) + "))))");
      }
      require(joins + ")");
      banks += " (ite " + own + " " + times(problem.banksPerSlot(problem.buffers[b]), variable("d", b)) + " 0)";
    }
    require(atMost(banks + ")", number(problem.memories[m].banks)));
  }
  return out.str();
}

namespace {

/// Integers of the model that z3 prints after "sat".
std::map<std::string, int64_t> readValues(const std::string &text) {
  std::map<std::string, int64_t> values;
  std::string clean = text;
  for (char &c : clean)
    if (c == '(' || c == ')' || c == '\n')
      c = ' ';
  std::istringstream in(clean);
  std::string word, name;
  bool negative = false;
  while (in >> word) {
    if (std::isalpha(static_cast<unsigned char>(word[0])))
      name = word, negative = false;
    else if (word == "-")
      negative = true;
    else
      values[name] = (negative ? -1 : 1) * std::strtoll(word.c_str(), nullptr, 10);
  }
  return values;
}

Schedule readSchedule(const Problem &problem, Cycles ii, const std::map<std::string, int64_t> &values) {
  auto value = [&](const char *letter, size_t index) { return values.at(variable(letter, index)); };
  Schedule schedule;
  schedule.ii = ii;
  for (size_t i = 0; i < problem.operations.size(); ++i)
    schedule.start.push_back(value("m", i) + ii * value("s", i));
  Cycles first = *std::min_element(schedule.start.begin(), schedule.start.end());
  for (Cycles &start : schedule.start)
    start -= first;
  schedule.placements.resize(problem.buffers.size());
  std::vector<std::vector<unsigned>> memories = buffersByMemory(problem);
  for (unsigned m = 0; m < memories.size(); ++m) {
    int64_t bank = 0;
    std::map<int64_t, unsigned> rings;
    for (unsigned b : memories[m]) {
      int64_t depth = value("d", b);
      if (value("r", b) == b) {
        rings[b] = unsigned(schedule.rings.size());
        schedule.rings.push_back({m, unsigned(depth), bank, problem.banksPerSlot(problem.buffers[b])});
        bank += depth * problem.banksPerSlot(problem.buffers[b]);
      }
      schedule.placements[b] = {rings.at(value("r", b)), unsigned((((-value("o", b)) % depth) + depth) % depth)};
    }
  }
  return schedule;
}

} // namespace

bool test::haveZ3() { return std::system("z3 --version >/dev/null 2>&1") == 0; }

/// z3's answer to an SMT-LIB text, and what it prints after it.
static std::pair<Answer, std::string> ask(const std::string &text, unsigned seconds) {
  char path[] = "/tmp/tilewright-XXXXXX";
  int file = mkstemp(path);
  if (file < 0)
    return {Answer::Unknown, ""};
  close(file);
  std::ofstream(path) << text;
  // Which arithmetic solver and seed answers at once and which takes minutes differs from model to model: short tries of
  // each before a long one.
  const char *settings[] = {"smt.arith.solver=2", "smt.arith.solver=6", "smt.arith.solver=2 smt.random_seed=5",
                            "smt.arith.solver=6 smt.random_seed=5"};
  std::pair<Answer, std::string> result = {Answer::Unknown, ""};
  for (unsigned limit = std::min(seconds, 3u), left = seconds; left > 0 && result.first == Answer::Unknown; limit *= 4)
    for (const char *setting : settings) {
      limit = std::min(limit, left);
      left -= limit;
      if (limit == 0)
        break;
      std::string output;
      if (FILE *pipe = popen(("z3 -T:" + std::to_string(limit) + " " + setting + " " + path).c_str(), "r")) {
        char part[4096];
        while (size_t size = fread(part, 1, sizeof(part), pipe))
          output.append(part, size);
        pclose(pipe);
      }
      if (output.rfind("unsat", 0) == 0)
        result = {Answer::Unsat, ""};
      else if (output.rfind("sat", 0) == 0)
        result = {Answer::Sat, output.substr(3)};
      else
        continue;
      break;
    }
  unlink(path);
  return result;
}

Answer test::solve(const Problem &problem, Cycles ii, unsigned seconds, Schedule &schedule) {
  std::ostringstream out;
  out << smtModel(problem, ii) << "(check-sat)\n(get-value (";
  for (const char *letter : {"m", "s"})
    for (size_t i = 0; i < problem.operations.size(); ++i)
      out << " " << variable(letter, i);
  for (const char *letter : {"d", "r", "o"})
    for (size_t b = 0; b < problem.buffers.size(); ++b)
      out << " " << variable(letter, b);
  out << "))\n";
  auto [answer, values] = ask(out.str(), seconds);
  if (answer == Answer::Sat)
    schedule = readSchedule(problem, ii, readValues(values));
  return answer;
}

Answer test::evaluate(const Problem &problem, const Schedule &schedule, unsigned seconds) {
  std::ostringstream out;
  out << smtModel(problem, schedule.ii);
  auto fix = [&](const char *letter, size_t index, int64_t value) {
    out << "(assert (= " << variable(letter, index) << " " << number(value) << "))\n";
  };
  for (size_t i = 0; i < problem.operations.size(); ++i) {
    Cycles start = schedule.start[i] - schedule.start[0], place = ((start % schedule.ii) + schedule.ii) % schedule.ii;
    fix("m", i, place);
    fix("s", i, (start - place) / schedule.ii);
  }
  for (const std::vector<unsigned> &buffers : buffersByMemory(problem))
    for (unsigned b : buffers) {
      fix("d", b, schedule.depth(b));
      for (unsigned first : buffers)
        if (schedule.placements[first].ring == schedule.placements[b].ring) {
          fix("r", b, first);
          break;
        }
    }
  out << "(check-sat)\n";
  return ask(out.str(), seconds).first;
}

Optimum test::findOptimum(const Problem &problem, Cycles lower, const Schedule &best, unsigned seconds, bool every) {
  Optimum result;
  Cycles upper = best.ii;
  result.ii = upper;
  auto ask = [&](Cycles ii) {
    Schedule schedule;
    Answer answer = solve(problem, ii, seconds, schedule);
    if (answer == Answer::Sat)
      if (std::vector<std::string> errors = verify(problem, schedule); !errors.empty())
        result.contradiction = "ii " + std::to_string(ii) + ": the solver's schedule is refused: " + errors[0];
    result.refuted += answer == Answer::Unsat;
    return answer;
  };
  // A schedule that the verifier accepts must satisfy the model.
  if (evaluate(problem, best, seconds) != Answer::Sat)
    result.contradiction = "ii " + std::to_string(upper) + " has a schedule but it does not satisfy the model";
  result.proved = true;
  if (upper > lower) {
    Answer answer = ask(upper - 1);
    if (answer == Answer::Sat) {
      Cycles low = lower;
      result.ii = upper - 1;
      while (low < result.ii) {
        Cycles middle = low + (result.ii - low) / 2;
        Answer at = ask(middle);
        if (at == Answer::Sat) {
          result.ii = middle;
          continue;
        }
        result.proved &= at == Answer::Unsat;
        low = middle + 1;
      }
    } else {
      result.proved = answer == Answer::Unsat;
    }
  }
  if (every && result.proved) {
    result.refuted = 0;
    result.every = true;
    for (Cycles ii = lower; ii < result.ii; ++ii) {
      Answer answer = ask(ii);
      result.every &= answer == Answer::Unsat;
      if (answer == Answer::Sat)
        result.contradiction = "ii " + std::to_string(ii) + " has a schedule but a larger one has none";
    }
  }
  return result;
}
