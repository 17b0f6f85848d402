// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library that a program takes for ONNX Runtime: one input, one output of zeros. The environment tells it what goes wrong:
// STAND_IN_OLD: it is older than every version that is asked for; STAND_IN_REFUSES: it refuses models with these words;
// STAND_IN_INPUTS: it sees so many inputs.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static char object; // every handle but those of tensors

struct Tensor {
  void *data;
  size_t bytes;
};

static void *none(void) { return NULL; }
static void release(void *handle) { (void)handle; }
static const char *message(const void *status) { return (const char *)status; }
static void *makeEnv(int severity, const char *name, void **out) {
  (void)severity;
  (void)name;
  *out = &object;
  return NULL;
}
static void *makeOptions(void **out) {
  *out = &object;
  return NULL;
}
static void *makeMemory(int a, int b, void **out) {
  (void)a;
  (void)b;
  *out = &object;
  return NULL;
}
static void *makeSession(const void *env, const char *path, const void *options, void **out) {
  (void)env, (void)path, (void)options;
  *out = &object;
  return getenv("STAND_IN_REFUSES");
}
static void *makeSessionFromArray(const void *env, const void *bytes, size_t size, const void *options, void **out) {
  (void)bytes;
  return size ? makeSession(env, "", options, out) : (void *)"no bytes";
}
static void *countInputs(const void *session, size_t *out) {
  (void)session;
  *out = getenv("STAND_IN_INPUTS") ? (size_t)atoi(getenv("STAND_IN_INPUTS")) : 1;
  return NULL;
}
static void *countOutputs(const void *session, size_t *out) {
  (void)session;
  *out = 1;
  return NULL;
}
static void *nameOf(const void *session, size_t index, void *allocator, char **out) {
  (void)session, (void)index, (void)allocator;
  *out = strdup("name");
  return NULL;
}
static void *freeName(void *allocator, void *name) {
  (void)allocator;
  free(name);
  return NULL;
}
static void *makeTensor(const void *memory, void *data, size_t bytes, const int64_t *shape, size_t rank, int type, void **out) {
  (void)memory, (void)shape, (void)rank, (void)type;
  struct Tensor *tensor = malloc(sizeof *tensor);
  tensor->data = data;
  tensor->bytes = bytes;
  *out = tensor;
  return NULL;
}
static void *run(void *session, const void *options, const char *const *inputNames, const void *const *inputs,
                 size_t inputCount, const char *const *outputNames, size_t outputCount, void **outputs) {
  (void)session, (void)options, (void)inputNames, (void)inputs, (void)inputCount, (void)outputNames;
  for (size_t i = 0; i < outputCount; ++i)
    memset(((struct Tensor *)outputs[i])->data, 0, ((struct Tensor *)outputs[i])->bytes);
  return NULL;
}

static void *table[101];

static const void *getApi(uint32_t version) {
  (void)version;
  if (getenv("STAND_IN_OLD"))
    return NULL;
  for (int i = 0; i < 101; ++i)
    table[i] = (void *)none;
  table[2] = (void *)message;
  table[3] = (void *)makeEnv;
  table[7] = (void *)makeSession;
  table[8] = (void *)makeSessionFromArray;
  table[9] = (void *)run;
  table[10] = (void *)makeOptions;
  table[30] = (void *)countInputs;
  table[31] = (void *)countOutputs;
  table[36] = table[37] = (void *)nameOf;
  table[49] = (void *)makeTensor;
  table[69] = (void *)makeMemory;
  table[76] = (void *)freeName;
  table[78] = (void *)makeOptions;
  for (int i = 92; i <= 100; ++i)
    table[i] = (void *)release;
  table[96] = (void *)free;
  return table;
}
static const char *version(void) { return "0.0.stand-in"; }

struct ApiBase {
  const void *(*getApi)(uint32_t);
  const char *(*getVersionString)(void);
};

const struct ApiBase *OrtGetApiBase(void) {
  static const struct ApiBase base = {getApi, version};
  return &base;
}
