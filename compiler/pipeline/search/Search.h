//===- Search.h - Plans found by simulation ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedule `search`: coordinate descent, simulated annealing and crossover over
// the plans of one network. The search knows layers only by their numbers and
// cycles; SearchSpace.h says which plan a point stands for.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_SEARCH_SEARCH_H
#define COMPILER_PIPELINE_SEARCH_SEARCH_H

#include "compiler/pipeline/search/SearchOptions.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace tw::pipeline {

struct CompiledNetwork;

/// Compiles the program of a point; of the point without coordinates: the first program, with the decisions that there are.
/// `onlyTimed`: the program is only simulated without values. Errors that begin with text::kInternal end the search; with
/// others the point has no program.
using CompilePoint = llvm::function_ref<llvm::Expected<CompiledNetwork>(const SearchPoint &, bool onlyTimed)>;
/// Estimates the program of a point made of decisions alone, without compiling it. Errors: no such program.
using EstimatePoint = llvm::function_ref<llvm::Expected<Measurement>(const SearchPoint &)>;

/// The fastest program found; never a slower one than the first. Errors: the first program cannot be compiled; a program does
/// not verify or run, which is an internal error; the cache contradicts the simulator. A program that does not fit on the
/// machine (semaphores, DRAM) counts against the budget. `estimate` may be null; it then ranks no points.
llvm::Expected<CompiledNetwork> search(CompilePoint compile, const SearchOptions &options, EstimatePoint estimate = {});

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_SEARCH_SEARCH_H
