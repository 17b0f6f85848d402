//===- Constraints.h - A problem as difference constraints ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Once order on resources, depths and rings are chosen, a problem is a system of
// difference constraints; its least ii is the largest cycle ratio. What the
// built-in schedulers share.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_RESEARCH_LOOPSCHED_CONSTRAINTS_H
#define COMPILER_RESEARCH_LOOPSCHED_CONSTRAINTS_H

#include "compiler/research/loopsched/Problem.h"

#include <optional>

namespace tw::loopsched {

/// start[to] + distance * ii >= start[from] + delay
struct Edge {
  unsigned from = 0, to = 0;
  Cycles delay = 0;
  int64_t distance = 0;
};

/// ceil(a / b) for b > 0 and any sign of a.
constexpr int64_t ceilDiv(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

/// Dependences, and readers after their producers.
std::vector<Edge> flowEdges(const Problem &problem);

/// A buffer that has `depth` slots is written again only after its last reader.
void addReuseEdges(const Problem &problem, unsigned buffer, int64_t depth, std::vector<Edge> &edges);

/// The largest depth of `buffer` if it had its memory alone; 0 if not even one slot fits.
int64_t largestDepth(const Problem &problem, unsigned buffer);

/// flowEdges() and the reuse of every buffer at its largest depth: hold in every schedule.
std::vector<Edge> necessaryEdges(const Problem &problem);

/// Least non-negative starts, or nothing if some cycle of edges cannot be kept at this ii.
std::optional<std::vector<Cycles>> earliestStarts(size_t operations, const std::vector<Edge> &edges, Cycles ii);

/// The least ii in [low, high] at which the edges can be kept; nothing if there is none.
std::optional<Cycles> leastIi(size_t operations, const std::vector<Edge> &edges, Cycles low, Cycles high);

/// Two things that alternate on a circle of `circle` iterations: forward edges have distance + x, backward edges
/// circle + distance - x, for one integer x.
struct Alternation {
  std::vector<Edge> forward, backward;
  int64_t circle = 1;
};

/// Of every two operations that share a resource.
std::vector<Alternation> resourceAlternations(const Problem &problem);

/// Of two buffers in one ring: buffer `b` of iteration n + x follows `a` of iteration n in its slot.
Alternation ringAlternation(const Problem &problem, unsigned a, unsigned b, int64_t depth);

/// Appends both kinds of edges for a choice of x.
void addEdges(const Alternation &alternation, int64_t x, std::vector<Edge> &edges);

/// The same order on resources, depths and rings at the least ii possible. `schedule` is a right one.
Schedule tighten(const Problem &problem, const Schedule &schedule);

/// Gives buffers rings for the starts and ii of `schedule`: a ring each, or, where banks are short, rings shared by
/// buffers whose lifetimes leave room for one another (colouring of circular arcs). False if they do not fit. No ring
/// is deeper than `maxDepth` slots, if that is not 0.
bool placeBuffers(const Problem &problem, Schedule &schedule, unsigned maxDepth = 0);

/// Rings one after the other in each memory. False if they do not fit.
bool layOutRings(const Problem &problem, std::vector<Schedule::Ring> &rings);

} // namespace tw::loopsched

#endif // COMPILER_RESEARCH_LOOPSCHED_CONSTRAINTS_H
