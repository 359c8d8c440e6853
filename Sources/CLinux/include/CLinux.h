// SPDX-License-Identifier: Apache-2.0
// The parts of Linux that Swift's Glibc module does not show.
#ifndef CLINUX_H
#define CLINUX_H

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

// Behind _GNU_SOURCE, which must not be defined here: other clang modules would then see other structures.
int pthread_setname_np(pthread_t thread, const char *name);

#endif
