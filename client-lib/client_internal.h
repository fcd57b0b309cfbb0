/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Declarations that the files of client-lib share.
 *
 *   weka_submit_*()                                           weka_reap()
 *     client__take()   a slot, its lease counted                client__progress()
 *     ... fills call                                              fab_poll() -> client__answered()
 *     client__send()   fab_submit(), or waits in `pending`        pending -> fab_submit()
 *                                                                 deadlines, connection
 *
 * A slot is one request in progress:
 *
 *   FREE -> PENDING -> SENT -> FREE            the usual way; PENDING is skipped if there is a
 *              ^         |                     credit
 *              +---------+                     its session ended before the answer, or a checksum
 *                                              of a read is wrong
 *                        +-> ORPHAN -> FREE    its request ended first (deadline, cancel); the
 *                                              appliance may still use the window
 */
#ifndef CLIENT_INTERNAL_H
#define CLIENT_INTERNAL_H

#include "base/assert.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/list.h"
#include "base/num.h"
#include "client-lib/weka_client.h"
#include "fabric/fab.h"

#include <stdatomic.h>
#include <sys/types.h>

#define CLIENT_REPLAYS_MAX 3u /* faults that may break the lanes of one request */
#define CLIENT_ADDRESSES   8u
#define CLIENT_LANES_MAX   FAB_LANES_MAX
#define CLIENT_HOLD_MAX_MS 2000u    /* longest back-off that an appliance may ask for */
#define CLIENT_SCAN_NS     1000000u /* between two checks of the deadlines             */
#define CLIENT_TURNS       8u       /* between two reads of the clock                 */
#define CLIENT_DONE_FEW    8u
#define CLIENT_DONE_BATCH  32u                 /* calls taken from the fabric at once            */
#define CLIENT_CLASSES     256u                /* of free runs in the pool                       */
#define CLIENT_OPEN_BATCH  42u                 /* handles of one request: its body is a short one */
#define CLIENT_ADDED_MAX   (FAB_POOLS_MAX - 1) /* pools of the caller's */

/* The library's state in weka_req.opaque. */
enum client_req_state { CLIENT_REQ_IDLE, CLIENT_REQ_OUT, CLIENT_REQ_DONE };
struct client_req {
	struct weka_req *next; /* on the list of done requests      */
	uint32_t slot;         /* while OUT                         */
	uint8_t state;         /* enum client_req_state             */
	uint8_t is_sync;       /* a waiting call, never reaped      */
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

/* A pool of the caller's memory: client_pool.c. */
struct weka_pool {
	struct client_pool runs;
	char *memory;
	uint64_t size_bytes;
	int fd;         /* the library's duplicate of its memfd, or -1 */
	bool is_mapped; /* by the library */
};

struct client_lease {
	struct weka_lease pub;
	struct weka_client *client; /* NULL: not out        */
	struct weka_pool *added;    /* NULL: of the library's own pool */
	struct client_lease *next_free;
	uint32_t unit;
	uint32_t units;
	uint32_t calls;   /* slots that name it                                     */
	uint32_t orphans; /* those of them whose request has ended                  */
	bool released;    /* by the caller; free when `calls` is 0 and not `lost`   */
	bool lost;        /* it was in a window of a session that broke             */
};

must_check int client__leases_create(struct weka_client *c, uint32_t leases_max);
void client__lease_put(struct client_lease *lease);
/* Copies the bytes of leases to the pool's new memory at `fresh`. */
void client__leases_copy(const struct weka_client *c, char *fresh);
/* Frees lost leases: the pool has new memory, so the appliance no longer writes into the old. */
void client__leases_found(struct weka_client *c);
/* weka_lease() and weka_release() for a caller that has entered the client. */
must_check int client__lease(struct weka_client *c, uint64_t size_bytes, struct weka_lease **out);

/* client_poison.c: free memory is filled, and compared when it is taken; for tests. */
must_check int client__poison_begin(struct weka_client *c);
void client__poison_given(struct weka_client *c, uint32_t unit, uint32_t units);
void client__poison_taken(struct weka_client *c, uint32_t unit, uint32_t units);
void client__poison_forget(struct weka_client *c); /* the pool has other memory */
void client__poison_end(struct weka_client *c);    /* compares all free memory */

/* ---- slots: client_io.c ------------------------------------------------------------ */

enum client_slot_state { CLIENT_FREE, CLIENT_PENDING, CLIENT_SENT, CLIENT_ORPHAN };

/* The fabric's items of a batch, made from the caller's; begins an array. */
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
	uint32_t tell_at, tell_end; /* items whose damage must be reported: client_read.c */
	bool telling;               /* the call has become a FAB_CHECK */
	int tell_status;            /* the request's status after it */
	struct list node;           /* free or pending */
	uint64_t mark;              /* mark of the first session that it was sent in */
	uint64_t session;           /* session that it was sent in last          */
	uint64_t broke_life; /* newest connection's `life` when a lane broke under it, or 0 */
	uint32_t index;
	uint8_t state;
	uint8_t replays;
	uint8_t sent;        /* it may have reached an appliance */
	uint8_t asked_again; /* because of a checksum */
	bool opens;          /* an OPEN that may take an entry: client_open.c (4) */
	uint8_t lane;        /* SENT, ORPHAN: lane that has it; on `cut`: lane that had it */
	uint64_t again_ns;   /* PENDING: end of the back-off that the appliance asked for */
	uint64_t begun_ns;   /* READ_BATCH: when it was submitted, and last sent */
	uint64_t sent_ns;
};

enum client_conn_at {
	CLIENT_DOWN,  /* until retry_ns                        */
	CLIENT_HELLO, /* connecting                            */
	CLIENT_POOL,  /* connected, memory not yet shared      */
	CLIENT_UP,
};

/* One connection: client_lane.c. */
struct client_lane {
	struct fab_conn *conn;     /* NULL when DOWN, except over shm: client_conn.c (1) */
	struct fab_region *region; /* in POOL and UP                                  */
	struct fab_region *added[CLIENT_ADDED_MAX]; /* the same, of the caller's pools */
	enum client_conn_at at;
	int watched;   /* its descriptor in `epoll`, or -1 */
	uint64_t load; /* see client__cost()               */
	uint64_t retry_ns;
	uint64_t try_until_ns;
	uint32_t rounds; /* tries in a row that failed */
	uint8_t address; /* index of its rail                */
	uint8_t via;     /* rail that it was dialled on last */
	bool armed;      /* client_sleep.c                   */
	uint64_t life;   /* number of its connection, unique among those that reached UP */
};

/* A file that is open: client_open.c. */
struct client_open {
	struct list link; /* in its bucket, or in open_free */
	struct list due;  /* of open_due or open_late: something must be asked for it */
	struct fab_handle handle;
	uint32_t users;
	uint32_t held;
	uint32_t asked; /* items of the request in flight */
	bool lost;      /* the appliance no longer had it after a reconnect */
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
	uint32_t nested; /* nesting depth of waiting calls */
	bool in_leaf;    /* inside one of the calls that a waiting call is made of */
	bool is_closed;

	/* client_pause.c */
	int (*pause)(void *user); /* NULL: waiting calls do not pause */
	void *pause_user;
	uint64_t paused_ns; /* time of the last pause */
	uint32_t pauses;    /* waiting calls that are in a pause: 0 or 1 */
	bool is_stopped;    /* a pause ended the waiting call that is under way */

	struct client_lane lanes[CLIENT_LANES_MAX];
	uint32_t lane_count; /* target for this session */
	uint32_t lanes_up;
	uint64_t lanes_ns; /* time of the next client__lanes_step() */
	char *memory;      /* of the pool: keeps its address from one session to the next */
	uint64_t now_ns;   /* at most CLIENT_TURNS turns old */
	uint64_t scan_ns;
	uint32_t turns;
	struct list free;
	struct list pending;
	struct list cut; /* changes that must use the same lane again */
	struct weka_req *done_first;
	struct weka_req **done_last;
	uint32_t out_count; /* requests that are not yet done */
	uint32_t requests_max;
	uint64_t *deadline_ns;     /* one for each slot; 0: not set yet, UINT64_MAX: none */
	struct client_slot *slots; /* requests_max, and one for `own` */
	union client_batch *batches_free;
	struct client_lease *leases;
	struct client_lease *leases_free;
	bool armed;       /* the timer is armed for sleep, and the lanes that are `armed` */
	int dead;         /* 0, or the status of all requests: no appliance for reconnect_ns, or
				 * the appliance rejects the key */
	bool memory_ours; /* else it belongs to a region of lane 0, shared with the appliance */
	enum client_conn_at at; /* state of the session; HELLO and POOL refer to `next` */

	struct client_pool pool;
	struct weka_pool added[CLIENT_ADDED_MAX]; /* client_pool.c */
	uint32_t added_count;
	uint8_t *poisons;      /* units; client_poison.c */
	uint64_t poison_looks; /* number of comparisons */
	struct weka_counters counters;
	uint64_t timeout_ns;
	uint32_t window_max_bytes;
	uint32_t batch_items_max;
	uint32_t leases_max;
	void *batch_memory;

	/* client_open.c */
	struct client_open *open;
	struct list open_free;
	struct list open_due;
	struct list open_late;
	uint64_t open_late_ns;
	struct list *open_bucket;
	uint32_t open_mask;
	uint32_t opens; /* entries that are not free */
	uint32_t opens_max;
	uint32_t opening;
	uint32_t file_lane; /* a lane: client_open.c */
	uint64_t file_lane_life;
	uint64_t lives;      /* number of connections that reached UP */
	struct weka_req own; /* LET_GO or HOLD */
	bool own_out;
	enum fab_type own_type;
	uint32_t own_count;
	struct fab_name own_name[CLIENT_OPEN_BATCH];
	struct client_open *own_open[CLIENT_OPEN_BATCH];
	int own_status[CLIENT_OPEN_BATCH];

	/* client_conn.c */
	struct client_lane next; /* the session being made; its `at` is not used */
	struct fab_place place;  /* of the session's first lane */
	uint32_t lanes_asked;    /* 0: the library's choice */
	uint32_t foreign;        /* bits of addresses that lead to another appliance */
	struct fab_key *key;     /* in its own page: base/secret.h */
	struct fab_limits want;
	char *addresses[CLIENT_ADDRESSES];
	uint32_t address_count;
	uint32_t address_at;   /* the one being tried */
	uint32_t address_up;   /* the one that answered */
	uint32_t rounds;       /* rounds over all addresses that failed */
	bool passing;          /* in this round an address failed with an error that may pass */
	bool denied;           /* in this round an appliance rejected the key */
	bool may_pass;         /* `passing` of the last round */
	uint64_t busy_ns;      /* the longest pause that an appliance asked for in this round */
	int conn_error;        /* of the last try */
	uint64_t retry_ns;     /* DOWN: time of the next try */
	uint64_t try_until_ns; /* deadline of the current try */
	uint64_t down_ns;      /* when the session broke */
	uint64_t changes;      /* number of changes so far */
	uint8_t id[FAB_CLIENT_ID_BYTES];
	uint64_t pool_bytes;
	uint64_t pool_wish_bytes; /* size that the caller asked for; 0: the default */
	uint64_t reconnect_ns;
	uint64_t connect_timeout_ns;

	/* client_sleep.c */
	int epoll;
	int timer;
	uint64_t spin_ns_max;
	uint64_t wait_ns; /* time that recent answers took */
	uint64_t arm_ns;  /* cost of arming and disarming */

	char error[512];      /* line of the last call that failed */
	char link_error[256]; /* line of the last connection that failed */
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

/* Returns the time `delay_ns` from now; UINT64_MAX is never. */
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

/* Accessed without a call into the thread library, also from a shared library. */
#define CLIENT_TLS __attribute__((tls_model("initial-exec")))
extern _Thread_local struct client_seat *client__seat CLIENT_TLS;

wk_cold int client__enter_slow(const struct weka_client *c);

/*
 * Enters the client, for this thread alone, until client__leave().
 *
 *   E1 -> T3 (client_enter.c), E3 -> T3 (client_enter.c)
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
	__asm__ volatile("" ::: "memory"); /* E1: the compiler keeps the order */
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

/* Between two waits: calls pause() if it is time, and sets is_stopped if that ends the call. */
void client__pause(struct weka_client *c);
/* Cancels a request of a call that was stopped.  Returns true if it is done. */
bool client__stop(struct weka_client *c, struct weka_req *req);
#define CLIENT_PAUSE_NS (20 * NS_PER_MS)

/* Writes the line about a call that failed with `err`, and returns `err`; the client is entered. */
wk_cold int client__say(struct weka_client *c, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same about an argument of a function, without entering the client. */
wk_cold int client__refuse(struct weka_client *c, int err, const char *function, const char *text);
/* The same without a client. */
wk_cold int client__stray_fail(int err, const char *text);
/* Returns the line of this thread's last call that could not enter, or NULL. */
const char *client__stray(const struct weka_client *c);
void client__stray_forget(const struct weka_client *c);
/* Keeps the client's memory for a while, so that late calls see that it was closed. */
void client__retire(struct weka_client *c);

/* Runs `call` inside the client.  Returns its result, or why the client cannot be entered. */
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

/* Refuses a NULL pointer that a public function must be given. */
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
 * client__take - a free slot for `req`, with `window` (or NULL) checked and in use
 *
 * Enters the client; client__send() or client__drop() leaves it.
 *
 * Errors:  as all weka_submit_*() say, with a line; then it has not entered.
 */
must_check int client__take(struct weka_client *c, struct weka_req *req, enum fab_type type,
			    const struct weka_window *window, struct client_slot **out);

/* Write the line about a request or a window that client__take() refuses: client_refuse.c. */
must_check wk_cold int client__req_bad(struct weka_client *c, struct weka_req *req);
must_check wk_cold int client__window_bad(struct weka_client *c, const struct weka_window *w);

/* Gets room for `count` items at slot->batch.  Errors: -EAGAIN, -EMSGSIZE, with a line. */
must_check int client__take_batch(struct weka_client *c, struct client_slot *slot, uint32_t count);

/* Sends a filled slot.  Errors: those of the fabric; the slot is freed then. */
must_check int client__send(struct weka_client *c, struct client_slot *slot);

/* Frees a slot that could not be filled because of `what` (NULL: has a line).  Returns `err`. */
must_check wk_cold int client__drop(struct weka_client *c, struct client_slot *slot, int err,
				    const char *what);
/* The same because of a name, or of the name of item `i` of a batch. */
must_check wk_cold int client__drop_name(struct weka_client *c, struct client_slot *slot, int err,
					 const struct weka_ref *ref);
must_check wk_cold int client__drop_item(struct weka_client *c, struct client_slot *slot, int err,
					 uint32_t i, const struct weka_ref *ref);

/* The same three for the library's own request; the client is entered. */
must_check int client__own_take(struct weka_client *c, enum fab_type type,
				struct client_slot **out);
must_check int client__own_put(struct weka_client *c, struct client_slot *slot);

/* Returns the slot that has `req` in flight, or NULL. */
struct client_slot *client__slot_of(const struct weka_client *c, struct weka_req *req);
void client__flush(struct weka_client *c);

/* One turn: sends, receives, ends requests at their deadline, connects. */
void client__progress(struct weka_client *c);

/* Counts the client's structures again, in variants that look for our own mistakes:
 * client_check.c. */
#define CLIENT_CHECK_TURNS 64u
#ifdef WK_DEBUG
void client__check(const struct weka_client *c);
#else
static inline void client__check(const struct weka_client *c)
{
	(void)c;
}
#endif

/* Ends a slot's request with `status`; does nothing for orphans. */
void client__end(struct weka_client *c, struct client_slot *slot, int status);

/* Ends every request that waits for a connection. */
wk_cold void client__end_pending(struct weka_client *c, int status);
/* Forgets all requests, for weka_close(): none is touched again. */
wk_cold void client__forget_all(struct weka_client *c);

/* Receive one kind of answer: 0, -errno, CLIENT_ASK_AGAIN, or CLIENT_TELL: the slot has a new call
 * that must be sent before the request ends. */
#define CLIENT_ASK_AGAIN 1
#define CLIENT_TELL      2
must_check bool client__tell_next(struct client_slot *slot);
/* FAB_PROTECT: see weka_protect(). */
must_check int client__submit_protect(struct weka_client *c, struct weka_req *req,
				      const char *scheme);
/* FAB_DAMAGED, FAB_LOG: see weka_damaged(), weka_log(). */
must_check int client__submit_page(struct weka_client *c, struct weka_req *req, uint8_t type,
				   uint64_t from, const struct weka_window *window);
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

/* Translates a weka_ref for the fabric.  Errors: -EINVAL, -ENAMETOOLONG. */
must_check int client__name(const struct weka_ref *ref, struct fab_name *out);
void client__attr(const struct fab_attr *from, struct weka_attr *to);
/* Checks a struct weka_create.  Errors: -EINVAL. */
must_check int client__create_check(const struct weka_create *create);
#define CLIENT_CREATE_BAD                                                                          \
	"struct weka_create: mode is more than permission bits, or flags or a reserved field is "  \
	"unknown"

/* Returns true if the appliance shares the connection's memory and may write to it at any time. */
static inline bool client__is_shared(const struct weka_client *c)
{
	return !c->memory_ours;
}

static inline char *client__window(const struct client_slot *slot)
{
	const struct client_lease *lease = slot->lease;

	DASSERT(lease->client);
	return (lease->added ? lease->added->memory : lease->client->memory) +
	       slot->call.window_offset;
}

/* Returns the pool that a lease was cut from. */
static inline struct client_pool *client__pool_of(struct client_lease *lease)
{
	DASSERT(lease->client);
	return lease->added ? &lease->added->runs : &lease->client->pool;
}

/* Returns the region of the slot's window on a lane, or NULL: it has no window. */
static inline struct fab_region *client__region(const struct client_slot *slot,
						const struct client_lane *lane)
{
	const struct client_lease *lease = slot->lease;

	if (!lease || slot->call.window_bytes == 0)
		return NULL;
	if (likely(!lease->added))
		return lane->region;
	ASSERT(lease->added >= lease->client->added);
	return lane->added[lease->added - lease->client->added];
}

/* ---- pools of the caller's memory: client_pool.c ---------------------------------------- */

/* Offers the pools that the lane does not know yet. */
must_check int client__added_begin(struct weka_client *c, struct client_lane *lane);
/* Returns 0: the appliance knows them all; -EINPROGRESS; or its error. */
must_check int client__added_status(const struct weka_client *c, const struct client_lane *lane);
bool client__added_is(const struct weka_client *c, const struct weka_pool *pool);
/* Returns its size, or 0: it is not a pool of this client. */
uint64_t client__added_bytes(const struct weka_client *c, const struct weka_pool *pool);
void client__added_destroy(struct weka_client *c);

/* ---- connection: client_conn.c, client_key.c ----------------------------------------- */

void client__conn_step(struct weka_client *c, uint64_t now_ns);
/* Returns true if a connection that failed with this error may succeed a little later. */
bool client__may_pass(int err);
/* Drops the connection without a goodbye: weka_close() has sent it, or nobody would receive it. */
void client__destroy(struct weka_client *c);
/* Ends the session after its last lane broke. */
void client__conn_lost(struct weka_client *c, uint64_t now_ns);
must_check int client__key(const struct weka_key *key, struct fab_key *out, char *why);
/* Resolves host names.  May wait for a name server. */
must_check int client__resolve(struct weka_client *c, char *why);
must_check int client__addresses(struct weka_client *c, const char *text, char *why);

/* ---- open files: client_open.c --------------------------------------------------------- */

must_check int client__opens_create(struct weka_client *c, uint32_t opens_max);
void client__opens_destroy(struct weka_client *c);
/* Closes all open files, and waits for a while until the appliance confirms. */
void client__opens_leave(struct weka_client *c);
/* Reserves an entry for an OPEN with HOLD (-EMFILE), and gives it back. */
must_check int client__open_begin(struct weka_client *c, struct client_slot *slot);
void client__open_end(struct weka_client *c, struct client_slot *slot);
/* Sets HOLD if the request uses the file lane. */
void client__open_by(struct weka_client *c, struct client_slot *slot,
		     const struct client_lane *lane);
/* Handles a successful OPEN; not `wanted`: its request has ended already. */
void client__opened(struct weka_client *c, struct client_slot *slot, bool wanted);
/* Returns the lane for all requests about open files; c->at must be UP. */
struct client_lane *client__file_lane(struct weka_client *c);
must_check int client__own_answer(struct weka_client *c, struct client_slot *slot);
void client__opens_step(struct weka_client *c);
static inline bool client__is_own(const struct weka_client *c, const struct weka_req *req)
{
	return req == &c->own;
}

/* ---- lanes: client_lane.c -------------------------------------------------------------- */

/* Returns true if a change waits for this lane to come back. */
bool client__lane_is_missed(const struct weka_client *c, uint32_t number);
/* Decides the number of lanes of the session, and the rails of those that are DOWN. */
void client__lanes_plan(struct weka_client *c);
void client__lanes_step(struct weka_client *c, uint64_t now_ns);
/* Closes a lane that broke, after every call has come back. */
void client__lane_lost(struct weka_client *c, struct client_lane *lane, uint64_t now_ns);
void client__lanes_close(struct weka_client *c);
/* Returns the lane with the least in flight that is UP and not in `tried` (bits), or NULL. */
struct client_lane *client__lane_pick(struct weka_client *c, uint32_t tried);
/* Returns true if the lane is on another lane's rail, for an interrupted change: client_lane.c. */
static inline bool client__lane_is_away(const struct client_lane *lane)
{
	return lane->at == CLIENT_UP && lane->via != lane->address;
}
/* Returns the first lane that is UP, if possible one that is not away; c->at must be UP. */
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
/* Returns the time of the lane's next event. */
uint64_t client__lane_deadline(const struct client_lane *lane);

/* The time, for a batch read, which says where its time went; 0 for others, which do not. */
static inline uint64_t client__stamp(const struct client_slot *slot)
{
	DASSERT(slot->call.type >= FAB_PING && slot->call.type < FAB_TYPE_END);
	return slot->call.type == FAB_READ_BATCH ? clock_now_ns() : 0;
}

/* Returns the cost of a request: 1, plus 1 for each block that it may move. */
static inline uint64_t client__cost(const struct client_slot *slot)
{
	return 1 + slot->call.window_bytes / WEKA_BLOCK;
}

/* ---- sleep: client_sleep.c ------------------------------------------------------------ */

must_check int client__sleep_create(struct weka_client *c);
void client__sleep_destroy(struct weka_client *c);
void client__disarm(struct weka_client *c);
/* Must run before a connection is closed, because its descriptor's number may be reused. */
void client__unwatch(struct weka_client *c, struct client_lane *lane);
/* Sleeps until an event, or until_ns: 0, -ETIMEDOUT, -EINTR.  If it cannot sleep, it returns why, a
 * millisecond later. */
must_check int client__sleep(struct weka_client *c, uint64_t until_ns);
/* Makes the next turn read the clock and check every deadline. */
static inline void client__hurry(struct weka_client *c)
{
	c->turns = 0;
	c->scan_ns = 0;
}
/* Waits until `req` is done; with NULL until a request can be reaped. */
must_check int client__wait(struct weka_client *c, struct weka_req *req, uint64_t timeout_ns);

/* ---- called one at a time: client_sync.c ----------------------------------------------- */

/* Waits for the request if `err`, the result of submitting it, is 0.  Keeps a line about a failure.
 */
must_check int client__run(struct weka_client *c, struct weka_req *req, int err, const char *what,
			   const char *name);
wk_cold int client__fail(struct weka_client *c, int err, const char *what, const char *name);
/* The same for an error that has a line already; prefixes it with what and name. */
wk_cold int client__fail_said(struct weka_client *c, int err, const char *what, const char *name);
/* Waits until a request of a waiting call has ended. */
void client__await(struct weka_client *c, struct weka_req *req);

/* Runs `call` as one waiting call of the client.  Returns its result, or why it cannot begin. */
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

/* Takes a lease of `want_bytes`, or of as much as is free, but at least `least_bytes`. */
must_check int client__lease_some(struct weka_client *c, uint64_t want_bytes, uint64_t least_bytes,
				  struct weka_lease **out);

/* A transfer of one file in many pieces, from or to memory or a descriptor: client_bulk.c. */
enum client_bulk_op { CLIENT_BULK_READ, CLIENT_BULK_WRITE };
struct client_bulk {
	enum client_bulk_op op;
	struct weka_handle handle;
	uint64_t offset_bytes; /* start in the file                                  */
	uint64_t length_bytes;
	char *memory;         /* or NULL, then                                      */
	int fd;               /* a descriptor, with the same offsets                */
	uint32_t piece_bytes; /* maximum, a power of two; pieces do not cross its multiples */
	bool is_whole;        /* each piece is atomic: -EAGAIN rather than smaller pieces */
	bool is_sparse;       /* skip holes; cleared when they cannot be found              */
	uint64_t data_end;    /* sparse: end of the data being moved                         */
	uint64_t done_bytes;  /* out: bytes moved; when reading, up to the end of the file */
	bool is_said;         /* out: the error has a line already                  */
};
must_check int client__bulk(struct weka_client *c, struct client_bulk *b);
/* Moves *next to the next data of a sparse source and sets data_end: client_sparse.c. */
must_check int client__bulk_data(struct weka_client *c, struct client_bulk *b, uint64_t *next);
/* Returns true if holes of a file can be left out of `fd`: an empty regular file. */
bool client__keeps_holes(int fd, const struct weka_attr *a);

#endif
