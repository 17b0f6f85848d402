//===- Choice.cpp - Which variants a network runs, and why ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/gpu/Choice.h"
#include "isa/files/InputFile.h"
#include "runtime/gpu/JsonReader.h"

#include <cstdio>

using namespace tw;
using namespace tw::runtime;
using namespace tw::runtime::gpu;
using tw::gpu::ChosenBy;
using tw::gpu::Program;

namespace {
constexpr int kVersion = 1;

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
  return text;
}

/// Measured, or else estimated.
double timeOf(const tw::gpu::Variant &variant) { return variant.measured > 0 ? variant.measured : variant.microseconds; }
} // namespace

uint64_t runtime::gpu::digest(const std::string &text, uint64_t value) {
  for (unsigned char c : text)
    value = (value ^ c) * 0x100000001b3;
  return value;
}

uint64_t runtime::gpu::digestOf(const Program &program) {
  uint64_t value = digest("");
  for (const tw::gpu::Kernel &kernel : program.kernels)
    value = digest(kernel.ptx, value);
  for (const tw::gpu::Step &step : program.steps) {
    value = digest(step.name + "\n", value);
    for (const tw::gpu::Variant &variant : step.variants) {
      value = digest(variant.name + "\n", value);
      for (const tw::gpu::Launch &launch : variant.launches)
        for (uint32_t number : {launch.kernel, launch.grid, launch.block, launch.cluster, launch.sharedBytes})
          value = digest(std::to_string(number) + " ", value);
    }
  }
  return value;
}

Choice runtime::gpu::choiceOf(const ChoiceKey &key, const Program &program) {
  Choice choice{key, {}};
  for (const tw::gpu::Step &step : program.steps) {
    choice.steps.push_back({step.name, step.chosen, {}});
    for (const tw::gpu::Variant &variant : step.variants)
      choice.steps.back().variants.push_back({variant.name, variant.measured});
  }
  return choice;
}

std::string runtime::gpu::toJson(const Choice &choice) {
  Json steps = Json::array();
  for (const Choice::Step &step : choice.steps) {
    Json variants = Json::array();
    for (const Choice::Variant &variant : step.variants)
      variants.push_back({{"name", variant.name}, {"measured_us", variant.microseconds}});
    steps.push_back({{"name", step.name}, {"chosen", step.chosen}, {"variants", variants}});
  }
  const Json document = {{"version", kVersion},
                         {"device", choice.key.device},
                         {"driver", choice.key.driver},
                         {"program", hex(choice.key.program)},
                         {"steps", steps}};
  return document.dump(1) + "\n";
}

StatusOr<Choice> runtime::gpu::readChoice(const std::string &file) {
  Result<std::string> text = files::readFile(file);
  if (!text)
    return userError(text.message());
  try {
    const Json document = parseJson(*text);
    const JsonReader reader(document, "");
    reader.number("version", kVersion, kVersion);
    Choice choice;
    choice.key.device = reader.text("device");
    choice.key.driver = int(reader.number("driver", 0, INT32_MAX));
    const std::string program = reader.text("program");
    choice.key.program = std::strtoull(program.c_str(), nullptr, 16);
    if (program != hex(choice.key.program))
      throw std::invalid_argument("'program' is \"" + program + "\" but must be 16 hexadecimal digits");
    for (const JsonReader &entry : reader.list("steps")) {
      Choice::Step step;
      step.name = entry.text("name");
      for (const JsonReader &each : entry.list("variants"))
        step.variants.push_back({each.text("name"), each.real("measured_us")});
      if (step.variants.empty())
        throw std::invalid_argument("'" + entry.place("variants") + "' is empty but must have one entry at least");
      step.chosen = uint32_t(entry.number("chosen", 0, step.variants.size() - 1));
      choice.steps.push_back(std::move(step));
    }
    return choice;
  } catch (const std::exception &error) {
    return userError(file + ": " + error.what());
  }
}

std::string runtime::gpu::take(const Choice &choice, const ChoiceKey &key, Program &program) {
  if (choice.key.device != key.device)
    return "it is for device '" + choice.key.device + "' but this is '" + key.device + "'";
  if (choice.key.driver != key.driver)
    return "it is for driver " + std::to_string(choice.key.driver) + " but this is " + std::to_string(key.driver);
  bool fits = choice.key.program == key.program && choice.steps.size() == program.steps.size();
  for (size_t i = 0; fits && i < program.steps.size(); ++i) {
    const tw::gpu::Step &step = program.steps[i];
    fits = choice.steps[i].name == step.name && choice.steps[i].variants.size() == step.variants.size();
    for (size_t v = 0; fits && v < step.variants.size(); ++v)
      fits = choice.steps[i].variants[v].name == step.variants[v].name;
  }
  if (!fits)
    return "it is for another program";
  for (size_t i = 0; i < program.steps.size(); ++i) {
    tw::gpu::Step &step = program.steps[i];
    step.chosen = choice.steps[i].chosen;
    step.chosenBy = step.variants.size() > 1 ? ChosenBy::Stored : ChosenBy::Only;
    for (size_t v = 0; v < step.variants.size(); ++v)
      step.variants[v].measured = choice.steps[i].variants[v].microseconds;
  }
  return "";
}

std::string runtime::gpu::reasonOf(const tw::gpu::Step &step) {
  const std::string count = std::to_string(step.variants.size());
  if (step.variants.size() == 1)
    return "the only variant";
  switch (step.chosenBy) {
  case ChosenBy::Time:
    return "fastest of " + count;
  case ChosenBy::Stored:
    return "fastest of " + count + " in an earlier run";
  case ChosenBy::Only:
  case ChosenBy::Estimate:
    break;
  }
  return "least estimate of " + count + ", not timed";
}

std::string runtime::gpu::reportJson(const Program &program, const RunReport &run) {
  Json document = Json::object();
  if (!run.device.empty())
    document.update({{"device", run.device}, {"driver", run.driver}});
  if (run.seconds > 0)
    document["network_us"] = run.seconds * 1e6;
  document["steps"] = Json::array();
  for (const tw::gpu::Step &step : program.steps) {
    Json variants = Json::array();
    for (const tw::gpu::Variant &variant : step.variants) {
      Json entry = {{"name", variant.name}, {"estimate_us", variant.microseconds}};
      if (variant.measured > 0)
        entry["measured_us"] = variant.measured;
      variants.push_back(std::move(entry));
    }
    document["steps"].push_back({{"name", step.name},
                                 {"nodes", step.nodes},
                                 {"kind", step.kind},
                                 {"why_kind", step.why},
                                 {"variant", step.variants.at(step.chosen).name},
                                 {"why_variant", reasonOf(step)},
                                 {"variants", variants}});
  }
  return document.dump(1) + "\n";
}

std::string runtime::gpu::reportText(const Program &program, bool allVariants) {
  std::string text;
  auto line = [&](const char *format, auto... values) {
    char buffer[512];
    std::snprintf(buffer, sizeof buffer, format, values...);
    text += buffer;
  };
  for (const tw::gpu::Step &step : program.steps) {
    const tw::gpu::Variant &chosen = step.variants.at(step.chosen);
    line("%-40.80s %-16s %-24s %9.2f us  %s\n", step.name.c_str(), step.kind.c_str(), chosen.name.c_str(), timeOf(chosen),
         reasonOf(step).c_str());
    if (!allVariants)
      continue;
    if (!step.why.empty())
      line("  %s: %s\n", step.kind.c_str(), step.why.c_str());
    for (const tw::gpu::Variant &variant : step.variants) {
      line("  %c %-24s estimate %9.2f us", &variant == &chosen ? '*' : ' ', variant.name.c_str(), variant.microseconds);
      if (variant.measured > 0)
        line(", measured %9.2f us", variant.measured);
      text += "\n";
    }
  }
  return text;
}
