//===- CompareCommand.cpp - tilewright compare ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/files/InputFile.h"
#include "runtime/CpuPeak.h"
#include "runtime/Files.h"
#include "runtime/LayerJoin.h"
#include "runtime/Measurement.h"
#include "runtime/NetworkDevice.h"
#include "runtime/OpenClDevice.h"
#include "runtime/cli/Cli.h"
#include "runtime/external/External.h"
#include "runtime/gpu/GpuNetwork.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

using namespace tw;
using namespace tw::cli;
using runtime::HostTensor;

using json = nlohmann::ordered_json;

namespace {

/// Targets as --targets names them: the accelerator is simulated, the CPU measured, and the others where there is a device.
constexpr const char *kAccelerator = "accel", *kCpu = "cpu", *kGpu = "gpu", *kOpenCl = "opencl";
/// Dense multiply-accumulates of an H100 SXM in a nanosecond, by what is multiplied. source: NVIDIA H100 data sheet, 989.4 TFLOP/s in
/// bfloat16, twice that in int8, half of it in tf32, 66.9 in float without tensor cores
constexpr double kGpuBfloatGmacs = 494700, kGpuInt8Gmacs = 989500, kGpuTfloatGmacs = 247300, kGpuFloatGmacs = 33450;

struct CompareArguments {
  ModelArguments model;
  std::vector<std::string> inputs;
  std::vector<std::string> targets = {kAccelerator, kCpu}, externals;
  std::map<std::string, std::string> externalPaths; ///< by name; empty: where the system has it
  unsigned repeat = 5, threads = 0;
  bool layers = false;
  std::string jsonFile, openClDevice;

  bool asksFor(const std::string &target) const { return std::find(targets.begin(), targets.end(), target) != targets.end(); }
};

/// What one target or external runtime comes to.
struct Row {
  std::string name, how;
  /// Wall time of each run, or the one simulated time; empty: nothing of the network ran there.
  std::vector<double> seconds, cpuSeconds;
  bool isSimulated = false;
  std::vector<HostTensor> outputs;
  std::optional<uint64_t> macs;
  double peakGmacs = 0; ///< multiply-accumulates of the device in a nanosecond at most; 0: not known
  std::string peakSource;
  std::optional<uint64_t> memoryBytes;
  /// What is measured: the device is freed before the runtime that made it.
  std::unique_ptr<runtime::External> external;
  std::string gpu, openCl; ///< the name of the device, if it is one
  std::unique_ptr<runtime::Device> device;

  bool hasTime() const { return !seconds.empty(); }
  /// In multiply-accumulates in a nanosecond; nothing without a time or a count.
  std::optional<double> gmacsPerSecond() const {
    if (!hasTime() || !macs || !*macs)
      return std::nullopt;
    double median = runtime::statisticsOf(seconds).median;
    return median > 0 ? std::optional<double>(double(*macs) / median * 1e-9) : std::nullopt;
  }
  std::optional<double> shareOfPeak() const {
    std::optional<double> rate = gmacsPerSecond();
    return rate && peakGmacs > 0 ? std::optional<double>(*rate / peakGmacs) : std::nullopt;
  }
};

/// Two rows that have values, and how far one output of the first lies from that of the second.
struct Agreement {
  std::string first, second;
  runtime::Comparison comparison;
};

class Contest {
public:
  Contest(const CompareArguments &arguments, runtime::NetworkOptions options)
      : arguments(arguments), options(std::move(options)) {}

  /// `files`: inputs as the user gave them; random ones if there are none.
  Status run(std::vector<TensorArgument> files);
  std::string text() const;
  json document() const;
  /// What disagrees, as the error that ends the command.
  Status verdict() const;

private:
  /// What the first target to be compiled says of the network.
  Status describe(runtime::Precision, const std::vector<runtime::TensorSpec> &inputs,
                  const std::vector<runtime::TensorSpec> &outputs);
  Status addAccelerator();
  Status addCpu();
  Status addGpu();
  Status addOpenCl();
  Status launchOnce(Row &row);
  Status addExternal(const std::string &name);
  Status simulate();
  Status measure();
  Status compareValues();
  const Row *row(const std::string &name) const;
  std::string layerTable() const;

  const CompareArguments &arguments;
  runtime::NetworkOptions options;
  unsigned threads = 1;
  Progress progress;
  std::vector<Row> rows;
  std::unique_ptr<runtime::Session> session;
  std::optional<runtime::RunReport> report;
  runtime::Precision precision = runtime::Precision::Single;
  std::vector<runtime::TensorSpec> inputSpecs, outputSpecs;
  std::vector<TensorArgument> files;
  std::vector<HostTensor> inputs;
  std::vector<runtime::KernelTime> kernels;
  std::vector<Agreement> agreements;
};

const Row *Contest::row(const std::string &name) const {
  auto found = std::find_if(rows.begin(), rows.end(), [&](const Row &each) { return each.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

Status Contest::describe(runtime::Precision networkPrecision, const std::vector<runtime::TensorSpec> &inputsOfNetwork,
                         const std::vector<runtime::TensorSpec> &outputsOfNetwork) {
  if (!rows.empty())
    return {};
  // Fast math multiplies floats rounded to bfloat16.
  precision = options.math == graph::Math::Fast ? std::max(networkPrecision, runtime::Precision::Bfloat) : networkPrecision;
  inputSpecs = inputsOfNetwork;
  outputSpecs = outputsOfNetwork;
  StatusOr<std::vector<HostTensor>> fitted = fitInputs(std::move(files), arguments.model.seed, inputSpecs);
  if (!fitted)
    return fitted.error();
  inputs = std::move(*fitted);
  return {};
}

Status Contest::addAccelerator() {
  progress.show("compiling " + arguments.model.model);
  StatusOr<std::unique_ptr<runtime::Session>> created = runtime::Session::create(arguments.model.model, {options, {}});
  progress.clear();
  if (!created)
    return created.error();
  session = std::move(*created);
  printNotes(session->network().notes);
  if (Status status = describe(session->network().precision, session->inputs(), session->outputs()); !status)
    return status;
  rows.emplace_back();
  rows.back().name = kAccelerator;
  rows.back().isSimulated = true;
  return {};
}

Status Contest::addCpu() {
  progress.show("compiling " + arguments.model.model + " for the CPU");
  runtime::MemoryProbe memory;
  StatusOr<runtime::CpuNetwork> network = runtime::loadOnCpu(arguments.model.model, options, threads);
  progress.clear();
  if (!network)
    return network.error();
  if (Status status = describe(network->precision, network->device->inputs(), network->device->outputs()); !status)
    return status;
  StatusOr<runtime::Launch> launch = network->device->launch(inputs);
  if (!launch)
    return launch.error();
  rows.emplace_back();
  Row &row = rows.back();
  row.name = kCpu;
  row.macs = network->macs;
  row.outputs = std::move(launch->outputs);
  row.memoryBytes = memory.mostBytes();
  row.device = std::move(network->device);
  return {};
}

Status Contest::addGpu() {
  progress.show("compiling " + arguments.model.model + " for a GPU");
  runtime::NetworkInterface interface;
  StatusOr<std::shared_ptr<runtime::gpu::Driver>> driver = runtime::gpu::Driver::open();
  if (driver && !whyNot(options.gpuArchitecture, (*driver)->computeCapability()).empty())
    options.gpuArchitecture = tw::gpu::Architecture::Sm80;
  StatusOr<tw::gpu::Program> program = runtime::compileOnGpu(arguments.model.model, options, &interface);
  progress.clear();
  if (!program)
    return program.error();
  if (Status status = describe(interface.precision, interface.inputs, interface.outputs); !status)
    return status;
  rows.emplace_back();
  Row &row = rows.back();
  row.name = kGpu;
  if (!driver) {
    row.how = "not measured: " + driver.error().message;
    return {};
  }
  progress.show("loading the GPU");
  runtime::gpu::GpuNetworkOptions gpuOptions;
  gpuOptions.cacheFolder = options.cacheFolder;
  StatusOr<std::unique_ptr<runtime::gpu::GpuNetwork>> network =
      runtime::gpu::GpuNetwork::load(std::move(*program), *driver, gpuOptions);
  progress.clear();
  if (!network)
    return network.error();
  row.gpu = (*driver)->name();
  row.device = runtime::makeNetworkDevice(std::move(*network), interface.inputs, interface.outputs);
  return launchOnce(row);
}

Status Contest::addOpenCl() {
  runtime::NetworkOptions asked = options;
  asked.machine.clear();
  asked.targets = {kOpenCl, kCpu}; // the CPU for what only the host evaluates
  StatusOr<std::shared_ptr<runtime::opencl::Loader>> loader = runtime::opencl::Loader::open();
  runtime::opencl::DeviceInfo device;
  if (loader) {
    StatusOr<runtime::opencl::DeviceInfo> chosen = (*loader)->choose(arguments.openClDevice);
    if (!chosen)
      return chosen.error();
    device = std::move(*chosen);
    asked.openClDevice = device.type;
  }
  progress.show("compiling " + arguments.model.model + " for OpenCL");
  StatusOr<runtime::Network> network = runtime::loadNetwork(arguments.model.model, asked);
  progress.clear();
  if (!network)
    return network.error();
  Row row;
  row.name = kOpenCl;
  if (loader) {
    progress.show("building kernels for " + device.name);
    Status status = runtime::placeOnOpenCl(*network, *loader, device);
    progress.clear();
    if (!status)
      return status;
    row.openCl = device.name + " (" + device.platformName + ")";
  } else {
    row.how = "not measured: " + loader.error().message;
  }
  const runtime::Precision precisionOfNetwork = network->precision;
  std::unique_ptr<runtime::Device> steps = runtime::makeStepsDevice(std::move(*network));
  if (Status status = describe(precisionOfNetwork, steps->inputs(), steps->outputs()); !status)
    return status;
  rows.push_back(std::move(row));
  if (!loader)
    return {};
  rows.back().device = std::move(steps);
  return launchOnce(rows.back());
}

/// Of the row's device, for its outputs.
Status Contest::launchOnce(Row &row) {
  StatusOr<runtime::Launch> launch = row.device->launch(inputs);
  if (!launch)
    return launch.error();
  row.outputs = std::move(launch->outputs);
  return {};
}

Status Contest::addExternal(const std::string &name) {
  runtime::ExternalModel model;
  model.name = arguments.model.model;
  model.seed = arguments.model.seed;
  model.inputs = inputSpecs;
  model.outputs = outputSpecs;
  model.hasConstantInputs = !options.import.constants.empty() || !options.import.values.empty();
  if (runtime::isInlineKernel(model.name)) {
    StatusOr<runtime::InlineKernel> kernel = runtime::parseInlineKernel(model.name);
    if (!kernel)
      return kernel.error();
    model.kernel = *kernel;
  }
  rows.emplace_back();
  Row &row = rows.back();
  row.name = name;
  row.external = runtime::makeExternal(name);
  if (std::optional<std::string> reason = row.external->whyNot(model))
    return userError("--external " + name + " cannot run '" + model.name + "': " + *reason);
  progress.show("loading " + name);
  runtime::MemoryProbe memory;
  auto path = arguments.externalPaths.find(name);
  StatusOr<std::unique_ptr<runtime::Device>> device =
      row.external->load(model, path == arguments.externalPaths.end() ? "" : path->second, threads);
  progress.clear();
  if (!device)
    return device.error();
  StatusOr<runtime::Launch> launch = (*device)->launch(inputs);
  if (!launch)
    return launch.error();
  row.outputs = std::move(launch->outputs);
  row.memoryBytes = memory.mostBytes();
  row.device = std::move(*device);
  return {};
}

Status Contest::simulate() {
  Row &row = rows.front();
  progress.show("simulating");
  StatusOr<runtime::RunReport> ran = session->run(inputs);
  progress.clear();
  if (!ran)
    return ran.error();
  report = std::move(*ran);
  const timing::MachineParams &machine = report->machine;
  if (!report->runsOnAccelerator()) {
    row.how = "nothing runs on " + machine.title();
    return {};
  }
  const uint64_t cycles = report->sim->totalCycles;
  row.seconds = {report->milliseconds(cycles) * 1e-3};
  row.how = "simulated: " + runtime::grouped(cycles) + " cycles at " + std::to_string(machine.clockMhz) + " MHz on " +
            machine.title();
  row.macs = report->countedMacs();
  row.peakGmacs = double(machine.peakMacsPerCycle()) * double(machine.clockMhz) * 1e-3;
  row.peakSource = "array at its clock";
  row.outputs = report->outputs;
  return {};
}

Status Contest::measure() {
  std::vector<runtime::Device *> devices;
  for (Row &row : rows)
    if (row.device)
      devices.push_back(row.device.get());
  if (devices.empty())
    return {};
  progress.show("measuring");
  const runtime::Products products = precision == runtime::Precision::Quantised ? runtime::Products::Int8
                                     : precision == runtime::Precision::Bfloat  ? runtime::Products::Bf16
                                                                                : runtime::Products::Fp32;
  const runtime::CpuPeak peak = runtime::measureCpuPeak(products, threads);
  StatusOr<std::vector<runtime::Times>> times = runtime::measureInTurns(devices, inputs, arguments.repeat, threads > 1);
  if (!times)
    return times.error();
  std::optional<uint64_t> macs;
  if (row(kCpu))
    macs = row(kCpu)->macs;
  else if (report && !report->fallback.kernels)
    macs = report->countedMacs();
  size_t next = 0;
  for (Row &row : rows) {
    if (!row.device)
      continue;
    row.seconds = std::move((*times)[next].wallSeconds);
    row.cpuSeconds = std::move((*times)[next++].cpuSeconds);
    row.macs = macs;
    row.peakGmacs = peak.gmacPerSecond;
    row.peakSource = peak.how;
    row.how = std::string("measured: ") + (row.external ? row.external->version() + ", " : "") +
              std::to_string(row.seconds.size()) + (row.seconds.size() == 1 ? " run" : " runs") + " in " +
              std::to_string(arguments.repeat) + (arguments.repeat == 1 ? " round, " : " rounds, ") + std::to_string(threads) +
              (threads == 1 ? " thread" : " threads");
    if (!row.gpu.empty()) {
      const bool isFast = options.math == graph::Math::Fast;
      row.peakGmacs = products == runtime::Products::Int8   ? kGpuInt8Gmacs
                      : products == runtime::Products::Bf16 ? kGpuBfloatGmacs
                      : isFast                              ? kGpuTfloatGmacs
                                                            : kGpuFloatGmacs;
      row.peakSource = "data sheet of an H100 SXM";
      row.how = "measured: " + row.gpu + ", " + std::to_string(row.seconds.size()) + " runs of a graph, without copies";
      row.cpuSeconds.clear();
    }
    if (!row.openCl.empty()) {
      row.peakGmacs = 0; // nobody says what the device can do
      row.peakSource.clear();
      row.how = "measured: " + row.openCl + ", " + std::to_string(row.seconds.size()) + " runs, without copies";
      row.cpuSeconds.clear();
    }
  }
  if (arguments.layers && row(kCpu)) {
    StatusOr<std::vector<runtime::KernelTime>> measured = row(kCpu)->device->measureKernels(inputs, arguments.repeat);
    if (!measured)
      return measured.error();
    kernels = std::move(*measured);
  }
  progress.clear();
  return {};
}

Status Contest::compareValues() {
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = i + 1; j < rows.size(); ++j)
      for (size_t k = 0; k < rows[i].outputs.size() && k < rows[j].outputs.size(); ++k) {
        StatusOr<runtime::Comparison> comparison = runtime::compare(rows[i].outputs[k], rows[j].outputs[k]);
        if (!comparison)
          return userError(rows[i].name + " and " + rows[j].name + ": " + comparison.error().message);
        // Targets sum in orders of their own; an int8 network may be one quantisation step off where a float lies within rounding
        // error of a tie.
        comparison->tolerance = runtime::defaultTolerance(outputSpecs[k].type, precision);
        comparison->name = outputSpecs[k].name;
        agreements.push_back({rows[i].name, rows[j].name, std::move(*comparison)});
      }
  return {};
}

Status Contest::run(std::vector<TensorArgument> given) {
  files = std::move(given);
  threads = arguments.threads ? arguments.threads : std::max(1u, std::thread::hardware_concurrency());
  progress.show("compiling " + arguments.model.model);
  options.progress = [this](const pipeline::SearchProgress &search) { progress.show(search); };
  if (arguments.asksFor(kAccelerator))
    if (Status status = addAccelerator(); !status)
      return status;
  if (arguments.asksFor(kCpu))
    if (Status status = addCpu(); !status)
      return status;
  if (arguments.asksFor(kGpu))
    if (Status status = addGpu(); !status)
      return status;
  if (arguments.asksFor(kOpenCl))
    if (Status status = addOpenCl(); !status)
      return status;
  for (const std::string &name : arguments.externals)
    if (Status status = addExternal(name); !status)
      return status;
  if (session)
    if (Status status = simulate(); !status)
      return status;
  if (Status status = measure(); !status)
    return status;
  return compareValues();
}

//===----------------------------------------------------------------------===//
// What is printed
//===----------------------------------------------------------------------===//

std::string percent(double part) { return runtime::fixed(part * 100, 1) + " %"; }

std::string Contest::layerTable() const {
  std::vector<runtime::LayerRow> layers;
  if (report && report->sim)
    layers = runtime::layerRows(*report);
  std::vector<runtime::JoinedLayers> joined = runtime::joinLayers(layers, kernels);
  const bool hasBoth = row(kCpu) && report && report->sim;
  runtime::Table table({"accelerator layers", "cycles", "us", "CPU us", "CPU kernels"}, 1);
  size_t apartLayers = 0, apartKernels = 0;
  auto join = [](const std::vector<std::string> &names) {
    std::string text;
    for (const std::string &name : names)
      text += (text.empty() ? "" : " ") + name;
    return text.empty() ? "-" : text;
  };
  for (const runtime::JoinedLayers &part : joined) {
    table.add({join(part.layers), part.cycles ? runtime::grouped(*part.cycles) : "-",
               part.cycles ? runtime::fixed(report->milliseconds(*part.cycles) * 1e3, 2) : "-",
               part.seconds ? runtime::fixed(*part.seconds * 1e6, 2) : "-", join(part.kernels)});
    apartLayers += part.kernels.empty() ? part.layers.size() : 0;
    apartKernels += part.layers.empty() ? part.kernels.size() : 0;
  }
  std::string text = "\n" + table.str();
  if (report && report->sim)
    text += "cycles: of the critical path, so that they sum to the total (docs/profile.md)\n";
  if (hasBoth && apartLayers + apartKernels)
    text += "not joined: " + std::to_string(apartLayers) + " layers of the accelerator and " + std::to_string(apartKernels) +
            " kernels of the CPU, whose nodes the other side does not name\n";
  return text;
}

std::string Contest::text() const {
  runtime::Table table({"target", "ms", "least ms", "spread", "CPU ms", "GMAC/s", "of peak", "MiB", "how"}, 1);
  for (const Row &row : rows) {
    std::vector<std::string> cells(9, "-");
    cells[0] = row.name;
    cells[8] = row.how;
    if (row.hasTime()) {
      runtime::Statistics wall = runtime::statisticsOf(row.seconds);
      cells[1] = runtime::fixed(wall.median * 1e3, 4);
      if (!row.isSimulated) {
        cells[2] = runtime::fixed(wall.minimum * 1e3, 4);
        cells[3] = percent(wall.spread);
        if (!row.cpuSeconds.empty())
          cells[4] = runtime::fixed(runtime::statisticsOf(row.cpuSeconds).median * 1e3, 4);
      }
      if (std::optional<double> rate = row.gmacsPerSecond())
        cells[5] = runtime::fixed(*rate, 2);
      if (std::optional<double> share = row.shareOfPeak())
        cells[6] = percent(*share);
    }
    if (row.memoryBytes)
      cells[7] = runtime::fixed(double(*row.memoryBytes) / (1 << 20), 0);
    table.add(std::move(cells));
  }
  std::string text = table.str();
  std::string peaks;
  for (const Row &row : rows)
    if (row.peakGmacs > 0 && (row.isSimulated || peaks.find("cpu") == std::string::npos))
      peaks += (peaks.empty() ? "peak: " : "; ") + std::string(row.isSimulated ? kAccelerator : "cpu") + " " +
               runtime::fixed(row.peakGmacs, 1) + " GMAC/s (" + row.peakSource + (row.isSimulated ? ")" : ", measured)");
  if (!peaks.empty())
    text += peaks + "\n";
  if (report && !report->runsOnAccelerator())
    text += "nothing runs on the accelerator: it has no results to compare\n" + runtime::offloadText(report->offload);
  else if (report && report->fallback.kernels)
    text += "not in the accelerator's time: " + std::to_string(report->fallback.kernels) +
            " kernels that fell back to the CPU, " + runtime::fixed(report->fallback.seconds * 1e3, 4) + " ms, " +
            runtime::fixed(double(report->fallback.hostLinkBytes) / 1024, 1) + " KiB over the host link\n";
  if (arguments.layers)
    text += layerTable() + "\n";
  if (options.math != graph::Math::Exact)
    text += "math: " + std::string(graph::kMathNames[size_t(options.math)]) + "\n";
  for (const Agreement &each : agreements)
    text += each.first + " and " + each.second + ": " + runtime::text(each.comparison) + "; tolerance " +
            runtime::text(each.comparison.tolerance) + "\n";
  if (arguments.inputs.empty())
    text += "random inputs, seed " + std::to_string(arguments.model.seed) + "\n";
  if (!agreements.empty()) {
    auto agrees = [](const Agreement &each) { return each.comparison.isWithinTolerance(); };
    auto agreesWhereFinite = [](const Agreement &each) {
      return each.comparison.isWithinTolerance() ||
             (each.comparison.notFinite && each.comparison.maxFiniteError <= each.comparison.largestAllowed());
    };
    text += std::all_of(agreements.begin(), agreements.end(), agrees)              ? "the results agree\n"
            : std::all_of(agreements.begin(), agreements.end(), agreesWhereFinite) ? "the finite results agree\n"
                                                                                   : "the results disagree\n";
  }
  return text;
}

json Contest::document() const {
  auto orNull = [](const auto &value) { return value ? json(*value) : json(); };
  json document = {{"schema", "tilewright.compare/1"},
                   {"model", arguments.model.model},
                   {"threads", threads},
                   {"rounds", arguments.repeat},
                   {"math", graph::kMathNames[size_t(options.math)]}};
  document["seed"] = arguments.inputs.empty() ? json(arguments.model.seed) : json();
  for (const Row &row : rows) {
    json entry = {{"name", row.name},
                  {"how", row.how},
                  {"simulated", row.isSimulated},
                  {"runs", row.isSimulated ? 0 : row.seconds.size()}};
    json milliseconds, cpuMilliseconds;
    if (row.hasTime()) {
      runtime::Statistics wall = runtime::statisticsOf(row.seconds);
      milliseconds = {{"minimum", wall.minimum * 1e3}, {"median", wall.median * 1e3}, {"spread", wall.spread}};
    }
    if (!row.cpuSeconds.empty()) {
      runtime::Statistics cpu = runtime::statisticsOf(row.cpuSeconds);
      cpuMilliseconds = {{"minimum", cpu.minimum * 1e3}, {"median", cpu.median * 1e3}, {"spread", cpu.spread}};
    }
    entry["milliseconds"] = milliseconds;
    entry["cpu_milliseconds"] = cpuMilliseconds;
    if (row.isSimulated && row.hasTime()) {
      entry["cycles"] = report->sim->totalCycles;
      entry["clock_mhz"] = report->machine.clockMhz;
    }
    entry["macs"] = orNull(row.macs);
    entry["gmac_per_second"] = orNull(row.gmacsPerSecond());
    entry["peak_gmac_per_second"] = row.peakGmacs > 0 ? json(row.peakGmacs) : json();
    entry["peak_source"] = row.peakSource;
    entry["share_of_peak"] = orNull(row.shareOfPeak());
    entry["memory_bytes"] = orNull(row.memoryBytes);
    if (row.external)
      entry["version"] = row.external->version();
    document["rows"].push_back(std::move(entry));
  }
  document["agreement"] = json::array();
  for (const Agreement &each : agreements) {
    const runtime::Comparison &c = each.comparison;
    // JSON has no infinity.
    auto finite = [](double value) { return std::isfinite(value) ? json(value) : json(); };
    document["agreement"].push_back(
        {{"first", each.first},
         {"second", each.second},
         {"output", c.name},
         {"elements", c.elements},
         {"differing", c.differing},
         {"max_abs_error", finite(c.maxAbsError)},
         {"expected_range", finite(c.expectedRange)},
         {"max_relative_error", finite(c.maxRelativeError)},
         {"tolerance", {{"of_range", c.tolerance.ofRange}, {"absolute", c.tolerance.absolute}, {"reason", c.tolerance.reason}}},
         {"within_tolerance", c.isWithinTolerance()}});
  }
  if (arguments.layers) {
    std::vector<runtime::LayerRow> layers;
    if (report && report->sim)
      layers = runtime::layerRows(*report);
    document["layers"] = json::array();
    for (const runtime::JoinedLayers &part : runtime::joinLayers(layers, kernels))
      document["layers"].push_back({{"nodes", part.nodes},
                                    {"accelerator_layers", part.layers},
                                    {"accelerator_cycles", orNull(part.cycles)},
                                    {"cpu_kernels", part.kernels},
                                    {"cpu_microseconds", part.seconds ? json(*part.seconds * 1e6) : json()}});
  }
  return document;
}

Status Contest::verdict() const {
  if (std::none_of(rows.begin(), rows.end(), [](const Row &row) { return row.hasTime(); }) && rows.size() == 1 &&
      (rows[0].name == kGpu || rows[0].name == kOpenCl))
    return userError("target " + rows[0].name + " is " + rows[0].how);
  std::string disagreement, overflow;
  bool isOurs = false;
  for (const Agreement &each : agreements) {
    const runtime::Comparison &c = each.comparison;
    if (c.isWithinTolerance())
      continue;
    // Sums near the largest float overflow in one order and not in another.
    if (c.notFinite && c.maxFiniteError <= c.largestAllowed()) {
      overflow +=
          (overflow.empty() ? "" : "\n") + ("overflow: output '" + c.name + "' has " + std::to_string(c.notFinite) + " of " +
                                            std::to_string(c.elements) + " values that are infinite or NaN on " + each.first +
                                            " or on " + each.second + ", but not the same on both; the others agree");
      continue;
    }
    disagreement +=
        (disagreement.empty() ? "" : "\n") + (each.first + " and " + each.second + " disagree: " + runtime::text(c));
    isOurs |= each.first == kAccelerator && each.second == kCpu;
  }
  if (!disagreement.empty())
    return isOurs ? runtime::internalError(disagreement) : userError(disagreement);
  if (!overflow.empty())
    return userError(overflow + ": a sum of such numbers overflows in one order and not in another");
  return {};
}

/// Each of `names` is one of `known`, and there once.
Status checkNames(const std::string &option, const std::vector<std::string> &names, const std::vector<std::string> &known) {
  std::string all;
  for (const std::string &name : known)
    all += (all.empty() ? "" : ", ") + name;
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(known.begin(), known.end(), names[i]) == known.end())
      return userError(option + ": '" + names[i] + "' is none of " + all);
    if (std::find(names.begin(), names.begin() + i, names[i]) != names.begin() + i)
      return userError(option + " names '" + names[i] + "' twice");
  }
  return {};
}

Status compare(const CompareArguments &arguments) {
  if (Status status = checkNames("--targets", arguments.targets, {kAccelerator, kCpu, kGpu, kOpenCl}); !status)
    return status;
  if (!arguments.openClDevice.empty() && !arguments.asksFor(kOpenCl))
    return userError("--device is for target opencl, which --targets leaves out");
  if (Status status = checkNames("--external", arguments.externals, runtime::externalNames()); !status)
    return status;
  for (const auto &[name, path] : arguments.externalPaths)
    if (!path.empty() && std::find(arguments.externals.begin(), arguments.externals.end(), name) == arguments.externals.end())
      return userError("--" + std::string(name == "torch" ? "python" : name) + " is for --external " + name +
                       ", which is not asked for");
  const std::string &model = arguments.model.model;
  if (arguments.asksFor(kAccelerator) && arguments.model.network.machine.empty() && !runtime::isProgramFile(model))
    return userError(
        "target accel needs a machine: give one with --hw (see 'tilewright hw list'), or leave it out with --targets cpu");
  for (const auto &[name, path] : arguments.externalPaths)
    files::addInput(path); // a library is no place for a report
  if (!arguments.asksFor(kAccelerator) && !arguments.model.network.machine.empty())
    return userError("--hw is for target accel, which --targets leaves out");
  if (Status status = checkOutputs({arguments.jsonFile}); !status)
    return status;
  StatusOr<std::vector<TensorArgument>> files = readTensorFiles(arguments.inputs);
  if (!files)
    return files.error();
  StatusOr<runtime::NetworkOptions> options = arguments.model.options(*files);
  if (!options)
    return options.error();
  Contest contest(arguments, std::move(*options));
  if (Status status = contest.run(std::move(*files)); !status)
    return status;
  if (!arguments.jsonFile.empty())
    if (Status status = runtime::writeFile(arguments.jsonFile,
                                           contest.document().dump(2, ' ', false, json::error_handler_t::replace) + "\n");
        !status)
      return status;
  if (arguments.jsonFile != "-")
    std::fputs(contest.text().c_str(), stdout);
  return contest.verdict();
}

} // namespace

void cli::addCompareCommand(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App *command =
      app.add_subcommand("compare", "targets and other runtimes side by side: times, and whether their results agree");
  arguments->model.addTo(*command);
  addRepeated(*command, "--input", arguments->inputs, "an input, .npy or .pb; in order, or by name")->type_name("[NAME=]FILE");
  command
      ->add_option("--targets", arguments->targets,
                   "accel (simulated, needs --hw), cpu (measured), gpu and opencl (measured where there is a device)")
      ->delimiter(',')
      ->type_name("NAME,...")
      ->capture_default_str();
  command->add_option("--external", arguments->externals, "other runtimes: ort (ONNX Runtime), dnnl (oneDNN), torch (PyTorch)")
      ->delimiter(',')
      ->type_name("NAME,...");
  command
      ->add_option("--ort", arguments->externalPaths["ort"],
                   "the library of ONNX Runtime; default: libonnxruntime.so.1 of the system")
      ->type_name("FILE");
  command->add_option("--dnnl", arguments->externalPaths["dnnl"], "the library of oneDNN; default: libdnnl.so.2 of the system")
      ->type_name("FILE");
  command->add_option("--python", arguments->externalPaths["torch"], "a Python with torch; default: python3")
      ->type_name("FILE");
  addOpenClDevice(*command, arguments->openClDevice);
  command->add_option("--repeat", arguments->repeat, "rounds of measurement, in which what is measured takes turns")
      ->check(CLI::Range(1u, 10000u))
      ->capture_default_str();
  command->add_option("--threads", arguments->threads, "threads on the CPU; default: all of its cores")
      ->check(CLI::Range(1u, 1024u));
  command->add_flag("--layers", arguments->layers,
                    "a table of layers: cycles on the accelerator beside microseconds on the CPU");
  command->add_option("--json", arguments->jsonFile, "write the report for programs; - is standard output")->type_name("FILE");
  command->callback([arguments, &action] { action = [arguments] { return compare(*arguments); }; });
}
