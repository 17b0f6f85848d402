//===- FusionTypes.cpp - How ops of the graph may be fused -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/FusionTypes.h"

#include "compiler/graph/Graph.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using tw::operators::FusionClass, tw::operators::FusionType, tw::operators::Mapping;

namespace tw::graph {

FusionType fusionTypeOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, FusionType>(op)
      .Case<ConstantOp>([](auto) {
        return FusionType{FusionClass::Injective, Mapping::OneToMany};
      })
      .Case<ConvOp, ConvIntegerOp, MatmulOp, MatmulIntegerOp, MaxPoolOp, AveragePoolOp, QLinearAveragePoolOp,
            QLinearGlobalAveragePoolOp, SoftmaxOp, QLinearSoftmaxOp, LayerNormOp>([](auto) {
        return FusionType{FusionClass::ComplexOutFusable, Mapping::ManyToMany};
      })
      .Case<ReduceOp>([](auto) {
        return FusionType{FusionClass::Reduction, Mapping::ManyToMany};
      })
      .Case<ReshapeOp>([](auto) {
        return FusionType{FusionClass::Injective, Mapping::Reorganize};
      })
      .Case<TransposeOp>([](auto) {
        return FusionType{FusionClass::Injective, Mapping::Shuffle};
      })
      .Case<GatherOp>([](auto) {
        return FusionType{FusionClass::Injective, Mapping::OneToMany};
      })
      .Case<ConcatOp, SliceOp, PadOp>([](auto) {
        return FusionType{FusionClass::Injective, Mapping::OneToOne};
      })
      .Case<AddOp, SubOp, MulOp, DivOp, MinOp, MaxOp, ReluOp, NegOp, AbsOp, SigmoidOp, TanhOp, HardSwishOp, ExpOp, SqrtOp,
            FloorOp, ErfOp, ClipOp, HardSigmoidOp, LeakyReluOp, CastOp, QuantizeOp, DequantizeOp, RequantizeOp, QLinearAddOp,
            BatchNormOp, ElementwiseOp>([](Operation *elementwise) {
        auto result = cast<RankedTensorType>(elementwise->getResult(0).getType());
        const bool spreads = llvm::any_of(elementwise->getOperands(), [&](Value operand) {
          return !operand.getDefiningOp<ConstantOp>() &&
                 cast<RankedTensorType>(operand.getType()).getShape() != result.getShape();
        });
        return FusionType{FusionClass::Injective, spreads ? Mapping::OneToMany : Mapping::OneToOne};
      })
      .Case<FallbackOp>([](FallbackOp node) {
        return operators::fusionTypeOf(node.getDomain().str(), node.getOnnxOp().str()).value_or(FusionType());
      })
      .Default([](Operation *) {
        return FusionType{FusionClass::Opaque, Mapping::ManyToMany};
      });
}

} // namespace tw::graph
