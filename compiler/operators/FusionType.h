//===- FusionType.h - How an operator may be fused --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two properties of every operator: the class of TVM (Chen et al., OSDI 2018)
// says what may follow it in a kernel, the mapping type of DNNFusion (Niu et
// al., PLDI 2021) which elements of its data a result element depends on.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_OPERATORS_FUSIONTYPE_H
#define COMPILER_OPERATORS_FUSIONTYPE_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tw::operators {

enum class FusionClass : uint8_t {
  Injective,         ///< fuses with what is before and behind it
  Reduction,         ///< injective operators may come before it
  ComplexOutFusable, ///< element-by-element operators may follow it
  Opaque,            ///< a kernel of its own
};
constexpr const char *kFusionClassNames[] = {"injective", "reduction", "complex_out_fusable", "opaque"};
inline const char *nameOf(FusionClass fusion) { return kFusionClassNames[size_t(fusion)]; }

/// From the elements of an input to those of the result.
enum class Mapping : uint8_t {
  OneToOne,   ///< a result element depends on one element, which no other depends on, and elements keep their order
  OneToMany,  ///< an element may be wanted by several result elements, which depend on it alone
  ManyToMany, ///< a result element depends on several elements
  Reorganize, ///< one to one, in another shape
  Shuffle,    ///< one to one, in another order
};
constexpr const char *kMappingNames[] = {"one_to_one", "one_to_many", "many_to_many", "reorganize", "shuffle"};
inline const char *nameOf(Mapping mapping) { return kMappingNames[size_t(mapping)]; }

/// Mappings are those of the first input, and of others of its shape; attributes have their defaults. Scales, slopes and biases that are smaller
/// are broadcast, which is one_to_many. Generators, whose results depend on shapes or attributes alone, count as one_to_many.
struct FusionType {
  FusionClass fusion = FusionClass::Opaque;
  Mapping mapping = Mapping::ManyToMany;
  bool operator==(const FusionType &other) const { return fusion == other.fusion && mapping == other.mapping; }
};

/// The type of an operator that models are read with; ONNX's own domain is the empty string. Nothing: nobody said.
std::optional<FusionType> fusionTypeOf(const std::string &domain, const std::string &type);
/// All operators with that type, as "domain:Type", sorted.
std::vector<std::string> operatorsOf(const FusionType &type);

/// Whether an operator that maps like `second` may read the result of one that maps like `first` in one kernel (DNNFusion, table 3): not where
/// both are many_to_many, nor where what is spread or moved would be reduced by the second one.
bool mayFuse(Mapping first, Mapping second);
/// What both together map like.
Mapping fused(Mapping first, Mapping second);

} // namespace tw::operators

#endif // COMPILER_OPERATORS_FUSIONTYPE_H
