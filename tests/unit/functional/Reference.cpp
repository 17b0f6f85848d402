//===- Reference.cpp - A second reading of the instruction set ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Reference.h"
#include "isa/timing/FunctionTables.h"

#include <cfenv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

using namespace tw;
using namespace tw::test;
using isa::StageOp;
using isa::VectorType;

Image::Image(const core::MachineState &state) {
  const timing::MachineParams &machine = state.machine();
  dram.assign(state.dram(), state.dram() + machine.dram.capacityBytes);
  for (int64_t memory : {0, 1, 7})
    memories[memory].assign(state.memory(memory), state.memory(memory) + state.memorySize(memory));
  bool isInteger = machine.arrayType == timing::ArrayType::Int8;
  for (auto [from, to] : {std::pair(&state.shadow, &shadow), std::pair(&state.active, &active)})
    for (uint32_t k = 0; k < machine.rows; ++k)
      for (uint32_t n = 0; n < machine.cols; ++n)
        to->push_back(isInteger ? double(from->integer(k, n)) : double(from->real(k, n)));
}

std::string Image::difference(const Image &other) const {
  auto differ = [](const std::string &name, const std::vector<uint8_t> &a, const std::vector<uint8_t> &b) -> std::string {
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i])
        return name + " byte " + std::to_string(i) + ": " + std::to_string(a[i]) + " and " + std::to_string(b[i]);
    return "";
  };
  if (std::string text = differ("dram", dram, other.dram); !text.empty())
    return text;
  for (const auto &[memory, bytes] : memories)
    if (std::string text = differ("memory " + std::to_string(memory), bytes, other.memories.at(memory)); !text.empty())
      return text;
  // NaN weights are equal whatever their bits: nothing reads the bits.
  for (size_t i = 0; i < shadow.size(); ++i) {
    if (!(shadow[i] == other.shadow[i] || (std::isnan(shadow[i]) && std::isnan(other.shadow[i]))))
      return "shadow weight " + std::to_string(i);
    if (!(active[i] == other.active[i] || (std::isnan(active[i]) && std::isnan(other.active[i]))))
      return "active weight " + std::to_string(i);
  }
  return "";
}

namespace {

uint32_t word(const std::vector<uint8_t> &memory, int64_t address, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i)
    value |= uint32_t(memory.at(address + i)) << (8 * i);
  return value;
}

void setWord(std::vector<uint8_t> &memory, int64_t address, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    memory.at(address + i) = uint8_t(value >> (8 * i));
}

float asFloat(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

uint32_t floatWord(float f) {
  if (std::isnan(f))
    return 0x7fc00000;
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}

/// Visits all indices of a box, the first dimension fastest.
template <size_t N>
void forBox(const std::array<int64_t, N> &counts, const std::function<void(const std::array<int64_t, N> &)> &visit) {
  std::array<int64_t, N> i{};
  for (;;) {
    visit(i);
    size_t d = 0;
    while (d < N && ++i[d] == counts[d])
      i[d++] = 0;
    if (d == N)
      return;
  }
}

void referLoad(const isa::Load &load, Image &image) {
  int bytes = 1 << load.element_log2;
  forBox<5>(load.counts, [&](const std::array<int64_t, 5> &i) {
    int64_t to = load.address + i[0] * bytes, from = load.dram_address;
    if (!load.broadcast)
      from += (i[0] - load.low[0]) * bytes;
    bool isPadding = i[0] < load.low[0] || i[0] >= load.counts[0] - load.high[0];
    for (int d = 1; d <= 4; ++d) {
      to += i[d] * load.strides[d - 1];
      from += (i[d] - load.low[d]) * load.dram_strides[d - 1];
      isPadding = isPadding || i[d] < load.low[d] || i[d] >= load.counts[d] - load.high[d];
    }
    setWord(image.memories.at(load.memory), to, isPadding ? uint32_t(load.fill) : word(image.dram, from, bytes), bytes);
  });
}

void referStore(const isa::Store &store, Image &image) {
  int bytes = 1 << store.element_log2;
  forBox<5>(store.counts, [&](const std::array<int64_t, 5> &i) {
    int64_t from = store.address + i[0] * bytes, to = store.dram_address + i[0] * bytes;
    for (int d = 1; d <= 4; ++d) {
      from += i[d] * store.strides[d - 1];
      to += i[d] * store.dram_strides[d - 1];
    }
    setWord(image.dram, to, word(image.memories.at(store.memory), from, bytes), bytes);
  });
}

/// An array operand's element as a number.
double arrayElement(const timing::MachineParams &machine, const std::vector<uint8_t> &memory, int64_t address, int64_t index,
                    bool isSigned, int64_t zeroPoint) {
  switch (machine.arrayType) {
  case timing::ArrayType::Int8: {
    uint32_t byte = word(memory, address + index, 1);
    return double((isSigned && byte >= 128 ? int(byte) - 256 : int(byte)) - zeroPoint);
  }
  case timing::ArrayType::Bf16:
    return asFloat(word(memory, address + 2 * index, 2) << 16);
  case timing::ArrayType::Fp32:
    return asFloat(word(memory, address + 4 * index, 4));
  }
  return 0;
}

void referPreload(const isa::Preload &preload, const timing::MachineParams &machine, Image &image) {
  for (int64_t k = 0; k < machine.rows; ++k)
    for (int64_t n = 0; n < machine.cols; ++n) {
      double &weight = image.shadow[k * machine.cols + n];
      weight = 0;
      if (k >= preload.k_count || n >= preload.n_count)
        continue;
      int64_t row = preload.transpose ? n : k, column = preload.transpose ? k : n;
      weight = arrayElement(machine, image.memories.at(preload.memory), preload.address + row * preload.row_stride, column,
                            preload.is_signed, preload.zero_point);
    }
}

float tree(const std::vector<float> &values, size_t first, size_t count) {
  if (count == 1)
    return values[first];
  return tree(values, first, count / 2) + tree(values, first + count / 2, count / 2);
}

void referTensor(const isa::Tensor &tensor, const timing::MachineParams &machine, Image &image) {
  if (tensor.swap)
    image.active = image.shadow;
  std::vector<uint8_t> &accumulator = image.memories.at(7);
  forBox<3>(tensor.counts, [&](const std::array<int64_t, 3> &i) {
    int64_t address = tensor.address, row = tensor.acc_address;
    for (int d = 0; d < 3; ++d)
      address += i[d] * tensor.strides[d], row += i[d] * tensor.acc_strides[d];
    std::vector<double> a(machine.rows, 0.0);
    for (int64_t k = 0; k < tensor.k_count; ++k)
      a[k] = arrayElement(machine, image.memories.at(tensor.memory), address, k, tensor.is_signed, tensor.zero_point);
    for (int64_t n = 0; n < machine.cols; ++n) {
      int64_t at = (row * machine.cols + n) * 4;
      if (machine.arrayType == timing::ArrayType::Int8) {
        int64_t sum = tensor.accumulate ? int64_t(word(accumulator, at, 4)) : 0;
        for (int64_t k = 0; k < machine.rows; ++k)
          sum += int64_t(a[k]) * int64_t(image.active[k * machine.cols + n]);
        setWord(accumulator, at, uint32_t(sum), 4);
      } else {
        std::vector<float> products;
        for (int64_t k = 0; k < machine.rows; ++k)
          products.push_back(float(a[k]) * float(image.active[k * machine.cols + n]));
        float sum = tree(products, 0, products.size());
        setWord(accumulator, at, floatWord(tensor.accumulate ? asFloat(word(accumulator, at, 4)) + sum : sum), 4);
      }
    }
  });
}

/// A lane: bits of an int32 or of a binary32.
struct Lane {
  bool isFloat;
  uint32_t bits;
  int32_t i() const { return int32_t(bits); }
  float f() const { return asFloat(bits); }
};
Lane intLane(int64_t value) { return {false, uint32_t(value)}; }
Lane floatLane(float value) { return {true, floatWord(value)}; }

int sizeOf(VectorType type) { return type == VectorType::I8 || type == VectorType::U8 ? 1 : type == VectorType::Bf16 ? 2 : 4; }

Lane element(const std::vector<uint8_t> &memory, VectorType type, int64_t address, int64_t zeroPoint) {
  uint32_t bits = word(memory, address, sizeOf(type));
  if (type == VectorType::F32)
    return {true, bits};
  if (type == VectorType::Bf16)
    return {true, bits << 16};
  int64_t value = type == VectorType::I8   ? (bits < 128 ? int64_t(bits) : int64_t(bits) - 256)
                  : type == VectorType::U8 ? int64_t(bits)
                                           : int64_t(int32_t(bits));
  return intLane(value - zeroPoint);
}

float maximum(float x, float y) {
  if (std::isnan(x) || std::isnan(y))
    return std::nanf("");
  if (x == y)
    return std::signbit(x) ? y : x;
  return x > y ? x : y;
}
float minimum(float x, float y) { return -maximum(-x, -y); }

int64_t clampInt(double x) {
  if (std::isnan(x))
    return 0;
  return int64_t(std::min(std::max(x, -2147483648.0), 2147483647.0));
}
/// Nearest integer, ties to even, in double where every int32 is exact.
double nearest(float x) {
  double floor = std::floor(double(x)), rest = double(x) - floor;
  if (rest < 0.5 || (rest == 0.5 && std::fmod(floor, 2) == 0))
    return floor;
  return floor + 1;
}

Lane referStage(StageOp op, Lane x, Lane y, Lane b, Lane saved, const std::array<int64_t, isa::kMaxImmediates> &immediates,
                int64_t j) {
  const timing::FunctionTables &tables = timing::functionTables();
  int64_t xi = x.i(), yi = y.i();
  float xf = x.f(), yf = y.f();
  auto imm = [&](int64_t k) { return uint32_t(immediates.at(k)); };
  auto divide = [](int64_t n, int64_t d) { return d == 0 ? 0 : n / d; };
  switch (op) {
  case StageOp::Nop:
  case StageOp::Save:
    return x;
  case StageOp::Iadd:
    return intLane(xi + yi);
  case StageOp::Isub:
    return intLane(xi - yi);
  case StageOp::Irsub:
    return intLane(yi - xi);
  case StageOp::Imul:
    return intLane(xi * yi);
  case StageOp::Imax:
    return intLane(std::max(xi, yi));
  case StageOp::Imin:
    return intLane(std::min(xi, yi));
  case StageOp::Idiv:
    return intLane(divide(xi, yi));
  case StageOp::Iridiv:
    return intLane(divide(yi, xi));
  case StageOp::Ishr:
    return intLane(int64_t(std::floor(std::ldexp(double(xi), -int(yi & 31)))));
  case StageOp::Iand:
    return intLane(xi & yi);
  case StageOp::Ior:
    return intLane(xi | yi);
  case StageOp::Ixor:
    return intLane(xi ^ yi);
  case StageOp::Fadd:
    return floatLane(xf + yf);
  case StageOp::Fsub:
    return floatLane(xf - yf);
  case StageOp::Frsub:
    return floatLane(yf - xf);
  case StageOp::Fmul:
    return floatLane(xf * yf);
  case StageOp::Fdiv:
    return floatLane(xf / yf);
  case StageOp::Frdiv:
    return floatLane(yf / xf);
  case StageOp::Fmax:
    return floatLane(maximum(xf, yf));
  case StageOp::Fmin:
    return floatLane(minimum(xf, yf));
  case StageOp::Ffma:
    return floatLane(std::fma(xf, asFloat(imm(j)), asFloat(imm(j + 1))));
  case StageOp::FfmaB:
    return floatLane(std::fma(b.f(), asFloat(imm(j)), xf));
  case StageOp::Fabs:
    return floatLane(std::fabs(xf));
  case StageOp::Fneg:
    return floatLane(-xf);
  case StageOp::Ffloor:
    return floatLane(std::floor(xf));
  case StageOp::Fsqrt:
    return floatLane(std::sqrt(xf));
  case StageOp::Frsqrt:
    return floatLane(1.0f / std::sqrt(xf));
  case StageOp::Fexp:
    return floatLane(timing::tableExp(tables, xf));
  case StageOp::Fsigmoid:
    return floatLane(timing::tableSigmoid(tables, xf));
  case StageOp::Ftanh:
    return floatLane(timing::tableTanh(tables, xf));
  case StageOp::Ferf:
    return floatLane(timing::tableErf(tables, xf));
  case StageOp::Flog:
    return floatLane(timing::tableLog(tables, xf));
  case StageOp::I2f:
    return floatLane(float(x.i()));
  case StageOp::F2i:
    return intLane(clampInt(nearest(xf)));
  case StageOp::F2iTrunc:
    return intLane(clampInt(std::trunc(double(xf))));
  case StageOp::Quantize:
    return intLane(clampInt(double(clampInt(nearest(xf)) + int64_t(int32_t(imm(j))))));
  case StageOp::Dequantize:
    return floatLane(float(intLane(xi - int32_t(imm(j))).i()) * asFloat(imm(j + 1)));
  case StageOp::LoadB:
    return b;
  case StageOp::LoadSaved:
    return saved;
  }
  return x;
}

void referVector(const isa::Vector &v, const timing::MachineParams &machine, Image &image) {
  int64_t lanes = machine.lanes;
  VectorType aType = VectorType(v.a_type), bType = VectorType(v.b_type), dType = VectorType(v.d_type);
  isa::WindowOp window = isa::WindowOp(v.window_op);
  forBox<4>(v.counts, [&](const std::array<int64_t, 4> &i) {
    int64_t c = i[3], aBase = v.a_address, bBase = v.b_address, dBase = v.d_address;
    for (int d = 0; d < 4; ++d)
      aBase += i[d] * v.a_strides[d], dBase += i[d] * v.d_strides[d];
    // Window, lane by lane; a lane may end without a value.
    std::vector<std::vector<Lane>> values(lanes);
    for (int64_t lane = 0; lane < lanes; ++lane)
      for (int64_t t = 0; t < v.window[0] * v.window[1]; ++t) {
        int64_t h = t % v.window[0], vertical = t / v.window[0];
        if (v.lane_reduce && v.tail_lanes && h == v.window[0] - 1 && lane >= v.tail_lanes)
          continue;
        Lane tap = element(image.memories.at(v.a_memory), aType,
                           aBase + h * v.a_window_strides[0] + vertical * v.a_window_strides[1] + lane * sizeOf(aType),
                           v.a_zero_point);
        if (window == isa::WindowOp::Mac) {
          Lane weight = element(image.memories.at(v.b_memory), bType,
                                bBase + c * v.b_strides[3] + t * v.b_tap_stride + lane * sizeOf(bType), v.b_zero_point);
          tap = tap.isFloat ? floatLane(tap.f() * weight.f()) : intLane(int64_t(tap.i()) * weight.i());
          if (values[lane].empty())
            values[lane] = {tap.isFloat ? floatLane(0) : intLane(0)};
        }
        if (window == isa::WindowOp::SumSquares)
          tap = tap.isFloat ? floatLane(tap.f() * tap.f()) : intLane(int64_t(tap.i()) * tap.i());
        if (values[lane].empty()) {
          values[lane] = {tap};
          continue;
        }
        Lane &x = values[lane][0];
        if (window == isa::WindowOp::Max)
          x = x.isFloat ? floatLane(maximum(x.f(), tap.f())) : intLane(std::max(x.i(), tap.i()));
        else
          x = x.isFloat ? floatLane(x.f() + tap.f()) : intLane(int64_t(x.i()) + tap.i());
      }
    if (v.lane_reduce) {
      std::function<std::vector<Lane>(int64_t, int64_t)> reduce = [&](int64_t first, int64_t count) -> std::vector<Lane> {
        if (first >= lanes)
          return {};
        if (count == 1)
          return values[first];
        std::vector<Lane> x = reduce(first, count / 2), y = reduce(first + count / 2, count / 2);
        if (x.empty() || y.empty())
          return x.empty() ? y : x;
        if (window == isa::WindowOp::Max)
          return {x[0].isFloat ? floatLane(maximum(x[0].f(), y[0].f())) : intLane(std::max(x[0].i(), y[0].i()))};
        return {x[0].isFloat ? floatLane(x[0].f() + y[0].f()) : intLane(int64_t(x[0].i()) + y[0].i())};
      };
      int64_t size = 1;
      while (size < lanes)
        size *= 2;
      std::vector<Lane> result = reduce(0, size);
      for (std::vector<Lane> &value : values)
        value = result;
    }
    for (int64_t lane = 0; lane < lanes; ++lane) {
      Lane x = values[lane].at(0), saved = x, b = intLane(0);
      if (v.b_enable && window != isa::WindowOp::Mac) {
        int64_t at = v.b_address + lane * sizeOf(bType);
        for (int d = 0; d < 4; ++d)
          at += i[d] * v.b_strides[d];
        b = element(image.memories.at(v.b_memory), bType, at, v.b_zero_point);
        if (v.b_convert != 0 && !b.isFloat)
          b = floatLane(float(b.i()));
        if (isa::Conversion(v.b_convert) == isa::Conversion::Dequantize)
          b = floatLane(b.f() * asFloat(uint32_t(v.immediates.at(v.b_scale))));
      }
      for (int64_t s = 0; s < v.num_stages; ++s) {
        int64_t operand = v.stage_operand[s];
        Lane y = intLane(0);
        if (operand == 1)
          y = b;
        else if (operand == 2)
          y = saved;
        else if (operand >= 16)
          y.bits = uint32_t(v.immediates.at(operand - 16));
        else if (operand >= 8)
          y.bits = word(image.memories.at(v.p_memory), v.p_address + ((c * v.p_count + operand - 8) * lanes + lane) * 4, 4);
        if (StageOp(v.stage_op[s]) == StageOp::Save)
          saved = x;
        x = referStage(StageOp(v.stage_op[s]), x, y, b, saved, v.immediates, operand - 16);
      }
      values[lane] = {x};
    }
    for (int64_t lane = 0; lane < lanes; ++lane) {
      Lane x = values[lane].at(0);
      int64_t to = dBase + lane * sizeOf(dType);
      std::vector<uint8_t> &memory = image.memories.at(v.d_memory);
      switch (dType) {
      case VectorType::I8:
        setWord(memory, to, uint32_t(std::min(127, std::max(-128, x.i()))), 1);
        break;
      case VectorType::U8:
        setWord(memory, to, uint32_t(std::min(255, std::max(0, x.i()))), 1);
        break;
      case VectorType::I32:
        setWord(memory, to, x.bits, 4);
        break;
      case VectorType::F32:
        setWord(memory, to, floatWord(x.f()), 4);
        break;
      case VectorType::Bf16: {
        // The nearer of the two neighbours, the even one in a tie; bits of a binary32 are ordered like its magnitude.
        uint32_t bits = floatWord(x.f()), low = bits >> 16, rest = bits & 0xffff;
        bool up = !std::isnan(x.f()) && (rest > 0x8000 || (rest == 0x8000 && (low & 1)));
        setWord(memory, to, low + up, 2);
        break;
      }
      }
    }
  });
}

} // namespace

void tw::test::refer(const isa::Instruction &instruction, const timing::MachineParams &machine, Image &image) {
  switch (instruction.opcode()) {
  case isa::Opcode::Load:
    return referLoad(instruction.as<isa::Load>(), image);
  case isa::Opcode::Preload:
    return referPreload(instruction.as<isa::Preload>(), machine, image);
  case isa::Opcode::Tensor:
    return referTensor(instruction.as<isa::Tensor>(), machine, image);
  case isa::Opcode::Vector:
    return referVector(instruction.as<isa::Vector>(), machine, image);
  case isa::Opcode::Store:
    return referStore(instruction.as<isa::Store>(), image);
  default:
    return;
  }
}
