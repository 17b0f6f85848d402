//===- FieldLimits.h - What fields hold, at compile time --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For code that must not make, or accept, what the encoding has no room for.
//===----------------------------------------------------------------------===//
#ifndef ISA_FIELDLIMITS_H
#define ISA_FIELDLIMITS_H

#include "isa/IsaStructs.h" // generated from isa/Isa.td

#include <string_view>

namespace tw::isa {

/// The largest value of a field, of an array each element's. A name that is not there does not compile in a constant.
constexpr int64_t maximumOf(FieldSpan fields, std::string_view name) {
  for (const FieldInfo &field : fields)
    if (name == field.name)
      return field.maximum;
  __builtin_unreachable();
}
constexpr int64_t maximumOf(Opcode opcode, std::string_view name) { return maximumOf(fieldsOf(opcode), name); }

} // namespace tw::isa

#endif // ISA_FIELDLIMITS_H
