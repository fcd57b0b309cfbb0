/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Keys of an appliance that serves: set, removed, and the sessions that end with one. */
#include "fabric/hello/fab_server_internal.h"

#include <errno.h>
#include <string.h>

static void sessions_end(struct fab_server *srv, uint32_t slot)
{
	ASSERT(slot == FAB_KEY_NONE || slot < srv->control->keys.max);
	for (uint32_t core = 0; core < srv->control->core_count && slot != FAB_KEY_NONE; core++) {
		struct fab_server *of = srv->control->cores[core];

		for (uint32_t i = 0; i < of->cfg.sessions_max; i++) {
			struct fab__session *s = &of->sessions[i];

			if (s->control.has_key && s->control.key_slot == slot)
				fab__control_lost(s);
		}
	}
}

int fab_server_key_set(struct fab_server *srv, const struct fab_grant *grant)
{
	uint32_t ended;
	int rc = fab__keys_set(&srv->control->keys, grant, &ended);

	if (rc == 1)
		sessions_end(srv, ended);
	ASSERT(rc <= 1);
	return rc;
}

int fab_server_key_remove(struct fab_server *srv, const char *id)
{
	uint32_t ended;
	int sessions = fab__keys_remove(&srv->control->keys, id, &ended);

	sessions_end(srv, ended);
	return sessions;
}

const char *fab_server_key_id(const struct fab_server *srv, uint32_t i)
{
	const struct fab__keys *keys = &srv->control->keys;

	for (uint32_t slot = 0; slot < keys->max; slot++)
		if (fab__keys_is_live(keys, slot) && i-- == 0)
			return keys->secret[slot].key.id;
	return NULL;
}

int fab_server_key_secret(const struct fab_server *srv, const char *id,
			  uint8_t secret[FAB_KEY_BYTES])
{
	const struct fab__keys *keys = &srv->control->keys;
	uint32_t slot = fab__keys_slot_of(keys, id);

	if (slot == FAB_KEY_NONE)
		return -ENOENT;
	memcpy(secret, keys->secret[slot].key.secret, FAB_KEY_BYTES);
	return 0;
}

bool fab_server_keys_locked(const struct fab_server *srv)
{
	return srv->control->keys.locked && srv->control->lanes.locked;
}
