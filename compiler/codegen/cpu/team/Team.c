/*===- Team.c - Threads that share the loops of kernels -------------------===*\
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
\*===----------------------------------------------------------------------===*/
#include "compiler/codegen/cpu/team/Team.h"
#include <pthread.h>
#include <stdlib.h>

/// Looks at a value that another thread changes before a thread goes to sleep: some tens of microseconds.
enum { SPINS = 1500 };

/// Loops are numbered. Those that a thread may still ask about have a slot each, at their number modulo NUM_SLOTS: a thread that comes
/// to loop n has seen the end of loop n - NUM_SLOTS, whose slot it takes over.
enum { NUM_SLOTS = 2 * TW_MAX_LOOPS };

/// The state of one loop in one word, so that it changes at once: its number, how many chunks are taken, and how many done.
typedef struct {
  _Alignas(64) uint64_t state;
} slot;

static uint64_t packed(uint32_t loop, uint32_t taken, uint32_t done) { return (uint64_t)loop << 32 | taken << 16 | done; }
static uint32_t loopOf(uint64_t state) { return (uint32_t)(state >> 32); }
static uint32_t takenOf(uint64_t state) { return (uint32_t)(state >> 16) & 0xffff; }
static uint32_t doneOf(uint64_t state) { return (uint32_t)state & 0xffff; }
/// Whether loop a comes after loop b; numbers wrap around.
static int isAfter(uint32_t a, uint32_t b) { return (int32_t)(a - b) > 0; }

typedef struct {
  tw_worker shared; ///< first, so that a pointer to it is a pointer to this
  tw_team *team;
  uint32_t loop;      ///< the loop that the next claim is about
  uint32_t firstOpen; ///< the first loop that wait has not seen the end of
  int hasChunk;       ///< the chunk of the last claim is this thread's to do
  int mayCall;        ///< the thread of tw_team_run, while it is alone
} member;

struct tw_team {
  slot slots[NUM_SLOTS];
  pthread_mutex_t lock;
  pthread_cond_t start;    ///< a run has begun, or the team ends
  pthread_cond_t progress; ///< a loop has ended, or a thread has left the run
  /// Under the lock; `runs` and `active` are also looked at without it.
  unsigned runs; ///< how many have begun
  int isOpen, stops;
  unsigned active;
  void (*work)(void *, tw_worker *);
  void *argument;
  uint32_t firstLoop;
  int sleepers; ///< threads that wait for progress
  unsigned helpers;
  pthread_t *threads;
  /// How many threads have begun, and the processor of each one; null where they run anywhere.
  unsigned begun;
  int *processors;
};

#if defined(__linux__)
// Functions of the C library that its headers only show to GNU sources.
int systemGetAffinity(int thread, size_t bytes, void *mask) __asm__("sched_getaffinity");
int systemSetAffinity(int thread, size_t bytes, const void *mask) __asm__("sched_setaffinity");
int systemCurrentProcessor(void) __asm__("sched_getcpu");

enum { MAX_PROCESSORS = 1024, WORD_BITS = 8 * sizeof(unsigned long) };
typedef struct {
  unsigned long words[MAX_PROCESSORS / WORD_BITS];
} processorMask;

/// A processor for each thread beside this one, if the team has as many threads as this process has processors; else the scheduler knows
/// better. Where other processes are at work, it would often wake a thread on the processor of the one that wakes it.
static int *chooseProcessors(unsigned threads) {
  processorMask mask = {{0}};
  if (systemGetAffinity(0, sizeof mask, &mask) < 0)
    return NULL;
  const int current = systemCurrentProcessor();
  int *processors = malloc(threads * sizeof(int));
  unsigned count = 0, others = 0;
  for (int i = 0; processors && i < MAX_PROCESSORS; ++i) {
    if (!(mask.words[i / WORD_BITS] >> (i % WORD_BITS) & 1))
      continue;
    if (i != current && others < threads)
      processors[others++] = i;
    ++count;
  }
  if (count == threads && others >= threads - 1)
    return processors;
  free(processors);
  return NULL;
}

static void runOn(int processor) {
  processorMask mask = {{0}};
  mask.words[processor / WORD_BITS] |= 1ul << (processor % WORD_BITS);
  // Where the system refuses, the thread runs anywhere.
  (void)systemSetAffinity(0, sizeof mask, &mask);
}
#else
static int *chooseProcessors(unsigned threads) { return (void)threads, NULL; }
static void runOn(int processor) { (void)processor; }
#endif

static void pauseABit(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("yield" ::: "memory");
#else
  __asm__ volatile("" ::: "memory");
#endif
}

/// Lets the threads see that something has changed that they may sleep for. A thread counts itself before it looks for the last
/// time, so either it sees the change or this sees it.
static void wakeSleepers(tw_team *team) {
  if (!__atomic_load_n(&team->sleepers, __ATOMIC_SEQ_CST))
    return;
  pthread_mutex_lock(&team->lock);
  pthread_cond_broadcast(&team->progress);
  pthread_mutex_unlock(&team->lock);
}

static int loopHasEnded(tw_team *team, uint32_t loop) {
  const uint64_t state = __atomic_load_n(&team->slots[loop % NUM_SLOTS].state, __ATOMIC_SEQ_CST);
  return isAfter(loopOf(state), loop) || (loopOf(state) == loop && takenOf(state) == doneOf(state));
}

/// Whether nobody but the thread of tw_team_run is in the run; `ignored` makes it fit beside loopHasEnded.
static int othersHaveLeft(tw_team *team, uint32_t ignored) {
  (void)ignored;
  return __atomic_load_n(&team->active, __ATOMIC_SEQ_CST) == 0;
}

static void waitUntil(tw_team *team, int (*holds)(tw_team *, uint32_t), uint32_t loop) {
  for (int i = 0; i < SPINS; ++i) {
    if (holds(team, loop))
      return;
    pauseABit();
  }
  pthread_mutex_lock(&team->lock);
  __atomic_fetch_add(&team->sleepers, 1, __ATOMIC_SEQ_CST);
  while (!holds(team, loop))
    pthread_cond_wait(&team->progress, &team->lock);
  __atomic_fetch_sub(&team->sleepers, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&team->lock);
}

/// Lets the other threads join the run.
static void callTeam(member *self) {
  tw_team *team = self->team;
  self->mayCall = 0;
  pthread_mutex_lock(&team->lock);
  team->isOpen = 1;
  __atomic_fetch_add(&team->runs, 1, __ATOMIC_SEQ_CST);
  pthread_cond_broadcast(&team->start);
  pthread_mutex_unlock(&team->lock);
}

static int64_t claimChunk(tw_worker *worker, int64_t chunks) {
  member *self = (member *)worker;
  uint64_t *place = &self->team->slots[self->loop % NUM_SLOTS].state;
  if (self->hasChunk) {
    self->hasChunk = 0;
    const uint64_t state = __atomic_add_fetch(place, 1, __ATOMIC_SEQ_CST);
    if (takenOf(state) == (uint32_t)chunks && doneOf(state) == (uint32_t)chunks)
      wakeSleepers(self->team);
  } else if (self->mayCall && chunks > 1) {
    callTeam(self);
  }
  uint64_t state = __atomic_load_n(place, __ATOMIC_ACQUIRE);
  while (!isAfter(loopOf(state), self->loop)) {
    const uint32_t taken = loopOf(state) == self->loop ? takenOf(state) : 0;
    if (taken == (uint32_t)chunks)
      break;
    const uint64_t next = loopOf(state) == self->loop ? state + packed(0, 1, 0) : packed(self->loop, 1, 0);
    if (__atomic_compare_exchange_n(place, &state, next, /*weak=*/0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)) {
      self->hasChunk = 1;
      return taken;
    }
  }
  ++self->loop;
  return -1;
}

static void waitForLoops(tw_worker *worker) {
  member *self = (member *)worker;
  for (; self->firstOpen != self->loop; ++self->firstOpen)
    waitUntil(self->team, loopHasEnded, self->firstOpen);
}

static member newMember(tw_team *team, int mayCall) {
  member self = {{claimChunk, waitForLoops}, team, team->firstLoop, team->firstLoop, 0, mayCall};
  return self;
}

static void *helperMain(void *argument) {
  tw_team *team = argument;
  if (team->processors)
    runOn(team->processors[__atomic_fetch_add(&team->begun, 1, __ATOMIC_RELAXED)]);
  unsigned seen = 0;
  for (;;) {
    for (int i = 0; i < SPINS && __atomic_load_n(&team->runs, __ATOMIC_RELAXED) == seen; ++i)
      pauseABit();
    pthread_mutex_lock(&team->lock);
    while (!team->stops && (team->runs == seen || !team->isOpen)) {
      seen = team->runs;
      pthread_cond_wait(&team->start, &team->lock);
    }
    seen = team->runs;
    if (team->stops) {
      pthread_mutex_unlock(&team->lock);
      return NULL;
    }
    __atomic_fetch_add(&team->active, 1, __ATOMIC_SEQ_CST);
    member self = newMember(team, 0);
    void (*work)(void *, tw_worker *) = team->work;
    void *workArgument = team->argument;
    pthread_mutex_unlock(&team->lock);
    work(workArgument, &self.shared);
    __atomic_fetch_sub(&team->active, 1, __ATOMIC_SEQ_CST);
    wakeSleepers(team);
  }
}

tw_team *tw_team_create(unsigned threads) {
  tw_team *team = aligned_alloc(_Alignof(tw_team), sizeof(tw_team));
  if (!team)
    return NULL;
  *team = (tw_team){.firstLoop = NUM_SLOTS};
  // As if one loop of each slot had run already.
  for (uint32_t i = 0; i < NUM_SLOTS; ++i)
    team->slots[i].state = packed(i, 0, 0);
  pthread_mutex_init(&team->lock, NULL);
  pthread_cond_init(&team->start, NULL);
  pthread_cond_init(&team->progress, NULL);
  if (threads > 1)
    team->processors = chooseProcessors(threads);
  if (threads > 1 && (team->threads = malloc((threads - 1) * sizeof(pthread_t))))
    while (team->helpers < threads - 1 && pthread_create(&team->threads[team->helpers], NULL, helperMain, team) == 0)
      ++team->helpers;
  return team;
}

void tw_team_destroy(tw_team *team) {
  if (!team)
    return;
  pthread_mutex_lock(&team->lock);
  team->stops = 1;
  pthread_cond_broadcast(&team->start);
  pthread_mutex_unlock(&team->lock);
  for (unsigned i = 0; i < team->helpers; ++i)
    pthread_join(team->threads[i], NULL);
  pthread_cond_destroy(&team->progress);
  pthread_cond_destroy(&team->start);
  pthread_mutex_destroy(&team->lock);
  free(team->processors);
  free(team->threads);
  free(team);
}

void tw_team_run(tw_team *team, void (*work)(void *argument, tw_worker *worker), void *argument) {
  team->work = work;
  team->argument = argument;
  member self = newMember(team, team->helpers > 0);
  work(argument, &self.shared);
  waitForLoops(&self.shared);
  if (team->helpers > 0 && !self.mayCall) {
    pthread_mutex_lock(&team->lock);
    team->isOpen = 0;
    pthread_mutex_unlock(&team->lock);
    waitUntil(team, othersHaveLeft, 0);
  }
  team->firstLoop = self.loop;
}
