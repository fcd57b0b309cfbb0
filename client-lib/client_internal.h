/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * client-lib's own: what its files share.
 *
 *   weka_submit_*()                                           weka_reap()
 *     client__take()   a slot, its lease counted                client__progress()
 *     ... fills call                                              fab_poll() -> client__answered()
 *     client__send()   fab_submit(), or waits in `pending`        pending -> fab_submit()
 *                                                                 deadlines, connection
 *
 * A slot is one request on its way:
 *
 *   FREE -> PENDING -> SENT -> FREE            the usual way; PENDING is passed over when there is
 *              ^         |                     a credit
 *              +---------+                     what was cut off by the end of its session, or a
 *                                              read whose checksum is wrong
 *                        +-> ORPHAN -> FREE    its request ended first (deadline, cancel); the
 *                                              appliance has yet to let go of the window
 */
#ifndef CLIENT_INTERNAL_H
#define CLIENT_INTERNAL_H

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/list.h"
#include "base/num.h"
#include "client-lib/weka_client.h"
#include "fabric/fab.h"

#include <stdatomic.h>
#include <sys/types.h>

#define CLIENT_REPLAYS_MAX 3u /* faults that may break what one request went by */
#define CLIENT_ADDRESSES   8u
#define CLIENT_LANES_MAX   FAB_LANES_MAX
#define CLIENT_HOLD_MAX_MS 2000u    /* nobody puts us off for longer                  */
#define CLIENT_SCAN_NS     1000000u /* between two looks at the deadlines             */
#define CLIENT_TURNS       8u       /* between two looks at the clock                 */
#define CLIENT_DONE_FEW    8u
#define CLIENT_DONE_BATCH  32u  /* calls taken from the fabric at once            */
#define CLIENT_CLASSES     256u /* of free runs in the pool                       */
#define CLIENT_OPEN_BATCH  42u  /* handles of one request: its body is a short one */

/* What the library keeps in weka_req.opaque. */
enum client_req_state { CLIENT_REQ_IDLE, CLIENT_REQ_OUT, CLIENT_REQ_DONE };
struct client_req {
	struct weka_req *next; /* on the list of what is done       */
	uint32_t slot;         /* while OUT                         */
	uint8_t state;         /* enum client_req_state             */
	uint8_t is_sync;       /* is waited for, and not reaped     */
};
static_assert(sizeof(struct client_req) <= sizeof(((struct weka_req *)0)->opaque), "room");

static inline struct client_req *client__req(struct weka_req *req)
{
	return (struct client_req *)(void *)req->opaque;
}

/* ---- memory: client_mem.c ---------------------------------------------------------- */

/* Runs of 4 KiB units of the pool; see client_mem.c. */
struct client_pool {
	uint32_t units;
	uint32_t used_units;
	uint32_t *run;  /* at a run's first and last unit: its length; top bit: free */
	uint32_t *next; /* at a free run's first unit: the list of its class         */
	uint32_t *prev;
	uint32_t first[CLIENT_CLASSES];
	uint64_t any[CLIENT_CLASSES / 64]; /* classes with a free run */
};

must_check int client__pool_create(struct client_pool *p, uint64_t size_bytes);
void client__pool_destroy(struct client_pool *p);
must_check int client__pool_take(struct client_pool *p, uint32_t units, uint32_t *unit);
void client__pool_give(struct client_pool *p, uint32_t unit);

struct client_lease {
	struct weka_lease pub;
	struct weka_client *client; /* NULL: not out        */
	struct client_lease *next_free;
	uint32_t unit;
	uint32_t units;
	uint32_t calls;   /* slots that name it                                     */
	uint32_t orphans; /* of them, so many whose request has ended               */
	bool released;    /* by the caller; free when `calls` is 0 and not `lost`   */
	bool lost;        /* was in a window of a session that broke                */
};

must_check int client__leases_create(struct weka_client *c, uint32_t leases_max);
void client__lease_put(struct client_lease *lease);
/* Copies the bytes of leases to the pool's new memory at `fresh`. */
void client__leases_copy(const struct weka_client *c, char *fresh);
/* The pool has new memory, so nobody writes into a window any more that was lost. */
void client__leases_found(struct weka_client *c);
/* weka_lease() and weka_release(), inside. */
must_check int client__lease(struct weka_client *c, uint64_t size_bytes, struct weka_lease **out);

/* client_poison.c: what is given back is filled, and looked at when it is taken; for tests. */
must_check int client__poison_begin(struct weka_client *c);
void client__poison_given(struct weka_client *c, uint32_t unit, uint32_t units);
void client__poison_taken(struct weka_client *c, uint32_t unit, uint32_t units);
void client__poison_forget(struct weka_client *c); /* the pool has other memory */
void client__poison_end(struct weka_client *c);    /* looks at all */

/* ---- slots: client_io.c ------------------------------------------------------------ */

enum client_slot_state { CLIENT_FREE, CLIENT_PENDING, CLIENT_SENT, CLIENT_ORPHAN };

/* The fabric's items of a batch, made from the caller's: the first of an array. */
union client_batch {
	struct fab_read_item read;
	struct fab_put_item put;
	struct fab_name name;
	union client_batch *next_free;
};

struct client_slot {
	struct fab_call call;
	struct weka_req *req; /* NULL when FREE or ORPHAN */
	struct client_lease *lease;
	union client_batch *batch; /* `one`, or one of the client's arrays */
	union client_batch one;
	union {
		uint32_t skip; /* READ: bytes of the first block that were not asked for */
		struct weka_read_item *reads;
		struct weka_put_item *puts;
		struct weka_stat_item *stats;
		struct weka_unlink_item *unlinks;
		struct weka_attr *attr;
		struct weka_statfs *statfs;
		struct weka_totals *totals;
		struct {
			struct weka_cookie *cookie;
			struct weka_entry *entries;
		} list;
	} out;
	uint32_t tell_at, tell_end; /* items that are to be told of: client_read.c */
	bool telling;               /* the call is a FAB_CHECK now */
	int tell_status;            /* the request ends with it then */
	struct list node;           /* free or pending */
	uint64_t mark;              /* of the session that it was sent in first */
	uint64_t session;           /* that it was sent in last                 */
	uint64_t broke_life;        /* of the newest connection when one broke under it, or 0 */
	uint32_t index;
	uint8_t state;
	uint8_t replays;
	uint8_t sent;        /* it may have reached an appliance */
	uint8_t asked_again; /* for a checksum */
	bool opens;          /* an OPEN that may take an entry: client_open.c (4) */
	uint8_t lane;        /* SENT, ORPHAN: which has it; on `cut`: which had it */
	uint64_t again_ns;   /* PENDING: the appliance has put it off until then */
};

enum client_conn_at {
	CLIENT_DOWN,  /* until retry_ns                        */
	CLIENT_HELLO, /* it is connecting                      */
	CLIENT_POOL,  /* it is connected, its memory not       */
	CLIENT_UP,
};

/* One connection: client_lane.c. */
struct client_lane {
	struct fab_conn *conn;     /* NULL when DOWN, but over shm: client_conn.c (1) */
	struct fab_region *region; /* in POOL and UP                                  */
	enum client_conn_at at;
	int watched;   /* its descriptor in `epoll`, or -1 */
	uint64_t load; /* see client__cost()               */
	uint64_t retry_ns;
	uint64_t try_until_ns;
	uint32_t rounds; /* tries in a row that failed */
	uint8_t address; /* its rail: where it belongs       */
	uint8_t via;     /* where it was dialled last        */
	bool armed;      /* client_sleep.c                   */
	uint64_t life;   /* of its connection: each that comes UP has another */
};

/* A file that is open: client_open.c. */
struct client_open {
	struct list link; /* of its bucket, or of open_free */
	struct list todo;
	struct fab_handle handle;
	uint32_t users;
	uint32_t held;
	uint32_t asked; /* items of the request that is out */
	bool lost;      /* it was gone when it was asked for again */
};

/* A thread that uses the library: client_enter.c. */
struct client_seat {
	_Atomic(const struct weka_client *) in; /* the client whose call runs, or NULL */
	struct client_seat *next;
	_Atomic pid_t thread;
	pid_t process;
};

struct weka_client {
	/* The thread that entered last; its lowest bit: another one is taking over. */
	_Atomic(struct client_seat *) owner;
	/* A page that fork() gives to the child as zeros. */
	const char *alive;
	uint32_t nested; /* waiting calls under way, one within the other */
	bool in_leaf;    /* ... and one of the calls that they are made of */
	bool is_closed;

	struct client_lane lanes[CLIENT_LANES_MAX];
	uint32_t lane_count; /* that this session is to have */
	uint32_t lanes_up;
	uint64_t lanes_ns; /* when one of them wants to be looked at: client__lanes_step() */
	char *memory;      /* of the pool: stays where it is from one session to the next */
	uint64_t now_ns;   /* at most CLIENT_TURNS turns old */
	uint64_t scan_ns;
	uint32_t turns;
	struct list free;
	struct list pending;
	struct list cut; /* changes that go by the lane that they went by */
	struct weka_req *done_first;
	struct weka_req **done_last;
	uint32_t out_count; /* requests that are not yet done */
	uint32_t requests_max;
	uint64_t *deadline_ns;     /* a slot's; 0: none yet, UINT64_MAX: none */
	struct client_slot *slots; /* requests_max, and one for `own` */
	union client_batch *batches_free;
	struct client_lease *leases;
	struct client_lease *leases_free;
	bool armed;             /* for sleep: the timer, and the lanes that say so themselves */
	int dead;               /* 0, or what requests end with: no appliance for reconnect_ns, or
				 * one that does not take the key any more */
	bool memory_ours;       /* else it is a region's of lane 0, shared with the appliance */
	enum client_conn_at at; /* of the session: HELLO and POOL are those of `next` */

	struct client_pool pool;
	uint8_t *poisons;      /* units; client_poison.c */
	uint64_t poison_looks; /* ... so often */
	struct weka_counters counters;
	uint64_t timeout_ns;
	uint32_t window_max_bytes;
	uint32_t batch_items_max;
	uint32_t leases_max;
	void *batch_memory;

	/* client_open.c */
	struct client_open *open;
	struct list open_free;
	struct list open_todo;
	struct list open_late;
	uint64_t open_late_ns;
	struct list *open_bucket;
	uint32_t open_mask;
	uint32_t opens; /* entries that are not free */
	uint32_t opens_max;
	uint32_t opening;
	uint32_t keeper; /* a lane */
	uint64_t keeper_life;
	uint64_t lives;      /* connections that came UP, so far */
	struct weka_req own; /* LET_GO or HOLD */
	bool own_out;
	enum fab_type own_type;
	uint32_t own_count;
	struct fab_name own_name[CLIENT_OPEN_BATCH];
	struct client_open *own_open[CLIENT_OPEN_BATCH];
	int own_status[CLIENT_OPEN_BATCH];

	/* client_conn.c */
	struct client_lane next; /* a session that is being made; its `at` is not used */
	struct fab_place place;  /* of the session's first lane */
	uint32_t lanes_asked;    /* 0: the library's choice */
	uint32_t foreign;        /* addresses of another appliance than the session's, as bits */
	struct fab_key *key;     /* in a page of its own: base/secret.h */
	struct fab_limits want;
	char *addresses[CLIENT_ADDRESSES];
	uint32_t address_count;
	uint32_t address_at;   /* the one being tried */
	uint32_t address_up;   /* the one that answered */
	uint32_t rounds;       /* of all addresses without success */
	bool passing;          /* in this round an address failed for what time mends */
	bool denied;           /* ... the appliance did not take the key */
	bool may_pass;         /* `passing` of the last round */
	uint64_t busy_ns;      /* in this round an appliance asked for so long a pause */
	int conn_error;        /* of the last try */
	uint64_t retry_ns;     /* DOWN: not before */
	uint64_t try_until_ns; /* one try's end */
	uint64_t down_ns;      /* when the session broke */
	uint64_t changes;      /* that were numbered */
	uint8_t id[FAB_CLIENT_ID_BYTES];
	uint64_t pool_bytes;
	uint64_t pool_wish_bytes; /* what the caller asked for; 0: nothing */
	uint64_t reconnect_ns;
	uint64_t connect_timeout_ns;

	/* client_sleep.c */
	int epoll;
	int timer;
	uint64_t spin_ns_max;
	uint64_t wait_ns; /* how long answers lately took */
	uint64_t arm_ns;  /* what arming and disarming costs */

	char error[512];      /* of the call that failed last */
	char link_error[256]; /* why there is no connection, or one less */
};

/* Returns the lease that the caller names, or NULL if this client has no such lease. */
static inline struct client_lease *client__lease_of(const struct weka_client *c,
						    const struct weka_lease *pub)
{
	const uintptr_t at = (uintptr_t)pub - (uintptr_t)c->leases;

	static_assert(offsetof(struct client_lease, pub) == 0, "the same address");
	if (unlikely(!pub || at >= c->leases_max * sizeof(struct client_lease) ||
		     at % sizeof(struct client_lease) != 0))
		return NULL;
	return (struct client_lease *)(uintptr_t)pub;
}

/* `delay_ns` from now, or never. */
static inline uint64_t client__after(uint64_t now_ns, uint64_t delay_ns)
{
	uint64_t at_ns;

	return add_overflows(now_ns, delay_ns, &at_ns) ? UINT64_MAX : at_ns;
}

static inline bool client__forked(const struct weka_client *c)
{
	return !*c->alive;
}

/* ---- in and out: client_enter.c ------------------------------------------------------------ */

/* Without a call of the thread library's, also in a shared library. */
#define CLIENT_TLS __attribute__((tls_model("initial-exec")))
extern _Thread_local struct client_seat *client__seat CLIENT_TLS;

wk_cold int client__enter_slow(const struct weka_client *c);

/*
 * Enters the client, for this thread alone, until client__leave().
 *
 * Errors:  -EINVAL (NULL), -ESTALE (closed, forked), -EBUSY (another thread is inside, or this one
 *          is: a signal handler); with a line.
 */
static inline must_check int client__enter(const struct weka_client *c)
{
	struct client_seat *seat = client__seat;

	if (unlikely(!c || !seat) ||
	    unlikely(atomic_load_explicit(&seat->in, memory_order_relaxed) != NULL))
		return client__enter_slow(c);
	atomic_store_explicit(&seat->in, c, memory_order_relaxed); /* E1 */
	__asm__ volatile("" ::: "memory"); /* the compiler keeps the order */
	/* E2, and only an owner may look further: a client that was closed has none. */
	if (likely(atomic_load_explicit(&c->owner, memory_order_relaxed) == seat) &&
	    likely(!client__forked(c)))
		return 0;
	atomic_store_explicit(&seat->in, NULL, memory_order_relaxed);
	return client__enter_slow(c);
}

static inline void client__leave(const struct weka_client *c)
{
	struct weka_client *of = (struct weka_client *)(uintptr_t)c;

	if (unlikely(c->nested > 0))
		of->in_leaf = false;
	else
		atomic_store_explicit(&client__seat->in, NULL, memory_order_release); /* E3 */
}

/* Enters for a call that is made of others, until client__finish(). */
must_check int client__begin(struct weka_client *c);
void client__finish(struct weka_client *c);

/* Writes the line about a call that failed with `err`, and returns that.  Inside. */
wk_cold int client__say(struct weka_client *c, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same, from outside, about an argument of a function. */
wk_cold int client__refuse(struct weka_client *c, int err, const char *function, const char *text);
/* ... where there is no client. */
wk_cold int client__stray_fail(int err, const char *text);
/* The line of this thread's last call that could not enter, or NULL. */
const char *client__stray(const struct weka_client *c);
void client__stray_forget(const struct weka_client *c);
/* Keeps the client's memory for a while, so that later calls see that it was closed. */
void client__retire(struct weka_client *c);

/* Does `call` within the client.  Its result, or why the client cannot be entered. */
#define CLIENT_ENTERED(c, call)                                                                    \
	({                                                                                         \
		__typeof__(call) entered_ = client__enter(c);                                      \
                                                                                                   \
		if (likely(!entered_)) {                                                           \
			entered_ = (call);                                                         \
			client__leave(c);                                                          \
		}                                                                                  \
		entered_;                                                                          \
	})

/* A pointer that a public function must be given. */
#define CLIENT_NEED(c, pointer)                                                                    \
	do {                                                                                       \
		if (unlikely(!(pointer)))                                                          \
			return client__refuse(c, -EINVAL, __func__, #pointer " is NULL");          \
	} while (0)
/* Refuses the call when an argument has a value that it must never have. */
#define CLIENT_REFUSE(c, when, err, text)                                                          \
	do {                                                                                       \
		if (unlikely(when))                                                                \
			return client__refuse(c, err, __func__, text);                             \
	} while (0)

/**
 * client__take - a free slot for `req`, with `window` (or NULL) checked and lent
 *
 * Enters the client; client__send() or client__drop() leaves it.
 *
 * Errors:  as all weka_submit_*() say, with a line; then it has not entered.
 */
must_check int client__take(struct weka_client *c, struct weka_req *req, enum fab_type type,
			    const struct weka_window *window, struct client_slot **out);

/* Room for `count` items at slot->batch.  Errors: -EAGAIN, -EMSGSIZE, with a line. */
must_check int client__take_batch(struct weka_client *c, struct client_slot *slot, uint32_t count);

/* The slot was filled: off it goes.  Errors: what the fabric refuses; the slot is gone then. */
must_check int client__send(struct weka_client *c, struct client_slot *slot);

/* The slot could not be filled, for `what` (NULL: that was said).  Returns `err`. */
must_check wk_cold int client__drop(struct weka_client *c, struct client_slot *slot, int err,
				    const char *what);
/* ... for a name, or that of item `i` of a batch. */
must_check wk_cold int client__drop_name(struct weka_client *c, struct client_slot *slot, int err,
					 const struct weka_ref *ref);
must_check wk_cold int client__drop_item(struct weka_client *c, struct client_slot *slot, int err,
					 uint32_t i, const struct weka_ref *ref);

/* The same three for the library's own request, inside. */
must_check int client__own_take(struct weka_client *c, enum fab_type type,
				struct client_slot **out);
must_check int client__own_put(struct weka_client *c, struct client_slot *slot);

/* The slot that has `req` in flight, or NULL. */
struct client_slot *client__slot_of(const struct weka_client *c, struct weka_req *req);
void client__flush(struct weka_client *c);

/* One turn: send, take in, time out, connect. */
void client__progress(struct weka_client *c);

/* A slot's request ends with `status`; for orphans nothing is left to end. */
void client__end(struct weka_client *c, struct client_slot *slot, int status);

/* Every request that waits for a connection ends. */
wk_cold void client__end_pending(struct weka_client *c, int status);
/* All of them are nobody's any more, and are not looked at again: weka_close(). */
wk_cold void client__forget_all(struct weka_client *c);

/* Take one sort of answer in, by type: 0, -errno, CLIENT_ASK_AGAIN, or CLIENT_TELL: the slot's call
 * is another one now, which is to be sent before the request ends. */
#define CLIENT_ASK_AGAIN 1
#define CLIENT_TELL      2
must_check bool client__tell_next(struct client_slot *slot);
/* FAB_DAMAGED: see weka_damaged(). */
must_check int client__submit_damaged(struct weka_client *c, struct weka_req *req, uint64_t from,
				      const struct weka_window *window);
must_check int client__read_answer(struct weka_client *c, struct client_slot *slot);
must_check int client__batch_answer(struct weka_client *c, struct client_slot *slot);
must_check int client__put_answer(struct client_slot *slot);
must_check int client__stat_answer(struct client_slot *slot);
must_check int client__unlink_answer(struct client_slot *slot);
must_check int client__attr_answer(struct client_slot *slot);
must_check int client__list_answer(struct client_slot *slot);
must_check int client__text_answer(struct client_slot *slot);
must_check int client__statfs_answer(struct client_slot *slot);
must_check int client__totals_answer(struct client_slot *slot);

/* A weka_ref as the fabric has it.  Errors: -EINVAL, -ENAMETOOLONG. */
must_check int client__name(const struct weka_ref *ref, struct fab_name *out);
void client__attr(const struct fab_attr *from, struct weka_attr *to);
/* -EINVAL: not how something can begin. */
must_check int client__create_check(const struct weka_create *create);
#define CLIENT_CREATE_BAD                                                                          \
	"struct weka_create: mode is more than permission bits, or flags or a reserved field is "  \
	"unknown"

/* Its memory is the appliance's too: it may write there as long as it likes. */
static inline bool client__is_shared(const struct weka_client *c)
{
	return !c->memory_ours;
}

static inline char *client__window(const struct client_slot *slot)
{
	return (char *)slot->lease->client->memory + slot->call.window_offset;
}

/* ---- connection: client_conn.c, client_key.c ----------------------------------------- */

void client__conn_step(struct weka_client *c, uint64_t now_ns);
/* A try that failed with this may go well a little later. */
bool client__may_pass(int err);
/* Without a word to the appliance: weka_close() has said it, or there is nobody to say it to. */
void client__destroy(struct weka_client *c);
/* The last lane broke: the session is over. */
void client__conn_lost(struct weka_client *c, uint64_t now_ns);
must_check int client__key(const struct weka_key *key, struct fab_key *out, char *why);
/* Host names become numbers.  May wait for a name server. */
must_check int client__resolve(struct weka_client *c, char *why);
must_check int client__addresses(struct weka_client *c, const char *text, char *why);

/* ---- open files: client_open.c --------------------------------------------------------- */

must_check int client__opens_create(struct weka_client *c, uint32_t opens_max);
void client__opens_destroy(struct weka_client *c);
/* Lets go of all that is open, and waits for that, for a while. */
void client__opens_leave(struct weka_client *c);
/* slot will be an OPEN with HOLD: -EMFILE; and it is given back. */
must_check int client__open_begin(struct weka_client *c, struct client_slot *slot);
void client__open_end(struct weka_client *c, struct client_slot *slot);
/* It goes by that one: with HOLD, if that is the keeper. */
void client__open_by(struct weka_client *c, struct client_slot *slot,
		     const struct client_lane *lane);
/* It was answered, well; not `wanted`: nobody waited for it any more. */
void client__opened(struct weka_client *c, struct client_slot *slot, bool wanted);
/* The lane that all about open files goes by: c->at is UP. */
struct client_lane *client__keeper(struct weka_client *c);
must_check int client__own_answer(struct weka_client *c, struct client_slot *slot);
void client__opens_step(struct weka_client *c);
static inline bool client__is_own(const struct weka_client *c, const struct weka_req *req)
{
	return req == &c->own;
}

/* ---- lanes: client_lane.c -------------------------------------------------------------- */

/* Does a change wait for it to come again? */
bool client__lane_is_missed(const struct weka_client *c, uint32_t number);
/* How many the session is to have, and where those that are DOWN go. */
void client__lanes_plan(struct weka_client *c);
void client__lanes_step(struct weka_client *c, uint64_t now_ns);
/* It broke, and every call has come back. */
void client__lane_lost(struct weka_client *c, struct client_lane *lane, uint64_t now_ns);
void client__lanes_close(struct weka_client *c);
/* The one with the least to do, but for those in `tried` (bits); NULL: none is UP. */
struct client_lane *client__lane_pick(struct weka_client *c, uint32_t tried);
/* Over another's rail, for a change that was cut off: client_lane.c. */
static inline bool client__lane_is_away(const struct client_lane *lane)
{
	return lane->at == CLIENT_UP && lane->via != lane->address;
}
/* The first that is UP, and not away if there is one: c->at is UP. */
static inline struct client_lane *client__lane_first(struct weka_client *c)
{
	struct client_lane *away = NULL;

	for (uint32_t i = 0; i < c->lane_count; i++) {
		if (c->lanes[i].at != CLIENT_UP)
			continue;
		if (likely(c->lanes[i].via == c->lanes[i].address))
			return &c->lanes[i];
		away = away ? away : &c->lanes[i];
	}
	ASSERT(away);
	return away;
}
/* When something will happen to it by itself. */
uint64_t client__lane_deadline(const struct client_lane *lane);

/* What a request weighs: itself, and each block that it may move. */
static inline uint64_t client__cost(const struct client_slot *slot)
{
	return 1 + slot->call.window_bytes / WEKA_BLOCK;
}

/* ---- sleep: client_sleep.c ------------------------------------------------------------ */

must_check int client__sleep_create(struct weka_client *c);
void client__sleep_destroy(struct weka_client *c);
void client__disarm(struct weka_client *c);
/* Before its connection is closed: the number of its descriptor may soon be another's. */
void client__unwatch(struct weka_client *c, struct client_lane *lane);
/* Asleep until something may have happened, or until_ns: 0, -ETIMEDOUT, -EINTR; or, a millisecond
 * later, why it could not sleep. */
must_check int client__sleep(struct weka_client *c, uint64_t until_ns);
/* The next turn looks at the clock, and at every deadline. */
static inline void client__hurry(struct weka_client *c)
{
	c->turns = 0;
	c->scan_ns = 0;
}
/* Wait until `req` is done; with NULL until there is something to reap. */
must_check int client__wait(struct weka_client *c, struct weka_req *req, uint64_t timeout_ns);

/* ---- called one at a time: client_sync.c ----------------------------------------------- */

/* `err` is what submitting said: if 0, wait for the request.  Either way a line is kept about
 * what failed. */
must_check int client__run(struct weka_client *c, struct weka_req *req, int err, const char *what,
			   const char *name);
wk_cold int client__fail(struct weka_client *c, int err, const char *what, const char *name);
/* ... of which the line is there: what and name come before it. */
wk_cold int client__fail_said(struct weka_client *c, int err, const char *what, const char *name);
/* Waits until a request of a waiting call has ended. */
void client__await(struct weka_client *c, struct weka_req *req);

/* Does `call` as one waiting call of the client.  Its result, or why it cannot begin. */
#define CLIENT_BEGUN(c, call)                                                                      \
	({                                                                                         \
		__typeof__(call) begun_ = client__begin(c);                                        \
                                                                                                   \
		if (!begun_) {                                                                     \
			begun_ = (call);                                                           \
			client__finish(c);                                                         \
		}                                                                                  \
		begun_;                                                                            \
	})

/* Submits one request and waits for it, as one call. */
#define CLIENT_CALL(c, req, submit, what, name)                                                    \
	CLIENT_BEGUN(c, client__run(c, req, submit, what, name))

/* A lease of `want_bytes`, or of as much as can be had, but at least `least_bytes`. */
must_check int client__lease_some(struct weka_client *c, uint64_t want_bytes, uint64_t least_bytes,
				  struct weka_lease **out);

/* Many pieces of one file at once, from or to memory or a descriptor: client_bulk.c. */
enum client_bulk_op { CLIENT_BULK_READ, CLIENT_BULK_WRITE };
struct client_bulk {
	enum client_bulk_op op;
	struct weka_handle handle;
	uint64_t offset_bytes; /* of the file, where it begins                       */
	uint64_t length_bytes;
	char *memory;         /* or NULL, and                                       */
	int fd;               /* at the same offsets                                */
	uint32_t piece_bytes; /* at most; a power of two; pieces do not cross its multiples */
	bool is_whole;        /* each piece is to be atomic: no smaller ones, rather -EAGAIN */
	bool is_sparse;       /* holes are skipped; cleared when they cannot be found       */
	uint64_t data_end;    /* sparse: where the data that is being moved ends             */
	uint64_t done_bytes;  /* out: moved; reading, up to the end of the file     */
	bool is_said;         /* out: the error that ended it has a line            */
};
must_check int client__bulk(struct weka_client *c, struct client_bulk *b);
/* Moves *next to the next data of a sparse source and sets data_end: client_sparse.c. */
must_check int client__bulk_data(struct weka_client *c, struct client_bulk *b, uint64_t *next);
/* Returns true if holes of a file can be left out of `fd`: an empty regular file. */
bool client__keeps_holes(int fd, const struct weka_attr *a);

#endif
