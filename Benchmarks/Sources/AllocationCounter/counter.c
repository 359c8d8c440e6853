// SPDX-License-Identifier: Apache-2.0
//
// Defined in the program, these take the place of the C library's functions in all of its libraries too, the Swift
// runtime and Dispatch included. The C library's own are reached under the names that it keeps for such use.

#include "AllocationCounter.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static _Atomic uint64_t total;
static _Thread_local uint64_t of_thread;

static void count(void) {
  atomic_fetch_add_explicit(&total, 1, memory_order_relaxed);
  of_thread += 1;
}

void *malloc(size_t size) {
  count();
  return __libc_malloc(size);
}

void *calloc(size_t elements, size_t size) {
  count();
  return __libc_calloc(elements, size);
}

void *realloc(void *block, size_t size) {
  count();
  return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size) {
  count();
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  count();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
  count();
  void *made = __libc_memalign(alignment, size);
  if (made == NULL) return ENOMEM;
  *block = made;
  return 0;
}

uint64_t allocation_count(void) { return atomic_load_explicit(&total, memory_order_relaxed); }

uint64_t allocation_count_of_thread(void) { return of_thread; }

uint64_t allocated_octets(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}
