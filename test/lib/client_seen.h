/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A test's view of a client of libweka-client. */
#ifndef TEST_LIB_CLIENT_SEEN_H
#define TEST_LIB_CLIENT_SEEN_H

#include "client-lib/weka_client.h"
#include "test/lib/script_server.h"

#include <stdbool.h>

/* The next request that comes back; NULL: none did for 60 s. */
struct weka_req *reap_one(struct weka_client *c);

struct weka_counters counters_of(const struct weka_client *c);

/* Turns of the client until the appliance holds so many of its requests; false: one came back. */
bool are_held(struct script *s, struct weka_client *c, uint32_t count);

/* Its time is over at the next turn.  A time that is short from the beginning may be over before
 * the appliance has the request. */
void time_is_over(struct weka_client *c, const struct weka_req *req);

#endif
