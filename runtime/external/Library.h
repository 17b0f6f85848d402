//===- Library.h - A shared library that may not be there -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_EXTERNAL_LIBRARY_H
#define RUNTIME_EXTERNAL_LIBRARY_H

#include "runtime/Status.h"

#include <string>
#include <vector>

namespace tw::runtime {

/// Stays open until the process ends: such libraries leave threads behind.
class Library {
public:
  /// Opens `path`, or the first of `names` that the loader finds if `path` is empty. `what` and `option` are for the message:
  /// what was looked for, where, and how to say where it is.
  static StatusOr<Library> open(const std::string &what, const std::string &option, const std::string &path,
                                const std::vector<std::string> &names);

  const std::string &file() const { return opened; }
  /// The address of the symbol; null if neither the library nor a library that it needs has the symbol.
  void *symbol(const char *name) const;
  /// Sets `function`; false if there is none.
  template <typename Function> bool find(const char *name, Function *&function) const {
    function = reinterpret_cast<Function *>(symbol(name));
    return function != nullptr;
  }

private:
  void *handle = nullptr;
  std::string opened;
};

} // namespace tw::runtime

#endif // RUNTIME_EXTERNAL_LIBRARY_H
