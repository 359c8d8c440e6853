// SPDX-License-Identifier: Apache-2.0
#ifndef ALLOCATION_COUNTER_H
#define ALLOCATION_COUNTER_H

#include <stddef.h>
#include <stdint.h>

/// Heap allocations of the whole process since its start: malloc, calloc, realloc and the aligned ones; a realloc that
/// moves or grows counts as one, freeing does not count.
uint64_t allocation_count(void);

/// Those of the calling thread.
uint64_t allocation_count_of_thread(void);

/// Octets of the heap that are in use, as the C library counts them.
uint64_t allocated_octets(void);

#endif
