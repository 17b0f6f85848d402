//===- ChromeTimeline.cpp - Timelines in Chrome's JSON format -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/stats/TimelineSink.h"

#include <nlohmann/json.hpp>

using namespace tw;
using namespace tw::stats;

namespace {

/// A JSON string with its quotes.
std::string jsonString(const std::string &text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string number(uint64_t value) { return std::to_string(value); }

class ChromeSink final : public TimelineSink {
public:
  explicit ChromeSink(std::ostream &out) : out(out) {}

  void start(const std::string &name, Cycle totalCycles) override {
    out << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"time_unit\":\"1 us is 1 cycle\",\"total_cycles\":" << totalCycles
        << "},\"traceEvents\":[";
    event("\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":" + jsonString(name + " (1 us is 1 cycle)") +
          "}");
  }
  void track(unsigned id, const std::string &name) override {
    event("\"ph\":\"M\",\"pid\":0,\"tid\":" + number(id) + ",\"name\":\"thread_name\",\"args\":{\"name\":" + jsonString(name) +
          "}");
    event("\"ph\":\"M\",\"pid\":0,\"tid\":" + number(id) +
          ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":" + number(id) + "}");
  }
  void slice(unsigned track, const std::string &name, Cycle begin, Cycle end,
             std::initializer_list<SliceArgument> arguments) override {
    std::string pairs;
    for (const SliceArgument &argument : arguments) {
      pairs += std::string(pairs.empty() ? "\"" : ",\"") + argument.key + "\":";
      if (const auto *text = std::get_if<std::string>(&argument.value))
        pairs += jsonString(*text);
      else
        pairs += number(std::get<uint64_t>(argument.value));
    }
    event("\"ph\":\"X\",\"pid\":0,\"tid\":" + number(track) + ",\"ts\":" + number(begin) + ",\"dur\":" + number(end - begin) +
          ",\"name\":" + jsonString(name) + ",\"args\":{" + pairs + "}");
  }
  void counter(const std::string &name, const char *unit, Cycle at, uint64_t value) override {
    event("\"ph\":\"C\",\"pid\":0,\"ts\":" + number(at) + ",\"name\":" + jsonString(name) + ",\"args\":{" + jsonString(unit) +
          ":" + number(value) + "}");
  }
  void flow(const SliceFlow &flow) override {
    // An arrow starts inside a slice, so in the last cycle of the poster's.
    const std::string common =
        ",\"pid\":0,\"cat\":\"semaphore\",\"id\":" + number(flow.id) + ",\"name\":\"semaphore " + number(flow.semaphore) + "\"";
    event("\"ph\":\"s\"" + common + ",\"tid\":" + number(flow.fromTrack) + ",\"ts\":" + number(flow.fromLast));
    event("\"ph\":\"f\",\"bp\":\"e\"" + common + ",\"tid\":" + number(flow.toTrack) + ",\"ts\":" + number(flow.toBegin));
  }
  void finish() override { out << "\n]}\n"; }

private:
  void event(const std::string &body) {
    out << (first ? "\n{" : ",\n{") << body << '}';
    first = false;
  }

  std::ostream &out;
  bool first = true;
};

} // namespace

std::string stats::asUtf8(const std::string &text) { return nlohmann::json::parse(jsonString(text)).get<std::string>(); }

std::unique_ptr<TimelineSink> stats::makeChromeSink(std::ostream &out) { return std::make_unique<ChromeSink>(out); }
