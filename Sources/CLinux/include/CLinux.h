// SPDX-License-Identifier: Apache-2.0
// The parts of Linux that Swift's Glibc module does not show.
#ifndef CLINUX_H
#define CLINUX_H

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#endif
