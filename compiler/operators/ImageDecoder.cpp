//===- ImageDecoder.cpp - Image files to pixels ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BMP without compression and portable anymaps. Other formats would need a
// library each; who uses them decodes the images outside the model.
//===----------------------------------------------------------------------===//
#include "compiler/operators/Elements.h"
#include "compiler/operators/Images.h"
#include "compiler/operators/Operator.h"

#include <cctype>

using namespace tw;
using namespace tw::operators;

/// Pixels of one image, at most.
static constexpr int64_t kMostPixels = int64_t(1) << 28;

namespace {

/// Rows from top to bottom, red, green and blue.
struct Picture {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;

  Picture(int64_t height, int64_t width) : height(height), width(width) {
    if (height < 1 || width < 1 || height > kMostPixels || width > kMostPixels || height * width > kMostPixels)
      throw Error{"the image has " + std::to_string(height) + " x " + std::to_string(width) + " pixels, expected 1 to 2^28"};
    rgb.resize(size_t(height * width * 3));
  }
};

/// The file; whatever lies behind its end is an error.
struct Bytes {
  const HostTensor &file;
  int64_t size() const { return int64_t(file.bytes.size()); }
  /// Before memory is taken for what a damaged header says.
  void requireSize(double least) const {
    if (double(size()) < least)
      throw Error{"the image file ends too early"};
  }
  uint8_t at(int64_t i) const {
    if (i < 0 || i >= size())
      throw Error{"the image file ends too early"};
    return file.bytes[size_t(i)];
  }
  uint32_t word(int64_t i, int bytes) const {
    uint32_t value = 0;
    for (int k = 0; k < bytes; ++k)
      value |= uint32_t(at(i + k)) << (8 * k);
    return value;
  }
  bool startsWith(const char *text, int64_t offset = 0) const {
    const size_t length = std::strlen(text);
    return size() >= offset + int64_t(length) && std::memcmp(file.bytes.data() + offset, text, length) == 0;
  }
};

/// source: Microsoft, BITMAPINFOHEADER
Picture decodeBmp(const Bytes &bytes) {
  const int64_t pixels = bytes.word(10, 4), header = bytes.word(14, 4);
  if (header < 40)
    throw Error{"a BMP header of " + std::to_string(header) + " bytes is not supported, only of 40 and more"};
  const int64_t width = int32_t(bytes.word(18, 4)), height = int32_t(bytes.word(22, 4));
  const uint32_t bits = bytes.word(28, 2), compression = bytes.word(30, 4);
  if (compression != 0 || (bits != 8 && bits != 24 && bits != 32))
    throw Error{"a BMP of " + std::to_string(bits) + " bits with compression " + std::to_string(compression) +
                " is not supported, only 8, 24 or 32 bits without compression"};
  // A row takes whole words.
  const int64_t row = (width * bits + 31) / 32 * 4;
  bytes.requireSize(double(pixels) + double(row) * (std::fabs(double(height)) - 1) + double(width) * (bits / 8));
  Picture picture(height < 0 ? -height : height, width);
  for (int64_t y = 0; y < picture.height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const int64_t from = pixels + (height < 0 ? y : picture.height - 1 - y) * row + x * (bits / 8);
      const int64_t color = bits == 8 ? 14 + header + 4 * int64_t(bytes.at(from)) : from;
      for (int64_t c = 0; c < 3; ++c)
        picture.rgb[size_t((y * width + x) * 3 + c)] = bytes.at(color + 2 - c);
    }
  return picture;
}

/// source: Netpbm, formats PGM and PPM, P2, P3, P5 and P6
Picture decodeAnymap(const Bytes &bytes) {
  int64_t at = 2;
  // A number of the header or of a plain file; comments run from # to the end of the line.
  auto number = [&] {
    for (;; ++at) {
      if (bytes.at(at) == '#')
        while (bytes.at(at) != '\n')
          ++at;
      if (!std::isspace(bytes.at(at)))
        break;
    }
    int64_t value = 0, digits = 0;
    for (; at < bytes.size() && std::isdigit(bytes.at(at)); ++at, ++digits)
      if ((value = value * 10 + (bytes.at(at) - '0')) > kMostPixels)
        throw Error{"the image file holds a number that is too large"};
    if (digits == 0)
      throw Error{"the image file holds no number where one is expected"};
    return value;
  };
  const char kind = char(bytes.at(1));
  const bool isPlain = kind < '4', isColored = kind == '3' || kind == '6';
  const int64_t width = number(), height = number(), largest = number();
  if (largest < 1 || largest > 65535)
    throw Error{"the image's largest value is " + std::to_string(largest) + ", expected 1 to 65535"};
  ++at;
  // A plain number takes a digit and what stands between it and the next.
  bytes.requireSize(double(at) + double(width) * double(height) * (isColored ? 3 : 1) * (isPlain || largest > 255 ? 2 : 1) -
                    isPlain);
  Picture picture(height, width);
  for (int64_t i = 0; i < height * width; ++i)
    for (int64_t c = 0; c < (isColored ? 3 : 1); ++c) {
      int64_t value;
      if (isPlain) {
        value = number();
      } else {
        value = bytes.at(at++);
        if (largest > 255)
          value = value << 8 | bytes.at(at++);
      }
      value = largest == 255 ? std::min<int64_t>(value, 255) : (std::min(value, largest) * 255 + largest / 2) / largest;
      for (int64_t k = isColored ? c : 0; k <= (isColored ? c : 2); ++k)
        picture.rgb[size_t(3 * i + k)] = uint8_t(value);
    }
  return picture;
}

Picture decode(const Bytes &bytes) {
  if (bytes.startsWith("BM"))
    return decodeBmp(bytes);
  for (const char *kind : {"P2", "P3", "P5", "P6"})
    if (bytes.startsWith(kind))
      return decodeAnymap(bytes);
  std::string format = "unknown";
  if (bytes.startsWith("\xff\xd8\xff"))
    format = "JPEG";
  else if (bytes.startsWith("\x89PNG"))
    format = "PNG";
  else if (bytes.startsWith("II*") || bytes.startsWith("MM"))
    format = "TIFF";
  else if (bytes.startsWith("RIFF") && bytes.startsWith("WEBP", 8))
    format = "WebP";
  else if (bytes.startsWith("jP  ", 4) || bytes.startsWith("\xff\x4f\xff\x51"))
    format = "JPEG 2000";
  throw Error{"the image's format, " + format + ", is not supported, only BMP, PGM and PPM"};
}

// source: ONNX, operator ImageDecoder
void evaluateImageDecoder(Call &call) {
  const HostTensor &file = call.input(0);
  if (file.type != ElementKind::U8 || file.shape.size() != 1)
    call.fail(std::string("the file is ") + frontend::elementName(file.type) + " of shape " + textOf(file.shape) +
              ", expected uint8 of one dim");
  const std::string format = call.stringAttr("pixel_format", "RGB");
  if (format != "RGB" && format != "BGR" && format != "Grayscale")
    call.fail("pixel_format is \"" + format + "\", expected RGB, BGR or Grayscale");
  const Picture picture = decode(Bytes{file});
  const bool isGray = format == "Grayscale";
  HostTensor &y = call.output(0, ElementKind::U8, {picture.height, picture.width, isGray ? 1 : 3});
  for (int64_t i = 0; i < picture.height * picture.width; ++i) {
    const uint8_t *rgb = picture.rgb.data() + 3 * i;
    if (isGray) {
      // source: ITU-R BT.601, luma
      y.bytes[size_t(i)] = uint8_t((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
      continue;
    }
    for (int64_t c = 0; c < 3; ++c)
      y.bytes[size_t(3 * i + c)] = rgb[format == "RGB" ? c : 2 - c];
  }
}

} // namespace

void operators::addImageDecoder(Table &table) { table[":ImageDecoder"] = {evaluateImageDecoder, {}, /*isDynamic=*/true}; }
