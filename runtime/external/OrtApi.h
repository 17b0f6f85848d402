//===- OrtApi.h - What we call of ONNX Runtime's C API ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX Runtime gives a table of functions. Entries never move or go, so a table
// that names only some of them fits every version from kOrtApiVersion on; what
// lies between them is space. source: the C API of ONNX Runtime 1.14, whose
// version 1 table ends with entry 101.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_EXTERNAL_ORTAPI_H
#define RUNTIME_EXTERNAL_ORTAPI_H

#include <cstddef>
#include <cstdint>

namespace tw::runtime::ort {

/// The table that is asked for: that of ONNX Runtime 1.14, which all later versions give.
constexpr uint32_t kApiVersion = 14;

struct Status;
struct Env;
struct Session;
struct SessionOptions;
struct RunOptions;
struct Value;
struct MemoryInfo;
struct Allocator;

/// TensorProto::DataType of ONNX.
enum class ElementType : int {
  Float = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  UInt32 = 12,
  UInt64 = 13,
  BFloat16 = 16
};

constexpr int kLogError = 3;
constexpr int kEnableAll = 99;
constexpr int kArenaAllocator = 1;
constexpr int kDefaultMemory = 0;

/// A function that gives a status is null on success. Names and results are as in the C API.
struct Api {
  void *entries0[2];
  const char *(*getErrorMessage)(const Status *);                  // 2
  Status *(*createEnv)(int severity, const char *name, Env **out); // 3
  void *entries4[3];
  Status *(*createSession)(const Env *, const char *path, const SessionOptions *, Session **out);           // 7
  Status *(*createSessionFromArray)(const Env *, const void *, size_t, const SessionOptions *, Session **); // 8
  Status *(*run)(Session *, const RunOptions *, const char *const *inputNames, const Value *const *inputs, size_t inputCount,
                 const char *const *outputNames, size_t outputCount, Value **outputs); // 9
  Status *(*createSessionOptions)(SessionOptions **out);                               // 10
  void *entries11[12];
  Status *(*setSessionGraphOptimizationLevel)(SessionOptions *, int level); // 23
  Status *(*setIntraOpNumThreads)(SessionOptions *, int threads);           // 24
  Status *(*setInterOpNumThreads)(SessionOptions *, int threads);           // 25
  void *entries26[4];
  Status *(*sessionGetInputCount)(const Session *, size_t *out);  // 30
  Status *(*sessionGetOutputCount)(const Session *, size_t *out); // 31
  void *entries32[4];
  Status *(*sessionGetInputName)(const Session *, size_t index, Allocator *, char **out);  // 36
  Status *(*sessionGetOutputName)(const Session *, size_t index, Allocator *, char **out); // 37
  void *entries38[11];
  Status *(*createTensorWithDataAsOrtValue)(const MemoryInfo *, void *data, size_t bytes, const int64_t *shape, size_t rank,
                                            ElementType,
                                            Value **out); // 49
  void *entries50[19];
  Status *(*createCpuMemoryInfo)(int allocator, int memory, MemoryInfo **out); // 69
  void *entries70[6];
  Status *(*allocatorFree)(Allocator *, void *); // 76
  void *entry77;
  Status *(*getAllocatorWithDefaultOptions)(Allocator **out); // 78
  void *entries79[13];
  void (*releaseEnv)(Env *);               // 92
  void (*releaseStatus)(Status *);         // 93
  void (*releaseMemoryInfo)(MemoryInfo *); // 94
  void (*releaseSession)(Session *);       // 95
  void (*releaseValue)(Value *);           // 96
  void *entries97[3];
  void (*releaseSessionOptions)(SessionOptions *); // 100
};

struct ApiBase {
  const Api *(*getApi)(uint32_t version); ///< null: the library is older
  const char *(*getVersionString)();
};

/// The one function that the library exports for us.
constexpr const char *kEntryPoint = "OrtGetApiBase";

constexpr bool standsAt(size_t offset, size_t entry) { return offset == entry * sizeof(void *); }
static_assert(standsAt(offsetof(Api, run), 9) && standsAt(offsetof(Api, setSessionGraphOptimizationLevel), 23) &&
                  standsAt(offsetof(Api, sessionGetInputCount), 30) && standsAt(offsetof(Api, sessionGetInputName), 36) &&
                  standsAt(offsetof(Api, createTensorWithDataAsOrtValue), 49) &&
                  standsAt(offsetof(Api, createCpuMemoryInfo), 69) &&
                  standsAt(offsetof(Api, getAllocatorWithDefaultOptions), 78) && standsAt(offsetof(Api, releaseEnv), 92) &&
                  standsAt(offsetof(Api, releaseSessionOptions), 100),
              "an entry is not where the C API has it");

} // namespace tw::runtime::ort

#endif // RUNTIME_EXTERNAL_ORTAPI_H
