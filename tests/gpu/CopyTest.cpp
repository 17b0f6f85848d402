//===- CopyTest.cpp - TMA, bulk copies and cp.async ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/PtxText.h"

#include <numeric>

using namespace tw::ptxtest;

namespace {

std::string list(const std::vector<int> &values) {
  std::string result;
  for (int value : values)
    result += (result.empty() ? "" : ", ") + std::to_string(value);
  return result;
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

const char *const loadRegisters =
    ".reg .b64 %out, %map, %rd<4>;\n.reg .b32 %t, %sm, %bar, %r<8>;\n.reg .pred %p0, %done;\n"
    "ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmov.u64 %rd0, dynamic;\ncvt.u32.u64 %sm, %rd0;\n"
    "mov.b64 %map, map;\ncvta.param.u64 %map, %map;\nsetp.eq.u32 %p0, %t, 0;\n";
const char *const loadParameters = ".param .align 64 .b8 map[128], .param .u64 out";

/// A kernel of 32 threads that loads one box to the begin of its shared memory and copies `bytes` of that to `out`.
std::string loadText(const std::vector<int> &at, uint32_t bytes, const std::vector<int> &im2colOffsets = {}) {
  const std::string size = std::to_string(bytes);
  const bool im2col = !im2colOffsets.empty();
  return moduleText(
      loadParameters,
      std::string(loadRegisters) + "add.s32 %bar, %sm, " + size +
          ";\n@%p0 mbarrier.init.shared::cta.b64 [%bar], 1;\n@%p0 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
          "@!%p0 bra wait;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], " +
          size + ";\ncp.async.bulk.tensor." + std::to_string(at.size()) + "d.shared::cluster.global." +
          (im2col ? "im2col" : "tile") + ".mbarrier::complete_tx::bytes [%sm], [%map, {" + list(at) + "}], [%bar]" +
          (im2col ? ", {" + list(im2colOffsets) + "}" : "") +
          ";\nwait:\nmbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], 0;\n@!%done bra wait;\n"
          "shl.b32 %r0, %t, 2;\ncopy:\nsetp.ge.u32 %done, %r0, " +
          size +
          ";\n@%done ret;\nadd.s32 %r1, %sm, %r0;\nld.shared.u32 %r2, [%r1];\ncvt.u64.u32 %rd1, %r0;\n"
          "add.s64 %rd1, %rd1, %out;\nst.global.u32 [%rd1], %r2;\nadd.s32 %r0, %r0, 128;\nbra copy;");
}

/// The box in shared memory, as 16-bit words.
std::vector<uint16_t> runLoad(Device &device, const TensorMap &map, const std::string &text, LaunchOptions options = {}) {
  auto module = Module::parse(text);
  const DevicePointer out = device.allocate(map.boxBytes(), "out");
  LaunchShape shape;
  shape.block.x = 32;
  shape.dynamicSharedBytes = map.boxBytes() + 64;
  device.launch(*module, "k", shape, Arguments().add(device.encode(map)).add(out), options);
  return device.download<uint16_t>(out, map.boxBytes() / 2);
}

/// 1, 2, 3, ...
std::vector<uint16_t> counting(size_t count) {
  std::vector<uint16_t> values(count);
  std::iota(values.begin(), values.end(), uint16_t(1));
  return values;
}

TensorMap matrixMap(Device &device, uint64_t rows, uint64_t columns, uint32_t boxRows, uint32_t boxColumns, Swizzle swizzle) {
  TensorMap map;
  map.address = device.upload(counting(rows * columns), "matrix");
  map.dims = {columns, rows, 1, 1, 1};
  map.strides = {columns * 2};
  map.box = {boxColumns, boxRows, 1, 1, 1};
  map.swizzle = swizzle;
  return map;
}

TEST(TmaTest, SwizzleXorsTheChunkWithTheRow) {
  // A row of the pattern has 128 bytes. 128B: chunk of 16 bytes ^ (row & 7); 64B: ^ (row / 2 & 3) in rows of 64 bytes;
  // 32B: ^ (row / 4 & 1) in rows of 32 bytes.
  struct {
    Swizzle swizzle;
    uint32_t columns, divide, mask;
  } cases[] = {{Swizzle::None, 64, 1, 0}, {Swizzle::B128, 64, 1, 7}, {Swizzle::B64, 32, 2, 3}, {Swizzle::B32, 16, 4, 1}};
  for (const auto &test : cases) {
    Device device;
    const TensorMap map = matrixMap(device, 16, 64, 16, test.columns, test.swizzle);
    const auto box = runLoad(device, map, loadText({0, 0}, map.boxBytes()));
    for (uint32_t row = 0; row < 16; ++row)
      for (uint32_t column = 0; column < test.columns; ++column) {
        const uint32_t chunk = column / 8 ^ (row / test.divide & test.mask);
        EXPECT_EQ(box[row * test.columns + chunk * 8 + column % 8], 1 + row * 64 + column) << row << " " << column;
      }
  }
}

TEST(TmaTest, OutsideTheTensorAreZeros) {
  Device device;
  const TensorMap map = matrixMap(device, 10, 24, 8, 16, Swizzle::None);
  const auto box = runLoad(device, map, loadText({16, -3}, map.boxBytes()));
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 16; ++column) {
      const int y = row - 3, x = column + 16;
      EXPECT_EQ(box[size_t(row * 16 + column)], y >= 0 && x < 24 ? 1 + y * 24 + x : 0);
    }
}

TEST(TmaTest, RanksFromOneToFive) {
  const uint64_t extents[5] = {16, 3, 4, 2, 3};
  for (unsigned rank = 1; rank <= 5; ++rank) {
    Device device;
    TensorMap map;
    map.rank = rank;
    uint64_t stride = 2, count = 1;
    for (unsigned i = 0; i < rank; ++i) {
      map.dims[i] = extents[i];
      map.box[i] = i == 0 ? 16 : 2;
      if (i)
        map.strides[i - 1] = stride;
      stride *= extents[i];
      count *= extents[i];
    }
    map.address = device.upload(counting(count));
    // From coordinate 1 on in each outer dimension.
    std::vector<int> at(rank, 1);
    at[0] = 0;
    const auto box = runLoad(device, map, loadText(at, map.boxBytes()));
    for (uint32_t index = 0; index < map.rows(); ++index) {
      uint64_t element = 1, scale = 16;
      bool inside = true;
      for (unsigned i = 1; i < rank; ++i) {
        const uint64_t coordinate = 1 + (index >> (i - 1) & 1);
        inside &= coordinate < extents[i];
        element += coordinate * scale;
        scale *= extents[i];
      }
      EXPECT_EQ(box[index * 16 + 5], inside ? element + 5 : 0) << rank << " " << index;
    }
  }
}

TEST(TmaTest, ElementStridesAndOverlappingRows) {
  Device device;
  TensorMap map = matrixMap(device, 8, 32, 6, 16, Swizzle::None);
  map.elementStrides[1] = 2; // rows 0, 2, 4
  EXPECT_EQ(map.boxBytes(), 96u);
  const auto strided = runLoad(device, map, loadText({0, 0}, 96));
  EXPECT_EQ(strided[2 * 16 + 3], 1 + 4 * 32 + 3);
  map.elementStrides[1] = 1;
  map.dims = {32, 10, 1, 1, 1};
  map.strides = {16}; // each row begins 8 elements behind the one before
  const auto overlapping = runLoad(device, map, loadText({0, 2}, map.boxBytes()));
  EXPECT_EQ(overlapping[3 * 16 + 1], 1 + (2 + 3) * 8 + 1);
}

TEST(TmaTest, Im2colIsTheInputOfAConvolution) {
  // NHWC [2, 7, 6, 16], filter 3 x 3, padding 1; output pixels in order from pixel 5 on.
  const int batch = 2, height = 7, width = 6, channels = 16;
  for (int stride : {1, 2})
    for (int r = 0; r < 3; ++r) {
      const int s = 2 - r, outHeight = (height + 2 - 3) / stride + 1, outWidth = (width + 2 - 3) / stride + 1, first = 5;
      Device device;
      const auto input = counting(size_t(batch * height * width * channels));
      TensorMap map;
      map.im2col = true;
      map.rank = 4;
      map.address = device.upload(input);
      map.dims = {uint64_t(channels), uint64_t(width), uint64_t(height), uint64_t(batch), 1};
      map.strides = {uint64_t(channels * 2), uint64_t(width * channels * 2), uint64_t(height * width * channels * 2)};
      map.lowerCorner = {-1, -1};
      map.upperCorner = {1 - 2, 1 - 2};
      map.elementStrides = {1, uint32_t(stride), uint32_t(stride), 1, 1};
      map.channelsPerPixel = 16;
      map.pixelsPerColumn = 24;
      const int q = first % outWidth, p = first / outWidth % outHeight, n = first / outWidth / outHeight;
      const auto column = runLoad(device, map, loadText({0, q * stride - 1, p * stride - 1, n}, map.boxBytes(), {s, r}));
      for (int pixel = 0; pixel < 24; ++pixel) {
        const int o = first + pixel, image = o / outWidth / outHeight;
        const int y = o / outWidth % outHeight * stride - 1 + r, x = o % outWidth * stride - 1 + s;
        const bool inside = image < batch && y >= 0 && y < height && x >= 0 && x < width;
        for (int c = 0; c < channels; ++c)
          EXPECT_EQ(column[size_t(pixel * 16 + c)],
                    inside ? input[size_t(((image * height + y) * width + x) * channels + c)] : 0)
              << stride << " " << r << " " << pixel;
      }
    }
}

TEST(TmaTest, Im2colOfOneAndThreeDimensions) {
  // [2, 9, 16], filter 3, padding 1: output x of image n reads input x - 1 + r.
  Device device;
  const auto input = counting(2 * 9 * 16);
  TensorMap map;
  map.im2col = true;
  map.rank = 3;
  map.address = device.upload(input);
  map.dims = {16, 9, 2, 1, 1};
  map.strides = {32, 9 * 32};
  map.lowerCorner = {-1};
  map.upperCorner = {-1};
  map.channelsPerPixel = 16;
  map.pixelsPerColumn = 18;
  const auto line = runLoad(device, map, loadText({0, -1, 0}, map.boxBytes(), {2}));
  for (int pixel = 0; pixel < 18; ++pixel) {
    const int x = pixel % 9 + 1;
    EXPECT_EQ(line[size_t(pixel * 16 + 3)], x < 9 ? input[size_t((pixel / 9 * 9 + x) * 16 + 3)] : 0) << pixel;
  }
  // [1, 3, 2, 4, 16] as D, H, W: filter 1, so every pixel in order.
  map.rank = 5;
  map.dims = {16, 4, 2, 3, 1};
  map.strides = {32, 4 * 32, 8 * 32, 24 * 32};
  map.lowerCorner = map.upperCorner = {0, 0, 0};
  map.pixelsPerColumn = 24;
  map.address = device.upload(counting(24 * 16));
  const auto volume = runLoad(device, map, loadText({0, 0, 0, 0, 0}, map.boxBytes(), {0, 0, 0}));
  for (int pixel = 0; pixel < 24; ++pixel)
    EXPECT_EQ(volume[size_t(pixel * 16 + 5)], 1 + pixel * 16 + 5);
}

TEST(TmaTest, MapsThatTheDriverRefuses) {
  Device device;
  const TensorMap good = matrixMap(device, 8, 64, 8, 64, Swizzle::B128);
  auto refused = [&](const char *message, const std::function<void(TensorMap &)> &change) {
    TensorMap map = good;
    change(map);
    EXPECT_FAULT(ErrorKind::Launch, message, device.encode(map));
  };
  refused("stride 0 is 136", [](TensorMap &map) { map.strides[0] = 136; });
  refused("the address must be a multiple of 16", [](TensorMap &map) { map.address += 8; });
  refused("box 1 is 257", [](TensorMap &map) { map.box[1] = 257; });
  refused("128 bytes, more than the swizzle's 64", [](TensorMap &map) { map.swizzle = Swizzle::B64; });
  refused("12 bytes but needs a multiple of 16", [](TensorMap &map) { map.box[0] = 6; });
  refused("im2col needs a rank of 3 to 5", [](TensorMap &map) { map.im2col = true; });
  refused("element stride 1 is 9", [](TensorMap &map) { map.elementStrides[1] = 9; });
}

// ---- Planted faults -------------------------------------------------------------------------------------------------------

class TmaFaultTest : public testing::Test {
protected:
  void expect(ErrorKind kind, const std::string &message, const std::string &text, LaunchOptions options = {}) {
    EXPECT_FAULT(kind, message, runLoad(device, map, text, options));
  }
  Device device;
  TensorMap map = matrixMap(device, 8, 64, 8, 64, Swizzle::B128);
  std::string text = loadText({0, 0}, 1024);
};

TEST_F(TmaFaultTest, MissingWait) {
  const std::string broken =
      replaced(text, "mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], 0;", "setp.eq.u32 %done, 0, 0;");
  expect(ErrorKind::InFlight, "which a copy in flight has yet to write", broken);
}
TEST_F(TmaFaultTest, WrongNumberOfBytes) {
  expect(ErrorKind::Deadlock, "phase 0, 0 of 1 arrivals and 16 bytes to come",
         replaced(text, "_, [%bar], 1024;", "_, [%bar], 1040;"));
  // Fewer bytes than come: the phase does not end with the copy.
  expect(ErrorKind::Deadlock, "-16 bytes to come", replaced(text, "_, [%bar], 1024;", "_, [%bar], 1008;"));
}
TEST_F(TmaFaultTest, MissingFenceBehindMbarrierInit) {
  expect(ErrorKind::Proxy, "fence.mbarrier_init", replaced(text, "@%p0 fence.mbarrier_init.release.cluster;", ""));
}
TEST_F(TmaFaultTest, MapOfAnotherAddressSpace) {
  expect(ErrorKind::OutOfBounds, "no tensor map at generic address", replaced(text, "cvta.param.u64 %map, %map;", ""));
}
TEST_F(TmaFaultTest, MapCopiedToLocalMemory) {
  const std::string copied = replaced(text, "cvta.param.u64 %map, %map;",
                                      ".local .align 64 .b8 depot[128];\nmov.b64 %map, depot;\ncvta.local.u64 %map, %map;\n");
  expect(ErrorKind::OutOfBounds, "__grid_constant__", copied);
}
TEST_F(TmaFaultTest, DestinationOutsideOrMisaligned) {
  expect(ErrorKind::Misaligned, "no multiple of 128", replaced(text, "[%sm], [%map", "[%sm+16], [%map"));
  expect(ErrorKind::OutOfBounds, "1024 bytes at shared address", replaced(text, "[%sm], [%map", "[%sm+128], [%map"));
}
TEST_F(TmaFaultTest, WrongCoordinates) {
  expect(ErrorKind::Unsupported, "expected 2 coordinates", replaced(text, "{0, 0}", "{0}"));
  map.dims[1] = 100;
  expect(ErrorKind::OutOfBounds, "'matrix', which has 1024", replaced(text, "{0, 0}", "{0, 4}"));
}
TEST_F(TmaFaultTest, GenericWritesBeforeTheCopy) {
  const std::string store = "@%p0 st.shared.u32 [%sm], 1;\n";
  const std::string broken = replaced(text, "@!%p0 bra wait;", store + "@!%p0 bra wait;");
  expect(ErrorKind::Proxy, "without a fence.proxy.async", broken);
  runLoad(device, map, replaced(broken, store, store + "fence.proxy.async.shared::cta;\n"));
}
TEST_F(TmaFaultTest, UninitialisedGlobalMemoryIsFoundWhereItIsRead) {
  map.address = device.allocate(1024, "nothing");
  expect(ErrorKind::Uninitialized, "nobody has written", text);
}
TEST_F(TmaFaultTest, ExitBeforeTheCopyLands) {
  const std::string broken = replaced(text, "wait:\n", "wait:\nret;\n");
  expect(ErrorKind::InFlight, "the CTA ends while a copy", broken);
}
TEST_F(TmaFaultTest, EarlyTimingHidesTheMissingWait) {
  LaunchOptions options;
  options.timing = Timing::Early;
  const std::string broken =
      replaced(text, "mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], 0;", "setp.eq.u32 %done, 0, 0;");
  EXPECT_EQ(runLoad(device, map, broken, options)[0], 1);
}

// ---- Stores ---------------------------------------------------------------------------------------------------------------

const std::string storeText =
    moduleText(loadParameters, std::string(loadRegisters) +
                                   "shl.b32 %r0, %t, 2;\nmov.b32 %r3, 0;\nfill:\nadd.s32 %r1, %sm, %r0;\n"
                                   "shr.u32 %r2, %r0, 1;\nmad.lo.u32 %r2, %r2, 0x10001, 0x20001;\nst.shared.u32 [%r1], %r2;\n"
                                   "add.s32 %r0, %r0, 128;\nsetp.lt.u32 %done, %r0, 1024;\n@%done bra fill;\n"
                                   "fence.proxy.async.shared::cta;\nbar.sync 0;\n@!%p0 bra end;\n"
                                   "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {32, 4}], [%sm];\n"
                                   "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\nend:\nret;");

/// Fills 512 elements of shared memory with 1, 2, ... and stores them as a box of 8 x 64 at row 4, column 32.
class TmaStoreTest : public testing::Test {
protected:
  std::vector<uint16_t> run(const std::string &text, LaunchOptions options = {}) {
    Device device;
    TensorMap map = matrixMap(device, 10, 72, 8, 64, swizzle);
    map.type = Type::U16;
    device.fill(map.address, 0, 10 * 72 * 2);
    auto module = Module::parse(text);
    LaunchShape shape;
    shape.block.x = 32;
    shape.dynamicSharedBytes = 1024;
    device.launch(*module, "k", shape, Arguments().add(device.encode(map)).add(uint64_t(0)), options);
    return device.download<uint16_t>(map.address, 10 * 72);
  }
  Swizzle swizzle = Swizzle::None;
};

TEST_F(TmaStoreTest, ClipsAtTheTensor) {
  for (Swizzle kind : {Swizzle::None, Swizzle::B128}) {
    swizzle = kind;
    const auto matrix = run(storeText);
    for (uint32_t row = 0; row < 10; ++row)
      for (uint32_t column = 0; column < 72; ++column) {
        const uint32_t r = row - 4, c = column - 32, chunk = kind == Swizzle::None ? c / 8 : c / 8 ^ (r & 7);
        EXPECT_EQ(matrix[row * 72 + column], row >= 4 && column >= 32 ? 1 + r * 64 + chunk * 8 + c % 8 : 0u)
            << row << " " << column;
      }
  }
}
TEST_F(TmaStoreTest, MissingProxyFence) {
  EXPECT_FAULT(ErrorKind::Proxy, "without a fence.proxy.async",
               run(replaced(storeText, "fence.proxy.async.shared::cta;\n", "")));
  // The fence of the storing thread alone does not cover the other writers.
  const std::string onlyOne = replaced(replaced(storeText, "fence.proxy.async.shared::cta;\n", ""), "@!%p0 bra end;\n",
                                       "@!%p0 bra end;\nfence.proxy.async.shared::cta;\n");
  EXPECT_FAULT(ErrorKind::Proxy, "thread 1 of the grid wrote", run(onlyOne));
}
TEST_F(TmaStoreTest, MissingBarrierBeforeTheStore) {
  LaunchOptions options;
  const std::string broken = replaced(storeText, "bar.sync 0;\n", "");
  EXPECT_FAULT(ErrorKind::Uninitialized, "nobody has written", run(broken, options));
}
TEST_F(TmaStoreTest, MissingWait) {
  EXPECT_FAULT(ErrorKind::InFlight, "has yet to read shared memory",
               run(replaced(storeText, "cp.async.bulk.wait_group.read 0;", "")));
  EXPECT_FAULT(ErrorKind::InFlight, "has not committed", run(replaced(storeText, "cp.async.bulk.commit_group;\n", "")));
}
TEST_F(TmaStoreTest, SharedMemoryIsNotReusedBeforeItIsRead) {
  EXPECT_FAULT(ErrorKind::InFlight, "bulk store in flight has yet to read",
               run(replaced(storeText, "cp.async.bulk.wait_group.read 0;",
                            "st.shared.u32 [%sm], 0;\ncp.async.bulk.wait_group.read 0;")));
}
TEST_F(TmaStoreTest, GlobalMemoryIsWrittenAtTheFullWait) {
  // The storing thread reads back its element (4, 32): old after .read, new after the full wait.
  const std::string readBack =
      "ld.global.u16 %r4, [%rd3];\nst.shared.u32 [%sm], %r4;\nfence.proxy.async.shared::cta;\n"
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {0, 0}], [%sm];\ncp.async.bulk.commit_group;\n";
  // No pointer to the matrix is at hand: the tensor map's address is the first allocation.
  const std::string address = "mov.b64 %rd3, 0x100000000280;\n"; // (4 * 72 + 32) * 2 = 640 bytes into it
  const std::string wait = "cp.async.bulk.wait_group.read 0;\n";
  EXPECT_EQ(run(replaced(storeText, wait, address + wait + readBack + wait))[0], 0);
  EXPECT_EQ(run(replaced(storeText, wait, address + "cp.async.bulk.wait_group 0;\n" + readBack + wait))[0], 1);
}
TEST_F(TmaStoreTest, Reductions) {
  const std::string plain = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {32, 4}], [%sm];\n";
  const std::string add = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%map, {32, 4}], [%sm];\n";
  EXPECT_FAULT(ErrorKind::Unsupported, "a reduction of this element type", run(replaced(storeText, plain, add)));
  Device device;
  TensorMap map;
  map.type = Type::F32;
  map.dims = {32, 8, 1, 1, 1};
  map.strides = {128};
  map.box = {32, 8, 1, 1, 1};
  map.address = device.upload(std::vector<float>(256, 2.5f));
  std::string text = replaced(storeText, "mad.lo.u32 %r2, %r2, 0x10001, 0x20001;", "mov.b32 %r2, 0f3FC00000;");
  text = replaced(replaced(text, plain, add + add), "{32, 4}], [%sm];\ncp.reduce", "{0, 0}], [%sm];\ncp.reduce");
  text = replaced(text, "{32, 4}", "{0, 0}");
  LaunchShape shape;
  shape.block.x = 32;
  shape.dynamicSharedBytes = 1024;
  device.launch(*Module::parse(text), "k", shape, Arguments().add(device.encode(map)).add(uint64_t(0)));
  EXPECT_EQ(device.download<float>(map.address, 256), std::vector<float>(256, 5.5f));
}

// ---- Bulk copies without a tensor map, multicast --------------------------------------------------------------------------

TEST(BulkCopyTest, ThereAndBack) {
  auto module = Module::parse(moduleText(
      ".param .u64 in, .param .u64 out",
      ".reg .b64 %in, %out, %rd0;\n.reg .b32 %sm;\n.reg .pred %done;\nld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n"
      "mov.u64 %rd0, dynamic;\ncvt.u32.u64 %sm, %rd0;\nmbarrier.init.shared::cta.b64 [%sm+256], 1;\nfence.proxy.async;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%sm+256], 256;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%sm], [%in], 256, [%sm+256];\n"
      "wait:\nmbarrier.try_wait.parity.shared::cta.b64 %done, [%sm+256], 0;\n@!%done bra wait;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%out], [%sm], 256;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group "
      "0;\nret;"));
  Device device;
  const auto values = counting(128);
  const DevicePointer in = device.upload(values), out = device.allocate(256);
  LaunchShape shape;
  shape.dynamicSharedBytes = 264;
  device.launch(*module, "k", shape, Arguments().add(in).add(out));
  EXPECT_EQ(device.download<uint16_t>(out, 128), values);
}

const std::string multicastText = moduleText(
    loadParameters,
    std::string(loadRegisters) +
        ".reg .b32 %rank;\n.reg .pred %first;\n.reg .b16 %both;\nmov.u32 %rank, %cluster_ctarank;\nadd.s32 %bar, %sm, 1024;\n"
        "@%p0 mbarrier.init.shared::cta.b64 [%bar], 1;\n@%p0 fence.mbarrier_init.release.cluster;\n"
        "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
        "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 1024;\n"
        "mov.b16 %both, 3;\nsetp.eq.and.u32 %first, %rank, 0, %p0;\n"
        "@%first cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%sm], [%map, "
        "{0, 0}], [%bar], "
        "%both;\nwait:\nmbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], 0;\n@!%done bra wait;\n"
        "mad.lo.u32 %r0, %t, 4, %sm;\nld.shared.u32 %r1, [%r0];\nmad.lo.u32 %r2, %rank, 32, %t;\nmul.wide.u32 %rd1, %r2, 4;\n"
        "add.s64 %rd1, %rd1, %out;\nst.global.u32 [%rd1], %r1;\n"
        "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nret;");

TEST(BulkCopyTest, MulticastReachesEveryCta) {
  auto module = Module::parse(multicastText);
  for (Timing timing : {Timing::Late, Timing::Early, Timing::Random}) {
    Device device;
    const TensorMap map = matrixMap(device, 8, 64, 8, 64, Swizzle::None);
    const DevicePointer out = device.allocate(256);
    LaunchShape shape;
    shape.grid.x = shape.cluster.x = 2;
    shape.block.x = 32;
    shape.dynamicSharedBytes = 1032;
    LaunchOptions options;
    options.timing = timing;
    device.launch(*module, "k", shape, Arguments().add(device.encode(map)).add(out), options);
    for (uint32_t i = 0; i < 128; ++i)
      EXPECT_EQ(device.download<uint16_t>(out, 128)[i], 1 + i % 64);
  }
}

// ---- cp.async -------------------------------------------------------------------------------------------------------------

std::string smallCopyText(const std::string &wait) {
  return "mad.lo.u32 %r0, %t, 4, %sm;\nmul.wide.u32 %rd0, %t, 4;\nadd.s64 %rd0, %out, %rd0;\nst.global.u32 [%rd0], %t;\n"
         "cp.async.ca.shared.global [%r0], [%rd0], 4;\ncp.async.commit_group;\n" +
         wait + "ld.shared.u32 %r1, [%r0];\nadd.s32 %r1, %r1, 100;\n" + storeByThread("%r1");
}

TEST(SmallCopyTest, LandsAtTheWait) {
  for (const char *wait : {"cp.async.wait_group 0;\n", "cp.async.wait_all;\n"})
    EXPECT_EQ((Words{32, 32, 128}.run(smallCopyText(wait)))[7], 107u);
  EXPECT_FAULT(ErrorKind::InFlight, "a copy in flight has yet to write", Words{32, 32, 128}.run(smallCopyText("")));
  EXPECT_FAULT(ErrorKind::InFlight, "a copy in flight has yet to write",
               Words{32, 32, 128}.run(smallCopyText("cp.async.wait_group 1;\n")));
}

TEST(SmallCopyTest, FillsWithZeros) {
  const auto words =
      Words{1, 4, 64}.run("st.global.v4.u32 [%out], {1, 2, 3, 4};\ncp.async.cg.shared.global [%sm], [%out], 16, 8;\n"
                          "cp.async.wait_all;\nld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [%sm];\n"
                          "st.global.v4.u32 [%out], {%r0, %r1, %r2, %r3};");
  EXPECT_EQ(words, (std::vector<uint32_t>{1, 2, 0, 0}));
}

TEST(SmallCopyTest, ArrivesAtAnMbarrier) {
  const std::string text = "setp.eq.u32 %p0, %t, 0;\n@%p0 mbarrier.init.shared::cta.b64 [%sm+256], 32;\nbar.sync 0;\n" +
                           smallCopyText("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%sm+256];\nagain:\n"
                                         "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%sm+256], 0;\n@!%p1 bra again;\n");
  EXPECT_EQ((Words{32, 32, 512}.run(text))[7], 107u);
}

} // namespace
