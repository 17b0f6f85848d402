//===- Tilewright.cpp - The C interface of libtilewright ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/capi/tilewright.h"

#include "hw-configs/Machine.h"
#include "isa/Assembler.h"
#include "isa/OutOfMemory.h"
#include "runtime/RuleExplanation.h"
#include "runtime/Session.h"
#include "simulator/stats/Timeline.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>

using namespace tw;
using runtime::Error;
using runtime::HostTensor;
using runtime::Status;
using runtime::StatusOr;
using runtime::TensorSpec;
using runtime::userError;

struct tw_machine {
  std::string file; ///< or name
  std::vector<std::string> overrides;
  timing::MachineParams parameters;
  std::vector<std::string> notes;
};

struct tw_model {
  std::string name;                         ///< a file, an inline kernel, or what stands for a file
  std::shared_ptr<const std::string> bytes; ///< of an ONNX model in memory
};

struct tw_program {
  runtime::Network network;
  std::vector<TensorSpec> inputs, outputs;
  std::optional<graph::RuleLog> rules; ///< nothing for a program that was loaded
};

struct tw_result {
  runtime::RunReport report;
  std::shared_ptr<const isa::Program> traced; ///< of a run that kept a trace
};

namespace {

#define TW_SAME_TYPE(c, kind) static_assert(int(c) == int(runtime::ElementKind::kind), "tw_type follows ElementKind")
TW_SAME_TYPE(TW_FLOAT32, F32);
TW_SAME_TYPE(TW_FLOAT16, F16);
TW_SAME_TYPE(TW_BFLOAT16, BF16);
TW_SAME_TYPE(TW_FLOAT64, F64);
TW_SAME_TYPE(TW_INT8, I8);
TW_SAME_TYPE(TW_UINT8, U8);
TW_SAME_TYPE(TW_INT16, I16);
TW_SAME_TYPE(TW_UINT16, U16);
TW_SAME_TYPE(TW_INT32, I32);
TW_SAME_TYPE(TW_UINT32, U32);
TW_SAME_TYPE(TW_INT64, I64);
TW_SAME_TYPE(TW_UINT64, U64);
TW_SAME_TYPE(TW_BOOL, Bool);
#undef TW_SAME_TYPE

thread_local std::string lastError;

tw_status fail(const Error &error) {
  lastError = error.message;
  return tw_status(error.kind);
}

/// Calls `body`, which returns a Status. Exceptions of libraries become errors: none crosses the C interface.
template <typename Body> tw_status guarded(Body body) {
  lastError.clear();
  try {
    const Status status = body();
    return status ? TW_OK : fail(status.error());
  } catch (const OutOfMemory &error) {
    return fail(userError(std::string("out of memory: ") + error.what()));
  } catch (const std::bad_alloc &) {
    return fail(userError("out of memory"));
  } catch (const std::exception &error) {
    return fail(runtime::internalError(error.what()));
  }
}

char *copyOf(const std::string &text) {
  char *copy = static_cast<char *>(std::malloc(text.size() + 1));
  if (!copy)
    throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

std::string lines(const std::vector<std::string> &list) {
  std::string text;
  for (const std::string &entry : list)
    text += entry + "\n";
  return text;
}

std::vector<std::string> listOf(const char *const *texts, size_t count) { return {texts, texts + count}; }

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    parts.push_back(part);
  return parts;
}

/// "name=value" options, each of which is asked for once.
class Options {
public:
  Options(const char *const *texts, size_t count) {
    for (const std::string &text : listOf(texts, count)) {
      const size_t equals = text.find('=');
      if (equals == std::string::npos || equals == 0)
        problem = "option is '" + text + "' but must be name=value";
      else
        values.push_back({text.substr(0, equals), text.substr(equals + 1)});
    }
  }

  void read(const char *name, std::string &value) {
    known.push_back(name);
    take(name, [&](const std::string &text) { value = text; });
  }
  /// A whole number from `least` to `most`.
  template <typename T> void read(const char *name, T &value, uint64_t least, uint64_t most) {
    known.push_back(name);
    take(name, [&](const std::string &text) {
      uint64_t number = 0;
      auto [at, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (failure != std::errc() || at != text.data() + text.size() || number < least || number > most)
        problem = std::string("option ") + name + " is '" + text + "' but must be a whole number from " +
                  std::to_string(least) + " to " + std::to_string(most);
      value = T(number);
    });
  }
  void read(const char *name, std::string &value, const std::vector<std::string> &allowed) {
    read(name, value);
    if (!value.empty() && std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
      problem = std::string("option ") + name + " is '" + value + "' but must be one of";
      for (const std::string &text : allowed)
        problem += (&text == &allowed.front() ? " " : ", ") + text;
    }
  }
  /// Calls visit(rest of the name, value) for every option whose name begins with `prefix`.
  template <typename Visit> void readEach(const std::string &prefix, Visit visit) {
    known.push_back(prefix + "NAME");
    for (auto it = values.begin(); it != values.end();)
      if (it->first.rfind(prefix, 0) == 0) {
        if (std::string why = visit(it->first.substr(prefix.size()), it->second); !why.empty())
          problem = "option " + it->first + " is '" + it->second + "' but " + why;
        it = values.erase(it);
      } else {
        ++it;
      }
  }
  /// Calls visit(value) for every option of this name; it returns what is wrong with the value, or "".
  template <typename Visit> void readAll(const char *name, Visit visit) {
    known.push_back(name);
    take(name, [&](const std::string &text) {
      if (std::string why = visit(text); !why.empty())
        problem = std::string("option ") + name + " is '" + text + "', " + why;
    });
  }
  /// An error for the first option that is wrong, or that nobody has read.
  Status finish() const {
    if (!problem.empty())
      return userError(problem);
    if (values.empty())
      return {};
    std::string names;
    for (const std::string &name : known)
      names += (names.empty() ? "" : ", ") + name;
    return userError("unknown option '" + values.front().first + "', expected one of " + names);
  }

private:
  template <typename Use> void take(const std::string &name, Use use) {
    for (auto it = values.begin(); it != values.end();)
      if (it->first == name) {
        use(it->second);
        it = values.erase(it);
      } else {
        ++it;
      }
  }

  std::vector<std::pair<std::string, std::string>> values;
  std::vector<std::string> known;
  std::string problem;
};

tw_tensor view(const TensorSpec &spec) {
  return {spec.name.c_str(), tw_type(spec.type), spec.shape.data(), spec.shape.size(), nullptr, 0};
}

StatusOr<runtime::NetworkOptions> compileOptions(Options options) {
  runtime::NetworkOptions result;
  std::string math = graph::kMathNames[size_t(graph::Math::Exact)], rules = graph::kRuleSetNames[size_t(graph::RuleSet::All)],
              targets;
  options.read("schedule", result.schedule);
  options.read("across", result.across, runtime::acrossNames());
  options.read("priority", result.priority);
  options.read("math", math, {std::begin(graph::kMathNames), std::end(graph::kMathNames)});
  options.read("rules", rules, {std::begin(graph::kRuleSetNames), std::end(graph::kRuleSetNames)});
  options.readAll("disable_rule", [&](const std::string &name) { return result.rules.disable(name); });
  options.read("search_budget", result.searchBudget, 1, UINT32_MAX);
  options.read("search_jobs", result.searchJobs, 1, 1024);
  options.read("seed", result.seed, 0, UINT64_MAX);
  options.read("cache", result.cacheFolder);
  options.read("targets", targets);
  options.readEach("shape.", [&](const std::string &input, const std::string &text) -> std::string {
    std::vector<int64_t> &extents = result.import.shapes[input];
    for (const std::string &part : split(text, ',')) {
      int64_t extent = 0;
      auto [at, failure] = std::from_chars(part.data(), part.data() + part.size(), extent);
      if (failure != std::errc() || at != part.data() + part.size() || extent <= 0)
        return "must be positive extents, \"1,3,224,224\"";
      extents.push_back(extent);
    }
    return extents.empty() ? "must be positive extents, \"1,3,224,224\"" : "";
  });
  options.readEach("alias.", [&](const std::string &output, const std::string &input) -> std::string {
    result.import.aliases.emplace_back(output, input);
    return input.empty() ? "must be the name of an input" : "";
  });
  if (Status status = options.finish(); !status)
    return status.error();
  result.searchSeed = result.seed;
  result.targets = split(targets, ',');
  result.math =
      graph::Math(std::find(std::begin(graph::kMathNames), std::end(graph::kMathNames), math) - std::begin(graph::kMathNames));
  result.rules.set = graph::RuleSet(std::find(std::begin(graph::kRuleSetNames), std::end(graph::kRuleSetNames), rules) -
                                    std::begin(graph::kRuleSetNames));
  return result;
}

StatusOr<std::unique_ptr<tw_program>> makeProgram(const std::string &model, const runtime::NetworkOptions &options) {
  auto program = std::make_unique<tw_program>();
  StatusOr<runtime::Network> network = runtime::loadNetwork(model, options);
  if (!network)
    return network.error();
  program->network = std::move(*network);
  for (unsigned value : program->network.inputs)
    program->inputs.push_back(program->network.values[value]);
  for (unsigned value : program->network.outputs)
    program->outputs.push_back(program->network.values[value]);
  return program;
}

/// The only program of a network.
StatusOr<const isa::Program *> onlyProgram(const tw_program &program) {
  const std::vector<runtime::Step> &steps = program.network.steps;
  if (steps.size() == 1 && steps.front().program)
    return &*steps.front().program;
  return userError(program.network.model + " is no single program for the accelerator: parts of it run on the host");
}

/// Inputs of a run, in the order of the program.
StatusOr<std::vector<HostTensor>> inputsOf(const tw_program &program, const tw_tensor *inputs, size_t count) {
  std::vector<HostTensor> tensors;
  for (size_t i = 0; i < count; ++i) {
    const tw_tensor &given = inputs[i];
    HostTensor tensor{
        given.name ? given.name : "", runtime::ElementKind(given.type), {given.shape, given.shape + given.rank}, {}};
    const std::string label = "input " + std::to_string(i) + (tensor.name.empty() ? "" : " '" + tensor.name + "'");
    if (given.type < TW_FLOAT32 || given.type > TW_BOOL)
      return userError(label + " has type " + std::to_string(int(given.type)) + " but tw_type ends with " +
                       std::to_string(int(TW_BOOL)));
    for (int64_t extent : tensor.shape)
      if (extent < 0)
        return userError(label + " has shape " + runtime::shapeText(tensor.shape) + " but extents are not negative");
    const uint64_t bytes = uint64_t(runtime::elementCount(tensor.shape)) * frontend::elementBytes(tensor.type);
    if (given.size != bytes || (bytes && !given.data))
      return userError(label + " has " + std::to_string(given.data ? given.size : 0) + " bytes but its shape and type need " +
                       std::to_string(bytes));
    const auto *data = static_cast<const uint8_t *>(given.data);
    tensor.bytes.assign(data, data + given.size);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

} // namespace

const char *tw_version(void) { return TILEWRIGHT_VERSION; }

const char *tw_error_message(void) { return lastError.c_str(); }

void tw_free(void *memory) { std::free(memory); }

//===----------------------------------------------------------------------===//
// Machines
//===----------------------------------------------------------------------===//

tw_status tw_machine_names(char **names) {
  return guarded([&]() -> Status {
    std::vector<std::string> list;
    for (const hwconfigs::ShippedMachine &machine : hwconfigs::shippedMachines())
      list.push_back(machine.name);
    *names = copyOf(lines(list));
    return {};
  });
}

static Status loadMachine(std::string file, std::vector<std::string> overrides, tw_machine **machine) {
  auto result = std::make_unique<tw_machine>();
  StatusOr<timing::MachineParams> parameters = runtime::loadMachine(file, overrides, result->notes);
  if (!parameters)
    return parameters.error();
  result->file = std::move(file);
  result->overrides = std::move(overrides);
  result->parameters = std::move(*parameters);
  *machine = result.release();
  return {};
}

tw_status tw_machine_load(const char *name_or_file, const char *const *overrides, size_t override_count, tw_machine **machine) {
  return guarded([&] { return loadMachine(name_or_file, listOf(overrides, override_count), machine); });
}

tw_status tw_machine_with(const tw_machine *machine, const char *const *overrides, size_t override_count,
                          tw_machine **changed) {
  return guarded([&] {
    std::vector<std::string> all = machine->overrides;
    for (std::string &text : listOf(overrides, override_count)) {
      // The loader refuses a key that stands twice: the later value wins here.
      const std::string key = text.substr(0, text.find('=') + 1);
      all.erase(std::remove_if(all.begin(), all.end(), [&](const std::string &other) { return other.rfind(key, 0) == 0; }),
                all.end());
      all.push_back(std::move(text));
    }
    return loadMachine(machine->file, std::move(all), changed);
  });
}

tw_status tw_machine_parameters(const tw_machine *machine, char **parameters) {
  return guarded([&]() -> Status {
    std::vector<std::string> list;
    for (const auto &[key, value] : hwconfigs::parametersOf(machine->parameters))
      list.push_back(key + "=" + value);
    *parameters = copyOf(lines(list));
    return {};
  });
}

tw_status tw_machine_notes(const tw_machine *machine, char **notes) {
  return guarded([&]() -> Status {
    *notes = copyOf(lines(machine->notes));
    return {};
  });
}

void tw_machine_free(tw_machine *machine) { delete machine; }

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

tw_status tw_model_load(const char *file_or_kernel, tw_model **model) {
  return guarded([&]() -> Status {
    if (Status status = runtime::checkModel(file_or_kernel); !status)
      return status;
    if (runtime::isProgramFile(file_or_kernel))
      return userError(std::string(file_or_kernel) + " is a program already: load it with tw_program_load()");
    *model = new tw_model{file_or_kernel, nullptr};
    return {};
  });
}

tw_status tw_model_from_onnx(const void *bytes, size_t size, const char *name, tw_model **model) {
  return guarded([&]() -> Status {
    *model = new tw_model{name, std::make_shared<const std::string>(static_cast<const char *>(bytes), size)};
    return {};
  });
}

void tw_model_free(tw_model *model) { delete model; }

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

tw_status tw_compile(const tw_model *model, const tw_machine *machine, const char *const *options, size_t option_count,
                     tw_program **program) {
  return guarded([&]() -> Status {
    StatusOr<runtime::NetworkOptions> request = compileOptions(Options(options, option_count));
    if (!request)
      return request.error();
    request->machine = machine->file;
    request->overrides = machine->overrides;
    request->modelBytes = model->bytes;
    request->keepsPlan = true;
    // What is compiled in a run, where it depends on values, is not part of the log: runs may be in other threads.
    auto rules = std::make_shared<std::optional<graph::RuleLog>>(graph::RuleLog());
    request->rules.report = [rules](const graph::RuleLog &log) {
      if (*rules)
        *rules = log;
    };
    StatusOr<std::unique_ptr<tw_program>> result = makeProgram(model->name, *request);
    if (!result)
      return result.error();
    (*result)->rules = std::exchange(*rules, std::nullopt);
    *program = result->release();
    return {};
  });
}

tw_status tw_program_load(const char *file, const tw_machine *machine, tw_program **program) {
  return guarded([&]() -> Status {
    if (!runtime::isProgramFile(file))
      return userError(std::string("'") + file + "' must be a program, .twp or .tasm");
    runtime::NetworkOptions options;
    if (machine) {
      options.machine = machine->file;
      options.overrides = machine->overrides;
    }
    StatusOr<std::unique_ptr<tw_program>> result = makeProgram(file, options);
    if (!result)
      return result.error();
    *program = result->release();
    return {};
  });
}

size_t tw_program_input_count(const tw_program *program) { return program->inputs.size(); }
size_t tw_program_output_count(const tw_program *program) { return program->outputs.size(); }
tw_tensor tw_program_input(const tw_program *program, size_t index) { return view(program->inputs.at(index)); }
tw_tensor tw_program_output(const tw_program *program, size_t index) { return view(program->outputs.at(index)); }

tw_status tw_program_text(const tw_program *program, const char *phase, char **text) {
  return guarded([&]() -> Status {
    const std::string wanted = phase;
    if (wanted != "plan" && wanted != "isa" && wanted != "rules")
      return userError("phase is '" + wanted + "' but must be plan, isa or rules");
    if (wanted == "rules") {
      if (!program->rules)
        return userError(program->network.model + " was loaded as a program: no rule was applied");
      *text = copyOf(runtime::ruleJson(*program->rules));
      return {};
    }
    StatusOr<const isa::Program *> only = onlyProgram(*program);
    if (!only)
      return only.error();
    if (wanted == "plan" && program->network.planText.empty())
      return userError(program->network.model + " was loaded as a program: there is no plan");
    *text = copyOf(wanted == "plan" ? program->network.planText : isa::disassemble(**only));
    return {};
  });
}

tw_status tw_program_image(const tw_program *program, void **image, size_t *size) {
  return guarded([&]() -> Status {
    StatusOr<const isa::Program *> only = onlyProgram(*program);
    if (!only)
      return only.error();
    const std::vector<uint8_t> bytes = isa::serialize(**only);
    *image = copyOf({bytes.begin(), bytes.end()});
    *size = bytes.size();
    return {};
  });
}

tw_status tw_program_notes(const tw_program *program, char **notes) {
  return guarded([&]() -> Status {
    *notes = copyOf(lines(program->network.notes));
    return {};
  });
}

void tw_program_free(tw_program *program) { delete program; }

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

tw_status tw_run(const tw_program *program, const tw_tensor *inputs, size_t input_count, const char *const *options,
                 size_t option_count, tw_result **result) {
  return guarded([&]() -> Status {
    runtime::SimulatorOptions simulator;
    std::string model = "systemc";
    uint64_t seed = 1;
    Options named(options, option_count);
    named.read("model", model, {"systemc", "functional", "rtl"});
    named.read("check", simulator.checks, 0, 1);
    named.read("trace", simulator.trace, 0, 1);
    named.read("max_cycles", simulator.maxCycles, 0, UINT64_MAX);
    named.read("seed", seed, 0, UINT64_MAX);
    if (Status status = named.finish(); !status)
      return status;
    simulator.model = model == "functional" ? runtime::Model::Functional
                      : model == "rtl"      ? runtime::Model::Rtl
                                            : runtime::Model::SystemC;
    if (simulator.trace && simulator.model != runtime::Model::SystemC)
      return userError("option trace needs the model that knows every cause: model=systemc");
    if (simulator.checks && simulator.model == runtime::Model::Rtl)
      return userError("option check needs model=systemc or model=functional");
    auto run = std::make_unique<tw_result>();
    if (simulator.trace) {
      StatusOr<const isa::Program *> only = onlyProgram(*program);
      if (!only)
        return only.error();
      run->traced = std::make_shared<const isa::Program>(**only);
    }
    runtime::Session session(program->network, simulator);
    StatusOr<std::vector<HostTensor>> tensors = inputs ? inputsOf(*program, inputs, input_count) : session.randomInputs(seed);
    if (!tensors)
      return tensors.error();
    StatusOr<runtime::RunReport> report = session.run(*tensors);
    if (!report)
      return report.error();
    run->report = std::move(*report);
    if (!inputs)
      run->report.seed = seed;
    *result = run.release();
    return {};
  });
}

size_t tw_result_output_count(const tw_result *result) { return result->report.outputs.size(); }

tw_tensor tw_result_output(const tw_result *result, size_t index) {
  const HostTensor &tensor = result->report.outputs.at(index);
  return {tensor.name.c_str(), tw_type(tensor.type), tensor.shape.data(),
          tensor.shape.size(), tensor.bytes.data(),  tensor.bytes.size()};
}

tw_status tw_result_report(const tw_result *result, char **json) {
  return guarded([&]() -> Status {
    *json = copyOf(runtime::toJson(result->report, {}));
    return {};
  });
}

/// A file with the timeline of a run.
static StatusOr<std::string> timelineOf(const tw_result &result, stats::TimelineFormat format) {
  if (!result.traced)
    return userError("the run kept no timeline: run with option trace=1");
  std::ostringstream timeline;
  stats::writeTimeline(timeline, *result.traced, *result.report.sim, format);
  return timeline.str();
}

tw_status tw_result_timeline(const tw_result *result, char **json) {
  return guarded([&]() -> Status {
    StatusOr<std::string> timeline = timelineOf(*result, stats::TimelineFormat::ChromeJson);
    if (!timeline)
      return timeline.error();
    *json = copyOf(*timeline);
    return {};
  });
}

tw_status tw_result_perfetto(const tw_result *result, void **trace, size_t *size) {
  return guarded([&]() -> Status {
    StatusOr<std::string> timeline = timelineOf(*result, stats::TimelineFormat::Perfetto);
    if (!timeline)
      return timeline.error();
    *trace = copyOf(*timeline);
    *size = timeline->size();
    return {};
  });
}

void tw_result_free(tw_result *result) { delete result; }
