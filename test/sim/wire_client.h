/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A client of the simulation: the library, and a program that uses it at random and looks at all
 * that it is told.  See wire.c. */
#ifndef WIRE_CLIENT_H
#define WIRE_CLIENT_H

#include "base/rand.h"
#include "client-lib/weka_client.h"
#include "test/sim/wire_model.h"

#include <stdbool.h>
#include <stdint.h>

#define WIRE_REQUESTS   8u
#define WIRE_ITEMS      3u
#define WIRE_HANDLES    16u
#define WIRE_HELD       4u
#define WIRE_RESTING    6u                   /* leases that lie about, poisoned */
#define WIRE_PIECES     4u                   /* of a long put */
#define WIRE_TIMEOUT_NS UINT64_C(4000000000) /* of a request that names none */

#define WIRE_HOST_CLIENT 2u                /* the first; the appliance is 1 */
#define WIRE_LEAP_NS     UINT64_C(5000000) /* the most that time goes on in one turn */

enum wire_ask {
	ASK_READ,
	ASK_READ_HANDLE,
	ASK_PUT,
	ASK_APPEND,
	ASK_WRITE,
	ASK_TRUNCATE,
	ASK_PUNCH,
	ASK_UNLINK,
	ASK_RENAME,
	ASK_EXCHANGE,
	ASK_STAT,
	ASK_LIST,
	ASK_PING,
	ASK_LONG_PUT,
	ASK_OPEN,
	ASK_CLOSE,
	ASK_LINK,
	ASK_SET_ATTR,
	ASK_GET_ATTR,
	ASK_MKDIR,
	ASK_RMTREE,
	ASK_KINDS,
};

struct wire_item {
	uint32_t group, name;
	int op; /* of the group; -1: none */
	uint32_t id, size, offset;
	char path[16], to[16];
};

struct wire_request {
	struct weka_req req;
	bool used, cancelled;
	enum wire_ask ask;
	uint64_t asked_ns, timeout_ns, late_ns;
	struct weka_window window;
	uint32_t count;
	struct wire_item item[WIRE_ITEMS];
	union {
		struct weka_read_item read[WIRE_ITEMS];
		struct weka_put_item put[WIRE_ITEMS];
		struct weka_stat_item stat[WIRE_ITEMS];
		struct weka_entry entry[8];
	};
	struct weka_attr attr;
	struct weka_cookie cookie;
	struct weka_handle handle;
	uint32_t object;
	uint64_t value; /* of an attribute */
	/* A long put: begun, pieces written, committed. */
	uint32_t stage, at;
};

struct wire_known {
	uint32_t group, object;
	struct weka_handle handle;
};

/* One that is open: wire_hold.c. */
struct wire_held {
	bool used; /* not closed yet */
	bool sure; /* ... and so it is there, if only by its handle */
	uint32_t group, hold, object;
	struct weka_handle handle;
	uint64_t asked_ns;
	uint64_t file_lane_life;
};

struct wire_client {
	uint32_t index, host;
	uint32_t life; /* how often it was born */
	uint64_t asked;
	struct weka_client *c;
	struct rand_state rand;
	struct wire_request request[WIRE_REQUESTS];
	struct weka_lease *resting[WIRE_RESTING];
	struct wire_known known[WIRE_HANDLES];
	uint64_t stepped_ns;  /* when it had a turn last                  */
	uint64_t late_ns;     /* how long it had none, in all             */
	uint64_t pause_ns;    /* it does nothing until then               */
	uint64_t born_ns;     /* not before                               */
	uint64_t answered_ns; /* when something was answered well         */
	struct wire_held held[WIRE_HELD];
	uint64_t ended_ns;   /* the appliance that held for it went then */
	uint64_t kept_ns;    /* its connections, and what they hold, were there then */
	bool sleeps, asleep; /* between turns it sleeps on its descriptor */
	bool leaving;        /* in its next turn */
	bool connecting;     /* or closing: in a call */
};

struct wire_counts {
	uint64_t requests, answered, timeouts, cancels, resets, refused, lost_contact, held, rested,
		births, unsure, opened, lost, by_ask[ASK_KINDS], reconnects, sleeps, wakes;
};
extern struct wire_counts wire_counts;

/* Prints the counts of all clients. */
void wire_client_report(void);
void wire_client_begin(struct wire_client *cl, uint32_t index, uint64_t seed);
/* A turn: take in, look, and `ask` for more.  false: something is wrong (sim_why). */
bool wire_client_turn(struct wire_client *cl, uint64_t now_ns, bool ask);
/* Runs `step` while a client waits in a call.  The others have threads of their own. */
bool wire_as_another_thread(bool (*step)(void));
/* Connect; waits. */
bool wire_client_born(struct wire_client *cl, const char *address, uint64_t now_ns);
/* The object goes, with the program; its requests end without an answer. */
void wire_client_die(struct wire_client *cl);
/* ... as the program closes it; waits. */
void wire_client_leave(struct wire_client *cl);
/* No request is out; nor does the appliance have one of it; and everything is back: pool, credits.
 */
bool wire_client_idle(const struct wire_client *cl);
bool wire_client_is_quiet(const struct wire_client *cl);
bool wire_client_is_clean(struct wire_client *cl);
/* The first lane that is not where it belongs, and would not go to the address `dead`;
 * CLIENT_LANES_MAX: none. */
uint32_t wire_client_misses(const struct wire_client *cl, const char *dead);
/* Every name is read until it was answered well, one at a time. */
bool wire_client_read_all(struct wire_client *cl, bool (*turn)(void));
/* Likewise each open file, by handle. */
bool wire_client_read_held(struct wire_client *cl, bool (*turn)(void));
/* Changes that have ended and that nobody can carry out any more. */
void wire_settle(struct wire_client *clients, uint32_t count);

/* ---- wire_client.c, wire_ask.c and wire_look.c among themselves ------------------------ */

/* A piece of the pool, poisoned; NULL: none now.  And one that is ours again, to be left alone for
 * a while, or given back. */
struct weka_lease *wire__lease(struct wire_client *cl, uint32_t size);
void wire__rest(struct wire_client *cl, struct weka_lease *l);
/* Something at random.  false: see sim_why. */
bool wire__ask(struct wire_client *cl, uint64_t now_ns);
int wire__long_next(struct wire_client *cl, struct wire_request *r);
/* ---- wire_hold.c ---- */

int wire__ask_open(struct wire_client *cl, struct wire_request *r);
int wire__ask_close(struct wire_client *cl, struct wire_request *r);
/* It is open; false: see sim_why. */
bool wire__opened(struct wire_client *cl, struct wire_request *r, int status);
/* Something was answered that was asked then. */
void wire__is_kept(struct wire_client *cl, uint64_t asked_ns);
/* Its holds may have ended; wire_holds_end(): they have, with the appliance or the client. */
void wire_holds_turn(struct wire_client *cl, uint64_t now_ns);
void wire_holds_end(struct wire_client *cl);
void wire__open_op(struct wire_client *cl, struct wire_item *it, const struct wire_op *op);
void wire__pick_name(struct wire_client *cl, struct wire_item *it);
void wire__learn(struct wire_client *cl, uint32_t group, uint32_t object,
		 const struct weka_handle *handle);

/* Takes the result of submitting it: it is in flight, or it will never be carried out. */
bool wire__sent(struct wire_client *cl, struct wire_request *r, int err, uint64_t now_ns);
bool wire__read_one(struct wire_client *cl, uint32_t group, uint32_t name, bool (*turn)(void));
bool wire__read_held(struct wire_client *cl, const struct wire_held *h, bool (*turn)(void));
bool wire__is_read(enum wire_ask ask);
/* One that came back. */
bool wire__reaped(struct wire_client *cl, struct wire_request *r, uint64_t now_ns);
/* The result of this item will never be known. */
void wire__unknown(const struct wire_request *r, const struct wire_item *it);

#endif
