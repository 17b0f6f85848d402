//===- EvaluatorTests.cpp - ONNX's node tests on the evaluator ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// evaluator-tests FOLDER [--only TEXT]... [--verbose]
//
// Runs the node tests in FOLDER on compiler/operators, and prints those that fail with the reason, then how many passed.
//===----------------------------------------------------------------------===//
#include "compiler/operators/Evaluator.h"
#include "tests/conformance/NodeTests.h"

#include <cstdio>
#include <cstring>
#include <map>

using namespace tw;
using namespace tw::conformance;

static std::string run(const std::string &folder, const std::string &name) {
  try {
    NodeTest test = readTest(folder, name);
    std::map<std::string, operators::Value> inputs;
    for (int i = 0; i < test.model.graph().input_size(); ++i)
      inputs[test.model.graph().input(i).name()] = test.inputs[size_t(i)];
    std::map<std::string, operators::Value> outputs = operators::Evaluator(test.model, test.folder).run(std::move(inputs));
    for (int i = 0; i < test.model.graph().output_size(); ++i)
      if (std::string text = difference(outputs[test.model.graph().output(i).name()], test.outputs[size_t(i)]); !text.empty())
        return "output " + std::to_string(i) + ": " + text;
    return "";
  } catch (const operators::Error &error) {
    return error.message;
  }
}

int main(int argc, char **argv) {
  std::string folder;
  std::vector<std::string> only;
  for (int i = 1; i < argc; ++i)
    if (!strcmp(argv[i], "--only") && i + 1 < argc)
      only.push_back(argv[++i]);
    else
      folder = argv[i];
  if (folder.empty()) {
    fprintf(stderr, "evaluator-tests FOLDER [--only TEXT]...\n");
    return 1;
  }
  size_t passed = 0, all = 0;
  for (const std::string &name : testsIn(folder)) {
    bool isWanted = only.empty();
    for (const std::string &text : only)
      isWanted |= name.find(text) != std::string::npos;
    if (!isWanted)
      continue;
    ++all;
    const std::string problem = run(folder, name);
    passed += problem.empty();
    if (!problem.empty())
      printf("FAIL %s: %s\n", name.c_str(), problem.c_str());
  }
  printf("%zu of %zu pass\n", passed, all);
  return 0;
}
