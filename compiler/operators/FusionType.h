//===- FusionType.h - How an operator may be fused --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two properties of every operator. TVM's class (Chen et al., OSDI 2018) says
// which operators may share its kernel. DNNFusion's mapping type (Niu et al.,
// PLDI 2021) says which input elements a result element depends on.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_OPERATORS_FUSIONTYPE_H
#define COMPILER_OPERATORS_FUSIONTYPE_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tw::operators {

enum class FusionClass : uint8_t {
  Injective,         ///< fuses with producers and consumers
  Reduction,         ///< injective operators may come before it
  ComplexOutFusable, ///< element-by-element operators may follow it
  Opaque,            ///< a kernel of its own
};
constexpr const char *kFusionClassNames[] = {"injective", "reduction", "complex_out_fusable", "opaque"};
inline const char *nameOf(FusionClass fusion) { return kFusionClassNames[size_t(fusion)]; }

/// From the elements of an input to those of the result.
enum class Mapping : uint8_t {
  OneToOne,   ///< result element i depends on input element i alone
  OneToMany,  ///< a result element depends on one input element; several result elements may share an input element
  ManyToMany, ///< a result element depends on several elements
  Reorganize, ///< one to one, in another shape
  Shuffle,    ///< one to one, in another order
};
constexpr const char *kMappingNames[] = {"one_to_one", "one_to_many", "many_to_many", "reorganize", "shuffle"};
inline const char *nameOf(Mapping mapping) { return kMappingNames[size_t(mapping)]; }

/// `mapping` describes the first input and all inputs of its shape, with default attributes. Smaller scales, slopes and biases are broadcast, and
/// their mapping is one_to_many. A generator, whose result depends on shapes or attributes alone, is one_to_many.
struct FusionType {
  FusionClass fusion = FusionClass::Opaque;
  Mapping mapping = Mapping::ManyToMany;
  bool operator==(const FusionType &other) const { return fusion == other.fusion && mapping == other.mapping; }
};

/// The type of an operator of an ONNX domain; the empty string is ONNX's own domain. Empty for an unknown operator.
std::optional<FusionType> fusionTypeOf(const std::string &domain, const std::string &type);
/// All operators with that type, as "domain:Type", sorted.
std::vector<std::string> operatorsOf(const FusionType &type);

/// Whether a producer with mapping `first` and a consumer with mapping `second` may share a kernel (DNNFusion, table 3): all but a
/// many_to_many consumer behind a many_to_many or one_to_many producer.
bool mayFuse(Mapping first, Mapping second);
/// The mapping of producer and consumer together.
Mapping fused(Mapping first, Mapping second);

} // namespace tw::operators

#endif // COMPILER_OPERATORS_FUSIONTYPE_H
