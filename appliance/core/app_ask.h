/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Lets a thread that may wait ask the polling threads for a snapshot of their counters.
 *
 *   asker                     the store's core              the other cores
 *   app_ask_begin ----------> an operation -- SAY_STAT ---> add theirs
 *   app_ask_wait  <---------- has all       <--------------
 *
 * One question is out at a time.  The snapshot is the core's from app_ask_begin() until the answer
 * is there, however long that takes: an asker that has waited long enough gives up waiting, but it
 * does not take the snapshot back.
 *
 * R1 -> A1   (app_ask.c) the snapshot is complete before `answered` says so.
 */
#ifndef APP_ASK_H
#define APP_ASK_H

#include "appliance/core/app_snapshot.h"

struct app_ask;

/* Errors: -ENOMEM, what eventfd() says.  It outlives the cores that have it in their cfg. */
must_check int app_ask_create(struct app_ask **out);
void app_ask_destroy(struct app_ask *a);

/**
 * app_ask_wait - ask, and wait for the answer
 *
 * If an earlier question was given up, this waits for its answer instead of asking again.
 *
 * Returns: 0 and *out, which is good until the next call; -ETIMEDOUT; what the core answered:
 *          -ESHUTDOWN when it is stopping.
 * Thread:  one, the asker's; blocks for at most timeout_ms.
 */
must_check int app_ask_wait(struct app_ask *a, int timeout_ms, const struct app_snapshot **out);

/* Readable when something was asked; the core's thread sleeps on it. */
int app_ask_fd(const struct app_ask *a);

/* Readable when something was answered; the asker's thread waits on it. */
int app_ask_answer_fd(const struct app_ask *a);

#endif
