/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * fabric - requests and payload between a client and an appliance, over shm or TCP.
 *
 * PROTOCOL.md describes the bytes.  This header is both sides' view of them, in host integers: the
 * appliance calls fab_server_*, fab_req_* and fab_reply, the client fab_connect, fab_submit and
 * fab_poll.  No function blocks, calls back, or reads a clock: callers pass now_ns (monotonic).
 * Poll functions return what has happened.
 *
 *   client                                   appliance
 *   fab_submit(call) ---- request ---------> FAB_EVENT_REQUEST
 *                                              fab_pull()         payload of a put comes
 *                    <--- blocks ----------    fab_window_addr()  or fab_send_part()
 *   fab_poll() = call <-- reply ------------   fab_reply()
 *
 * Addresses: "rdma://192.168.1.2:7010", "tcp://192.168.1.2:7010", "tcp://[fd00::2]:7010" and
 * "shm:/run/weka.sock"; "tls://192.168.1.2:7010" is TCP within TLS 1.3 only.
 */
#ifndef FABRIC_FAB_H
#define FABRIC_FAB_H

#include "base/assert.h"
#include "base/list.h"
#include "fabric/fab_call.h"
#include "fabric/fab_key.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the appliance's side: set-up and control --------------------------------------- */
/*
 * Two threads may work on a server: the control thread (fab_server_control_*, fab_pool_*)
 * and the polling core (everything else).  They may be one and the same.  The polling
 * side neither allocates nor waits; accepting, the hello, and making and mapping memory
 * are the control side's.
 *
 * Several cores have a server each: fab_server_create() makes the first, fab_server_add() the
 * others.  The first one listens, and the control side is its alone; a client that it has let in
 * becomes a session of the core that has fewest, and is polled there for all its life.
 */
struct fab_server;
struct fab_pool;

#define FAB_SHM_USERS_MAX 32u

struct fab_server_cfg {
	struct fab_key key;  /* one that may do everything; id "": none, see fab_key.h */
	uint32_t keys_max;   /* 0: FAB_KEYS_DEFAULT */
	bool tls_required;   /* tcp:// listens for TLS, as tls:// does */
	uint32_t core_count; /* told to clients; 0: 1 */
	uint32_t shard_count;
	uint32_t shm_mode;  /* of sockets of shm: addresses; 0: 0600 */
	uint32_t shm_group; /* ... their group, if shm_has_group     */
	bool shm_has_group;
	uint32_t shm_user_count; /* 0: whoever may open the socket; else these, root and ours */
	uint32_t shm_user[FAB_SHM_USERS_MAX];
	struct fab_limits limits;  /* the most that one connection gets; 0s: defaults  */
	uint32_t sessions_max;     /* connections, all lanes counted; 0: 64            */
	uint32_t lanes_max;        /* of them of one session, at most FAB_LANES_MAX; 0: 4 */
	uint64_t pools_max_bytes;  /* of all sessions together; 0: 1 GiB               */
	uint64_t hello_timeout_ns; /* 0: 5 s                                           */
};

/* The most memory that a connection has the appliance take, pools over shm apart; 0: a limit is out
 * of range. */
uint64_t fab_server_session_bytes(const struct fab_server_cfg *cfg);

/**
 * fab_server_create - take all the memory that the limits ask for
 * fab_server_listen - on one more address; port 0 takes a free one, see fab_server_address()
 *
 * Errors:  create: -ENOMEM, -EINVAL (a limit out of range).
 *          listen: -EINVAL (not an address), -EADDRNOTAVAIL (not ours), -EADDRINUSE, what
 *          socket calls say; `why` (256 bytes or NULL) gets one line for people.
 */
must_check int fab_server_create(struct fab_server **out, const struct fab_server_cfg *cfg);
/* Another core's, with the same limits; sessions_max and pools_max_bytes are of all together. */
must_check int fab_server_add(struct fab_server *first, struct fab_server **out);
must_check int fab_server_listen(struct fab_server *srv, const char *address, char *why);

/* -EINVAL, -ENAMETOOLONG and a line in `why`: no such address is served, nor dialled. */
must_check int fab_address_check(const char *address, char why[256]);

/**
 * fab_address_look - check whether fab_server_listen() could serve this address, without listening
 *
 * Errors:  -EADDRINUSE: another process listens there, perhaps the appliance itself;
 *          -EADDRNOTAVAIL: no interface has it; -EINVAL, or a system error; a line in `why`.
 */
must_check int fab_address_look(const char *address, char why[256]);

/* The i-th listening address as text, or NULL: with the port that was found. */
const char *fab_server_address(const struct fab_server *srv, uint32_t i);

/* fab_server_destroy - only when stopped and every session is closed and every pool released; the
 * first one last. */
void fab_server_destroy(struct fab_server *srv);

/* Admits no more clients; existing sessions stay.  A daemon calls it before it stops its cores, so
 * that no core gets a session that it no longer polls.  Thread: control. */
void fab_server_shut(struct fab_server *first);

/*
 * Memory that pieces lie in (fab_send_part, fab_pull): RDMA cards must register it.  Before the
 * first session; any thread.  It stays the caller's, and must outlive every session.
 */
void fab_server_memory(struct fab_server *srv, void *base, uint64_t size_bytes);

/*
 * Sets what clients are told when they connect: `mark`, such that every later change is newer than
 * it; and `forgotten`, the highest mark up to which an unknown client may have been known.  Any
 * core.
 */
void fab_server_marks(struct fab_server *srv, uint64_t mark, uint64_t forgotten);
/* Iterates over the clients that have a session, from *at = 0; false: no more.  Any core. */
must_check bool fab_server_client(const struct fab_server *srv, uint32_t *at, uint64_t *client);

/* No new sessions, and the old ones closed: each request gets its FAB_EVENT_CANCEL.  Either thread.
 */
void fab_server_stop(struct fab_server *srv);

enum fab_control_type {
	/* A client asked for memory: it is mapped at `memory`, shared, its pages present.  Map it
	 * for DMA, then fab_pool_ready().  (tcp has no such memory: no event.) */
	FAB_CONTROL_POOL_ADDED,
	/* Its session has ended, and no request names it any more: undo, then fab_pool_release().
	 */
	FAB_CONTROL_POOL_GONE,
	/* A client was refused: one line in `text`, for the log; at a limited rate. */
	FAB_CONTROL_REFUSED,
	/* Something happened to a network card: one line in `text`, for the log. */
	FAB_CONTROL_NOTICE,
};

struct fab_control_event {
	enum fab_control_type type;
	struct fab_pool *pool;
	void *memory;
	uint64_t size_bytes; /* a multiple of 2 MiB; memory is aligned to it */
	int fd;              /* POOL_ADDED: the file that memory maps; closed by fab_pool_ready() */
	uint64_t iova;       /* POOL_GONE: as fab_pool_ready() was told it */
	char text[256];
};

/**
 * fab_server_control_step - accept, hello, make pools; never waits
 *
 * Returns: how many of events[] it filled.
 * Thread:  control.  Run it when fab_server_control_fd() is readable or
 *          fab_server_control_deadline() (UINT64_MAX: none) has passed.
 */
must_check uint32_t fab_server_control_step(struct fab_server *srv, uint64_t now_ns,
					    struct fab_control_event *events, uint32_t events_max);
int fab_server_control_fd(const struct fab_server *srv);
uint64_t fab_server_control_deadline(const struct fab_server *srv);

/* Makes the pool usable by requests; with `status` < 0 it could not be mapped, and the client is
 * told so.  Thread: control. */
void fab_pool_ready(struct fab_pool *pool, int status, uint64_t iova);
void fab_pool_release(struct fab_pool *pool);

/* ---- the appliance's side: the polling core ----------------------------------------- */

/* Sessions reserved for operators besides sessions_max: for keys that may do everything and ask for
 * at most this many requests at once.  Over shared memory they get a pool even when all pool memory
 * is taken. */
#define FAB_OPERATORS        2u
#define FAB_OPERATOR_CREDITS 2u
#define FAB_OPERATOR_POOL    (4u << 20)

/* Refused actions of a client; FAB_CONTROL_REFUSED reports them with the client's address. */
enum fab_refusal {
	FAB_REFUSED_WRITE,    /* a change by a key that may read only        */
	FAB_REFUSED_PATH,     /* a path that leaves its subtree              */
	FAB_REFUSED_USER,     /* ... or what modes do not let its user do    */
	FAB_REFUSED_HANDLE,   /* a handle or number that is not its key's    */
	FAB_REFUSED_STATUS,   /* the appliance's counters                    */
	FAB_REFUSED_PROTOCOL, /* the fabric's own: the session ended for it  */
	FAB_REFUSED_STALLED,  /* its session ended: it took no data          */
	FAB_REFUSED_SLOW,     /* it has taken nothing for a while; a notice  */
	FAB_REFUSALS_END,
};

/*
 * One connection of a client's.  A client may have several, its lanes, each on a core of its own
 * choice: `id` is the same then, and so are key, rights and rate; everything else is apart.
 */
struct fab_session {
	uint64_t id;
	uint32_t lane;         /* its number */
	void *user;            /* the appliance's */
	const char *transport; /* "shm", "rdma" or "tcp" */
	const char *peer;      /* its address, or user and process; for people */
	struct fab_limits limits;
	char key_id[FAB_KEY_ID_MAX + 1];
	uint32_t key; /* number of its key, at most FAB_KEYS_MAX; reused after its last session */
	const struct fab_rights *rights; /* rights of its key; valid while the session exists */
	const struct fab__scope *scope;  /* the fabric's: fab_handle_open() */
	uint64_t client;        /* the same for all sessions of one client by one key; 0: unknown */
	uint64_t forgotten;     /* what fab_server_marks() said when it was told: PROTOCOL.md 5 */
	struct fab__rate *rate; /* ... fab_session_rate_take(); NULL: no limit */
};

/*
 * The number of a change, so that the client may send it again in a later session: PROTOCOL.md 5.
 * Each slot has at most one unanswered change, and each change has a higher number than those
 * before it.
 */
struct fab_change {
	uint64_t number; /* 1 .. 2^48 - 1 */
	uint32_t slot;   /* below FAB_CHANGE_SLOTS */
	bool again;      /* it was sent in an earlier session: it may have been made */
	bool sure;       /* ... and not by a client that may have been forgotten since */
};

struct fab_window {
	struct fab_pool *pool; /* NULL: no window */
	uint64_t offset_bytes; /* in the pool, a multiple of 4096 */
	uint32_t length_bytes; /* a multiple of 4096              */
};

/*
 * A request, decoded and checked: names lie in memory that the client cannot change and stay
 * until fab_reply().  It is the appliance's from FAB_EVENT_REQUEST until fab_reply().
 */
struct fab_req {
	enum fab_type type;
	uint32_t credit; /* below limits.credits, unlike any other request's of the session */
	struct fab_session *session;
	void *user;       /* the appliance's */
	struct list link; /* the appliance's, too */
	uint64_t id;
	uint64_t arrived_ns;
	uint64_t deadline_ns; /* UINT64_MAX: none */
	struct fab_window window;
	union fab_args args;
	/* The appliance's: how long it took, and how much of that at least one I/O of a drive was
	 * under way for it.  A reply carries both if took_ns is not 0. */
	uint64_t took_ns;
	uint64_t drive_ns;
};

/* A piece of payload on its way; the appliance owns the struct and `bytes` until it comes back. */
struct fab_piece {
	void *user; /* the appliance's */
	int status; /* when back: 0, or -ECONNRESET */
	uint32_t window_at;
	uint32_t length_bytes;
	void *bytes; /* the appliance's memory */
	struct fab_req
		*req; /* of a pull; not to be used for a part once the request is replied to */
	uint64_t opaque[20];
};

enum fab_event_type {
	FAB_EVENT_SESSION_NEW,
	FAB_EVENT_SESSION_CLOSED, /* every request of it was replied to, every piece is back */
	FAB_EVENT_REQUEST,
	/* The client does not want it any more, its deadline has passed, or its session is ending
	 * (`status`: -ECANCELED, -ETIMEDOUT, -ECONNRESET).  Reply soon, with that status or with
	 * the result.  At most two for a request: -ECONNRESET may follow. */
	FAB_EVENT_CANCEL,
	FAB_EVENT_PULLED, /* piece->bytes are there, or piece->status says why not */
	FAB_EVENT_SENT,   /* piece->bytes may be used again */
};

struct fab_event {
	enum fab_event_type type;
	int status;
	struct fab_session *session;
	struct fab_req *req;
	struct fab_piece *piece;
};

/**
 * fab_server_poll - return the events since the last call
 *
 * Returns: the number of events[] filled in.  A request's event comes before any other that
 *          names it; at most credits x sessions requests are out.
 * Owns:    memory that an event names is the caller's until the next call or fab_server_arm(); so
 *          a core that ends polls once more after its last SESSION_CLOSED.
 * Thread:  the core's.  Never blocks, never allocates.
 */
must_check uint32_t fab_server_poll(struct fab_server *srv, uint64_t now_ns,
				    struct fab_event *events, uint32_t events_max);

/* Wake sleeping clients and push what TCP has queued: once a turn, after the replies.  poll does it
 * too. */
void fab_server_flush(struct fab_server *srv);

/**
 * fab_server_arm - about to sleep: make fab_server_fd() readable when there is something to poll
 *
 * Returns: true: sleep on the fd, at most until fab_server_deadline() (UINT64_MAX: for ever).
 *          false: something is there already, or was when it was polled last: poll.  After waking:
 *          fab_server_disarm().
 */
must_check bool fab_server_arm(struct fab_server *srv);
void fab_server_disarm(struct fab_server *srv);
int fab_server_fd(const struct fab_server *srv);
uint64_t fab_server_deadline(const struct fab_server *srv);

/* A read whose earlier answer did not match its checksums: it is to be compared. */
must_check bool fab_req_doubts(const struct fab_req *req);
/* False: it is no change, or one that its client does not call by a number. */
must_check bool fab_req_change(const struct fab_req *req, struct fab_change *out);

/* The i-th item (i < args.batch.count) of a batch. */
void fab_req_read_item(const struct fab_req *req, uint32_t i, struct fab_read_item *out);
void fab_req_put_item(const struct fab_req *req, uint32_t i, struct fab_put_item *out);
/* FAB_STAT, FAB_UNLINK_BATCH, FAB_HOLD, FAB_LET_GO */
void fab_req_name(const struct fab_req *req, uint32_t i, struct fab_name *out);

/**
 * fab_window_addr - where a drive may write the window's bytes itself
 *
 * Returns: the address of `offset`, and its IOVA in *iova; NULL when the window is not shared
 *          memory: then fab_send_part().  Offset and length must lie in the window.
 *          The client can change these bytes at any time: never read them to decide.
 */
void *fab_window_addr(const struct fab_req *req, uint32_t offset, uint32_t length, uint64_t *iova);

/**
 * fab_send_part - put piece->bytes into the client's window at piece->window_at
 *
 * shm: copies (meant for small data: tables, lists, inline files).  tcp: sends directly from
 * `bytes`; together with the reply, if the reply follows at once and these are whole blocks.  A
 * reply given later announces the data, so there is no need to wait for FAB_EVENT_SENT before
 * fab_reply(); only `bytes` must stay until then.
 *
 * Returns: 1 done, no event comes; 0: FAB_EVENT_SENT follows.
 * Errors:  -ECONNRESET.  The piece stays the caller's.
 */
must_check int fab_send_part(struct fab_req *req, struct fab_piece *piece);

/**
 * fab_pull - get piece->length_bytes of the client's window from piece->window_at into piece->bytes
 *
 * Returns: 1 done (shm: copied); 0: FAB_EVENT_PULLED follows, also when the session ends.  The
 *          request must not be replied to before.
 * Errors:  -ECONNRESET.
 */
must_check int fab_pull(struct fab_req *req, struct fab_piece *piece);

/**
 * fab_reply - end a request
 *
 * `body` of at most FAB_BODY_MAX bytes is copied; make it with the builders below.
 * A status < 0 goes without a body.
 *
 * Owns:    `req` is gone.  Its pieces sent may still be out, its pulls may not.
 */
void fab_reply(struct fab_req *req, int status, const void *body, uint32_t body_bytes);

/* ... with -EBUSY, and after how many milliseconds it may be asked again. */
void fab_reply_busy(struct fab_req *req, uint32_t retry_ms);

/* Replies to FAB_READ with the length read (shorter at the end of the file) and the blocks' sums in
 * order.  With more than FAB_SUMS_INLINE blocks the sums are in the window at sums_at, and `sums`
 * is NULL. */
void fab_reply_read(struct fab_req *req, uint32_t length_bytes, const uint32_t *sums,
		    uint32_t sums_at);

#define FAB_ATTR_BYTES   96u
#define FAB_STAT_BYTES   104u /* status and attributes: an item of FAB_STAT; FAB_OPEN's reply */
#define FAB_STATUS_BYTES 4u   /* an item of FAB_UNLINK_BATCH, FAB_HOLD, FAB_LET_GO */
#define FAB_LISTED_BYTES 40u  /* FAB_LIST's reply body */
#define FAB_STATFS_BYTES 64u
#define FAB_TOTALS_BYTES 64u

/* Builders: each returns the bytes it made at `out`, which must have room. */
uint32_t fab_build_stat(void *out, int status, const struct fab_attr *attr);
uint32_t fab_build_status(void *out, int status);
/* One row of a table of answers: FAB_ANSWER_BYTES. */
uint32_t fab_build_answer_read(void *out, const struct fab_answer *answer);
uint32_t fab_build_answer_put(void *out, const struct fab_answer *answer);
/* Returns the size of an entry; entries follow one another from the window's start. */
uint32_t fab_entry_bytes(uint32_t name_bytes);
uint32_t fab_build_entry(void *out, const struct fab_entry *entry);
/* The reply bodies of FAB_LIST, FAB_STATFS and FAB_TOTALS. */
uint32_t fab_build_listed(void *out, uint32_t count, uint32_t total_bytes, bool at_end,
			  const uint8_t cookie[FAB_COOKIE_BYTES]);
uint32_t fab_build_statfs(void *out, const struct fab_statfs *statfs);
uint32_t fab_build_totals(void *out, const struct fab_totals *totals);

/* A size, an offset, or the length of a text in the window: PROTOCOL.md 6. */
uint32_t fab_build_u64(void *out, uint64_t value);

/* Returns the position of the answers in a window: its end minus count x 24 rounded up to 64. */
static inline uint32_t fab_answers_at(uint32_t window_bytes, uint32_t count)
{
	return window_bytes - ((count * FAB_ANSWER_BYTES + 63u) & ~63u);
}

/* Counters of one server since its start. */
struct fab_server_stat {
	uint64_t requests;
	uint64_t replies;
	uint64_t sessions;
	uint64_t refused;         /* connections, and kinds of what sessions may not do */
	uint64_t refused_logins;  /* connections that did not prove their key */
	uint64_t protocol_errors; /* sessions closed for malformed messages     */
	uint64_t bytes_in;        /* payload pulled                             */
	uint64_t bytes_out;       /* payload sent or copied, not what drives wrote */
	uint64_t wakeups_sent;    /* doorbells to sleeping clients              */
};
/* A request of this session was refused.  Thread: the core's; cheap however often it is called. */
void fab_session_refused(struct fab_session *session, enum fab_refusal what);

/* Returns the present counters.  Thread: the core's. */
void fab_server_stat(const struct fab_server *srv, struct fab_server_stat *out);

/* ---- the client's side -------------------------------------------------------------- */
/* A connection, its pools and its calls belong to one thread at a time. */
struct fab_conn;
struct fab_region; /* a pool, as its client knows it */

struct fab_connect_cfg {
	const char *address;
	struct fab_key key;
	struct fab_limits want;    /* 0: the appliance's choice */
	uint64_t hello_timeout_ns; /* 0: 5 s */
	/*
	 * NULL: a session of its own.  Else one that was connected, and perhaps broke: this one
	 * joins its session, with the key that both sides made for that; `key` is not looked at.
	 * Not over shm: there a pool is the appliance's memory, known to one core.
	 */
	const struct fab_conn *lane_of;
	uint32_t lane; /* its number, below lanes_max; replaces an older lane of that number */
	uint32_t core; /* that it wishes for */
	/* Random, the same for all connections of one client: fab_call.change.  Zeros: none.  When
	 * the appliance admits the client, all work of its earlier connections has ended. */
	uint8_t client_id[FAB_CLIENT_ID_BYTES];
};

/**
 * fab_connect - begin to connect
 * fab_connect_step - continue; call again when fab_conn_fd() is readable or its deadline passed
 *
 * Returns: step: 0 connected, -EINPROGRESS not yet, or how it failed, with one line for people
 *          in fab_conn_error(): -EACCES (key), -EPROTO (another protocol), -EPROTONOSUPPORT
 *          (versions), -ETIMEDOUT, -ECONNREFUSED, -ECONNRESET, -EUSERS (the appliance is full, or
 *          the session has its maximum of lanes), -EBUSY (too many clients connect at once: try
 *          again after fab_conn_retry_ms()), -EAGAIN (the same, over shm), for a lane -EXDEV
 *          (another appliance).
 * Owns:    a failed connection must be closed too (fab_close()), unless *out is NULL (-ENOMEM).
 */
must_check int fab_connect(struct fab_conn **out, const struct fab_connect_cfg *cfg,
			   uint64_t now_ns);
must_check int fab_connect_step(struct fab_conn *conn, uint64_t now_ns);
const char *fab_conn_error(const struct fab_conn *conn);
/* After -EBUSY: the pause that the appliance asked for; 0: none. */
uint32_t fab_conn_retry_ms(const struct fab_conn *conn);
const struct fab_limits *fab_conn_limits(const struct fab_conn *conn);
/* Of WELCOME: PROTOCOL.md 5. */
uint64_t fab_conn_mark(const struct fab_conn *conn);
uint64_t fab_conn_forgotten(const struct fab_conn *conn);
const char *fab_conn_transport(const struct fab_conn *conn);
const struct fab_place *fab_conn_place(const struct fab_conn *conn);

/* Calls still in flight are forgotten, regions unmapped: nothing may use their memory any more. */
void fab_close(struct fab_conn *conn);

/**
 * fab_pool_add - ask for memory that the appliance can reach
 *
 * Errors:  now: -ENOSPC (FAB_POOLS_MAX or pool_max_bytes), -ENOTCONN, -ENOMEM.
 *          fab_region_status(): -EINPROGRESS until some fab_poll() has brought it, then 0, or the
 *          appliance's answer (-ENOMEM, -ENOSPC), or -ECONNRESET.
 * Owns:    the connection, until fab_close(); it stays mapped when the connection breaks.
 */
must_check int fab_pool_add(struct fab_conn *conn, uint64_t size_bytes, struct fab_region **out);
/*
 * Like fab_pool_add() for memory that stays the caller's, a multiple of 2 MiB: several connections
 * may share it.  Over shm it must be a shared mapping of all of `fd`, a memfd whose size is sealed;
 * else fd is not used and may be -1.
 *
 * Errors:  -EOPNOTSUPP (shm without a descriptor; fab_region_status(): an older appliance).
 *          fab_region_status(): -EINVAL (shm: the appliance does not take this descriptor).
 */
must_check int fab_pool_lend(struct fab_conn *conn, void *memory, uint64_t size_bytes, int fd,
			     struct fab_region **out);
/* The region's memory is the caller's from now on, as if it had been his from the start. */
void fab_region_keep(struct fab_region *region);
int fab_region_status(const struct fab_region *region);
void *fab_region_memory(const struct fab_region *region);  /* page-aligned; zeroed */
uint64_t fab_region_size(const struct fab_region *region); /* size_bytes rounded up to 2 MiB */

/*
 * Moves `fresh`, a region of a new connection, to the address of `old`, in one step (mremap):
 * pointers into the old memory then point into fresh's.  The old memory is gone, and no region has
 * it any more; so is fresh's former address.  fresh must be at least as large.  Copy the bytes to
 * keep before the call.
 *
 * Errors:  -ENOMEM (the process has its maximum of mappings): nothing has changed.
 */
must_check int fab_region_replace(struct fab_region *fresh, void *old, uint64_t old_bytes);

/* One request; the caller keeps it, its items and names where they are until fab_poll() returns it.
 */
struct fab_call {
	void *user; /* yours */
	enum fab_type type;
	union fab_args args;
	struct fab_region *region; /* the window: NULL for none */
	uint64_t window_offset;    /* a multiple of 4096 */
	uint32_t window_bytes;     /* a multiple of 4096 */
	uint32_t deadline_us;      /* the appliance gives up after this time; 0: never */
	struct fab_change change;  /* number 0: not to be remembered */
	bool doubt;                /* READ, READ_BATCH: an earlier answer did not match its sums */

	int status;        /* after the poll: 0, or the error of the appliance or connection */
	uint64_t took_ns;  /* how long it was in the appliance; 0: it was not said */
	uint64_t drive_ns; /* ... and how much of that drives worked on it         */
	uint32_t retry_ms; /* with -EBUSY: ask again then, nothing was done; 0: it was not said */
	/* READ: bytes read; 0: at or after the end.  READLINK, STATUS, XATTR_GET, XATTR_LIST:
	 * length of the text.  WRITE: size of the file after it. */
	uint64_t length_bytes;
	uint32_t body_bytes;
	const void *data; /* the reply's text, attributes or sums: in `body` or in the window */
	uint64_t opaque[6];
	uint8_t body[FAB_BODY_MAX];
};

/**
 * fab_submit - encode and queue a request
 *
 * Errors:  -EAGAIN: no credit (or no long body) free: poll first.  -EMSGSIZE: its names do not fit
 *          FAB_LONG_BODY_MAX, or the batch is over batch_max.  -EINVAL: what PROTOCOL.md forbids.
 *          -ECONNRESET, -ENOTCONN.
 */
must_check int fab_submit(struct fab_conn *conn, struct fab_call *call);

/* Ask to end a call early.  It still comes back from fab_poll(); till then its window is in use. */
void fab_cancel(struct fab_conn *conn, struct fab_call *call);

/**
 * fab_poll - collect calls that are answered
 *
 * When the connection breaks every call in flight comes back with -ECONNRESET: what became of
 * it is not known.  Over shm a drive may still write into its window until the appliance has
 * noticed.
 *
 * Returns: how many of done[]; fab_conn_status() says whether the connection lives.
 */
must_check uint32_t fab_poll(struct fab_conn *conn, uint64_t now_ns, struct fab_call **done,
			     uint32_t done_max);
void fab_flush(
	struct fab_conn *conn); /* wake a sleeping appliance: once after a batch of submits */
/* Like fab_flush() for messages that nobody waits for: over tcp they are sent with the next
 * message, or after the kernel's time for a corked socket (200 ms), in one segment. */
void fab_flush_later(struct fab_conn *conn);
int fab_conn_status(const struct fab_conn *conn); /* 0, -ENOTCONN, -ECONNRESET, -EPROTO */

/* As fab_server_arm(): true: sleep on the fd; then fab_disarm() and poll. */
must_check bool fab_arm(struct fab_conn *conn);
void fab_disarm(struct fab_conn *conn);
int fab_conn_fd(const struct fab_conn *conn);
uint64_t fab_conn_deadline(const struct fab_conn *conn);
/* Another number whenever something has come: half an answer, too. */
uint64_t fab_conn_came(const struct fab_conn *conn);

/*
 * Reading answers, checked: -EPROTO when the appliance wrote nonsense.
 * fab_call_answer: item i of READ_BATCH or PUT.  Offsets and lengths lie inside the window.
 * fab_call_sum:    the checksum of block `block` of FAB_READ's data, or of an answer's.
 * fab_call_attr:   item i of STAT (its own status is returned), or OPEN's and its like (i = 0).
 * fab_call_status: item i of UNLINK_BATCH, HOLD or LET_GO: its own status.
 */
must_check int fab_call_answer(const struct fab_call *call, uint32_t i, struct fab_answer *out);
uint32_t fab_call_sum(const struct fab_call *call, uint32_t block);
uint32_t fab_answer_sum(const struct fab_call *call, const struct fab_answer *answer,
			uint32_t block);
must_check int fab_call_attr(const struct fab_call *call, uint32_t i, struct fab_attr *out);
must_check int fab_call_status(const struct fab_call *call, uint32_t i);
must_check int fab_call_statfs(const struct fab_call *call, struct fab_statfs *out);
must_check int fab_call_totals(const struct fab_call *call, struct fab_totals *out);
/* LIST: walks entries from *at = 0; returns 1 an entry, 0 no more, -EPROTO. */
must_check int fab_call_entry(const struct fab_call *call, uint32_t *at, struct fab_entry *out);
must_check int fab_call_listed(const struct fab_call *call, uint32_t *count, bool *at_end,
			       uint8_t cookie[FAB_COOKIE_BYTES]);

#endif
