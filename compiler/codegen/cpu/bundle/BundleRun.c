/*===- BundleRun.c - Runs the plan of a bundle ----------------------------===*\
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
|*
|* Part of every bundle: compiled to LLVM bitcode for each architecture when
|* Tilewright is built, and joined with a network's plan when that is compiled
|* (Bundle.cpp, which makes the structs below as LLVM constants). It calls
|* nothing but the C library and POSIX threads.
\*===----------------------------------------------------------------------===*/
// One module of bitcode holds the threads, too.
#include "compiler/codegen/cpu/team/Team.c"
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *to, const void *from, size_t bytes);
int open(const char *path, int flags, ...);
int close(int file);
long lseek(int file, long offset, int whence);
long read(int file, void *to, size_t bytes);
void *mmap(void *address, size_t bytes, int protection, int flags, int file, long offset);
int munmap(void *address, size_t bytes);

/// The values of the enumeration in the header of a bundle.
enum { OK, NULL_POINTER, SMALL_ARENA, MISALIGNED, OVERLAP, NO_WEIGHTS_FILE, WRONG_WEIGHTS, SHORT_VECTORS };

/// Where a pointer points: `offset` bytes behind the start of the place, or of its input or output number `index`.
enum { INPUT, OUTPUT, ARENA, WEIGHTS, NOWHERE };
typedef struct {
  int64_t place, index, offset;
} tw_pointer;

typedef struct {
  void (*code)(void **table, tw_worker *worker);
  int64_t pointers;
} tw_step;

/// A result that no kernel writes.
typedef struct {
  tw_pointer from;
  int64_t output, bytes;
} tw_copy;

typedef struct {
  int64_t bytes, alignment;
} tw_tensor;

/// `pointers` holds those of all steps, one step behind the other. The arena begins with a table of so many pointers.
typedef struct {
  int64_t inputCount, outputCount, pointerCount, stepCount, copyCount, arenaBytes, alignment, vectorBytes, weightBytes;
  uint64_t weightSum;
  const tw_tensor *inputs, *outputs;
  const tw_pointer *pointers;
  const tw_step *steps;
  const tw_copy *copies;
} tw_plan;

typedef struct {
  const tw_plan *plan;
  void **table;
} running;

/// A worker that is alone.
typedef struct {
  tw_worker shared; ///< first, so that a pointer to it is a pointer to this
  int64_t taken;
} serial;

static int64_t claimSerially(tw_worker *worker, int64_t chunks) {
  serial *self = (serial *)worker;
  if (self->taken < chunks)
    return self->taken++;
  self->taken = 0;
  return -1;
}

static void waitSerially(tw_worker *worker) { (void)worker; }

static void runSteps(void *argument, tw_worker *worker) {
  const running *run = argument;
  void **table = run->table;
  for (int64_t i = 0; i < run->plan->stepCount; ++i) {
    run->plan->steps[i].code(table, worker);
    table += run->plan->steps[i].pointers;
  }
}

static int areDisjoint(const void *a, int64_t aBytes, const void *b, int64_t bBytes) {
  return (uintptr_t)a + (uintptr_t)aBytes <= (uintptr_t)b || (uintptr_t)b + (uintptr_t)bBytes <= (uintptr_t)a;
}

static int check(const tw_plan *plan, const void *const *inputs, void *const *outputs, const void *weights, const void *arena,
                 size_t arenaBytes) {
  if (!arena || (plan->weightBytes && !weights))
    return NULL_POINTER;
  for (int64_t i = 0; i < plan->inputCount; ++i)
    if (!inputs[i])
      return NULL_POINTER;
  for (int64_t i = 0; i < plan->outputCount; ++i)
    if (!outputs[i])
      return NULL_POINTER;
  if (arenaBytes < (size_t)plan->arenaBytes)
    return SMALL_ARENA;
#if defined(__riscv)
  // The only feature without which code would not stop but be wrong. Every processor with vectors has 16 bytes.
  if (plan->vectorBytes > 16) {
    uintptr_t vlenb;
    __asm__ volatile("csrr %0, 0xc22" : "=r"(vlenb));
    if (vlenb < (uintptr_t)plan->vectorBytes)
      return SHORT_VECTORS;
  }
#endif
  if ((uintptr_t)arena % (uintptr_t)plan->alignment || (uintptr_t)weights % (uintptr_t)plan->alignment)
    return MISALIGNED;
  if (!areDisjoint(weights, plan->weightBytes, arena, plan->arenaBytes))
    return OVERLAP;
  for (int64_t i = 0; i < plan->inputCount; ++i) {
    if ((uintptr_t)inputs[i] % (uintptr_t)plan->inputs[i].alignment)
      return MISALIGNED;
    if (!areDisjoint(inputs[i], plan->inputs[i].bytes, arena, plan->arenaBytes))
      return OVERLAP;
  }
  for (int64_t i = 0; i < plan->outputCount; ++i) {
    const int64_t bytes = plan->outputs[i].bytes;
    if ((uintptr_t)outputs[i] % (uintptr_t)plan->outputs[i].alignment)
      return MISALIGNED;
    if (!areDisjoint(outputs[i], bytes, arena, plan->arenaBytes) || !areDisjoint(outputs[i], bytes, weights, plan->weightBytes))
      return OVERLAP;
    for (int64_t j = 0; j < plan->inputCount; ++j)
      if (!areDisjoint(outputs[i], bytes, inputs[j], plan->inputs[j].bytes))
        return OVERLAP;
    for (int64_t j = 0; j < i; ++j)
      if (!areDisjoint(outputs[i], bytes, outputs[j], plan->outputs[j].bytes))
        return OVERLAP;
  }
  return OK;
}

static void *resolve(tw_pointer pointer, const void *const *inputs, void *const *outputs, const char *const *starts) {
  const char *start = pointer.place == INPUT    ? inputs[pointer.index]
                      : pointer.place == OUTPUT ? outputs[pointer.index]
                                                : starts[pointer.place];
  return (void *)(start + pointer.offset);
}

int tw_bundle_run(const tw_plan *plan, const void *const *inputs, void *const *outputs, const void *weights, void *arena,
                  size_t arenaBytes, tw_team *team) {
  const int status = check(plan, inputs, outputs, weights, arena, arenaBytes);
  if (status != OK)
    return status;
  const char *starts[] = {0, 0, arena, weights, 0};
  running run = {plan, arena};
  for (int64_t i = 0; i < plan->pointerCount; ++i)
    run.table[i] = resolve(plan->pointers[i], inputs, outputs, starts);
  if (team) {
    tw_team_run(team, runSteps, &run);
  } else {
    serial alone = {{claimSerially, waitSerially}, 0};
    runSteps(&run, &alone.shared);
  }
  for (int64_t i = 0; i < plan->copyCount; ++i) {
    const tw_copy copy = plan->copies[i];
    memcpy(outputs[copy.output], resolve(copy.from, inputs, outputs, starts), (size_t)copy.bytes);
  }
  return OK;
}

/// FNV-1a over little-endian words of 8 bytes; Bundle.cpp computes the same. `bytes` is a multiple of 8.
static uint64_t sumOf(const char *data, int64_t bytes) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (int64_t i = 0; i < bytes; i += 8) {
    uint64_t word;
    memcpy(&word, data + i, 8);
    sum = (sum ^ word) * 0x100000001b3u;
  }
  return sum;
}

int tw_bundle_load_weights(const tw_plan *plan, const char *path, const void **weights) {
  enum { READ_ONLY = 0, NO_WAIT = 2048, TO_END = 2, PROTECT_READ = 1, MAP_PRIVATELY = 2 }; // of Linux
  if (!path || !weights)
    return NULL_POINTER;
  *weights = 0;
  if (!plan->weightBytes)
    return OK;
  const int file = open(path, READ_ONLY | NO_WAIT); // a pipe has nobody to wait for
  if (file < 0)
    return NO_WEIGHTS_FILE;
  char first;
  const int isReadable = read(file, &first, 1) >= 0; // a folder is not
  const long bytes = lseek(file, 0, TO_END);         // nor has a pipe an end
  if (!isReadable || bytes < 0) {
    close(file);
    return NO_WEIGHTS_FILE;
  }
  void *data = bytes == plan->weightBytes ? mmap(0, (size_t)bytes, PROTECT_READ, MAP_PRIVATELY, file, 0) : (void *)-1;
  close(file);
  if (bytes != plan->weightBytes)
    return WRONG_WEIGHTS;
  if (data == (void *)-1)
    return NO_WEIGHTS_FILE;
  if (sumOf(data, bytes) != plan->weightSum) {
    munmap(data, (size_t)bytes);
    return WRONG_WEIGHTS;
  }
  *weights = data;
  return OK;
}

void tw_bundle_unload_weights(const tw_plan *plan, const void *weights) {
  if (weights)
    munmap((void *)weights, (size_t)plan->weightBytes);
}
