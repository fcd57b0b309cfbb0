/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Shared inside fabric/ and with its tests. */
#ifndef FAB_INTERNAL_H
#define FAB_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create, SO_PEERCRED, accept4 */
#endif

#include "base/crc32c.h"
#include "base/list.h"
#include "base/spsc.h"
#include "fabric/fab_transport.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <netinet/in.h>

#define FAB_WHY_MAX     256u /* one line for people */
#define FAB_REFUSE_MAX  200u /* PROTOCOL.md 3       */
#define FAB_POOL_ALIGN  (2u << 20)
#define FAB_CREDITS_MAX 1024u
#define FAB_LONG_MAX    64u
#define FAB_STALL_NS    UINT64_C(30000000000) /* PROTOCOL.md 7 */

/* ---- fab_codec.c: headers ----------------------------------------------------------- */

/* A header that has been checked. */
struct fab_hdr {
	uint8_t type; /* enum fab_capsule_type or enum fab_type */
	uint16_t window_region;
	uint64_t request_id;
	uint32_t deadline_us;
	int32_t status; /* the same field, of a reply */
	uint32_t body_bytes;
	uint32_t window_bytes;
	uint64_t window_offset;
	uint32_t body_crc32c;
	uint32_t slot;
};

must_check int fab__hdr_parse(struct fab_hdr *out, const struct fab_hdr_wire *w);
uint32_t fab__hdr_check(const struct fab_hdr_wire *w);
/* Zeros but for these; the caller adds window and body. */
void fab__hdr_build(struct fab_hdr_wire *out, uint8_t type, uint64_t request_id);
/* Put a body of `bytes` bytes where it belongs: into the header, or as `tx->body`. */
void fab__tx_body(struct fab_tx *tx, const void *body, uint32_t bytes);

struct fab_piece_hdr {
	uint32_t window_at;
	uint32_t length_bytes;
	uint32_t pull;
};
must_check int fab__piece_parse(struct fab_piece_hdr *out, const struct fab_hdr_wire *w);
void fab__piece_build(struct fab_hdr_wire *out, uint8_t type, uint64_t request_id,
		      const struct fab_piece_hdr *in);

/* ---- fab_codec_req.c, fab_codec_call.c, fab_codec_reply.c --------------------------- */

/* Decode a request whose type and window stand in `req`.  `body` must stay as long as `req`. */
must_check int fab__req_parse(struct fab_req *req, const void *body, uint32_t body_bytes,
			      const struct fab_limits *limits);
must_check int fab__read_item_parse(struct fab_read_item *out, const void *body,
				    uint32_t body_bytes, uint32_t i);
must_check int fab__put_item_parse(struct fab_put_item *out, const void *body, uint32_t body_bytes,
				   uint32_t window_bytes, uint32_t i);
must_check int fab__name_item_parse(struct fab_name *out, const void *body, uint32_t body_bytes,
				    uint32_t i);

/* Bytes of a call's body, or -EMSGSIZE, -EINVAL; then the body itself. */
must_check int64_t fab__call_measure(const struct fab_call *call, const struct fab_limits *limits);
void fab__call_build(const struct fab_call *call, void *out);

/* A reply's body (in call->body) to the call's results. */
must_check int fab__reply_parse(struct fab_call *call, int status, uint32_t body_bytes);

/* ---- fab_hello.c: both sides of PROTOCOL.md 3, bytes in, bytes out ------------------ */

enum fab_hello_at {
	HELLO_WAITS,      /* the appliance, for HELLO         */
	HELLO_SENT,       /* the client, for CHALLENGE        */
	HELLO_CHALLENGED, /* the appliance, for PROOF         */
	HELLO_PROVED,     /* the client, for WELCOME          */
	HELLO_DONE,
};

struct fab_hello {
	enum fab_hello_at at;
	bool server;
	uint8_t transport;
	uint8_t version;
	uint32_t core_count;
	uint32_t shard_count;
	const struct fab_key *key;
	struct fab_limits limits; /* asked or offered; then agreed on */
	struct fab_hello_wire hello;
	struct fab_challenge_wire challenge;
	uint64_t session_id;
	char key_id[FAB_KEY_ID_MAX + 1];
	uint32_t in_bytes; /* of `in`, what has come */
	uint32_t out_bytes;
	uint8_t in[64 + 256];
	uint8_t out[64 + 256];
	char why[FAB_WHY_MAX]; /* when it failed */
};

/* `nonce`: 32 fresh random bytes. */
void fab__hello_client(struct fab_hello *h, const struct fab_key *key, uint8_t transport,
		       const struct fab_limits *want, const uint8_t nonce[32]);
void fab__hello_server(struct fab_hello *h, const struct fab_key *key, uint8_t transport,
		       const struct fab_limits *most, const uint8_t nonce[32]);
/* How many more bytes `in` wants before fab__hello_step() can go on. */
uint32_t fab__hello_want(const struct fab_hello *h);
/*
 * Look at what has come.  0: go on (send out[0 .. out_bytes) first), 1: agreed, or how it failed,
 * with a line in `why`; the appliance then has a REFUSE in `out`.
 */
must_check int fab__hello_step(struct fab_hello *h);
/* The appliance's last word: WELCOME into `out`. */
void fab__hello_welcome(struct fab_hello *h, uint64_t session_id);
void fab__hello_refuse(struct fab_hello *h, int status, const char *text);
void fab__hello_proof(uint8_t out[32], const struct fab_key *key, const char *label,
		      const struct fab_hello_wire *hello,
		      const struct fab_challenge_wire *challenge);

/* ---- fab_addr.c --------------------------------------------------------------------- */

struct fab_addr {
	uint8_t transport; /* enum fab_transport_id */
	socklen_t bytes;
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_un un;
	};
};

/* -EINVAL, -EADDRNOTAVAIL (not loopback), -ENAMETOOLONG; `why` gets a line. */
must_check int fab__addr_parse(struct fab_addr *out, const char *address, char why[FAB_WHY_MAX]);
must_check int fab__addr_socket(const struct fab_addr *addr); /* non-blocking; fd or -errno */
must_check int fab__peer_uid_check(int fd, char why[FAB_WHY_MAX]);

/* ---- fab_shm.c, fab_shm_mem.c: rings in shared memory ------------------------------- */

#define FAB_SLOT_BYTES 1088u

struct fab_shm_layout { /* PROTOCOL.md 8 */
	uint32_t request_slots;
	uint32_t reply_slots;
	uint64_t requests_at;
	uint64_t replies_at;
	uint64_t bodies_at;
	uint64_t size_bytes;
};
void fab__shm_layout(struct fab_shm_layout *out, const struct fab_limits *limits);

struct fab_ring {
	uint8_t *slots;         /* shared */
	_Atomic uint32_t *bell; /* shared: of the ring's reader */
	uint32_t mask;
	uint32_t at;  /* the next slot */
	uint32_t lap; /* and its lap   */
};

struct fab_shm {
	struct fab_link link;
	struct fab_ring in;
	struct fab_ring out;
	const uint8_t *in_body; /* shared: behind the header received last */
	uint8_t *bodies;        /* shared */
	uint32_t long_bodies;
	int doorbell_fd; /* wakes the other side */
	bool unrung;     /* something was sent since the last flush */
	bool closed;
	uint64_t rung_count;
	void *memory;
	uint64_t memory_bytes;
};

void fab__shm_init(struct fab_shm *shm, void *memory, const struct fab_limits *limits, bool server,
		   int doorbell_fd);

/* A sealed memfd with its pages present, mapped at a multiple of 2 MiB. */
must_check int fab__memfd_create(const char *name, uint64_t size_bytes, int *fd, void **memory);
/* The other's: refused unless it is sealed and has this size. */
must_check int fab__memfd_map(int fd, uint64_t size_bytes, void **memory);
void fab__memory_unmap(void *memory, uint64_t size_bytes);

/* One send or receive with descriptors; returns bytes or -errno. */
must_check ssize_t fab__send_fds(int fd, const void *bytes, size_t size, const int *fds,
				 uint32_t fd_count);
must_check ssize_t fab__recv_fds(int fd, void *bytes, size_t size, int *fds, uint32_t fd_max,
				 uint32_t *fd_count);

/* ---- fab_tcp.c ---------------------------------------------------------------------- */

#define FAB_TCP_IN_BYTES (64u << 10)

struct fab_tcp {
	struct fab_link link;
	int fd;
	int err;        /* sticky */
	bool drained;   /* the last read took all there was */
	bool stuck;     /* the socket was full: wait until it is writable */
	uint32_t in_at; /* in[in_at .. in_end) is not yet handed out */
	uint32_t in_end;
	struct list out;  /* fab_tx */
	struct list done; /* fab_tx, for sent() */
	uint64_t out_at;  /* bytes of the first of `out` that have left */
	uint8_t in[FAB_TCP_IN_BYTES];
};

void fab__tcp_init(struct fab_tcp *tcp, int fd);

/* ---- fab_session.c, fab_payload.c: one session of the appliance, no socket, no clock  */

struct fab__session;

struct fab__req {
	struct fab_req pub;
	struct list cancel_node; /* on srv->cancels: an event is due */
	int cancel_status;       /* of the last such event; 0: none  */
	bool live;               /* the appliance has it             */
	uint16_t pulls;          /* not yet back                     */
	int32_t long_slot;       /* -1: none                         */
	uint32_t body_bytes;
	const uint8_t *body_at; /* `body` or a long one */
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
	POOL_OFFERED, /* shm: FAB_CONTROL_POOL_ADDED is due or out */
	POOL_READY,   /* requests may name it                      */
	POOL_ENDED,   /* shm: FAB_CONTROL_POOL_GONE is due or out  */
};

/* What control and core tell each other; each message lies in what it is about. */
enum fab_message_type {
	MESSAGE_OPENED, /* to the core: a session begins                         */
	MESSAGE_LOST,   /* to the core: the peer of a session is gone            */
	MESSAGE_CLOSED, /* to control: the core will not touch the session again */
};

struct fab_message {
	enum fab_message_type type;
	struct fab__session *session;
};

struct fab_pool {
	struct fab__session *session;
	uint32_t region;
	void *memory; /* shm */
	uint64_t size_bytes;
	uint64_t iova;
	_Atomic bool ready;  /* requests may name it: fab__pool_publish() */
	enum fab_pool_at at; /* control's */
	bool event_out; /* control's: POOL_ADDED was returned, fab_pool_ready() not yet called */
	int fd;         /* control's: until the client has it */
	struct list due_node; /* control's: an event is due */
	struct fab_tx tx;     /* tcp: POOL_ADDED */
	bool tx_busy;
};

enum fab_session_at { SESSION_FREE, SESSION_OPEN, SESSION_CLOSING };

struct fab__rx {    /* a capsule that is coming in */
	bool wants; /* bytes behind the header */
	struct fab_hdr hdr;
	struct fab_piece_hdr piece_hdr;
	void *dst;
	uint32_t need_bytes;
	uint32_t done_bytes;
	struct fab__req *req;    /* whose body it is    */
	struct fab_piece *piece; /* whose payload it is */
};

enum fab_watch_type { WATCH_WAKE, WATCH_LISTENER, WATCH_HELLO, WATCH_SESSION };

struct fab_watch { /* what an epoll entry of the control side points to */
	enum fab_watch_type type;
};

struct fab__session_control { /* the control side's share of a session */
	struct fab_watch watch;
	bool used;
	bool lost_told;
	bool core_done;
	uint32_t pools_out; /* not yet released                    */
	int fd;             /* tcp: the stream; shm: the unix socket */
	int doorbells[2];   /* shm: the appliance's, the client's; else -1 */
	uint32_t in_bytes;  /* of a POOL_ADD that is coming */
	uint8_t in[sizeof(struct fab_hdr_wire)];
};

struct fab__session {
	struct fab_session pub;
	struct fab_server *srv;
	struct fab_link *link;
	enum fab_session_at at;
	bool direct;
	bool active;            /* there may be something to receive */
	bool quiet_until_told;  /* epoll says when it becomes active */
	struct list dirty_node; /* on srv->dirty: something to flush */
	uint64_t next_deadline_ns;
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
	uint32_t pieces_out;
	struct fab_shm shm;
	struct fab_tcp *tcp;
	struct fab_message opened, lost, closed;
	struct fab__session_control control;
};

/* Make a session ready; memory for requests and long bodies is there (fab_server_create()). */
void fab__session_open(struct fab__session *s, struct fab_link *link,
		       const struct fab_limits *limits, const char *key_id, uint64_t id);
/* Events of one session; fails it when its peer breaks the protocol. */
must_check uint32_t fab__session_poll(struct fab__session *s, uint64_t now_ns,
				      struct fab_event *events, uint32_t events_max);
void fab__session_fail(struct fab__session *s, int err);
bool fab__session_drained(const struct fab__session *s);
/* Requests whose deadline has passed get their FAB_EVENT_CANCEL. */
void fab__session_expire(struct fab__session *s, uint64_t now_ns);
void fab__session_dirty(struct fab__session *s);
struct fab__session *fab__session_of(struct fab_session *pub);

/* fab_payload.c */
void fab__pool_publish(struct fab_pool *pool);
bool fab__pool_is_ready(const struct fab_pool *pool);
/* fab_session.c: a reply has left */
void fab__reply_sent(struct fab__session *s, struct fab_tx *tx);
void fab__sent_drain(struct fab__session *s);
must_check int fab__data_begin(struct fab__session *s);
void fab__data_end(struct fab__session *s);
void fab__pieces_abort(struct fab__session *s);
must_check int fab__pool_add(struct fab__session *s, const struct fab_hdr *hdr,
			     const struct fab_hdr_wire *w);

/* ---- fab_server.c: the polling core; fab_control.c: the control side ---------------- */

/* ---- fab_conn.c: the client's end, no socket, no clock; fab_client.c: its sockets --- */

enum fab_conn_at { CONN_DIALS, CONN_HELLO, CONN_OPEN, CONN_BROKEN };

struct fab_region {
	struct fab_conn *conn;
	uint32_t number;
	int status; /* -EINPROGRESS until POOL_ADDED has come */
	void *memory;
	uint64_t size_bytes;
	struct fab_tx tx; /* tcp: POOL_ADD */
};

struct fab__call { /* in fab_call.opaque */
	uint64_t id;
	uint32_t slot;
	bool cancelled;
};

static inline struct fab__call *fab__call_inside(struct fab_call *call)
{
	static_assert(sizeof(struct fab__call) <= sizeof(call->opaque), "room in fab_call");
	return (struct fab__call *)(void *)call->opaque;
}

/* One credit: the request that uses it. */
struct fab_slot {
	struct fab_call *call; /* NULL: none waits for it */
	uint64_t id;
	int32_t long_slot; /* -1: none */
	bool tx_busy;      /* the transport still has `tx` */
	bool cancel_busy;  /* ... or `cancel`               */
	struct fab_tx tx;
	struct fab_tx cancel;
	_Alignas(64) uint8_t body[FAB_BODY_MAX];
};

struct fab_answer_tx { /* DATA */
	struct fab_tx tx;
	bool busy;
};

struct fab_conn {
	enum fab_conn_at at;
	int status; /* why it is broken */
	bool direct;
	struct fab_link *link;
	struct fab_limits limits;
	struct fab_slot *slots; /* limits.credits */
	uint16_t *slot_free;    /* stack */
	uint32_t slot_free_count;
	uint32_t broken_next; /* slots up to here were given back after the break */
	uint64_t sequence;
	uint64_t long_free; /* bits */
	uint8_t *longs;     /* tcp: ours; shm: shared */
	struct fab_region regions[FAB_POOLS_MAX];
	uint64_t pools_bytes;
	struct fab_answer_tx answers[FAB_PULLS_MAX]; /* by the PULL's number */
	/* a capsule that is coming in */
	bool rx_wants;
	struct fab_hdr rx_hdr;
	struct fab_call *rx_call; /* NULL: payload of a PART */
	uint8_t *rx_dst;
	uint32_t rx_need;
	uint32_t rx_done;
	/* fab_client.c */
	struct fab_addr addr;
	struct fab_key key;
	struct fab_hello hello;
	uint64_t deadline_ns; /* of the hello */
	uint64_t answered_ns; /* when something came last, or the socket was asked */
	bool socket_due;      /* shm: epoll said that the unix socket has something */
	int fd;
	int epoll_fd;
	int doorbells[2]; /* shm: the appliance's, ours */
	struct fab_shm shm;
	struct fab_tcp *tcp;
	uint32_t in_bytes; /* shm: of a POOL_ADDED */
	int in_fd;         /* ... and what came with it */
	uint8_t in[sizeof(struct fab_hdr_wire)];
	char why[FAB_WHY_MAX];
};

/* Memory for slots and, over tcp, long bodies; `link` stays the caller's. */
must_check int fab__conn_open(struct fab_conn *conn, struct fab_link *link,
			      const struct fab_limits *limits, uint8_t *shared_longs);
void fab__conn_free(struct fab_conn *conn);
/* Receive; returns how many of done[]. */
must_check uint32_t fab__conn_poll(struct fab_conn *conn, struct fab_call **done,
				   uint32_t done_max);
/* A slot that neither a call nor the transport needs any more is free again. */
void fab__slot_settle(struct fab_conn *conn, struct fab_slot *slot);
void fab__conn_break(struct fab_conn *conn, int err, const char *why);
/* As fab__conn_break(), and returns err; `why` may be the connection's own line.  fab_dial.c */
int fab__conn_broken(struct fab_conn *conn, int err, const char *why);
/* POOL_ADDED has come, on whichever way. */
must_check int fab__region_added(struct fab_conn *conn, const struct fab_hdr_wire *w, int fd);

#define FAB_LISTENERS_MAX 8u
#define FAB_HELLOS_MAX    32u
#define FAB_REFUSALS_MAX  8u

struct fab_listener {
	struct fab_watch watch;
	int fd; /* -1: none */
	struct fab_addr addr;
	char text[160];
};

struct fab_guest { /* a connection that is not yet a session */
	struct fab_watch watch;
	int fd; /* -1: none */
	uint8_t transport;
	bool refused; /* only the REFUSE still has to arrive */
	uint32_t out_at;
	uint64_t deadline_ns;
	struct fab_hello hello;
};

struct fab_control {
	int epoll_fd;
	int wake_fd; /* the core wakes control */
	struct fab_watch wake_watch;
	bool stopped;
	bool full; /* no guest's place is free: listeners are not watched */
	uint64_t next_session_id;
	uint64_t pools_bytes;
	struct fab_listener listeners[FAB_LISTENERS_MAX];
	uint32_t listener_count;
	struct fab_guest guests[FAB_HELLOS_MAX];
	struct list pools_due;
	char refusals[FAB_REFUSALS_MAX][FAB_WHY_MAX];
	uint32_t refusal_count;
	_Atomic uint64_t refused;
};

struct fab_server {
	struct fab_server_cfg cfg;
	struct fab__session *sessions; /* cfg.sessions_max */
	/* the core's */
	struct fab__session **open;
	uint32_t open_count;
	uint32_t open_next;    /* where the next poll begins */
	uint32_t stream_count; /* of them, over tcp          */
	uint32_t closing_count;
	uint32_t polls; /* since the epoll was last asked */
	bool busy;      /* it had something then          */
	bool stopping;
	uint64_t now_ns; /* of the last poll */
	uint64_t next_deadline_ns;
	struct list dirty;   /* sessions to flush           */
	struct list cancels; /* requests with an event due  */
	struct list back;    /* pieces with an event due    */
	int epoll_fd;
	int wake_fd; /* control wakes the core */
	struct fab_server_stat stat;
	/* between the two */
	struct spsc to_core;
	struct spsc to_control;
	void **slots;
	_Atomic bool stop;
	/* the control side's */
	struct fab_control control;
	void *arena; /* requests, long bodies and streams of all sessions */
	uint64_t arena_bytes;
};

/* fab_control.c */
must_check int fab__control_create(struct fab_server *srv);
void fab__control_destroy(struct fab_server *srv);
void fab__control_watch(struct fab_server *srv, int fd, struct fab_watch *watch);
void fab__refused(struct fab_server *srv, const char *who, const char *why);

/* fab_listen.c, fab_guest.c */
void fab__listeners_watch(struct fab_server *srv, bool full);
void fab__listeners_close(struct fab_server *srv);
void fab__accept(struct fab_server *srv, struct fab_listener *l, uint64_t now_ns);
struct fab_guest *fab__guest_place(struct fab_server *srv); /* a free one, or NULL */
void fab__guest_begin(struct fab_server *srv, struct fab_guest *g, int fd, uint8_t transport,
		      uint64_t now_ns);
void fab__guest_input(struct fab_server *srv, struct fab_guest *g, uint64_t now_ns);
void fab__guests_expire(struct fab_server *srv, uint64_t now_ns);
void fab__guests_close(struct fab_server *srv);

/* fab_control_session.c: sessions and their pools, the control side's part */
must_check int fab__control_open(struct fab_server *srv, struct fab_guest *g);
void fab__control_input(struct fab__session *s);
void fab__control_messages(struct fab_server *srv);
must_check uint32_t fab__control_pool_events(struct fab_server *srv,
					     struct fab_control_event *events, uint32_t events_max);

/* fab_server.c */
void fab__wake(int fd);

#endif
