/*===- Team.h - Threads that share the loops of kernels -----------*- C -*-===*\
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
|*
|* The threads that run compiled CPU code, both here and in programs that
|* link it: plain C with POSIX threads and nothing else.
|*
|* Every thread of a team runs the same code from its start to its end, and
|* the code asks for its share of each loop: a shared loop is divided into
|* chunks, and a thread takes the next free one as often as it comes by. No
|* loop waits for a thread that has not taken a chunk of it, so a thread that
|* comes late, or that another process keeps from its processor, holds up
|* nobody: it finds all chunks taken and goes on.
\*===----------------------------------------------------------------------===*/
#ifndef COMPILER_CODEGEN_CPU_TEAM_TEAM_H
#define COMPILER_CODEGEN_CPU_TEAM_TEAM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tw_worker tw_worker;
typedef struct tw_team tw_team;

/// What compiled code knows of the thread that runs it. A kernel is a function
///   void kernel(void **table, tw_worker *worker)
/// Threads may share the table. A kernel leaves when all of its loops are done.
struct tw_worker {
  /// The next chunk for this thread, of those numbered from 0 to `chunks` - 1 of the current loop; -1 when all are taken, which
  /// ends this thread's part of the loop. Every thread asks for the same loops with the same numbers of chunks, 1 to
  /// TW_MAX_CHUNKS, in the same order.
  int64_t (*claim)(tw_worker *worker, int64_t chunks);
  /// Returns when every chunk of the loops before is done. At most TW_MAX_LOOPS loops lie between two calls.
  void (*wait)(tw_worker *worker);
};

enum { TW_MAX_CHUNKS = 32767, TW_MAX_LOOPS = 32 };

/// A team of `threads` (at least 1) threads, the one that calls tw_team_run included; of fewer where the system has no more.
/// Null where there is no memory.
tw_team *tw_team_create(unsigned threads);
/// Ends the threads. Null is a team, too.
void tw_team_destroy(tw_team *team);

/// Calls work(argument, worker) on this thread, and on others of the team from the first loop on that has several chunks.
/// Returns when all of them have left. One call at a time.
void tw_team_run(tw_team *team, void (*work)(void *argument, tw_worker *worker), void *argument);

#ifdef __cplusplus
}
#endif

#endif /* COMPILER_CODEGEN_CPU_TEAM_TEAM_H */
