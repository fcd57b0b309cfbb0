/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The appliance's end: shared by its files and the tests. */
#ifndef FAB_SERVER_INTERNAL_H
#define FAB_SERVER_INTERNAL_H

#include "fabric/fab_internal.h"
#include "fabric/link/fab_rdma.h"

#include "base/secret.h"

#include <openssl/aes.h>
#include <pthread.h>

/* ---- fab_keys.c, fab_scope.c: the control side's -------------------------------------- */

struct fab__scope { /* a confined client's handles */
	AES_KEY seal;
	AES_KEY open;
};

struct fab__secret { /* of one key: in pages of its own */
	struct fab_key key;
	uint8_t handle_secret[FAB_KEY_BYTES];
};

struct fab__rate { /* time up to which its clients' use is paid for: fab_rate.c */
	_Atomic uint64_t ops_ns;
	_Atomic uint64_t bytes_ns;
};

enum fab__key_at { KEY_FREE, KEY_LIVE, KEY_GONE };

struct fab__key_slot {
	enum fab__key_at at;
	uint32_t sessions; /* that are in by it */
	struct fab_rights rights;
	struct fab__rate rate;
};

struct fab__keys {
	uint32_t max;
	bool locked;
	struct fab__key_slot *slot;
	struct fab__secret *secret; /* max + 1: the last is the null key */
};

must_check uint64_t fab__rate_take(struct fab__rate *rate, const struct fab_rights *rights,
				   uint32_t count, uint64_t now_ns);
void fab__rate_spend(struct fab__rate *rate, const struct fab_rights *rights, uint64_t bytes,
		     uint64_t now_ns);
/* NULL: its rights say no limit. */
struct fab__rate *fab__keys_rate(struct fab__keys *keys, uint32_t slot);
/* `client`: as in fab_session; 0: its handles are good in the session of this secret only.  With
 * other users in `rights` they are others. */
void fab__scope_init(struct fab__scope *scope, const uint8_t handle_secret[FAB_KEY_BYTES],
		     uint64_t client, const uint8_t session_secret[FAB_KEY_BYTES],
		     const struct fab_rights *rights);
must_check int fab__keys_create(struct fab__keys *keys, uint32_t keys_max);
void fab__keys_destroy(struct fab__keys *keys);
/* `*ended`: a slot whose sessions must end, or FAB_KEY_NONE. */
must_check int fab__keys_set(struct fab__keys *keys, const struct fab_grant *grant,
			     uint32_t *ended);
/* Returns the slot of the key with this id, or FAB_KEY_NONE. */
uint32_t fab__keys_slot_of(const struct fab__keys *keys, const char *id);
bool fab__keys_is_live(const struct fab__keys *keys, uint32_t slot);
must_check int fab__keys_remove(struct fab__keys *keys, const char *id, uint32_t *ended);
const struct fab_rights *fab__keys_rights(const struct fab__keys *keys, uint32_t slot);
/* Returns the secret that enciphers its clients' handles; NULL: the key is not confined. */
const uint8_t *fab__keys_handle_secret(const struct fab__keys *keys, uint32_t slot);
void fab__keys_enter(struct fab__keys *keys, uint32_t slot);
void fab__keys_leave(struct fab__keys *keys, uint32_t slot);

/* ---- fab_lanes.c: sessions and their connections, the control side's ------------------------ */

struct fab__session;

struct fab__lanes_of { /* one session */
	uint64_t id;   /* 0: free */
	uint32_t key_slot;
	uint64_t client; /* its client's identity; 0: none */
	uint32_t count;  /* places that its connections have */
	bool is_shm;
	struct fab__session *lane[FAB_LANES_MAX]; /* by number; NULL: none */
};

struct fab__session_secret { /* of one session: in pages of their own */
	struct fab_key key;  /* the key's id, and the session's own secret */
	bool confined;
	struct fab__scope scope; /* if it is */
};

struct fab__lanes {
	const struct fab__keys *keys;
	uint32_t max;
	uint32_t lanes_max;
	uint64_t serial;
	bool locked;
	struct fab__lanes_of *of;
	struct fab__session_secret *secret; /* as many */
};

must_check int fab__lanes_create(struct fab__lanes *lanes, const struct fab__keys *keys,
				 uint32_t sessions_max, uint32_t lanes_max);
void fab__lanes_destroy(struct fab__lanes *lanes);
/* Begins a session, for a proved hello that joins none.  Returns its id. */
uint64_t fab__lanes_begin(struct fab__lanes *lanes, const struct fab_hello *h);
/* Takes that back: the session did not begin. */
void fab__lanes_undo(struct fab__lanes *lanes, uint64_t id);
/* Returns the client of a proved hello: its session's, or the one that it names. */
uint64_t fab__lanes_client(const struct fab__lanes *lanes, const struct fab_hello *h);
/* Checks that a connection whose proved hello joins a session may enter it.  *holder: the
 * connection that still has this lane, because its client lost it before we noticed; or NULL.
 * -EUSERS: no place is free; -EOPNOTSUPP. */
must_check int fab__lanes_may_enter(const struct fab__lanes *lanes, const struct fab_hello *h,
				    uint32_t places_free, struct fab__session **holder);
/* A connection of session s->pub.id takes its place, and gets its handles; gives the place up. */
void fab__lanes_enter(struct fab__lanes *lanes, struct fab__session *s, uint32_t number);
void fab__lanes_leave(struct fab__lanes *lanes, struct fab__session *s);
/* Finds a session's secret by the id of its key over TLS.  -ENOENT. */
must_check int fab__lanes_secret(const struct fab__lanes *lanes, const char *id,
				 uint8_t secret[FAB_KEY_BYTES]);
/* ---- fab_session.c, fab_payload.c: one session of the appliance, no socket, no clock  */

struct fab__req {
	struct fab_req pub;
	struct list cancel_node; /* on srv->cancels: an event is due */
	int cancel_status;       /* of the last such event; 0: none  */
	bool live;               /* given to the appliance           */
	uint16_t pulls;          /* not yet back                     */
	int32_t long_slot;       /* -1: none                         */
	uint32_t body_bytes;
	const uint8_t *body_at; /* `body` or a long one */
	struct fab_piece *part; /* whose payload the reply includes; NULL: none */
	struct fab_tx tx;
	_Alignas(64) uint8_t body[FAB_BODY_MAX]; /* the request's, then the reply's */
};

struct fab__piece { /* in fab_piece.opaque */
	struct fab_tx tx;
	struct list node; /* waiting for a free pull, or back */
	struct fab__session *session;
	bool pull;
};

enum fab_pool_at {
	POOL_FREE,
	POOL_MAKING,  /* shm: its pages come, piece by piece       */
	POOL_OFFERED, /* shm: FAB_CONTROL_POOL_ADDED is due or out */
	POOL_READY,   /* requests may name it                      */
	POOL_ENDED,   /* shm: FAB_CONTROL_POOL_GONE is due or out  */
};

/* Messages between control and core; each is embedded in its subject. */
enum fab_message_type {
	MESSAGE_OPENED, /* to the core: a session begins                         */
	MESSAGE_LOST,   /* to the core: the peer of a session is gone            */
	MESSAGE_CLOSED, /* to control: the core will not touch the session again */
	MESSAGE_HALT,   /* rdma, to control: the core will not touch the queue pair again */
	MESSAGE_HALTED, /* rdma, to the core: and nor will the card                       */
};

struct fab_message {
	enum fab_message_type type;
	struct fab__session *session;
};

struct fab_pool {
	struct fab__session *session;
	uint32_t region;
	void *memory;             /* shm */
	struct fab_remote remote; /* rdma */
	uint64_t size_bytes;
	uint64_t iova;
	_Atomic bool ready;  /* requests may name it: fab__pool_publish() */
	enum fab_pool_at at; /* control's */
	bool event_out;    /* control's: POOL_ADDED was returned, fab_pool_ready() not yet called */
	bool client_owned; /* shm: the client's memory */
	int fd;            /* control's until the client has it, or the appliance has mapped it */
	uint64_t made_bytes;  /* control's: MAKING: pages that are there */
	struct list due_node; /* control's: MAKING, or an event is due */
	struct fab_tx tx;     /* tcp: POOL_ADDED */
	bool tx_busy;
};

enum fab_session_at { SESSION_FREE, SESSION_OPEN, SESSION_CLOSING };

struct fab__rx {    /* a capsule that is coming in */
	bool wants; /* needs bytes after the header */
	struct fab_hdr hdr;
	struct fab_piece_hdr piece_hdr;
	void *dst;
	uint32_t need_bytes;
	uint32_t done_bytes;
	struct fab__req *req;    /* the owner of the body    */
	struct fab_piece *piece; /* the owner of the payload */
};

enum fab_watch_type {
	WATCH_WAKE,
	WATCH_LISTENER,
	WATCH_HELLO,
	WATCH_SESSION,
	WATCH_RDMA,
	WATCH_DEVICE,
};

struct fab_watch { /* target of an epoll entry of the control side */
	enum fab_watch_type type;
};

struct fab__session_control { /* the control side's share of a session */
	struct fab_watch watch;
	bool used;
	bool is_operator; /* fab__control_open() */
	bool lost_told;
	bool core_done;
	bool deaf;          /* its socket cannot be watched */
	uint32_t pools_out; /* not yet released                    */
	char peer[64];      /* its address, for people             */
	bool has_key;       /* not over a simulated network        */
	bool first;         /* the first of its session's lanes    */
	bool in_session;    /* ... fab_lanes.c                     */
	uint32_t key_slot;
	int fd;              /* tcp: the stream; shm: the unix socket; rdma: rdma->channel's */
	struct fab_tls *tls; /* NULL: none */
	int doorbells[2];    /* shm: ours, where the client's is rung; else -1 */
	uint32_t in_bytes;   /* of a POOL_ADD that is coming */
	int in_fd;           /* ... and the descriptor that came with it, or -1 */
	uint8_t in[sizeof(struct fab_hdr_wire)];
};

struct fab__session {
	struct fab_session pub;
	struct fab_server *srv;
	struct fab_link *link;
	enum fab_session_at at;
	bool direct;
	bool onesided;
	bool halting;            /* rdma: from MESSAGE_HALT to MESSAGE_HALTED */
	bool active;             /* there may be something to receive */
	bool hung_up;            /* ... and then the end: epoll has said so, once */
	bool quiet_until_told;   /* epoll says when it becomes active */
	struct list dirty_node;  /* on srv->dirty: something to flush */
	struct list closed_node; /* on srv->closed: control is not yet told */
	uint64_t next_deadline_ns;
	_Atomic uint32_t refusals;             /* bits of enum fab_refusal, for control */
	uint64_t refused_ns[FAB_REFUSALS_END]; /* when control was told last */
	struct fab__req *reqs;
	uint16_t *req_free; /* stack of indices */
	uint32_t req_free_count;
	uint64_t long_free; /* bits */
	uint8_t *longs;     /* limits.long_bodies x FAB_LONG_BODY_MAX */
	struct fab__rx rx;
	struct fab_pool pools[FAB_POOLS_MAX]; /* region - 1 */
	uint64_t pools_bytes;
	struct fab_piece *pulls[FAB_PULLS_MAX];
	uint32_t pull_free; /* bits */
	uint64_t stall_ns;  /* when the peer must have answered a PULL; UINT64_MAX: none is out */
	struct list pull_waits;
	uint64_t full_ns;         /* the peer takes nothing since then; UINT64_MAX: it does */
	uint64_t full_left_bytes; /* ... and the link had sent so much */
	bool is_slow;             /* it was reported            */
	struct fab_piece *held;   /* tcp: a PART that a reply may take along; NULL: none */
	uint32_t pieces_out;
	struct fab_shm shm;
	struct fab_tcp *tcp;
	struct fab_rdma *rdma;
	uint32_t stall_retired; /* rdma: completions when stall_ns was set */
	uint32_t heard;         /* rdma: fab__rdma_heard() at the last check for vanished clients */
	struct fab_message opened, lost, closed, halt, halted;
	struct fab__session_control control;
	_Atomic uint64_t here; /* pub.client while it has this place: fab_server_client() */
};

/* Make a session ready; memory for requests and long bodies is there (fab_server_create()). */
void fab__session_open(struct fab__session *s, struct fab_link *link,
		       const struct fab_limits *limits, const char *key_id, uint64_t id);
/* Events of one session; fails it when its peer breaks the protocol. */
must_check uint32_t fab__session_poll(struct fab__session *s, uint64_t now_ns,
				      struct fab_event *events, uint32_t events_max);
void fab__session_fail(struct fab__session *s, int err);
void fab__session_halted(struct fab__session *s);
bool fab__session_drained(const struct fab__session *s);
/* Requests whose deadline has passed get their FAB_EVENT_CANCEL. */
void fab__session_expire(struct fab__session *s, uint64_t now_ns);
void fab__session_dirty(struct fab__session *s);
struct fab__session *fab__session_of(struct fab_session *pub);

/* fab_pool.c */
void fab__pool_publish(struct fab_pool *pool);
/* R1 -> A1 (fab_pool.c) */
static inline bool fab__pool_is_ready(const struct fab_pool *pool)
{
	const bool ready = atomic_load_explicit(&pool->ready, memory_order_acquire); /* A1 */

	DASSERT(!ready || pool->size_bytes > 0);
	return ready;
}
must_check int fab__pool_add(struct fab__session *s, const struct fab_hdr *hdr,
			     const struct fab_hdr_wire *w);
/* fab_session.c: handles a reply that was sent, and the piece that went with it */
void fab__reply_sent(struct fab__session *s, struct fab_tx *tx, int status);

/* fab_payload.c */
/* Everything of an open session goes through here.  True: it has left, else sent() returns it. */
bool fab__session_send(struct fab__session *s, struct fab_tx *tx);
/* The PART that is held back, if any: out with it. */
void fab__part_release(struct fab__session *s);
/* Returns the held PART if it can go with the next reply of the same request; NULL: none. */
struct fab_piece *fab__part_adopt(struct fab__session *s, const struct fab_req *req);
/* Its bytes are not needed any more: its event is due. */
void fab__piece_back(struct fab_piece *piece, int status);
void fab__sent_drain(struct fab__session *s);
must_check int fab__data_begin(struct fab__session *s);
void fab__data_end(struct fab__session *s);
void fab__pieces_abort(struct fab__session *s);
/* A stream that was flushed: does its peer take anything? */
void fab__send_watch(struct fab__session *s);
/* Time has passed: tells people of a peer that takes nothing, and ends the session after
 * FAB_STALL_NS.  Returns when to call it again. */
uint64_t fab__send_expire(struct fab__session *s, uint64_t now_ns);
/* rdma: work requests of the card must complete in FAB_STALL_NS. */
void fab__stall_watch(struct fab__session *s);

/* ---- fab_server.c: the polling core; fab_control.c: the control side ---------------- */

#define FAB_LISTENERS_MAX  8u
#define FAB_HELLOS_MAX     256u
#define FAB_BACKLOG        1024 /* connections that wait in the kernel; it may allow fewer */
#define FAB_BUSY_MS        100u /* pause of a client whose hello lost its place */
#define FAB_HELLO_GRACE_NS UINT64_C(500000000) /* no client is turned out for others before */
#define FAB_REFUSALS_MAX   8u
#define FAB_CORES_MAX      64u
#define FAB_REFUSAL_KINDS  16u

struct fab__refusal {      /* a kind that was reported: fab_refuse.c */
	uint64_t until_ns; /* 0: the place is free; until then only counted */
	uint32_t more;
	char transport[8];
	char peer[64];
	char why[FAB_WHY_MAX];
	bool is_notice;
};

struct fab_listener {
	struct fab_watch watch;
	int fd;                  /* -1: none */
	struct rdma_cm_id *rdma; /* NULL: none */
	uint64_t again_ns;       /* its device was removed: next try; else 0 */
	struct fab_addr addr;
	char text[160];
};

struct fab_arrival { /* a connection that is not yet a session */
	struct fab_watch watch;
	int fd; /* -1: none */
	struct fab_rdma *rdma;
	uint8_t transport;
	bool refused;   /* only the REFUSE still has to arrive */
	char peer[64];  /* its address, for people */
	bool wants_tls; /* the hello must come within TLS */
	bool secured;   /* the handshake is done                     */
	bool held;      /* its key is proved; an earlier session of it is ending */
	struct fab_tls *tls;
	uint32_t out_at;
	uint64_t since_ns;
	uint64_t deadline_ns;
	struct fab_hello hello;
};

#define FAB_RDMA_DEVICES_MAX 8u
#define FAB_RDMA_PRIVATE_MAX 196u /* of a connection request's private data, checked */

struct fab_rdma_range {
	void *base;
	uint64_t size_bytes;
};

struct fab_rdma_server { /* the control side's, except for data under the lock */
	const struct fab_verbs *v;
	struct rdma_event_channel *cm; /* NULL: no listener yet */
	struct fab_watch watch;
	struct fab_rdma_device devices[FAB_RDMA_DEVICES_MAX];
	struct fab_watch device_watch[FAB_RDMA_DEVICES_MAX]; /* of the same number's events */
	pthread_mutex_t lock; /* ranges: fab_server_memory() may come from any thread */
	struct fab_rdma_range ranges[FAB_RDMA_RANGES_MAX];
	uint32_t range_count;
};

struct fab_control {              /* one for all cores */
	struct fab_tls_host *tls; /* NULL: no listener for TLS */
	struct fab_server *cores[FAB_CORES_MAX];
	uint32_t core_count;
	uint32_t core_next;     /* the one in turn           */
	uint32_t session_count; /* of all cores: their places that are used */
	int epoll_fd;
	int wake_fd; /* a core wakes control */
	struct fab_watch wake_watch;
	bool stopped;
	bool full;                /* no arrival's place is free: listeners are not watched */
	uint64_t accept_after_ns; /* ... or no descriptor was: not before */
	struct fab__keys keys;
	struct fab__lanes lanes;
	uint8_t appliance[FAB_APPLIANCE_BYTES];
	uint64_t pools_bytes;
	struct fab_listener listeners[FAB_LISTENERS_MAX];
	uint32_t listener_count;
	struct fab_arrival arrivals[FAB_HELLOS_MAX];
	struct list pools_due;
	struct list pools_making;
	struct fab_rdma_server rdma;
	uint64_t now_ns;                              /* of the last step */
	uint32_t self_check;                          /* steps, in variants with WK_DEBUG */
	char refusals[FAB_REFUSALS_MAX][FAB_WHY_MAX]; /* lines that are due */
	uint32_t refusal_count;
	char notices[FAB_REFUSALS_MAX][FAB_WHY_MAX]; /* ... that tell of no refusal */
	uint32_t notice_count;
	struct fab__refusal kinds[FAB_REFUSAL_KINDS];
	_Atomic uint64_t mark; /* fab_server_marks() */
	_Atomic uint64_t forgotten;
	_Atomic bool refusals_due; /* some session has bits in `refusals` */
	_Atomic uint64_t refused;
	_Atomic uint64_t refused_logins;
};

struct fab_server { /* of one core */
	struct fab_server_cfg cfg;
	struct fab__session *sessions; /* cfg.sessions_max */
	/* the core's */
	struct fab__session **open;
	uint32_t open_count;
	uint32_t open_next;      /* where the next poll begins */
	uint32_t talking;        /* since it was 0: sessions with something to say */
	uint32_t talkers;        /* ... in the round before */
	uint32_t stream_count;   /* of them, over tcp          */
	uint32_t onesided_count; /* ... over rdma            */
	uint32_t closing_count;
	uint32_t polls; /* since the epoll was last asked */
	bool busy;      /* it had something then          */
	bool stopping;
	uint64_t now_ns; /* of the last poll, */
	bool found;      /* ... which found something */
	uint64_t next_deadline_ns;
	uint64_t probe_ns;   /* when those over rdma are asked whether they are there */
	struct list dirty;   /* sessions to flush           */
	struct list closed;  /* sessions whose SESSION_CLOSED the caller may still be reading */
	struct list cancels; /* requests with an event due  */
	struct list back;    /* pieces with an event due    */
	int epoll_fd;
	int wake_fd; /* control wakes the core */
	struct fab_server_stat stat;
	uint32_t self_check; /* polls, in variants with WK_DEBUG */
	/* between the two */
	struct spsc to_core;
	struct spsc to_control;
	void **slots;
	_Atomic bool stop;
	/* the control side's */
	struct fab_control *control; /* that of the core that was made first */
	uint32_t places_used;
	uint32_t firsts; /* of them: sessions' first lanes */
	void *arena;     /* requests, long bodies and streams of all sessions */
	uint64_t arena_bytes;
};

/* fab_control.c */
must_check int fab__control_create(struct fab_server *srv, const struct fab_key *key);
void fab__control_destroy(struct fab_server *srv);
must_check int fab__control_watch(struct fab_server *srv, int fd, struct fab_watch *watch);
void fab__control_unwatch(struct fab_server *srv, int fd);

/* fab_refuse.c: the control side's */
void fab__refused(struct fab_server *srv, const char *transport, const char *peer, const char *why);
/* Reports at the same rate something that is not a refusal and not counted as one. */
void fab__noticed(struct fab_server *srv, const char *transport, const char *peer, const char *why);
/* A message for people about something that no outsider can cause at will. */
void fab__notice(struct fab_server *srv, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void fab__refusals_expire(struct fab_server *srv);
uint64_t fab__refusals_deadline(const struct fab_server *srv);
void fab__refusals_collect(struct fab_server *srv);
void fab__session_refusals(struct fab__session *s);

/* fab_listen.c, fab_arrival.c */
void fab__listeners_watch(struct fab_server *srv, bool full);
void fab__listeners_close(struct fab_server *srv);
void fab__accept(struct fab_server *srv, struct fab_listener *l, uint64_t now_ns);
/* Returns a free place, or that of the oldest arrival; NULL: none before
 * fab__arrival_place_ns(). */
struct fab_arrival *fab__arrival_place(struct fab_server *srv, uint64_t now_ns);
uint64_t fab__arrival_place_ns(const struct fab_server *srv);
void fab__arrival_begin(struct fab_server *srv, struct fab_arrival *g, int fd, uint8_t transport,
			uint64_t now_ns);
void fab__arrival_input(struct fab_server *srv, struct fab_arrival *g, uint64_t now_ns);
void fab__arrivals_expire(struct fab_server *srv, uint64_t now_ns);
void fab__arrivals_close(struct fab_server *srv);
void fab__arrival_lost(struct fab_server *srv, struct fab_arrival *g);
void fab__arrivals_held(struct fab_server *srv, uint64_t now_ns);

/* fab_rdma_listen.c */
void fab__rdma_server_init(struct fab_rdma_server *rs);
void fab__rdma_server_free(struct fab_rdma_server *rs);
must_check int fab__rdma_listen(struct fab_server *srv, struct fab_listener *l,
				char why[FAB_WHY_MAX]);
void fab__rdma_unlisten(struct fab_server *srv, struct fab_listener *l);
void fab__rdma_events(struct fab_server *srv, uint64_t now_ns);
/* Listeners whose device was removed: those that are due are tried again. */
void fab__rdma_listeners_step(struct fab_server *srv, uint64_t now_ns);
uint64_t fab__rdma_listeners_deadline(const struct fab_server *srv);

/* fab_rdma_async.c */
void fab__rdma_async(struct fab_server *srv, const struct fab_watch *watch);
/* The connection manager says that the device of `id` is no more. */
void fab__rdma_removed(struct fab_server *srv, const struct rdma_cm_id *id);

/* fab_arrival_tls.c: like fab__tls_step(), with the reason for the log. */
must_check int fab__arrival_tls_prepare(struct fab_server *srv);
must_check int fab__arrival_secure(struct fab_server *srv, struct fab_arrival *g,
				   char why[FAB_WHY_MAX]);
/* Returns true if the hello proved the same key as TLS. */
bool fab__arrival_key_is_tls(const struct fab_arrival *g);
/* Bytes of the hello, within TLS if there is one; as send() and recv(), errors are returned. */
must_check ssize_t fab__arrival_send(struct fab_arrival *g, const void *bytes, size_t size);
must_check ssize_t fab__arrival_recv(struct fab_arrival *g, void *to, size_t size);

/* fab_control_session.c: sessions and their pools, the control side's part */
must_check int fab__control_open(struct fab_server *srv, struct fab_arrival *g);
/* Ends the earlier connections of a client: all its sessions, or, for a lane, the lane of the same
 * number.  Returns true if none is left. */
must_check bool fab__control_alone(struct fab_server *srv, const struct fab_hello *h);
/* Counts the place of a session that begins; `first`: of the first of its session's lanes. */
void fab__control_take(struct fab__session *s, bool first);
void fab__control_input(struct fab__session *s);
void fab__control_lost(struct fab__session *s); /* its peer is gone */
void fab__control_messages(struct fab_server *srv);
/* Makes a few more pages of the pools that clients wait for. */
void fab__control_pools_step(struct fab_server *srv);
must_check uint32_t fab__control_pool_events(struct fab_server *srv,
					     struct fab_control_event *events, uint32_t events_max);

/*
 * fab_server_check.c counts again what is counted, each FAB_CHECK_TURNS turns of the core, or of
 * the control side, in variants with WK_DEBUG.
 */
#ifdef WK_DEBUG
#define FAB_CHECK_TURNS 64u
void fab__server_check(const struct fab_server *srv);
void fab__control_check(const struct fab_control *c);
#endif

/* fab_server.c */
/* The session's memory is not used any more: its pages are returned to the kernel. */
void fab__session_pages_free(struct fab__session *s);
void fab__wake(int fd);

#endif
