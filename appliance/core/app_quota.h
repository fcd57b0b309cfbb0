/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* One session's share of staging. */
#ifndef APP_QUOTA_H
#define APP_QUOTA_H

#include "appliance/core/app_op.h"

/* Returns true if the session's peer holds something, and has taken and given nothing for a
 * while. */
bool app_quota_is_stuck(const struct app_core *core, const struct app_session *s);
/* Returns how many bytes the session may take now, besides those that it has. */
uint64_t app_quota_room(struct app_core *core, struct app_session *s);
/* The same for a slice of a read. */
uint64_t app_quota_slice_room(struct app_core *core, struct app_session *s, uint32_t want_bytes);
/* op waits for its own session to have room, as app_quota_room() has said. */
void app_quota_wait(struct app_op *op);
/* The next that waits so may try again; the next of a session that lacked free space. */
void app_quota_wake(struct app_session *s);
void app_quota_wake_tight(struct app_core *core);
void app_quota_wake_all(struct app_session *s);
/* Sessions that are stuck take no share of the core's time. */
void app_quota_turn(struct app_core *core);
/* The fabric has a part or a pull more, or one less. */
void app_quota_begin(const struct app_core *core, struct app_session *s);
void app_quota_end(const struct app_core *core, struct app_session *s, uint64_t bytes);
/* op reads, and charged_bytes is set. */
void app_quota_read_begin(struct app_op *op);
void app_quota_read_end(struct app_op *op);
/* It has its share of operations, or of staging: nothing more of it is begun now. */
bool app_session_full(const struct app_core *core, const struct app_session *s);

#endif
