//===- Decoder.cpp - Statements to instructions ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Statements to instructions: finds the family, and refuses whatever of the text no family has understood.
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Decoder.h"

#include <algorithm>
#include <unordered_map>

using namespace tw::ptxemu;

bool Decoder::take(const std::string &modifier) {
  auto found = std::find(left.begin(), left.end(), modifier);
  if (found == left.end())
    return false;
  left.erase(found);
  return true;
}

int Decoder::takeOneOf(std::initializer_list<const char *> modifiers) {
  int index = 0;
  for (const char *modifier : modifiers) {
    if (take(modifier))
      return index;
    ++index;
  }
  return -1;
}

Type Decoder::takeOptionalType() {
  for (auto modifier = left.begin(); modifier != left.end(); ++modifier) {
    const Type type = typeNamed(*modifier);
    if (type == Type::None)
      continue;
    left.erase(modifier);
    return type;
  }
  return Type::None;
}

Type Decoder::takeType() {
  const Type type = takeOptionalType();
  if (type == Type::None)
    unsupported("it names no type");
  return type;
}

std::string Decoder::takePrefixed(const std::string &prefix) {
  for (auto modifier = left.begin(); modifier != left.end(); ++modifier)
    if (modifier->compare(0, prefix.size(), prefix) == 0) {
      std::string rest = modifier->substr(prefix.size());
      left.erase(modifier);
      return rest;
    }
  return "";
}

Space Decoder::takeSpace() {
  if (take("global"))
    return Space::Global;
  if (take("shared") || take("shared::cta") || take("shared::cluster"))
    return Space::Shared;
  if (take("local"))
    return Space::Local;
  if (take("param") || take("param::entry"))
    return Space::Param;
  if (take("const"))
    return Space::Const;
  return Space::Generic;
}

void Decoder::takeMemoryOrder() {
  for (const char *modifier :
       {"weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "cta", "cluster", "gpu",   "sys",
        "nc",   "ca",      "cg",      "cs",      "lu",      "cv",       "wb",  "wt",      "noftz", "mmio"})
    take(modifier);
  while (!takePrefixed("L1::").empty() || !takePrefixed("L2::").empty())
    ;
}

const Operand &Decoder::operand(size_t index) const {
  if (index >= statement.operands.size())
    unsupported("operand " + std::to_string(index) + " is missing");
  return statement.operands[index];
}

static Special specialNamed(const std::string &name) {
  static const std::unordered_map<std::string, Special> names = {
      {"%tid.x", Special::TidX},
      {"%tid.y", Special::TidY},
      {"%tid.z", Special::TidZ},
      {"%ntid.x", Special::NtidX},
      {"%ntid.y", Special::NtidY},
      {"%ntid.z", Special::NtidZ},
      {"%ctaid.x", Special::CtaidX},
      {"%ctaid.y", Special::CtaidY},
      {"%ctaid.z", Special::CtaidZ},
      {"%nctaid.x", Special::NctaidX},
      {"%nctaid.y", Special::NctaidY},
      {"%nctaid.z", Special::NctaidZ},
      {"%laneid", Special::LaneId},
      {"%warpid", Special::WarpId},
      {"%nwarpid", Special::NwarpId},
      {"%cluster_ctarank", Special::ClusterCtaRank},
      {"%cluster_nctarank", Special::ClusterNctaRank},
      {"%cluster_ctaid.x", Special::ClusterCtaidX},
      {"%cluster_ctaid.y", Special::ClusterCtaidY},
      {"%cluster_ctaid.z", Special::ClusterCtaidZ},
      {"%cluster_nctaid.x", Special::ClusterNctaidX},
      {"%cluster_nctaid.y", Special::ClusterNctaidY},
      {"%cluster_nctaid.z", Special::ClusterNctaidZ},
      {"%clusterid.x", Special::ClusteridX},
      {"%clusterid.y", Special::ClusteridY},
      {"%clusterid.z", Special::ClusteridZ},
      {"%nclusterid.x", Special::NclusteridX},
      {"%nclusterid.y", Special::NclusteridY},
      {"%nclusterid.z", Special::NclusteridZ},
      {"%is_explicit_cluster", Special::IsExplicitCluster},
      {"%smid", Special::SmId},
      {"%nsmid", Special::NsmId},
      {"%gridid", Special::GridId},
      {"%clock", Special::Clock},
      {"%clock64", Special::Clock},
      {"%globaltimer", Special::GlobalTimer},
      {"%lanemask_eq", Special::LaneMaskEq},
      {"%lanemask_lt", Special::LaneMaskLt},
      {"%lanemask_le", Special::LaneMaskLe},
      {"%lanemask_gt", Special::LaneMaskGt},
      {"%lanemask_ge", Special::LaneMaskGe},
      {"%dynamic_smem_size", Special::DynamicSharedSize},
      {"%total_smem_size", Special::TotalSharedSize},
  };
  auto found = names.find(name);
  return found == names.end() ? Special::None : found->second;
}

Source Decoder::source(const Operand &operand, Type type) const {
  Source result;
  switch (operand.kind) {
  case Operand::Register:
    result.reg = operand.reg;
    result.negated = operand.negated;
    return result;
  case Operand::Immediate:
    result.value = zeroExtend(operand.value, bitsOf(type) ? bitsOf(type) : 64);
    return result;
  case Operand::Double: {
    const double value = bitCast<double>(operand.value);
    result.value = type == Type::F32 ? bitCast<uint32_t>(float(value)) : operand.value;
    return result;
  }
  case Operand::Special:
    result.special = specialNamed(operand.name);
    if (result.special == Special::None)
      unsupported("unknown register '" + operand.name + "'");
    return result;
  case Operand::Name:
    unsupported("unknown name '" + operand.name + "'");
  default:
    unsupported("expected a register or a constant");
  }
}

int Decoder::destination(const Operand &operand) const {
  if (operand.kind == Operand::Sink)
    return -1;
  if (operand.kind != Operand::Register || operand.negated)
    unsupported("the destination is no register");
  return operand.reg;
}

void Decoder::setDestination(size_t index) {
  const Operand &first = operand(index);
  const Operand &single = first.kind == Operand::Pair ? first.elements[0] : first;
  instruction.destination = destination(single);
  if (instruction.destination >= 0)
    instruction.destinationBits = uint8_t(bitsOf(kernel.registers[size_t(instruction.destination)].type));
  if (first.kind == Operand::Pair)
    instruction.destination2 = destination(first.elements[1]);
}

std::vector<Source> Decoder::sources(const Operand &operand, Type type) const {
  if (operand.kind != Operand::Vector)
    return {source(operand, type)};
  std::vector<Source> result;
  for (const Operand &element : operand.elements)
    result.push_back(source(element, type));
  return result;
}

std::vector<int> Decoder::destinations(const Operand &operand) const {
  if (operand.kind != Operand::Vector)
    return {destination(operand)};
  std::vector<int> result;
  for (const Operand &element : operand.elements)
    result.push_back(destination(element));
  return result;
}

Source Decoder::base(size_t index, int64_t &offset) const {
  const Operand &address = operand(index);
  if (address.kind != Operand::Address)
    unsupported("operand " + std::to_string(index) + " is no address");
  offset = address.offset;
  return source(address.elements[0], Type::B64);
}

int64_t Decoder::constant(size_t index) const {
  const Operand &value = operand(index);
  if (value.kind != Operand::Immediate)
    unsupported("operand " + std::to_string(index) + " must be a constant");
  return int64_t(value.value);
}

void Decoder::finish(Handler handler, unsigned operands) {
  if (!handler)
    unsupported("not for this type");
  if (operandCount() != operands + 1)
    unsupported("it has " + std::to_string(operandCount()) + " operands but needs " + std::to_string(operands + 1));
  instruction.execute = handler;
  setDestination(0);
  for (unsigned i = 0; i < operands; ++i)
    instruction.in[i] = source(i + 1, instruction.type);
}

void Decoder::unsupported(const std::string &why) const {
  throw Error(ErrorKind::Unsupported,
              "kernel " + kernel.name + ", line " + std::to_string(statement.line) + ": unsupported PTX `" + statement.text +
                  "`" + (why.empty() ? "" : ": " + why),
              statement.line);
}

void tw::ptxemu::decode(const Kernel &kernel, const Statement &statement, Instruction &instruction) {
  instruction.line = statement.line;
  instruction.text = statement.text;
  instruction.predicate = statement.predicate;
  instruction.predicateNegated = statement.predicateNegated;
  instruction.target = statement.target;
  Decoder decoder(kernel, statement, instruction);
  const bool known = decodePredicate(decoder) || decodeArithmetic(decoder) || decodeBits(decoder) ||
                     decodeConversion(decoder) || decodeControl(decoder) || decodeMemory(decoder) || decodeBarrier(decoder) ||
                     decodeCopy(decoder) || decodeWarp(decoder) || decodeMma(decoder);
  if (!known)
    decoder.unsupported("unknown opcode '" + statement.opcode + "'");
  if (!decoder.nothingLeft())
    decoder.unsupported("unknown modifier '." + decoder.firstLeft() + "'");
}
