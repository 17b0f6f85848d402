//===- TimelineSink.h - One file format of a timeline -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_STATS_TIMELINESINK_H
#define SIMULATOR_STATS_TIMELINESINK_H

#include "isa/timing/Engines.h"

#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <variant>

namespace tw::stats {

using timing::Cycle;

/// What a viewer shows of a slice besides its name.
struct SliceArgument {
  const char *key; ///< a literal
  std::variant<std::string, uint64_t> value;
};

/// A post that satisfied a wait, with the slices of both instructions on their tracks.
struct SliceFlow {
  uint64_t id = 0;
  uint32_t semaphore = 0;
  unsigned fromTrack = 0, toTrack = 0;
  Cycle fromBegin = 0, fromLast = 0; ///< first and last cycle of the slice of the post
  Cycle toBegin = 0;
};

/// Takes the parts of a timeline and writes a file of one format. Texts need not be UTF-8: bytes that are none are replaced.
class TimelineSink {
public:
  virtual ~TimelineSink() = default;
  /// First call. `name` is of the machine.
  virtual void start(const std::string &name, Cycle totalCycles) = 0;
  /// A track of slices, before any slice of the track. Viewers show tracks by ascending number.
  virtual void track(unsigned track, const std::string &name) = 0;
  /// Cycles [begin, end) of a track, begin < end. Slices of one track nest; they come in any order, but of two with the same
  /// cycles the outer one comes first.
  virtual void slice(unsigned track, const std::string &name, Cycle begin, Cycle end,
                     std::initializer_list<SliceArgument> arguments) = 0;
  /// A counter has this value from this cycle on.
  virtual void counter(const std::string &name, const char *unit, Cycle at, uint64_t value) = 0;
  /// An arrow between two slices that have been given, each the outermost that begins at its cycle.
  virtual void flow(const SliceFlow &flow) = 0;
  /// Last call.
  virtual void finish() = 0;
};

std::unique_ptr<TimelineSink> makeChromeSink(std::ostream &out);
std::unique_ptr<TimelineSink> makePerfettoSink(std::ostream &out);

/// The text with bytes that are no UTF-8 replaced by U+FFFD.
std::string asUtf8(const std::string &text);

} // namespace tw::stats

#endif // SIMULATOR_STATS_TIMELINESINK_H
