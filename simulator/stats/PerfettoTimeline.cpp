//===- PerfettoTimeline.cpp - Timelines in Perfetto's protobuf format -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/stats/TimelineSink.h"
#include "simulator/stats/perfetto.pb.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <vector>

using namespace tw;
using namespace tw::stats;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::GzipOutputStream;
using google::protobuf::io::StringOutputStream;
using perfetto::TracePacket;
using perfetto::TrackEvent;

namespace {

/// Numbers of texts, from 1.
class Interner {
public:
  uint64_t number(const std::string &text) {
    const auto [entry, isNew] = numbers.try_emplace(text, numbers.size() + 1);
    if (isNew)
      texts.push_back(&entry->first);
    return entry->second;
  }
  /// Calls visit(number, text in UTF-8) by ascending number.
  template <typename Visit> void forEach(Visit visit) const {
    for (size_t i = 0; i < texts.size(); ++i)
      visit(i + 1, asUtf8(*texts[i]));
  }

private:
  std::map<std::string, uint64_t> numbers;
  std::vector<const std::string *> texts;
};

/// Packets into a file, in compressed pieces.
class PacketFile {
public:
  explicit PacketFile(std::ostream &out) : out(out) {}

  void write(const TracePacket &packet) {
    append(packet, piece);
    if (piece.size() >= kPieceBytes)
      flush();
  }
  void flush() {
    if (piece.empty())
      return;
    std::string compressed;
    {
      StringOutputStream bytes(&compressed);
      GzipOutputStream::Options options;
      options.format = GzipOutputStream::ZLIB;
      GzipOutputStream zlib(&bytes, options);
      CodedOutputStream(&zlib).WriteString(piece);
    }
    TracePacket packet;
    packet.set_compressed_packets(std::move(compressed));
    std::string framed;
    append(packet, framed);
    out << framed;
    piece.clear();
  }

private:
  /// Before compression; Perfetto allows 512 KiB after it.
  static constexpr size_t kPieceBytes = 256 * 1024;

  /// As a field `packet` of a Trace.
  static void append(const TracePacket &packet, std::string &to) {
    StringOutputStream bytes(&to);
    CodedOutputStream coded(&bytes);
    coded.WriteTag(perfetto::Trace::kPacketFieldNumber << 3 | 2);
    coded.WriteVarint32(uint32_t(packet.ByteSizeLong()));
    packet.SerializeWithCachedSizes(&coded);
  }

  std::ostream &out;
  std::string piece;
};

/// Collects slices, since the two ends of nested slices must stand in the order of time.
class PerfettoSink final : public TimelineSink {
public:
  explicit PerfettoSink(std::ostream &out) : file(out) {}

  void start(const std::string &name, Cycle totalCycles) override { rootName = name + " (1 ns is 1 cycle)"; }
  void track(unsigned track, const std::string &name) override { tracks[track].name = name; }
  void slice(unsigned track, const std::string &name, Cycle begin, Cycle end,
             std::initializer_list<SliceArgument> arguments) override {
    tracks[track].slices.push_back({begin, end, names.number(name), values.size(), arguments.size()});
    for (const SliceArgument &argument : arguments) {
      const auto *text = std::get_if<std::string>(&argument.value);
      values.push_back(
          {keys.number(argument.key), text != nullptr, text ? texts.number(*text) : std::get<uint64_t>(argument.value)});
    }
  }
  void counter(const std::string &name, const char *unit, Cycle at, uint64_t value) override {
    Counter &counter = counters[name];
    counter.unit = unit;
    counter.values.push_back({at, value});
  }
  void flow(const SliceFlow &flow) override {
    add(ends[{flow.fromTrack, flow.fromBegin}].posts, flow);
    add(ends[{flow.toTrack, flow.toBegin}].takes, flow);
  }
  void finish() override;

private:
  struct Slice {
    Cycle begin, end;
    uint64_t name;
    size_t firstValue, numValues;
  };
  struct SliceTrack {
    std::string name;
    std::vector<Slice> slices;
  };
  struct Value {
    uint64_t key;
    bool isText;
    uint64_t value; ///< or the number of the text
  };
  struct Counter {
    const char *unit = "";
    std::vector<std::pair<Cycle, uint64_t>> values;
  };
  /// Flows at one end of a slice, and their semaphores in words.
  struct FlowEnd {
    std::vector<uint64_t> ids;
    std::string semaphores;
  };
  struct FlowEnds {
    FlowEnd posts, takes;
  };

  /// The packets of one writer share interned numbers.
  static constexpr uint32_t kSequence = 1;
  /// Perfetto's number of a track is never 0.
  static constexpr uint64_t kRoot = 1;
  static uint64_t uuidOf(unsigned track) { return kRoot + 1 + track; }

  static void add(FlowEnd &end, const SliceFlow &flow) {
    // Perfetto knows no flow 0.
    end.ids.push_back(flow.id + 1);
    end.semaphores += (end.semaphores.empty() ? "semaphore " : ", ") + std::to_string(flow.semaphore);
  }

  void writeStart();
  void writeTracks();
  void writeSlices(uint64_t uuid, std::vector<Slice> &slices, unsigned track);
  /// `event` of the packet that is written next.
  TrackEvent &newEvent(uint64_t uuid, Cycle at, TrackEvent::Type type);
  void annotate(TrackEvent &event, const char *key, const FlowEnd &end);

  PacketFile file;
  TracePacket packet; ///< used again and again
  std::string rootName;
  std::map<unsigned, SliceTrack> tracks;
  std::map<std::string, Counter> counters;
  std::map<std::pair<unsigned, Cycle>, FlowEnds> ends; ///< by track and begin of the slice
  std::vector<Value> values;                           ///< of all slices
  Interner names, keys, texts;
};

void PerfettoSink::writeStart() {
  // What flows add.
  for (const auto &[place, both] : ends)
    for (const FlowEnd *end : {&both.posts, &both.takes})
      if (!end->ids.empty())
        texts.number(end->semaphores);
  keys.number("posts");
  keys.number("takes");
  packet.Clear();
  packet.set_trusted_packet_sequence_id(kSequence);
  packet.set_sequence_flags(TracePacket::INCREMENTAL_STATE_CLEARED);
  perfetto::InternedData &data = *packet.mutable_interned_data();
  const auto set = [](auto *entry, uint64_t number) {
    entry->set_iid(number);
    return entry;
  };
  names.forEach([&](uint64_t number, const std::string &text) { set(data.add_event_names(), number)->set_name(text); });
  keys.forEach(
      [&](uint64_t number, const std::string &text) { set(data.add_debug_annotation_names(), number)->set_name(text); });
  texts.forEach(
      [&](uint64_t number, const std::string &text) { set(data.add_debug_annotation_string_values(), number)->set_str(text); });
  file.write(packet);
}

void PerfettoSink::writeTracks() {
  const auto write = [&](uint64_t uuid, const std::string &name, const char *counterUnit) {
    packet.Clear();
    packet.set_trusted_packet_sequence_id(kSequence);
    perfetto::TrackDescriptor &track = *packet.mutable_track_descriptor();
    track.set_uuid(uuid);
    track.set_name(asUtf8(name));
    if (uuid == kRoot) {
      track.set_child_ordering(perfetto::TrackDescriptor::EXPLICIT);
    } else {
      track.set_parent_uuid(kRoot);
      track.set_sibling_order_rank(int32_t(uuid));
    }
    if (counterUnit)
      track.mutable_counter()->set_unit_name(counterUnit);
    file.write(packet);
  };
  write(kRoot, rootName, nullptr);
  for (const auto &[track, slices] : tracks)
    write(uuidOf(track), slices.name, nullptr);
  uint64_t uuid = uuidOf(tracks.empty() ? 0 : tracks.rbegin()->first + 1);
  for (const auto &[name, counter] : counters)
    write(uuid++, name, counter.unit);
}

TrackEvent &PerfettoSink::newEvent(uint64_t uuid, Cycle at, TrackEvent::Type type) {
  packet.Clear();
  packet.set_timestamp(at);
  packet.set_trusted_packet_sequence_id(kSequence);
  packet.set_sequence_flags(TracePacket::NEEDS_INCREMENTAL_STATE);
  TrackEvent &event = *packet.mutable_track_event();
  event.set_track_uuid(uuid);
  event.set_type(type);
  return event;
}

void PerfettoSink::annotate(TrackEvent &event, const char *key, const FlowEnd &end) {
  if (end.ids.empty())
    return;
  perfetto::DebugAnnotation &annotation = *event.add_debug_annotations();
  annotation.set_name_iid(keys.number(key));
  annotation.set_string_value_iid(texts.number(end.semaphores));
}

void PerfettoSink::writeSlices(uint64_t uuid, std::vector<Slice> &slices, unsigned track) {
  std::stable_sort(slices.begin(), slices.end(),
                   [](const Slice &a, const Slice &b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
  std::vector<Cycle> open;
  const auto closeUntil = [&](Cycle cycle) {
    for (; !open.empty() && open.back() <= cycle; open.pop_back()) {
      newEvent(uuid, open.back(), TrackEvent::SLICE_END);
      file.write(packet);
    }
  };
  for (size_t i = 0; i < slices.size(); ++i) {
    const Slice &slice = slices[i];
    closeUntil(slice.begin);
    assert((open.empty() || slice.end <= open.back()) && "slices of a track nest");
    open.push_back(slice.end);
    TrackEvent &event = newEvent(uuid, slice.begin, TrackEvent::SLICE_BEGIN);
    event.set_name_iid(slice.name);
    for (size_t j = slice.firstValue; j < slice.firstValue + slice.numValues; ++j) {
      perfetto::DebugAnnotation &annotation = *event.add_debug_annotations();
      annotation.set_name_iid(values[j].key);
      if (values[j].isText)
        annotation.set_string_value_iid(values[j].value);
      else
        annotation.set_uint_value(values[j].value);
    }
    const bool isOutermost = i == 0 || slices[i - 1].begin != slice.begin;
    const auto found = isOutermost ? ends.find({track, slice.begin}) : ends.end();
    if (found != ends.end()) {
      for (uint64_t id : found->second.posts.ids)
        event.add_flow_ids(id);
      for (uint64_t id : found->second.takes.ids)
        event.add_terminating_flow_ids(id);
      annotate(event, "posts", found->second.posts);
      annotate(event, "takes", found->second.takes);
    }
    file.write(packet);
  }
  closeUntil(~Cycle(0));
}

void PerfettoSink::finish() {
  writeStart();
  writeTracks();
  for (auto &[track, slices] : tracks)
    writeSlices(uuidOf(track), slices.slices, track);
  uint64_t uuid = uuidOf(tracks.empty() ? 0 : tracks.rbegin()->first + 1);
  for (const auto &[name, counter] : counters) {
    for (const auto &[at, value] : counter.values) {
      newEvent(uuid, at, TrackEvent::COUNTER).set_counter_value(int64_t(value));
      file.write(packet);
    }
    ++uuid;
  }
  file.flush();
}

} // namespace

std::unique_ptr<TimelineSink> stats::makePerfettoSink(std::ostream &out) { return std::make_unique<PerfettoSink>(out); }
