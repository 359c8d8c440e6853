// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "CTestingHooks.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SWIFTCALL __attribute__((swiftcall))
#define WORLDS_MAX 65536
/// Midnight UTC on 1 January 2026, when worlds begin: the same date in each run.
#define WALL_START 1767225600000000000

// MARK: - What lies beneath

typedef void (*function_t)(void *);
typedef struct {
  void *executor;
  uintptr_t witness;
} executor_ref;

static struct {
  void (*async)(void *, void *);
  void (*async_f)(void *, void *, function_t);
  void (*barrier_async)(void *, void *);
  void (*barrier_async_f)(void *, void *, function_t);
  void (*group_async)(void *, void *, void *);
  void (*group_async_f)(void *, void *, void *, function_t);
  void (*group_enter)(void *);
  void (*group_leave)(void *);
  void (*after)(uint64_t, void *, void *);
  void (*after_f)(uint64_t, void *, void *, function_t);
  void (*sync)(void *, void *);
  void (*sync_f)(void *, void *, function_t);
  void (*barrier_sync)(void *, void *);
  void (*barrier_sync_f)(void *, void *, function_t);
  uint64_t (*time)(uint64_t, int64_t);
  uint64_t (*walltime)(const struct timespec *, int64_t);
  void (*retain)(void *);
  void (*release)(void *);
  void *(*queue_create)(const char *, void *);
  void *(*block_copy)(void *);
  void (*block_release)(void *);
  void *main_queue;
} real;

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *need(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) abort();  // Without libdispatch there is no program that could go on.
  return found;
}

static void resolve(void) {
  real.async = need("dispatch_async");
  real.async_f = need("dispatch_async_f");
  real.barrier_async = need("dispatch_barrier_async");
  real.barrier_async_f = need("dispatch_barrier_async_f");
  real.group_async = need("dispatch_group_async");
  real.group_async_f = need("dispatch_group_async_f");
  real.group_enter = need("dispatch_group_enter");
  real.group_leave = need("dispatch_group_leave");
  real.after = need("dispatch_after");
  real.after_f = need("dispatch_after_f");
  real.sync = need("dispatch_sync");
  real.sync_f = need("dispatch_sync_f");
  real.barrier_sync = need("dispatch_barrier_sync");
  real.barrier_sync_f = need("dispatch_barrier_sync_f");
  real.time = need("dispatch_time");
  real.walltime = need("dispatch_walltime");
  real.retain = need("dispatch_retain");
  real.release = need("dispatch_release");
  real.queue_create = need("dispatch_queue_create");
  real.block_copy = need("_Block_copy");
  real.block_release = need("_Block_release");
  real.main_queue = need("_dispatch_main_q");
}

static inline void ready(void) { pthread_once(&once, resolve); }

static int64_t real_now(clockid_t clock) {
  struct timespec time;
  if (real_clock_gettime) {
    real_clock_gettime(clock, &time);
  } else {
    syscall(SYS_clock_gettime, clock, &time);
  }
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// MARK: - Worlds

enum kind { BLOCK, FUNCTION, BARRIER_BLOCK, BARRIER_FUNCTION, JOB, MAIN_JOB };

struct ct_item {
  ct_item *next;
  /// In the list of those that run.
  ct_item *previous_running, *next_running;
  enum kind kind;
  uint32_t world;
  void *queue, *context, *group;
  function_t function;
  bool is_excused;
  _Atomic int32_t thread;
  int64_t since;
};

typedef struct {
  uint32_t id;
  bool is_alive;
  _Atomic int64_t pending;
  _Atomic int64_t now;
  /// What the clocks showed when the world began.
  int64_t uptime, boottime, wall;
  ct_item *first, *last;
  ct_item *first_running, *last_running;
  int32_t waiting, running, excused, holds;
  uint64_t submitted;
  void *job_queue;
} world_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t changed_once = PTHREAD_ONCE_INIT;
static _Atomic uint64_t generation;
static world_t *_Atomic worlds[WORLDS_MAX];
static uint32_t world_count;
static _Atomic int64_t waiting_count;
static _Atomic(ct_after_function) after_function;
static executor_ref main_executor;
static SWIFTCALL void (*job_run)(void *, void *, uintptr_t);
static _Atomic uint64_t job_tally, main_job_tally, block_tally, delay_tally, clock_tally;

static __thread uint32_t current;
static __thread int32_t own_thread;

static void make_condition(void) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&changed, &attributes);
}

static world_t *world_of(uint32_t id) {
  return id && id < WORLDS_MAX ? atomic_load_explicit(&worlds[id], memory_order_acquire) : NULL;
}

/// Under the lock.
static void recount(world_t *world) {
  atomic_store_explicit(
      &world->pending, (int64_t)world->waiting + world->running - world->excused + world->holds, memory_order_release);
}

/// Under the lock.
static void notify(void) {
  generation++;
  pthread_cond_broadcast(&changed);
}

static void run(void *context);

/// Gives an item to its queue. Not under the lock: libdispatch may run something at once.
static void launch(world_t *world, ct_item *item) {
  switch (item->kind) {
  case JOB: real.async_f(world->job_queue, item, run); break;
  case MAIN_JOB: real.async_f(real.main_queue, item, run); break;
  case BARRIER_BLOCK:
  case BARRIER_FUNCTION: real.barrier_async_f(item->queue, item, run); break;
  case BLOCK:
  case FUNCTION: real.async_f(item->queue, item, run); break;
  }
}

/// Under the lock: takes the first waiting item, which is to be launched.
static ct_item *take(world_t *world) {
  ct_item *item = world->first;
  if (!item) return NULL;
  world->first = item->next;
  if (!world->first) world->last = NULL;
  world->waiting--;
  atomic_fetch_sub(&waiting_count, 1);
  item->next = NULL;
  item->previous_running = world->last_running;
  item->next_running = NULL;
  if (world->last_running) world->last_running->next_running = item; else world->first_running = item;
  world->last_running = item;
  item->since = real_now(CLOCK_MONOTONIC);
  world->running++;
  return item;
}

static void free_item(ct_item *item) {
  if (item->queue) real.release(item->queue);
  if (item->group) {
    real.group_leave(item->group);
    real.release(item->group);
  }
  free(item);
}

/// Ends an item; returns the one that is to be launched now.
static ct_item *finish(world_t *world, ct_item *item) {
  pthread_mutex_lock(&lock);
  if (item->previous_running) item->previous_running->next_running = item->next_running;
  else world->first_running = item->next_running;
  if (item->next_running) item->next_running->previous_running = item->previous_running;
  else world->last_running = item->previous_running;
  world->running--;
  if (item->is_excused) world->excused--;
  ct_item *next = world->running - world->excused > 0 ? NULL : take(world);
  recount(world);
  if (atomic_load_explicit(&world->pending, memory_order_relaxed) == 0) notify();
  pthread_mutex_unlock(&lock);
  return next;
}

typedef struct {
  void *isa;
  int flags, reserved;
  void (*invoke)(void *);
} block_t;

static void perform(ct_item *item) {
  switch (item->kind) {
  case BLOCK:
  case BARRIER_BLOCK:
    ((block_t *)item->context)->invoke(item->context);
    real.block_release(item->context);
    break;
  case FUNCTION:
  case BARRIER_FUNCTION: item->function(item->context); break;
  case JOB: job_run(item->context, NULL, 0); break;
  case MAIN_JOB: job_run(item->context, main_executor.executor, main_executor.witness); break;
  }
}

static void run(void *context) {
  ct_item *item = context;
  if (!own_thread) own_thread = (int32_t)syscall(SYS_gettid);
  world_t *world = world_of(item->world);
  while (item) {
    enum kind kind = item->kind;
    uint32_t before = ct_enter(item->world);
    atomic_store_explicit(&item->thread, own_thread, memory_order_relaxed);
    perform(item);
    ct_enter(before);
    if (item->group) {
      // Whoever waits for the group must not find the world idle before.
      real.group_leave(item->group);
      real.release(item->group);
      item->group = NULL;
    }
    ct_item *next = finish(world, item);
    free_item(item);
    // Jobs in a row need no change of threads.
    if (next && !(kind == JOB && next->kind == JOB)) {
      launch(world, next);
      next = NULL;
    }
    item = next;
  }
}

static ct_item *make_item(enum kind kind, uint32_t world, void *queue, void *context, function_t function, void *group) {
  ct_item *item = calloc(1, sizeof *item);
  if (!item) abort();
  item->kind = kind;
  item->world = world;
  item->queue = queue;
  item->context = context;
  item->function = function;
  item->group = group;
  if (queue) real.retain(queue);
  if (group) {
    real.retain(group);
    real.group_enter(group);
  }
  if (kind == BLOCK || kind == BARRIER_BLOCK) item->context = real.block_copy(context);
  return item;
}

/// Puts an item at the end of its world's queue; it runs at once where nothing does, or where the world has ended.
void ct_submit(ct_item *item) {
  world_t *world = world_of(item->world);
  pthread_mutex_lock(&lock);
  if (world->last) world->last->next = item; else world->first = item;
  world->last = item;
  world->waiting++;
  world->submitted++;
  atomic_fetch_add(&waiting_count, 1);
  ct_item *next = world->running - world->excused > 0 && world->is_alive ? NULL : take(world);
  recount(world);
  pthread_mutex_unlock(&lock);
  if (next) launch(world, next);
}

void ct_discard(ct_item *item) {
  if (item->kind == BLOCK || item->kind == BARRIER_BLOCK) real.block_release(item->context);
  free_item(item);
}

/// Takes over what the calling thread starts; false: it works for no world.
static bool enqueue(enum kind kind, void *queue, void *context, function_t function, void *group) {
  uint32_t id = ct_current();
  if (!id) return false;
  ct_submit(make_item(kind, id, queue, context, function, group));
  return true;
}

uint32_t ct_world_make(void) {
  ready();
  world_t *world = calloc(1, sizeof *world);
  if (!world) return 0;
  world->is_alive = true;
  world->uptime = real_now(CLOCK_MONOTONIC);
  world->boottime = real_now(CLOCK_BOOTTIME);
  world->wall = WALL_START;
  world->job_queue = real.queue_create("corebluetooth.testing.tasks", NULL);
  pthread_mutex_lock(&lock);
  uint32_t id = world_count + 1 < WORLDS_MAX ? ++world_count : 0;
  world->id = id;
  if (id) atomic_store_explicit(&worlds[id], world, memory_order_release);
  pthread_mutex_unlock(&lock);
  if (!id) free(world);
  return id;
}

void ct_world_end(uint32_t id) {
  world_t *world = world_of(id);
  if (!world) return;
  pthread_mutex_lock(&lock);
  world->is_alive = false;
  pthread_mutex_unlock(&lock);
  while (ct_overtake(id)) {}
}

void ct_world_set_now(uint32_t id, int64_t now) {
  world_t *world = world_of(id);
  if (world) atomic_store_explicit(&world->now, now, memory_order_relaxed);
}

uint32_t ct_enter(uint32_t world) {
  uint32_t before = current;
  current = world;
  return before;
}

uint32_t ct_current(void) {
  world_t *world = world_of(current);
  return world && world->is_alive ? current : 0;
}

bool ct_is_busy(uint32_t id) {
  world_t *world = world_of(id);
  return world && atomic_load_explicit(&world->pending, memory_order_acquire) != 0;
}

ct_counts ct_count(uint32_t id) {
  ct_counts counts = {0};
  world_t *world = world_of(id);
  if (!world) return counts;
  pthread_mutex_lock(&lock);
  counts.pending = world->pending;
  counts.running = world->running - world->excused;
  counts.waiting = world->waiting;
  counts.holds = world->holds;
  counts.submitted = world->submitted;
  for (ct_item *item = world->first_running; item; item = item->next_running) {
    if (item->is_excused) continue;
    counts.thread = atomic_load_explicit(&item->thread, memory_order_relaxed);
    counts.since = item->since;
    break;
  }
  pthread_mutex_unlock(&lock);
  return counts;
}

void ct_hold(uint32_t id, int32_t change) {
  world_t *world = world_of(id);
  if (!world) return;
  pthread_mutex_lock(&lock);
  world->holds += change;
  recount(world);
  if (world->pending == 0) notify();
  pthread_mutex_unlock(&lock);
}

bool ct_overtake(uint32_t id) {
  world_t *world = world_of(id);
  if (!world) return false;
  pthread_mutex_lock(&lock);
  ct_item *item = take(world);
  recount(world);
  pthread_mutex_unlock(&lock);
  if (item) launch(world, item);
  return item != NULL;
}

int32_t ct_excuse(uint32_t id) {
  world_t *world = world_of(id);
  if (!world) return 0;
  int32_t count = 0;
  pthread_mutex_lock(&lock);
  for (ct_item *item = world->first_running; item; item = item->next_running) {
    if (item->is_excused) continue;
    item->is_excused = true;
    world->excused++;
    count++;
  }
  ct_item *next = take(world);
  recount(world);
  if (world->pending == 0) notify();
  pthread_mutex_unlock(&lock);
  if (next) launch(world, next);
  return count;
}

/// Somebody is about to wait for `queue`: what was put there before has to be there.
static void flush(void *queue) {
  if (atomic_load_explicit(&waiting_count, memory_order_relaxed) == 0) return;
  for (uint32_t id = 1; id <= world_count; id++) {
    world_t *world = world_of(id);
    if (!world) continue;
    while (true) {
      pthread_mutex_lock(&lock);
      // Moves the first item of that queue to the front, and takes it.
      ct_item *previous = NULL, *item = world->first;
      while (item && item->queue != queue) {
        previous = item;
        item = item->next;
      }
      if (item && previous) {
        previous->next = item->next;
        if (world->last == item) world->last = previous;
        item->next = world->first;
        world->first = item;
      }
      if (item) item = take(world);
      recount(world);
      pthread_mutex_unlock(&lock);
      if (!item) break;
      launch(world, item);
    }
  }
}

uint64_t ct_generation(void) {
  return atomic_load_explicit(&generation, memory_order_acquire);
}

bool ct_spin(uint64_t seen) {
  for (int turn = 0; turn < 2000; turn++) {
    if (ct_generation() != seen) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }
  return false;
}

void ct_signal(void) {
  pthread_once(&changed_once, make_condition);
  pthread_mutex_lock(&lock);
  notify();
  pthread_mutex_unlock(&lock);
}

void ct_wait(uint64_t seen, int64_t timeout) {
  pthread_once(&changed_once, make_condition);
  int64_t end = real_now(CLOCK_MONOTONIC) + (timeout < 0 ? 0 : timeout);
  struct timespec deadline = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
  pthread_mutex_lock(&lock);
  while (generation == seen) {
    if (timeout < 0) {
      pthread_cond_wait(&changed, &lock);
    } else if (pthread_cond_timedwait(&changed, &lock, &deadline) != 0) {
      break;
    }
  }
  pthread_mutex_unlock(&lock);
}

ct_tally ct_tally_now(void) {
  return (ct_tally){job_tally, main_job_tally, block_tally, delay_tally, clock_tally};
}

void ct_set_after(ct_after_function function) { atomic_store(&after_function, function); }

// MARK: - Swift's Concurrency

typedef SWIFTCALL void (*enqueue_original)(void *job);
typedef SWIFTCALL executor_ref (*main_original)(void);

static SWIFTCALL void enqueue_global(void *job, enqueue_original original) {
  if (current) job_tally++;
  if (!enqueue(JOB, NULL, job, NULL, NULL)) original(job);
}

static SWIFTCALL executor_ref get_main_executor(main_original original) {
  (void)original;
  return main_executor;
}

static void run_plain_main_job(void *job) { job_run(job, main_executor.executor, main_executor.witness); }

void ct_enqueue_main(void *job) {
  if (current) main_job_tally++;
  if (!enqueue(MAIN_JOB, NULL, job, NULL, NULL)) real.async_f(real.main_queue, job, run_plain_main_job);
}

/// Where the code is that gets a world's time from clock_gettime: Swift's Concurrency, for its clocks, and Foundation's
/// essentials, for Date.
static struct {
  const char *name;
  uintptr_t start, end;
} readers[] = {{"libswift_Concurrency", 0, 0}, {"libFoundationEssentials", 0, 0}};

#define READER_COUNT (sizeof readers / sizeof readers[0])

static int find_readers(struct dl_phdr_info *info, size_t size, void *argument) {
  (void)size;
  (void)argument;
  for (size_t reader = 0; reader < READER_COUNT; reader++) {
    if (!info->dlpi_name || !strstr(info->dlpi_name, readers[reader].name)) continue;
    for (int index = 0; index < info->dlpi_phnum; index++) {
      const ElfW(Phdr) *header = &info->dlpi_phdr[index];
      if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) continue;
      readers[reader].start = info->dlpi_addr + header->p_vaddr;
      readers[reader].end = readers[reader].start + header->p_memsz;
    }
  }
  return 0;
}

static bool is_reader(uintptr_t caller) {
  for (size_t reader = 0; reader < READER_COUNT; reader++) {
    if (caller >= readers[reader].start && caller < readers[reader].end) return true;
  }
  return false;
}

const char *ct_install(void *executor, uintptr_t witness) {
  ready();
  pthread_once(&changed_once, make_condition);
  main_executor = (executor_ref){executor, witness};
  void **enqueue_hook = dlsym(RTLD_DEFAULT, "swift_task_enqueueGlobal_hook");
  void **main_hook = dlsym(RTLD_DEFAULT, "swift_task_getMainExecutor_hook");
  job_run = dlsym(RTLD_DEFAULT, "swift_job_run");
  if (!job_run) return "swift_job_run";
  if (!enqueue_hook) return "swift_task_enqueueGlobal_hook";
  if (!main_hook) return "swift_task_getMainExecutor_hook";
  dl_iterate_phdr(find_readers, NULL);
  *enqueue_hook = (void *)enqueue_global;
  *main_hook = (void *)get_main_executor;
  return NULL;
}

// MARK: - Dispatch

#define EXPORT __attribute__((visibility("default")))

EXPORT void dispatch_async(void *queue, void *block) {
  ready();
  if (current) block_tally++;
  if (!enqueue(BLOCK, queue, block, NULL, NULL)) real.async(queue, block);
}

EXPORT void dispatch_async_f(void *queue, void *context, function_t function) {
  ready();
  if (!enqueue(FUNCTION, queue, context, function, NULL)) real.async_f(queue, context, function);
}

EXPORT void dispatch_barrier_async(void *queue, void *block) {
  ready();
  if (!enqueue(BARRIER_BLOCK, queue, block, NULL, NULL)) real.barrier_async(queue, block);
}

EXPORT void dispatch_barrier_async_f(void *queue, void *context, function_t function) {
  ready();
  if (!enqueue(BARRIER_FUNCTION, queue, context, function, NULL)) real.barrier_async_f(queue, context, function);
}

EXPORT void dispatch_group_async(void *group, void *queue, void *block) {
  ready();
  if (!enqueue(BLOCK, queue, block, NULL, group)) real.group_async(group, queue, block);
}

EXPORT void dispatch_group_async_f(void *group, void *queue, void *context, function_t function) {
  ready();
  if (!enqueue(FUNCTION, queue, context, function, group)) real.group_async_f(group, queue, context, function);
}

EXPORT void dispatch_sync(void *queue, void *block) {
  ready();
  flush(queue);
  real.sync(queue, block);
}

EXPORT void dispatch_sync_f(void *queue, void *context, function_t function) {
  ready();
  flush(queue);
  real.sync_f(queue, context, function);
}

EXPORT void dispatch_barrier_sync(void *queue, void *block) {
  ready();
  flush(queue);
  real.barrier_sync(queue, block);
}

EXPORT void dispatch_barrier_sync_f(void *queue, void *context, function_t function) {
  ready();
  flush(queue);
  real.barrier_sync_f(queue, context, function);
}

// MARK: - Time

#define NOW 0ull
#define FOREVER (~0ull)
#define MONOTONIC (1ull << 63)
#define WALL_BITS (3ull << 62)

/// When `when`, of any of Dispatch's clocks, is in the world's time; -1: never.
static int64_t instant(world_t *world, uint64_t when) {
  int64_t now = atomic_load_explicit(&world->now, memory_order_relaxed);
  if (when == NOW) return now;
  if (when == FOREVER) return -1;
  int64_t at;
  if ((when & WALL_BITS) == WALL_BITS) {
    at = -(int64_t)when - world->wall;
  } else if (when & MONOTONIC) {
    at = (int64_t)(when & ~MONOTONIC) - world->boottime;
  } else {
    at = (int64_t)when - world->uptime;
  }
  return at > now ? at : now;
}

/// Has a delay end in the world's time; false: the calling thread works for no world.
static bool delay(enum kind kind, uint64_t when, void *queue, void *context, function_t function) {
  world_t *world = world_of(ct_current());
  ct_after_function take_over = atomic_load(&after_function);
  if (!world || !take_over) return false;
  delay_tally++;
  int64_t at = instant(world, when);
  if (at >= 0) take_over(world->id, at, make_item(kind, world->id, queue, context, function, NULL));
  return true;
}

EXPORT void dispatch_after(uint64_t when, void *queue, void *block) {
  ready();
  if (!delay(BLOCK, when, queue, block, NULL)) real.after(when, queue, block);
}

EXPORT void dispatch_after_f(uint64_t when, void *queue, void *context, function_t function) {
  ready();
  if (!delay(FUNCTION, when, queue, context, function)) real.after_f(when, queue, context, function);
}

EXPORT uint64_t dispatch_time(uint64_t when, int64_t delta) {
  ready();
  world_t *world = world_of(ct_current());
  if (world && when == NOW) return real.time((uint64_t)(world->uptime + world->now), delta);
  if (world && when == MONOTONIC) return real.time(MONOTONIC | (uint64_t)(world->boottime + world->now), delta);
  return real.time(when, delta);
}

EXPORT uint64_t dispatch_walltime(const struct timespec *when, int64_t delta) {
  ready();
  world_t *world = world_of(ct_current());
  if (!world || when) return real.walltime(when, delta);
  int64_t now = world->wall + world->now;
  struct timespec time = {.tv_sec = now / 1000000000, .tv_nsec = now % 1000000000};
  return real.walltime(&time, delta);
}

/// The clocks of Swift's Concurrency, and Date, read a world's time; everybody else gets the real one.
EXPORT int clock_gettime(clockid_t clock, struct timespec *time) {
  if (!real_clock_gettime) {
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    if (!real_clock_gettime) return (int)syscall(SYS_clock_gettime, clock, time);
  }
  if (current && is_reader((uintptr_t)__builtin_return_address(0))) {
    world_t *world = world_of(ct_current());
    if (world) {
      clock_tally++;
      int64_t start = clock == CLOCK_REALTIME ? world->wall : clock == CLOCK_BOOTTIME ? world->boottime : world->uptime;
      int64_t now = start + atomic_load_explicit(&world->now, memory_order_relaxed);
      time->tv_sec = now / 1000000000;
      time->tv_nsec = now % 1000000000;
      return 0;
    }
  }
  return real_clock_gettime(clock, time);
}
