//===- MutateModel.cpp - Changes of an ONNX model's fields ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer's changes of single bytes seldom leave a protocol buffer that can
// be read. These change fields, so that what is behind the parser is reached. A
// target of ONNX models is linked with this file.
//===----------------------------------------------------------------------===//
#include "tests/fuzz/targets/Target.h"

#include <onnx/onnx_pb.h>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

class ModelMutator {
public:
  ModelMutator(Message &model, unsigned seed) : random(seed) { collect(model); }

  /// Changes one field that the model has. Places of fields are not valid any more afterwards.
  void change() {
    if (!places.empty())
      change(places[below(places.size())]);
  }

private:
  struct Place {
    Message *message;
    const FieldDescriptor *field;
  };

  size_t below(size_t limit) { return random() % limit; }

  void collect(Message &message) {
    std::vector<const FieldDescriptor *> fields;
    const Reflection *reflection = message.GetReflection();
    reflection->ListFields(message, &fields);
    for (const FieldDescriptor *field : fields) {
      places.push_back({&message, field});
      const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
          collect(field->is_repeated() ? *reflection->MutableRepeatedMessage(&message, field, i)
                                       : *reflection->MutableMessage(&message, field));
        else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING)
          texts.push_back(field->is_repeated() ? reflection->GetRepeatedString(message, field, i)
                                               : reflection->GetString(message, field));
      }
    }
  }

  int64_t integer(int64_t old) {
    static constexpr int64_t interesting[] = {0,
                                              1,
                                              -1,
                                              2,
                                              3,
                                              7,
                                              8,
                                              64,
                                              1 << 16,
                                              int64_t(1) << 32,
                                              std::numeric_limits<int64_t>::max(),
                                              std::numeric_limits<int64_t>::min()};
    switch (below(4)) {
    case 0:
      return int64_t(uint64_t(old) + 1);
    case 1:
      return int64_t(uint64_t(old) - 1);
    case 2:
      return int64_t(below(20));
    default:
      return interesting[below(std::size(interesting))];
    }
  }

  double real() {
    static constexpr double interesting[] = {
        0, -0.0, 1, -1, 0.5, 1e-40, 3e38, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()};
    return interesting[below(std::size(interesting))];
  }

  /// A text from elsewhere in the model, which joins nodes anew, or the old one with changed bytes.
  std::string text(std::string old) {
    if (!texts.empty() && random() % 4)
      return texts[below(texts.size())];
    old.resize(old.size() + 8);
    old.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(old.data()), old.size() - 8, old.size()));
    return old;
  }

  void change(Place place) {
    Message &message = *place.message;
    const FieldDescriptor *field = place.field;
    const Reflection *reflection = message.GetReflection();
    if (field->is_repeated()) {
      const int count = reflection->FieldSize(message, field), at = int(below(size_t(count)));
      switch (below(4)) {
      case 0:
        return reflection->SwapElements(&message, field, at, int(below(size_t(count))));
      case 1: // less one
        reflection->SwapElements(&message, field, at, count - 1);
        return reflection->RemoveLast(&message, field);
      default:
        break;
      }
      return changeElement(message, field, at);
    }
    if (random() % 8 == 0)
      return reflection->ClearField(&message, field);
    switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->SetInt32(&message, field, int32_t(integer(reflection->GetInt32(message, field))));
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->SetInt64(&message, field, integer(reflection->GetInt64(message, field)));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection->SetFloat(&message, field, float(real()));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->SetDouble(&message, field, real());
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnumValue(&message, field, int(below(24)));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->SetString(&message, field, text(reflection->GetString(message, field)));
    default:
      return reflection->ClearField(&message, field);
    }
  }

  void changeElement(Message &message, const FieldDescriptor *field, int at) {
    const Reflection *reflection = message.GetReflection();
    switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE: { // one more of a kind, at the end
      const Message &one = reflection->GetRepeatedMessage(message, field, at);
      Message *copy = one.New();
      copy->CopyFrom(one);
      return reflection->AddAllocatedMessage(&message, field, copy);
    }
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->SetRepeatedInt32(&message, field, at,
                                          int32_t(integer(reflection->GetRepeatedInt32(message, field, at))));
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->SetRepeatedInt64(&message, field, at, integer(reflection->GetRepeatedInt64(message, field, at)));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection->SetRepeatedFloat(&message, field, at, float(real()));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->SetRepeatedDouble(&message, field, at, real());
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->SetRepeatedString(&message, field, at, text(reflection->GetRepeatedString(message, field, at)));
    default:
      return reflection->RemoveLast(&message, field);
    }
  }

  std::mt19937 random;
  std::vector<Place> places;
  std::vector<std::string> texts;
};

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  std::mt19937 random(seed);
  onnx::ModelProto model;
  if (random() % 16 == 0 || !model.ParseFromArray(data, int(size)))
    return LLVMFuzzerMutate(data, size, maxSize);
  for (size_t changes = 1 + random() % 3; changes > 0; --changes)
    ModelMutator(model, random()).change();
  const size_t changed = model.ByteSizeLong();
  if (changed > maxSize || !model.SerializePartialToArray(data, int(maxSize)))
    return LLVMFuzzerMutate(data, size, maxSize);
  return changed;
}
