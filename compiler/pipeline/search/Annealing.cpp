//===- Annealing.cpp - Simulated annealing over knobs ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/search/Annealing.h"

#include <algorithm>
#include <cmath>

using namespace tw;
using namespace tw::pipeline;

/// The knob of a name such as "rows of conv1".
static std::string withoutLayer(const std::string &name) { return name.substr(0, name.find(" of ")); }

/// A multiple of the temperature. A proposal is accepted if its loss is no more: the rule of Metropolis, since the negative
/// logarithm of a uniform number exceeds x with probability exp(-x).
static double drawThreshold(std::mt19937_64 &random) { return -std::log((double(random() % 1000) + 1) / 1001); }

llvm::Expected<AnnealingChain> Annealing::begin(const SearchPoint &start, std::vector<Decision> knobs) {
  AnnealingChain chain;
  chain.knobs = std::move(knobs);
  std::map<std::optional<unsigned>, std::vector<size_t>> byLayer;
  for (size_t i = 0; i < chain.knobs.size(); ++i)
    if (chain.knobs[i].candidates > 1)
      byLayer[chain.knobs[i].layer].push_back(i);
  for (auto &[layer, own] : byLayer)
    chain.sites.push_back(std::move(own));
  chain.isOver = chain.sites.empty() || evaluator.isExhausted();
  if (chain.isOver)
    return chain;
  SearchPoint complete = start;
  complete.variations.resize(chain.knobs.size());
  llvm::Expected<const Measurement *> measured = evaluator.measure(complete, "the same");
  if (!measured)
    return measured.takeError();
  chain.isOver = !(*measured)->failure.empty();
  if (!chain.isOver)
    chain.current = chain.best = {std::move(complete), **measured};
  return chain;
}

/// Linear cooling within a round.
double Annealing::temperatureAfter(unsigned programs) const {
  return parameters.temperature * (1 - double(programs) / parameters.round);
}

llvm::Error Annealing::anneal(AnnealingChain &chain) {
  if (double(chain.current.measurement.cycles) > (1 + parameters.backtrack) * double(chain.best.measurement.cycles))
    chain.current = chain.best;
  const unsigned begin = evaluator.evaluations();
  for (unsigned fruitless = 0;
       !chain.isOver && !evaluator.isExhausted() && evaluator.evaluations() < begin + parameters.round;) {
    llvm::Expected<bool> isNew = step(chain, begin);
    if (!isNew)
      return isNew.takeError();
    fruitless = *isNew ? 0 : fruitless + 1;
    chain.isOver = fruitless >= parameters.fruitless;
  }
  return llvm::Error::success();
}

/// Draws a proposal, and accepts it or not. `begin`: programs before the round. Returns whether there is another program, new
/// to the search.
llvm::Expected<bool> Annealing::step(AnnealingChain &chain, unsigned begin) {
  measureAhead(chain);
  Proposal proposal = propose(chain, random);
  const double threshold = drawThreshold(random);
  if (evaluator.isSeen(proposal.point))
    return false;
  llvm::Expected<const Measurement *> measured = evaluator.measure(proposal.point, proposal.name);
  if (!measured)
    return measured.takeError();
  const Measurement &measurement = **measured;
  learn(chain, proposal.point, measurement);
  if (!measurement.failure.empty() || measurement.program == chain.current.measurement.program)
    return false;
  const double accepted = temperatureAfter(evaluator.evaluations() - begin) * threshold;
  if (double(measurement.cycles) > (1 + accepted) * double(chain.current.measurement.cycles))
    return true;
  chain.current = {std::move(proposal.point), measurement};
  if (measurement.cycles < chain.best.measurement.cycles)
    chain.best = chain.current;
  return true;
}

bool Annealing::isHopeless(const AnnealingChain &chain, size_t knob, unsigned value) const {
  const auto lost = chain.leastLoss.find({knob, value});
  if (lost != chain.leastLoss.end() && lost->second >= parameters.hopeless)
    return true;
  if (chain.idle.count({knob, value}))
    return true;
  const auto known = statistics.find(withoutLayer(chain.knobs[knob].name));
  return known != statistics.end() && known->second.tries >= parameters.knobTries &&
         known->second.leastLoss >= parameters.hopeless;
}

/// One to three knobs of neighbouring layers take other values, since these depend on each other.
Annealing::Proposal Annealing::propose(const AnnealingChain &chain, std::mt19937_64 &random) const {
  auto draw = [&](size_t count) { return size_t(random() % count); };
  Proposal proposal{chain.current.point, ""};
  const int64_t middle = int64_t(draw(chain.sites.size()));
  size_t changes = 1 + draw(4) / 3, changed = 0;
  changes += draw(12) / 11;
  for (; changes > 0; --changes) {
    const int64_t near = std::clamp<int64_t>(middle + int64_t(draw(3)) - 1, 0, int64_t(chain.sites.size()) - 1);
    const std::vector<size_t> &site = chain.sites[size_t(near)];
    const size_t knob = site[draw(site.size())];
    const unsigned value = unsigned(draw(chain.knobs[knob].candidates));
    if (isHopeless(chain, knob, value) && draw(parameters.keepHopeless) != 0)
      continue;
    unsigned &coordinate = proposal.point.variations[knob];
    if (coordinate != value && changed++ == 0)
      proposal.name = chain.knobs[knob].name;
    coordinate = value;
  }
  if (changed > 1)
    proposal.name += " and " + std::to_string(changed - 1) + " more";
  return proposal;
}

/// The next proposals, if the chain rejects all of them.
void Annealing::measureAhead(const AnnealingChain &chain) {
  std::mt19937_64 ahead = random;
  std::vector<SearchPoint> coming;
  for (unsigned draws = 0; draws < parameters.fruitless && coming.size() < evaluator.depth(); ++draws) {
    SearchPoint point = propose(chain, ahead).point;
    drawThreshold(ahead);
    if (!evaluator.isSeen(point))
      coming.push_back(std::move(point));
  }
  evaluator.measureAhead(coming);
}

/// Updates what is known of the values that tell `point` from the current one.
void Annealing::learn(AnnealingChain &chain, const SearchPoint &point, const Measurement &measurement) {
  const bool exists = measurement.failure.empty();
  const Measurement &current = chain.current.measurement;
  const double loss = exists ? double(measurement.cycles) / double(current.cycles) - 1 : parameters.hopeless;
  for (size_t i = 0; i < point.variations.size(); ++i) {
    const unsigned value = point.variations[i];
    if (value == chain.current.point.variations[i])
      continue;
    double &least = chain.leastLoss.try_emplace({i, value}, loss).first->second;
    least = std::min(least, loss);
    KnobStatistics &knob =
        statistics.try_emplace(withoutLayer(chain.knobs[i].name), KnobStatistics{0, parameters.hopeless}).first->second;
    knob.tries += exists;
    knob.leastLoss = std::min(knob.leastLoss, loss);
    if (exists && measurement.program == current.program)
      chain.idle.insert({i, value});
  }
}
