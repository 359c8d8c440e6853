// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "CTestingHooks.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 256

typedef struct {
  int32_t thread;
  int64_t used;
} sample;

/// The state of a thread as the kernel shows it, such as 'R' and 'S'; 0: there is no such thread.
static char state_of(int32_t thread) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  if (count <= 0) return 0;
  text[count] = 0;
  // The name before may have any characters.
  const char *end = strrchr(text, ')');
  return end && end[1] == ' ' ? end[2] : 0;
}

static int64_t used_by(int32_t thread) {
  struct timespec time = {0};
  if (clock_gettime((clockid_t)((~(unsigned)thread << 3) + 6), &time) != 0) return -1;
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/// Looks at all threads but two. -1: one runs, or there are too many.
static int look(sample *samples, int32_t self, int32_t excluded) {
  DIR *folder = opendir("/proc/self/task");
  if (!folder) return -1;
  int count = 0;
  struct dirent *entry;
  while (count >= 0 && (entry = readdir(folder))) {
    int32_t thread = (int32_t)atoi(entry->d_name);
    if (thread <= 0 || thread == self || thread == excluded) continue;
    char state = state_of(thread);
    if (state == 0) continue;
    if (state != 'S' || count == THREADS_MAX) {
      count = -1;
    } else {
      samples[count++] = (sample){thread, used_by(thread)};
    }
  }
  closedir(folder);
  return count;
}

bool ct_is_quiet(int32_t excluded) {
  sample first[THREADS_MAX], second[THREADS_MAX];
  int32_t self = (int32_t)syscall(SYS_gettid);
  int count = look(first, self, excluded);
  if (count < 0 || look(second, self, excluded) != count) return false;
  for (int index = 0; index < count; index++) {
    if (first[index].thread != second[index].thread || first[index].used != second[index].used) return false;
  }
  return true;
}

bool ct_is_asleep(int32_t thread) {
  int64_t used = used_by(thread);
  return state_of(thread) == 'S' && used_by(thread) == used;
}
