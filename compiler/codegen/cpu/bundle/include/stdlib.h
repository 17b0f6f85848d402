/*===- stdlib.h - What the runtime of bundles calls ---------------*- C -*-===*\
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
\*===----------------------------------------------------------------------===*/
#ifndef TILEWRIGHT_BUNDLE_STDLIB_H
#define TILEWRIGHT_BUNDLE_STDLIB_H

#include <stddef.h>

void *malloc(size_t bytes);
void *aligned_alloc(size_t alignment, size_t bytes);
void free(void *memory);

#endif
