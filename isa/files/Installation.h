//===- Installation.h - Where the program's own files are -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Machines and the RTL are files. An installed tree may be moved, so they are
// found from the place of the running program: PREFIX/bin/tilewright and
// PREFIX/share/tilewright. A build tree looks the same; its share/tilewright
// holds links into the sources.
//===----------------------------------------------------------------------===//
#ifndef ISA_FILES_INSTALLATION_H
#define ISA_FILES_INSTALLATION_H

#include <string>

namespace tw::files {

/// The folder share/tilewright in the nearest folder above the running program that has one; where an installed program would have
/// it, if none does. Folders that everybody can write to are not searched, nor those above them.
const std::string &shareFolder();

} // namespace tw::files

#endif // ISA_FILES_INSTALLATION_H
