//===- ProgramImage.h - The bytes of a program ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef ISA_PROGRAMIMAGE_H
#define ISA_PROGRAMIMAGE_H

#include <cstdint>
#include <vector>

namespace tw::isa {

/// Writes format version, length and checksum that hold for the bytes behind
/// them. Of fewer bytes than these need, it makes an empty image.
void sealImage(std::vector<uint8_t> &image);

} // namespace tw::isa

#endif // ISA_PROGRAMIMAGE_H
