/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Operations of one core, and the core's own structure; private to appliance/ and tests.
 *
 *   request --admit--> app_op, or app_batch of app_ops --step ... step--> reply
 *
 * One step function for each kind reads from top to bottom; the name of a stage is a fact that has
 * become true.  The loop steps an operation when the event that it waits for has happened.
 */
#ifndef APP_OP_H
#define APP_OP_H

#include "appliance/core/app_core.h"
#include "appliance/core/app_damaged.h"
#include "appliance/core/app_hedge.h"
#include "appliance/media/app_failing.h"
#include "appliance/media/app_media.h"
#include "appliance/core/app_ring.h"
#include "appliance/core/app_snapshot.h"
#include "appliance/media/app_staging.h"
#include "appliance/media/app_witness.h"
#include "base/arena.h"
#include "meta/meta_protect.h"
#include "meta/meta_twins.h"
#include "base/le.h"
#include "base/list.h"
#include "base/num.h"

#define APP_AHEAD_MAX    16u  /* operations whose lookups wait for memory together */
#define APP_RUNS_MAX     128u /* of one read plan or write     */
#define APP_SLICES_MAX   17u  /* more than there are runs: app_op_io() */
#define APP_BLOCKS_MAX   (META_IO_BLOCKS_MAX + 1u) /* 4 MiB that begin inside a block */
#define APP_FILE_BUCKETS 256u
#define APP_HOLD_BUCKETS 4096u
#define APP_PART_BYTES   (1u << 20) /* of what several small files share over TCP */
#define APP_FILE_MAX     (1ull << 52)
#define APP_TAIL_WRITE   1024u /* a write of up to this size leaves its last block in the index */
#define APP_SESSIONS_MAX (4096u + FAB_OPERATORS)
#define APP_SLICE_MIN    (128u << 10) /* of a read over tcp or rdma: app_quota.c */
#define APP_TOOK_MAX     64u          /* more are counted as of the turn's start */
#define APP_CHUNK_BYTES  (4ull << 20) /* a read goes to the drives in pieces of at most this */

/* Result of a step for the loop. */
enum app_next {
	APP_WAIT,  /* something is in flight: step me again when it is done */
	APP_AGAIN, /* step me again at once                                 */
	APP_END,   /* op->status is set: answer, when all it saw is durable */
};

enum app_op_kind {
	APP_OP_READ,      /* app_read.c: FAB_READ and items of FAB_READ_BATCH  */
	APP_OP_PUT,       /* app_put.c: items of FAB_PUT                       */
	APP_OP_WRITE,     /* app_write.c                                       */
	APP_OP_TRUNCATE,  /* app_truncate.c: also for FAB_OPEN_TRUNC           */
	APP_OP_PUNCH,     /* app_punch.c                                       */
	APP_OP_OPEN,      /* app_name.c                                        */
	APP_OP_NAME,      /* app_name.c: all that is one call of the store     */
	APP_OP_LIST,      /* app_list.c                                        */
	APP_OP_XATTR,     /* app_xattr.c                                       */
	APP_OP_STATUS,    /* app_stat.c                                        */
	APP_OP_LOG,       /* app_log.c, app_report.c                           */
	APP_OP_ABORT,     /* app_session.c: a hidden file of a session that left */
	APP_OP_LET_GO,    /* app_hold.c: items of FAB_LET_GO, and our own      */
	APP_OP_BATCH_END, /* app_batch.c: the tables of a batch, and its reply */
	APP_OP_SCRUB,     /* app_scrub.c: our own                              */
	APP_OP_SNAPSHOT,  /* app_ask.c: our own                                */
	APP_OP_KINDS
};

/* The event that an operation waits for, besides `ios_out` and `pulls_out`. */
enum app_on {
	APP_ON_NOTHING,
	APP_ON_META,    /* the store has op->meta                  */
	APP_ON_READY,   /* core->ready: to be stepped              */
	APP_ON_TURN,    /* session->resume: app_turn.c             */
	APP_ON_STAGING, /* core->staging_waiters                   */
	APP_ON_PART,    /* core->part_waiters: a part or a table   */
	APP_ON_BLOCKS,  /* core->block_waiters: a zone is opened   */
	APP_ON_FILE,    /* another change of the same file         */
	APP_ON_SHUT,    /* core->shut: a shard that is closed now  */
};

/* A change that may have been made already: app_replay.c. */
enum app_recall { APP_RECALL_NO, APP_RECALL_DUE, APP_RECALL_ASKED, APP_RECALL_LOOKED };

/* The event that an operation of another core waits for at the store's core. */
enum app_store_on { APP_STORE_NOTHING, APP_STORE_FILE, APP_STORE_BLOCKS };

/* Messages between cores. */
enum app_say {
	/* To the store's core; each comes back as APP_SAY_DONE: */
	APP_SAY_CALL,    /* run op->meta, or say that it is lent there                */
	APP_SAY_MADE,    /* op->meta was run on a lent shard: log its record          */
	APP_SAY_DURABLE, /* wait until op->meta.seen_seq is                           */
	APP_SAY_LOCK,    /* lock op->handle's file for op                             */
	APP_SAY_BLOCKS,  /* op->nblocks of them, into op->runs                        */
	APP_SAY_CANCEL,  /* LOCK or BLOCKS, which is out: do not wait any longer      */
	APP_SAY_LEAVE,   /* its lock, and its runs [give_from, ...), are given back   */
	/* ... and this does not: */
	APP_SAY_READ_END, /* a pin's end                                              */
	APP_SAY_KNOCK,    /* a reader waits for this shard                            */
	APP_SAY_AILING,   /* I/Os of these drives, by their bits, have failed; and suspects */
	/* To any: */
	APP_SAY_DAMAGED, /* to the store's core: a page of the list into op's table; comes back */
	APP_SAY_STAT,    /* add your counters to op's snapshot; comes back       */
	APP_SAY_QUIET,   /* I shall ask nothing more                                     */
	APP_SAY_BYE,     /* I shall say nothing more                                     */
	/* From the store's: */
	APP_SAY_SERVE, /* it is mounted, or could not be                              */
	APP_SAY_OPEN,  /* to readers that knocked: the shard is open                   */
	APP_SAY_DONE,
};

/* All cores of one appliance. */
struct app_cores {
	uint32_t count;
	struct app_ring *ring; /* [from * count + to] */
	struct app_message *slots;
	struct app_bell bell[APP_CORES_MAX];
	struct meta *store; /* the store's core's, for readers to be made of */
	struct app_suspects *suspects[APP_CORES_MAX];         /* of each core */
	_Alignas(APP_RING_LINE) _Atomic uint64_t durable_seq; /* as the store's core saw it last */
};

/* A client's place in the turns: app_turn.c. */
struct app_share {
	struct list link; /* of the ring, when it has something to begin */
	int64_t tag;      /* what it has received so far                      */
	bool present;
};

struct app_turns {
	struct list sparse; /* shares that ask for less: they go first */
	struct list ring;
	uint32_t waiting; /* on both                                           */
	uint32_t present; /* with something to begin, or in flight            */
	int64_t clock;    /* what each would have got, if all got the same    */
	int64_t inverse;  /* one over `present`, as it was when it was `inverse_of` */
	uint32_t inverse_of;
};

struct app_key {
	struct app_share share;
	struct app_turns sessions;
	uint32_t users;
	uint64_t staged_bytes; /* of its sessions */
};

/* Resources of one client, limited so that a stalled client does not hold everything. */
struct app_session {
	struct list link;              /* of core->session_free */
	const struct fab_session *fab; /* NULL: the place is free */
	struct app_key *key;
	struct app_share share;
	struct list blocked; /* of core->blocked              */
	struct list waiting; /* fab_req, not begun            */
	struct list resume;  /* app_op, between two pieces    */
	struct list batches; /* app_batch, with work          */
	uint32_t queued;     /* on `waiting`                  */
	uint32_t item_bytes; /* of its batches' items, lately */
	uint64_t retry_ns;   /* time given to the last request that was told to wait */
	uint32_t ops;
	uint32_t puts;    /* begun, and neither committed nor aborted */
	uint32_t holds;   /* of files: app_hold.c */
	uint32_t stalled; /* those that wait for the session's own limits */
	uint32_t starved; /* ... and those that wait for the store to have room again   */
	/* Staging: app_quota.c. */
	enum app_transport over;
	bool streams;     /* over tcp or rdma: its payload is staged            */
	bool tight;       /* what lacked last was free space, or time of drives */
	bool drives_full; /* ... was that                                       */
	uint32_t parts;
	uint32_t in_flight;    /* parts and pulls that the fabric has                */
	uint64_t back_ns;      /* when one of them ended last, or was the first  */
	uint64_t proven_bytes; /* that its peer took or gave since it was last stuck */
	uint64_t staged_bytes;
	uint64_t table_bytes;
	uint32_t reads;            /* operations that read ... */
	uint64_t asked_bytes;      /* bytes that they asked for */
	struct list stalled_ops;   /* app_op, on APP_ON_PART      */
	struct list tight_link;    /* of core->tight              */
	struct list stalling_link; /* of core->stalling         */
	bool is_away;              /* stalled, and stuck          */
	uint64_t opened_ns;        /* for `wekactl clients`, as these are: */
	uint64_t requests, read_bytes, written_bytes;
	struct fab_report report; /* its last one: app_report.c */
	uint64_t report_ns;       /* ... came then; 0: none     */
	/* The number of the directory that its key is confined to; 0: to be looked up. */
	uint64_t root;
	uint64_t root_ns; /* when it was */
	/* User for checks of modes and owners; gids 0: none, it may do everything. */
	struct meta_who who;
};

/* Bytes that the fabric sends: they stay until FAB_EVENT_SENT. */
struct app_part {
	struct app_session *session;
	struct fab_piece piece;
	struct list link; /* of core->part_free */
	char *buf;        /* of staging         */
	uint32_t capacity_bytes;
	uint32_t table_bytes; /* size of buf as a table */
	uint32_t filling;     /* reads that still come into it */
	bool closed;          /* nothing more comes: send it when filling is 0 */
	bool in_flight;       /* the fabric has its bytes */
	char *spare;          /* of staging, as large as buf; NULL: no read into it was hedged */
};

struct app_op {
	struct list link; /* of the list that `on` says */
	struct app_core *core;
	struct fab_req *req;
	struct app_session *session; /* NULL: our own operation */
	struct app_batch *batch;     /* of which this is item `index`, or NULL */
	uint32_t index;
	enum app_op_kind kind;
	uint32_t at; /* the kind's stage */
	enum app_on on;
	/* The end of each I/O looks at these, so they lie together. */
	uint32_t ios_out;
	uint32_t io_count; /* of io[]; those up to io_next are with the drives, or have ended */
	uint32_t io_next;
	uint32_t io_out_bytes;
	int io_status;          /* the first that was not 0 */
	bool quiet, watched;    /* no failure is told: a probe; it is on core->hedges.ops since: */
	uint8_t copy_due;       /* write: the copies that are written next; 0: none */
	bool one_copy;          /* its I/Os are for the places that they name, and no other copy */
	uint64_t drives_failed; /* ... drives that did not take their copies, by bits */
	uint64_t io_iova, io_buf_iova; /* ... where its runs begin, and where they read to, */
	char *io_buf;                  /* ... as this CPU sees it */

	uint32_t pulls_out;
	uint32_t asks_out; /* of the store's core, when that is another: app_store.c */
	int pull_status;
	int cancel;            /* status if the client cancelled it */
	bool gave_up;          /* ... and waited for its turn only */
	bool stalled, starved; /* counted in session->stalled, and in session->starved */
	bool its_turn;         /* it may continue with the next piece */
	bool woken;            /* from staging_waiters: it is its turn */
	bool roused;           /* from session->stalled_ops: the same  */
	bool reads;            /* counted in session->reads            */
	bool locked;           /* it holds its blocks of the file */
	bool safe;         /* its blocks were written durably: the log needs no flush for them */
	bool ending;       /* status is set: app_op_end() */
	bool saw_made;     /* it waits for what its core has made to be durable */
	bool leaving;      /* answered; it comes back from the store's core to be freed */
	bool blocks_known; /* blocks_status is what app_blocks_take() is to say */
	bool looking, rooting; /* for the directory of name[names_done]; of the session's key */
	bool doubt;            /* read: its client has found a mismatch: compared here */
	bool its_chunk;        /* ... it has had its turn for this piece               */
	bool merging;          /* write: an old block is being read                    */
	bool file_held;        /* the store's core's, as file_link                     */
	uint8_t mends;         /* rounds of reading other copies of blocks that were wrong */
	uint8_t doubts;        /* what sums of this round leave out: app_sum_can() */
	int blocks_status;
	int status;
	uint32_t names;
	uint32_t names_done;
	uint32_t tries;    /* open, read */
	uint64_t seen_seq; /* highest log sequence of all its calls of the store */
	uint64_t root;     /* directory that its names are confined to */
	enum app_recall recall;
	enum app_store_on store_on; /* the store's core's, too */
	struct list file_link;      /* of the store's core's file[bucket]: holds or waits */
	uint64_t shut_ns;           /* since when it waits for a shard to be opened       */
	uint32_t give_from;         /* of runs[]: to be given back when it leaves */
	uint32_t give_count;
	struct app_hidden *hidden;
	struct app_hold *hold; /* that it is to get, or to let go               */

	/* Bytes. */
	uint64_t offset_bytes;  /* in the file                                          */
	uint64_t length_bytes;  /* asked for                                            */
	uint64_t done_bytes;    /* read: what there is of it                            */
	uint32_t charged_bytes; /* of its session's credit                             */
	uint32_t asked_bytes;   /* counted in session->asked_bytes                     */
	uint64_t file_size;
	uint32_t window_at; /* read: where its first block lands; put, write: payload */
	uint32_t first_sum; /* read: in the batch's or its own table                */
	uint32_t nblocks;   /* read: reserved in the window; put, write: to be written */
	uint32_t nblocks_done;
	uint32_t chunk_from;      /* read: the plan's first block, of its nblocks       */
	uint32_t nblocks_landing; /* ... that are being read                            */
	uint32_t redone;          /* ... how often the plan had changed                 */
	uint32_t nblocks_placed;  /* read of a batch: there is room for, at window_at   */
	struct app_part *part;    /* read over TCP: the part that it lands in             */
	char *buf;                /* of staging                                           */
	uint32_t *sums;           /* read of more than FAB_SUMS_INLINE blocks: of staging  */
	char *landing;            /* read: of the piece that is being read */
	uint64_t landing_iova;
	uint32_t sums_bytes;
	uint32_t nruns;
	uint64_t watched_ns;
	struct list watch_link;
	struct meta_op meta; /* its first part only: META_OP_READ_BYTES */

	/* From here on not cleared for a read (app_op_take()), which has no use for it. */
	enum meta_op_type call;         /* APP_OP_NAME: which one of the store's */
	int begin_status;               /* the request cannot be               */
	struct meta_receipt_id receipt; /* which of its client's changes it is; client 0: of none */
	uint32_t sums_at;               /* put, write: in the window                            */
	uint32_t flags;                 /* the request's                                        */
	uint32_t edge;                  /* write: 0 the first block, 1 the last                 */
	uint32_t run_from;              /* write: of runs[], not yet given to the store         */
	uint32_t edge_sum;              /* ... and its checksum as the store knows it           */
	uint32_t tail_len;      /* write: bytes of the last block that go to the index      */
	uint64_t tail_offset;   /* write: of the block whose bytes the index has, as it was */
	struct list store_link; /* of the store's core's block_askers */
	uint64_t file_hash;
	uint64_t file_from, file_end; /* blocks of the file that it changes: app_file.c */
	struct meta_handle handle;

	struct fab_name name[2];      /* to be made targets: app_target.c; a read sets both */
	struct meta_target target[2]; /* of the store */
	/* Written before they are read: not cleared. */
	struct fab_piece pull[2];
	uint32_t few_sums[FAB_SUMS_INLINE];
	struct app_io io[APP_RUNS_MAX + APP_SLICES_MAX];
	struct meta_run runs[APP_RUNS_MAX + 1];
	uint32_t crcs[APP_BLOCKS_MAX + 1];
	_Alignas(8) char small[META_PATH_MAX + 1]; /* inline bytes, links */
};

/* FAB_READ_BATCH, FAB_PUT, FAB_STAT, FAB_UNLINK_BATCH, FAB_HOLD and FAB_LET_GO. */
struct app_batch {
	struct list link; /* in its session's list while items can begin, or in batch_free */
	struct fab_req *req;
	uint32_t count;
	uint32_t next;
	uint32_t in_flight;
	int cancel;
	bool ending; /* an APP_OP_BATCH_END has it */
	uint64_t seen_seq;
	uint32_t blocks;            /* READ_BATCH: of the window, taken          */
	uint32_t blocks_max;        /* ... that leave room for checksums and answers */
	struct app_part *part;      /* ... over TCP: the one that is being filled */
	struct fab_answer *answers; /* of staging: not yet the wire's form       */
	char *wire;                 /* followed by the wire's                    */
	uint32_t *sums;             /* of staging */
	uint32_t table_bytes;       /* accounted in core->table_bytes */
	uint32_t drives_out;        /* operations of it that have I/O under way */
	uint64_t drives_since_ns;   /* ... since then at least one */
	uint64_t drives_ns;         /* so long in all              */
};

/* A file between PUT_BEGIN and PUT_COMMIT; aborted when its session ends. */
struct app_hidden {
	struct list link; /* of core->hidden_free, ->hidden, or ->aborts */
	struct fab_session *session;
	struct meta_handle handle;
	bool busy; /* an operation begins, commits or aborts it */
	uint32_t flags;
	uint32_t set_mask;
	struct meta_attr set;
	uint64_t dir;
	uint64_t root;
	uint32_t path_len;
	char path[META_PATH_MAX + 1];
};

/* A file that a connection has open, or had: app_hold.c. */
struct app_hold {
	struct list link;            /* of hold_free, or of its bucket */
	struct list late;            /* of hold_linger */
	struct app_session *session; /* NULL: it lingers */
	uint64_t client;             /* fab_session's */
	struct meta_handle handle;
	uint64_t until_ns;
	bool taken; /* the store counts it */
};

enum app_life {
	APP_BOOTING,
	APP_SERVING,
	APP_DRAINING, /* earlier requests are answered; new ones do not begin */
	APP_CLOSING,  /* sessions are being ended                           */
	APP_STOPPING, /* the store's checkpoint                             */
	APP_STOPPED,
};

struct app_core {
	struct app_core_cfg cfg;
	enum app_life life;
	int boot_status;
	int stop_status;
	uint64_t now_ns;
	int64_t wall_ns;
	struct arena *arena; /* NULL: the caller's memory */
	char *memory;
	uint64_t memory_bytes;
	uint64_t memory_iova;
	uint64_t log_lost_said;                      /* of media.log_lost: people know */
	struct meta_copies copies_told;              /* ... and of this (app_copies.c) */
	struct app_witness witness[META_DRIVES_MAX]; /* of the core that has the store */
	struct meta *meta;              /* NULL: another core has it, and this one has a */
	struct meta_reader *reader;     /* ... of it                                 */
	const struct meta_twins *twins; /* where other copies of blocks lie */
	struct meta_conf meta_conf;
	struct app_cores *cores; /* NULL: it is the only one */
	uint32_t index;
	bool said;            /* changes that its ring has not been told of */
	bool said_quiet;      /* it asks nothing more                      */
	uint32_t quiets;      /* cores that ask nothing more               */
	uint32_t byes;        /* cores that will say nothing more          */
	uint64_t durable_seq; /* as it was told the others last            */
	uint64_t mark;        /* as clients are told */
	uint64_t forgotten;   /* ... too */
	uint64_t age_ns;      /* when clients grow older */
	uint64_t totals_ns;   /* when totals are passed up; 0: nothing is pending */
	uint64_t vouch_ns;    /* when the log vouches for its newest block; 0: no need */
	struct app_media media;
	struct app_sums *sums;      /* app_sum.c */
	struct app_failing failing; /* the store's core's */
	struct app_suspects suspects;
	bool suspects_new;         /* the store's core has not been told, or has not looked */
	struct list damage_askers; /* the store's core's: operations that want a page of the list */
	bool damage_listing;       /* ... the first of them is being served */
	struct nvme_qpair *qp[META_DRIVES_MAX];
	uint32_t nqps;
	struct app_hedges hedges;
	struct app_staging staging;
	uint64_t table_bytes; /* of staging, in tables; at most a quarter */
	uint64_t small_bytes; /* ... in small pieces: app_memory.c        */
	uint64_t spread;      /* meta_data_alloc()'s: allocations so far  */

	struct app_op *ops;
	struct app_op **op_free; /* a stack */
	uint32_t op_free_count;
	struct app_op *fresh[APP_AHEAD_MAX]; /* reads taken in this turn, not yet run */
	uint32_t fresh_count;
	uint32_t batch_ops; /* operations that are items of batches */
	struct app_batch *batch;
	struct list batch_free;
	struct app_part *part;
	struct list part_free;
	uint32_t parts_max;
	uint32_t parts_out;
	struct app_session *session;
	uint32_t sessions_used;   /* places of session[] that were ever open */
	struct list session_free; /* those of them that are closed */
	struct app_key *key;      /* by fab_session.key */
	struct app_hidden *hidden_slot;
	struct list hidden_free;
	uint32_t hidden_free_count;
	struct list hidden;
	struct list aborts;
	struct app_hold *hold_slot;
	struct list hold_free;
	uint32_t hold_free_count;
	struct list hold_linger;
	uint32_t hold_linger_count;
	uint32_t hold_going; /* of them, let go just now */
	struct list hold_bucket[APP_HOLD_BUCKETS];

	struct app_turns turns;   /* keys */
	struct list blocked;      /* sessions that could begin nothing, until something is free */
	struct list late;         /* draining: requests that came then, which are not begun     */
	uint32_t present;         /* sessions with work, or operations                          */
	bool serves, was_serving; /* clients: in this turn, in the one before                 */
	bool freed;               /* something is                                               */
	uint32_t queued;          /* requests that wait to be begun                             */
	uint32_t queuers;         /* sessions that have some                                    */
	uint32_t resumers;        /* operations that wait for their next piece                  */
	uint64_t io_bytes;        /* of clients' payload, with the drives                       */
	uint64_t io_max_bytes;
	uint64_t rate_from_ns; /* since when `begun` were                                      */
	uint32_t begun;
	uint64_t each_ns; /* recent time between two beginnings                               */
	struct app_scrub *scrub;    /* NULL: none */
	struct app_rebuild rebuild; /* the store's core's */
	uint32_t lines;             /* for people, so far: app_core_lines() */
	struct list ready;
	struct list staging_waiters;
	struct list part_waiters;
	struct list tight; /* sessions: app_quota.c             */
	struct list stalling;
	uint64_t stalling_ns; /* when those were checked last */
	uint32_t stalled;     /* operations that wait for a share */
	struct list block_waiters;
	struct list block_askers; /* of other cores */
	struct list shut;         /* reads whose shard is closed now: app_store.c */
	bool let_in;              /* ... and it was opened, perhaps not for long  */
	uint32_t knockers;        /* the store's core's: cores with such reads    */
	struct list file[APP_FILE_BUCKETS];
	uint32_t requests_open;
	uint64_t asked_ns; /* when the last request came */
	uint32_t sessions_open;
	uint32_t sessions_over[APP_TRANSPORTS]; /* the same, by transport */
	uint32_t drained_turns;                 /* draining: since the last request was answered */
	uint64_t start_ns;                      /* now_ns of the first turn */
	bool progress;                          /* in this turn */

	struct app_core_stat stat;
	struct app_latency latency[APP_TRANSPORTS][FAB_TYPE_END];
	struct app_took took[APP_TOOK_MAX];
	uint32_t took_count;
	uint32_t asked; /* cfg.ask: so many questions were taken */
	char error[APP_WHY];
};

/* ---- app_core.c ------------------------------------------------------------------- */

/* Begins a request, which takes an operation, with about `bytes` of payload.  False: no operation
 * is free for it now. */
must_check bool app_core_begin(struct app_core *core, struct fab_req *req, uint32_t bytes);
/* Reads and items that were just taken look for their blocks together: run, or run later. */
void app_fresh(struct app_op *op);
void app_run_fresh(struct app_core *core);

#ifdef WK_DEBUG
/* app_core_check.c: what is counted is counted again, each so many turns. */
#define APP_CHECK_TURNS 256u
void app_core_check(const struct app_core *core);
#endif

/* ---- app_store.c: the store, whichever core has it ---------------------------------------- */

/* The core that has what op's calls of the store are about. */
uint32_t app_owner(const struct app_op *op);
/* Starts op->meta (type and arguments set).  True: over at once.  False: wait; the operation is
 * stepped when it is over.  Either way op->seen_seq includes what it has seen: app_op_saw(). */
must_check bool app_op_meta(struct app_op *op, enum meta_op_type type);
void app_op_saw(struct app_op *op);
void app_read_end(struct app_op *op); /* the blocks that it planned to read may be reused */
/* Returns true if `seq` is durable, so that a reply may be sent; else op runs again when it is. */
bool app_is_durable(const struct app_core *core, uint64_t seq);
void app_wait_durable(struct app_op *op);
/* Blocks for op->nblocks, into op->runs.  0; -EAGAIN: it waits; -ENOSPC ... */
must_check int app_blocks_take(struct app_op *op);
must_check int app_blocks_here(struct app_core *core, struct app_op *op);
/* Those from runs[from] on will not be used. */
void app_blocks_give(struct app_op *op, uint32_t from);
/* It waits for its file, or for blocks, and need not any more. */
void app_store_cancel(struct app_op *op);
bool app_store_is_near(const struct app_op *op); /* its change is about to be made */
/* True: it has left something with another core, and is freed when that has given it back. */
must_check bool app_store_leave(struct app_op *op);
/* Runs operations that wait for shards to be opened. */
void app_store_look(struct app_core *core);
uint64_t app_store_deadline(const struct app_core *core);
/* An answer of the store's core. */
void app_store_done(struct app_op *op);

/* ---- app_serve.c: services of the store's core for the others ------------------------------ */

void app_serve_calls(struct app_core *core, struct app_op **op, uint32_t count);
void app_serve(struct app_core *core, enum app_say what, struct app_op *op);
void app_serve_done(struct app_core *core, struct app_op *op);
/* The next operation on its file may continue. */
void app_serve_unlocked(struct app_core *core, struct app_op *next);
/* Operations that wait for blocks run again. */
void app_serve_blocks(struct app_core *core);

/* ---- app_cores.c: what cores say to each other ---------------------------------------------- */

/* Handles messages to it.  A bounded number. */
void app_cores_hear(struct app_core *core);
void app_cores_say(struct app_core *core, uint32_t to, struct app_message m);
/* A reader waits for the shard.  False: no message for this now. */
must_check bool app_cores_knock(struct app_core *core, uint32_t to, uint32_t shard);
/* Reports drives with errors.  False: no message for this is free now. */
must_check bool app_cores_ailing(struct app_core *core, uint64_t drives);
/* The store's core has run all that it could: tells readers that knocked when shards are open. */
void app_cores_let_in(struct app_core *core);
/* Sends the messages of this turn, and wakes sleeping cores. */
void app_cores_tell(struct app_core *core);
/* Everybody but itself. */
void app_cores_say_all(struct app_core *core, struct app_message m);
/* About to sleep.  False: something has come. */
must_check bool app_cores_arm(struct app_core *core);
void app_cores_disarm(struct app_core *core);

/* ---- app_memory.c: staging, parts ----------------------------------------------------- */

/* NULL: `op` waits for it, and is stepped again when there may be some. */
must_check void *app_take(struct app_op *op, uint32_t size_bytes);
/* The same for as much of *size_bytes as there is now, and at least APP_SLICE_MIN of it. */
must_check void *app_take_most(struct app_op *op, uint32_t *size_bytes);
void app_give(struct app_core *core, struct app_session *session, void *piece);
/* It was its turn, but it needs none any more: the next one's. */
void app_take_passed(struct app_op *op);
/* Tables of requests: at most a quarter of staging, so that payload always finds some.  NULL:
 * later. */
must_check void *app_table_take(struct app_core *core, struct app_session *session,
				uint32_t size_bytes);
void app_table_give(struct app_core *core, struct app_session *session, void *table,
		    uint32_t size_bytes);
void app_wake_parts(struct app_core *core); /* operations that wait for one, or for a table */
struct app_part *app_part_take(struct app_op *op); /* without a buffer; NULL: none */
void app_part_untake(struct app_core *core, struct app_part *part);
/* The session has its share of parts. */
bool app_parts_enough(const struct app_core *core, const struct app_session *s);
/* Some parts are kept for answers: none for payload now. */
bool app_parts_few(const struct app_core *core);
/* There are parts for what op has to answer.  False: it waits, and is run again. */
must_check bool app_may_carry(struct app_op *op);
void app_part_free(struct app_core *core, struct app_part *part);
/* Send bytes of part->buf (or `bytes`) to the window; the part is freed when they have left. */
void app_part_send(struct app_core *core, struct fab_req *req, struct app_part *part, void *bytes,
		   uint32_t window_at, uint32_t length_bytes);
/* A read has come into it. */
void app_part_filled(struct app_core *core, struct fab_req *req, struct app_part *part);
/* Clients wait: sends the parts of batches that are not full. */
void app_parts_hurry(struct app_core *core);

/* Send (a part of) a table; it is given back when it has left.  False: no part; table is given. */
must_check bool app_table_send(struct app_op *op, void *table, uint32_t table_bytes, void *bytes,
			       uint32_t window_at, uint32_t length_bytes);

/* ---- app_file.c: one change of a block of a file at a time ------------------------------- */

/* It changes all of the file, whatever it is. */
static inline void app_file_all(struct app_op *op)
{
	op->file_from = 0;
	op->file_end = UINT64_MAX;
}

/* True: op holds its blocks of op->handle.  False: it waits, and is stepped again when it does. */
must_check bool app_file_lock(struct app_op *op);
must_check static inline bool app_file_lock_all(struct app_op *op)
{
	if (!op->locked) /* else it is listed, and another core may read its fields */
		app_file_all(op);
	return app_file_lock(op);
}
/* The same on the store's core, for an operation of any. */
must_check bool app_file_lock_here(struct app_core *core, struct app_op *op);
void app_file_unlock_here(struct app_core *core, struct app_op *op);

/* ---- app_target.c: conversions between the fabric's and the store's names ----------------- */

/* Set op->target[] from op->name[].  APP_AGAIN: when op->names_done == op->names all are set. */
/* Run operations that were just taken, at most APP_AHEAD_MAX. */
void app_ops_run(struct app_core *core, struct app_op **op, uint32_t count);
must_check enum app_next app_target_step(struct app_op *op);
struct meta_handle app_handle_in(const struct fab_session *of, const struct fab_handle *h);
struct fab_handle app_handle_out(const struct fab_session *to, const struct meta_handle *h);
void app_attr_out(const struct fab_session *to, const struct meta_attr *in, struct fab_attr *out);
struct meta_cookie app_cookie_in(const uint8_t bytes[FAB_COOKIE_BYTES]);
void app_cookie_out(const struct meta_cookie *in, uint8_t bytes[FAB_COOKIE_BYTES]);

/* ---- steps and answers, by file --------------------------------------------------------- */

enum app_next app_read_step(struct app_op *op);
enum app_next app_put_step(struct app_op *op);
enum app_next app_write_step(struct app_op *op);
enum app_next app_truncate_step(struct app_op *op);
enum app_next app_punch_step(struct app_op *op);
enum app_next app_open_step(struct app_op *op);
enum app_next app_name_step(struct app_op *op);
enum app_next app_list_step(struct app_op *op);
enum app_next app_xattr_step(struct app_op *op);
enum app_next app_status_step(struct app_op *op);
enum app_next app_abort_step(struct app_op *op);
enum app_next app_batch_end_step(struct app_op *op);

/* The reply, once op->status may be told; op->req is gone then. */
void app_read_answer(struct app_op *op);
void app_write_answer(struct app_op *op);
void app_name_answer(struct app_op *op);
void app_list_answer(struct app_op *op);
void app_xattr_answer(struct app_op *op);
void app_status_answer(struct app_op *op);
void app_batch_end_answer(struct app_op *op);

/* Fills a fresh operation from a request or an item. */
void app_read_begin(struct app_op *op);
void app_write_begin(struct app_op *op);
void app_truncate_begin(struct app_op *op);
void app_punch_begin(struct app_op *op);
void app_xattr_begin(struct app_op *op);
void app_name_begin(struct app_op *op);
void app_read_item_begin(struct app_op *op);
void app_put_item_begin(struct app_op *op);
void app_stat_item_begin(struct app_op *op);
void app_unlink_item_begin(struct app_op *op);
void app_hold_item_begin(struct app_op *op);

/* ---- app_put.c, for app_write.c too --------------------------------------------------------- */

/* Pull `bytes` of payload and `nsums` checksums.  True: all here. */
must_check bool app_pull(struct app_op *op, char *to, uint32_t bytes, uint32_t *sums,
			 uint32_t nsums);
/* A piece of that is here, or will never be. */
void app_pulled(struct fab_piece *piece);

/* ---- app_batch.c ---------------------------------------------------------------------- */

/* False: not now (no batch, no tables). */
must_check bool app_batch_begin(struct app_core *core, struct fab_req *req);
/* Begin items of it, or its end.  Returns how many operations. */
must_check uint32_t app_batch_visit(struct app_core *core, struct app_batch *b, uint32_t items_max);
/* Room for nblocks in the window: where, and which checksums.  -EMSGSIZE. */
must_check int app_batch_place(struct app_batch *b, uint32_t nblocks, uint32_t *data_at,
			       uint32_t *first_sum);
void app_batch_item_done(struct app_op *op);
/* Its last item is done: end it. */
void app_batch_check_end(struct app_core *core, struct app_batch *b);
void app_batch_cancel(struct app_core *core, struct app_batch *b, int status);

/* ---- app_rights.c -------------------------------------------------------------------------- */

/* May the session's key ask for that?  0, or -EACCES, which has been told then. */
must_check int app_rights_check(const struct fab_req *req);
static inline bool app_is_confined(const struct fab_session *session)
{
	return session->rights->subtree[0] != 0;
}
/* Its key has had its share of this second: answered, to be asked again. */
/* gids is 0 for a key that may do everything: without a uid, or with the superuser's. */
struct meta_who app_who_of(const struct fab_rights *rights);
must_check bool app_rights_busy(struct app_core *core, struct fab_req *req);
/* Its bytes have gone. */
void app_rights_spend(const struct app_op *op);
/* APP_AGAIN: op's session knows the directory that it is confined to. */
must_check enum app_next app_root_step(struct app_op *op);
bool app_root_due(const struct app_op *op);
/* After an error: reports to people an attempt that the key does not allow. */
wk_cold void app_rights_tell(const struct app_op *op);

/* ---- app_replay.c ------------------------------------------------------------------------ */

/* Fills a fresh operation with the client's change number. */
void app_change_begin(struct app_op *op);
/* While op->recall: was it made?  Then it ends as it did; else it begins. */
enum app_next app_recall_step(struct app_op *op);
/* Sets what connecting clients are told, and ages clients that have gone. */
void app_clients_turn(struct app_core *core);

/* ---- app_session.c ----------------------------------------------------------------------- */

void app_session_opened(struct app_core *core, struct fab_session *session);
void app_session_closed(struct app_core *core, struct fab_session *session);
struct app_hidden *app_hidden_find(struct app_core *core, const struct fab_session *session,
				   const struct meta_handle *handle);
void app_hidden_done(struct app_core *core, struct app_hidden *h); /* committed or aborted */
/* A commit or an abort ended before the store was called: the file is as it was. */
void app_hidden_untouched(struct app_op *op);
void app_aborts_begin(struct app_core *core);

/* ---- app_hold.c -------------------------------------------------------------------------- */

/* Prepares op to hold the file that it finds: 0, or -EMFILE, -ENFILE. */
must_check int app_hold_begin(struct app_op *op);
/* An earlier connection of the client held what op names by handle: op->hold is that. */
bool app_hold_again(struct app_op *op);
/* Handles the end of a lookup with META_HOLD. */
void app_hold_looked(struct app_op *op);
/* It is over: its session has op->hold, or nobody. */
void app_hold_settle(struct app_op *op);
enum app_next app_let_go_step(struct app_op *op);
void app_holds_turn(struct app_core *core);
uint64_t app_holds_deadline(const struct app_core *core);
void app_holds_closed(struct app_core *core, struct app_session *s);

/* ---- app_ailing.c ------------------------------------------------------------------------ */

static inline void app_ailing_turn(struct app_core *core)
{
	if (unlikely(core->media.ailing || core->suspects_new))
		app_ailing_tell(core);
}
/* ---- app_totals.c ---------------------------------------------------------------------------- */

/* Is it time to pass totals up? */
void app_totals_turn(struct app_core *core);
uint64_t app_totals_deadline(const struct app_core *core); /* UINT64_MAX: none */

/* ---- app_vouch.c ----------------------------------------------------------------------------- */

/* Is it time for the log to vouch for its newest block? */
void app_vouch_turn(struct app_core *core);
uint64_t app_vouch_deadline(const struct app_core *core); /* UINT64_MAX: none */

/* ---- app_scrub.c ----------------------------------------------------------------------------- */

/* Only where the store is, and if it is wanted.  -ENOMEM. */
must_check int app_scrub_create(struct app_core *core);
void app_scrub_destroy(struct app_core *core);
/* Is it time for it? */
void app_scrub_turn(struct app_core *core);
uint64_t app_scrub_deadline(const struct app_core *core);
enum app_next app_scrub_step(struct app_op *op);
/* Suspects have come. */
void app_scrub_suspects(struct app_core *core);
/* The core is stopping: answers requests that wait for a list. */
void app_scrub_stop(struct app_core *core);
void app_scrub_stat(const struct app_core *core, struct app_core_stat *out);

/* app_name.c */
void app_text_answer(struct app_op *op, const char *text, uint32_t bytes);
/* app_target.c: what op will most likely look for first */
void app_target_guess(const struct app_op *op, struct meta_target *out);

#include "appliance/core/app_rows.h"
#include "appliance/core/app_step.h"
#include "appliance/core/app_turn.h"

#endif
