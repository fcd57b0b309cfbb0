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
#define FAB_SLOW_NS     UINT64_C(1000000000)  /* before it is logged */
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
/* Parses an item of a FAB_STAT, FAB_UNLINK_BATCH, FAB_HOLD or FAB_LET_GO. */
must_check int fab__name_item_parse(struct fab_name *out, enum fab_type type, const void *body,
				    uint32_t body_bytes, uint32_t i);

/* Bytes of a call's body, or -EMSGSIZE, -EINVAL; then the body itself. */
must_check int64_t fab__call_measure(const struct fab_call *call, const struct fab_limits *limits);
void fab__call_build(const struct fab_call *call, void *out);
uint64_t fab__change_id(const struct fab_change *c); /* the request's id: fab_codec.c */

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

struct fab__keys;
struct fab__lanes;
#define FAB_KEY_NONE UINT32_MAX

/* The key of that id, if it is good for such a peer; or one without an owner, and FAB_KEY_NONE in
 * *slot.  fab_keys.c */
const struct fab_key *fab__keys_find(const struct fab__keys *keys,
				     const char id[FAB_KEY_ID_MAX + 1], enum fab_peer peer,
				     uint32_t *slot);

const struct fab_key *fab__keys_nobody(const struct fab__keys *keys);

/* The key of a session that this hello wants to join, and the slot of the key that the session is
 * in by; one that nobody has, and FAB_KEY_NONE, if there is no such session.  fab_lanes.c */
struct fab_hello;
const struct fab_key *fab__lanes_find(const struct fab__lanes *lanes, const struct fab_hello *h,
				      uint32_t *slot);

/* The session that a client's connection joins, and its lane. */
struct fab__join {
	uint64_t session_id;
	uint16_t number;
	uint16_t core;
	uint8_t appliance[FAB_APPLIANCE_BYTES]; /* where that session is */
};

struct fab_hello {
	enum fab_hello_at at;
	bool server;
	enum fab_peer peer; /* the appliance: its peer */
	uint8_t transport;
	uint8_t version;
	struct fab_place place;
	const struct fab_key *key;      /* the client's: of a lane its session's */
	const struct fab__keys *keys;   /* the appliance's */
	const struct fab__lanes *lanes; /* ... sessions that may be joined; NULL: none */
	uint32_t key_slot;              /* ... that was proved */
	struct fab_limits limits;       /* asked or offered; then agreed on */
	struct fab_hello_wire hello;
	struct fab_challenge_wire challenge;
	uint64_t mark; /* of WELCOME */
	uint64_t forgotten;
	uint64_t client; /* appliance: the client's proved identity; 0: none */
	char key_id[FAB_KEY_ID_MAX + 1];
	uint32_t in_bytes; /* received bytes of `in` */
	uint32_t out_bytes;
	uint8_t in[64 + 256];
	uint8_t out[64 + 256];
	char why[FAB_WHY_MAX]; /* when it failed */
	uint32_t retry_ms;     /* the client, with -EBUSY: when it may try again; 0: not said */
};

/* `nonce`: 32 fresh random bytes; client_id: NULL, or of fab_connect_cfg; `join`: NULL, or the
 * session whose key `key` is. */
void fab__hello_client(struct fab_hello *h, const struct fab_key *key, uint8_t transport,
		       const struct fab_limits *want, const uint8_t client_id[FAB_CLIENT_ID_BYTES],
		       const uint8_t nonce[32], const struct fab__join *join);
void fab__hello_server(struct fab_hello *h, const struct fab__keys *keys, uint8_t transport,
		       const struct fab_limits *most, const uint8_t nonce[32]);
/* Returns how many more bytes fab__hello_step() needs in `in`. */
uint32_t fab__hello_want(const struct fab_hello *h);
/*
 * Handles the received bytes.  0: continue (send out[0 .. out_bytes) first), 1: agreed, or how it
 * failed, with a line in `why`; the appliance then has a REFUSE in `out`.
 */
must_check int fab__hello_step(struct fab_hello *h);
/* The slot of its key as it is now; FAB_KEY_NONE: it is good no more. */
uint32_t fab__hello_key_slot(const struct fab_hello *h);
/* Returns true if the received hello asks to join a session. */
bool fab__hello_joins(const struct fab_hello *h);
/* The appliance's last word: WELCOME, with h->mark and h->forgotten, into `out`. */
void fab__hello_welcome(struct fab_hello *h, uint64_t session_id, uint32_t core);
/* The key of the session that a hello with `key` began; both sides know it. */
void fab__hello_session_key(const struct fab_hello *h, const struct fab_key *key,
			    uint8_t out[FAB_KEY_BYTES]);
void fab__hello_refuse(struct fab_hello *h, int status, const char *text);
/* ... with -EBUSY: the client must retry after `retry_ms`. */
void fab__hello_refuse_busy(struct fab_hello *h, uint32_t retry_ms, const char *text);
void fab__hello_proof(uint8_t out[32], const struct fab_key *key, const char *label,
		      const struct fab_hello_wire *hello,
		      const struct fab_challenge_wire *challenge);

/* Returns the TLS key id of a session's lanes.  It has a space, so that it is never the id of a
 * key.  fab_tls.c */
void fab__tls_lane_id(char id[FAB_KEY_ID_MAX + 1], uint64_t session_id);

/* ---- fab_addr.c --------------------------------------------------------------------- */

struct fab_addr {
	uint8_t transport; /* enum fab_transport_id */
	bool tls;          /* tcp within TLS, and not without */
	socklen_t bytes;
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	};
};

/* fab_inet.c: parses "HOST:PORT"; -EINVAL with the reason. */
must_check int fab__inet_parse(struct fab_addr *out, const char *text, const char **wrong);
void fab__inet_text(const struct sockaddr *sa, char *out, size_t size);
bool fab__inet_is_loopback(const struct sockaddr *sa);
must_check int fab__tcp_options(int fd);
must_check int fab__tcp_listen_options(int fd, const struct fab_addr *addr);

/* -EINVAL, -ENAMETOOLONG; `why` gets a line. */
must_check int fab__addr_parse(struct fab_addr *out, const char *address, char why[FAB_WHY_MAX]);
must_check int fab__addr_socket(const struct fab_addr *addr); /* non-blocking; fd or -errno */
must_check int fab__peer_uid_check(int fd, const uint32_t *user, uint32_t user_count,
				   char why[FAB_WHY_MAX]);
/* Is it on this machine, as far as its address tells? */
/* As far as its socket tells; `transport` is the appliance's. */
enum fab_peer fab__peer_of(int fd, uint8_t transport);
/* Its address, for people: "127.0.0.1:40000", or "user 0, process 4711". */
void fab__peer_text(int fd, char out[64]);

must_check int fab__fd_nonblock(int fd);

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
	const uint8_t *in_body; /* shared: body of the header received last */
	uint8_t *bodies;        /* shared */
	uint32_t long_bodies;
	bool server;     /* the appliance's side                    */
	int doorbell_fd; /* wakes the other side                    */
	bool unrung;     /* something was sent since the last flush */
	bool closed;
	uint64_t rung_count;
	void *memory;
	uint64_t memory_bytes;
};

void fab__shm_init(struct fab_shm *shm, void *memory, const struct fab_limits *limits, bool server,
		   int doorbell_fd);

/* The client's doorbell has rung: read it empty, so that it can ring again. */
void fab__shm_bell_read(int fd);

/* A sealed memfd, mapped at a multiple of 2 MiB.  Its pages come with fab__memory_populate(). */
must_check int fab__memfd_create(const char *name, uint64_t size_bytes, int *fd, void **memory);
/* The other's: refused unless it is sealed and has this size.  Maps its first pages at once. */
must_check int fab__memfd_map(int fd, uint64_t size_bytes, uint64_t populate_bytes, void **memory);
/* A client's: -EINVAL unless its size is sealed and is this one, in ordinary pages.  Also -EACCES,
 * -EPERM (it cannot be written to). */
must_check int fab__memfd_take(int fd, uint64_t size_bytes, void **memory);
/* Makes the pages present. */
must_check int fab__memory_populate(void *memory, uint64_t size_bytes);
void fab__memory_unmap(void *memory, uint64_t size_bytes);

/* One send or receive with descriptors; returns bytes or -errno. */
must_check ssize_t fab__send_fds(int fd, const void *bytes, size_t size, const int *fds,
				 uint32_t fd_count);
must_check ssize_t fab__recv_fds(int fd, void *bytes, size_t size, int *fds, uint32_t fd_max,
				 uint32_t *fd_count);

/* ---- fab_tcp.c ---------------------------------------------------------------------- */

struct fab_tls; /* fab_tls.h */

#define FAB_TCP_IN_BYTES (64u << 10)

struct fab_tcp {
	struct fab_link link;
	int fd;
	struct fab_tls *tls; /* whose owner is who made it; NULL: none */
	int err;             /* sticky */
	bool drained;        /* the last read took all there was */
	bool stuck;          /* the socket was full: wait until it is writable */
	uint32_t reach;      /* minimum to read when a header is needed */
	uint32_t in_at;      /* in[in_at .. in_end) is not yet handed out */
	uint32_t in_end;
	struct list out;       /* fab_tx */
	struct list done;      /* fab_tx, for sent() */
	uint64_t out_at;       /* bytes of the first of `out` that have left */
	struct list *unsummed; /* the first of `out` without checksums yet; NULL: none */
	uint8_t in[FAB_TCP_IN_BYTES];
};

void fab__tcp_init(struct fab_tcp *tcp, int fd, struct fab_tls *tls);

/* ---- pools: fab_conn_in.c -------------------------------------------------------------------- */

struct fab_region {
	struct fab_conn *conn;
	uint32_t number;
	int status; /* -EINPROGRESS until POOL_ADDED has come */
	void *memory;
	bool caller_owned; /* else the connection's, which frees it */
	uint64_t size_bytes;
	struct fab_tx tx; /* tcp, rdma: POOL_ADD */
};

#endif
