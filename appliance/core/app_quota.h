/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Each session's quota of staging. */
#ifndef APP_QUOTA_H
#define APP_QUOTA_H

#include "appliance/core/app_op.h"

/* Returns true if the session has bytes in flight, and its peer has taken and sent nothing for a
 * while. */
bool app_quota_is_stuck(const struct app_core *core, const struct app_session *s);
/* Returns how many bytes the session may take now, besides those that it has. */
uint64_t app_quota_room(struct app_core *core, struct app_session *s);
/* Returns the same for a slice of a read. */
uint64_t app_quota_slice_room(struct app_core *core, struct app_session *s, uint32_t want_bytes);
/* Makes op wait until its session has room (app_quota_room()). */
void app_quota_wait(struct app_op *op);
/* Lets the session's next waiting operation try again. */
void app_quota_wake(struct app_session *s);
/* Does so for the next session that waits because free staging was short; there is one. */
void app_quota_wake_short(struct app_core *core);

/* The same, if there is one. */
static inline void app_quota_wake_tight(struct app_core *core)
{
	if (unlikely(!list_empty(&core->tight)))
		app_quota_wake_short(core);
}

/* Does so for all operations of the session. */
void app_quota_wake_all(struct app_session *s);
/* Takes sessions that are stuck out of the order of turns, once a turn. */
void app_quota_turn(struct app_core *core);
/* Count the parts and pulls of the session that are in flight: one more, one less. */
void app_quota_begin(const struct app_core *core, struct app_session *s);
void app_quota_end(const struct app_core *core, struct app_session *s, uint64_t bytes);
/* Counts op among its session's reads, with its charged_bytes. */
static inline void app_quota_read_begin(struct app_op *op)
{
	struct app_session *s = op->session;

	ASSERT(s && !op->reads);
	op->asked_bytes = op->charged_bytes;
	op->reads = true;
	s->reads++;
	s->asked_bytes += op->asked_bytes;
}

static inline void app_quota_read_end(struct app_op *op)
{
	struct app_session *s = op->session;

	ASSERT(op->reads);
	ASSERT(s->reads > 0);
	ASSERT(s->asked_bytes >= op->asked_bytes);
	op->reads = false;
	s->reads--;
	s->asked_bytes -= op->asked_bytes;
}

/* Returns true when no further operation of the session may begin now. */
bool app_session_full(const struct app_core *core, const struct app_session *s);

#endif
