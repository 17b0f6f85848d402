/*===- pthread.h - POSIX threads of any 64-bit Linux --------------*- C -*-===*\
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
|*
|* The runtime of bundles is compiled for processors whose C library is not
|* installed where Tilewright is built. Its objects only pass pointers to what
|* the C library defines, so types that are large enough are all it needs: the
|* largest pthread_mutex_t of the C libraries for Linux has 48 bytes, and so
|* has pthread_cond_t.
\*===----------------------------------------------------------------------===*/
#ifndef TILEWRIGHT_BUNDLE_PTHREAD_H
#define TILEWRIGHT_BUNDLE_PTHREAD_H

typedef unsigned long pthread_t;
typedef struct {
  _Alignas(16) char opaque[64];
} pthread_mutex_t, pthread_cond_t;

int pthread_create(pthread_t *thread, const void *attributes, void *(*main)(void *), void *argument);
int pthread_join(pthread_t thread, void **result);
int pthread_mutex_init(pthread_mutex_t *mutex, const void *attributes);
int pthread_mutex_destroy(pthread_mutex_t *mutex);
int pthread_mutex_lock(pthread_mutex_t *mutex);
int pthread_mutex_unlock(pthread_mutex_t *mutex);
int pthread_cond_init(pthread_cond_t *condition, const void *attributes);
int pthread_cond_destroy(pthread_cond_t *condition);
int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int pthread_cond_broadcast(pthread_cond_t *condition);

#endif
