// SPDX-License-Identifier: Apache-2.0
//
// Counts what an app has under way, and puts its delays on virtual time.
//
// The file defines some functions of libdispatch, and clock_gettime; as the program's own definitions come before those
// of shared libraries, Swift's Dispatch, Concurrency and the app itself get these. Together with two hooks of Swift's
// Concurrency runtime they see each block and each job. A thread that works for a *world* (a number, kept per thread)
// has everything that it starts counted there; other threads get what they would get without this file.
//
// What a world's threads start is not run at once: it waits in the world's one queue, and one item runs at a time, so
// that the order of things is the same in every run.
#ifndef CTESTINGHOOKS_H
#define CTESTINGHOOKS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ct_item ct_item;

/// What a world has under way.
typedef struct {
  /// Items that run, those excused left out; items that wait; holds.
  int64_t pending;
  int32_t running, waiting, holds;
  /// Items since the world began.
  uint64_t submitted;
  /// The thread of the item that has run for longest; 0: it has not begun, or there is none.
  int32_t thread;
  /// When that item was handed to its queue: CLOCK_MONOTONIC in nanoseconds.
  int64_t since;
} ct_counts;

/// Sets the hooks of Swift's Concurrency, for the rest of the process. `executor` and `witness` are the two words of an
/// UnownedSerialExecutor that enqueues with ct_enqueue_main. Returns NULL, or what is missing in this runtime.
const char *ct_install(void *executor, uintptr_t witness);

/// Called for a delay of `world` that is to end `at` (nanoseconds since the world's beginning): ct_submit(item) is to be
/// called then, or ct_discard(item). On any thread.
typedef void (*ct_after_function)(uint32_t world, int64_t at, ct_item *item);
void ct_set_after(ct_after_function function);

/// A new world, whose time is 0 now; 0: there have been too many.
uint32_t ct_world_make(void);
/// Ends a world: what waits runs, and nothing is counted any more.
void ct_world_end(uint32_t world);
/// Tells the world's threads what time it is, in nanoseconds since its beginning.
void ct_world_set_now(uint32_t world, int64_t now);

/// Makes the calling thread work for `world` (0: for none); returns for which it worked.
uint32_t ct_enter(uint32_t world);
uint32_t ct_current(void);

/// Whether anything is under way; cheap.
bool ct_is_busy(uint32_t world);
ct_counts ct_count(uint32_t world);
/// Counts something that the hooks cannot see; +1 and, when it is over, -1.
void ct_hold(uint32_t world, int32_t change);
/// Has the next waiting item run beside the one that runs. False: none waits.
bool ct_overtake(uint32_t world);
/// Counts the items that run now no longer. Returns how many.
int32_t ct_excuse(uint32_t world);

void ct_submit(ct_item *item);
void ct_discard(ct_item *item);
/// Enqueues a job of the main actor.
void ct_enqueue_main(void *job);

/// Changes with each ct_signal, and each time that a world has nothing under way any more.
uint64_t ct_generation(void);
/// Waits until the generation is another than `seen`, at most `timeout` nanoseconds; negative: without limit.
void ct_wait(uint64_t seen, int64_t timeout);
void ct_signal(void);
/// Waits for a few microseconds without giving up the processor: most of what apps do takes no longer. False: in vain.
bool ct_spin(uint64_t seen);

/// How often something came by each way, for the self-test.
typedef struct {
  uint64_t jobs, main_jobs, blocks, delays, clocks;
} ct_tally;
ct_tally ct_tally_now(void);

/// Whether no other thread of the process has run between two looks at all of them. `excluded`: one more thread that
/// does not matter, or 0.
bool ct_is_quiet(int32_t excluded);
/// Whether the thread neither runs nor wants to.
bool ct_is_asleep(int32_t thread);

#endif
