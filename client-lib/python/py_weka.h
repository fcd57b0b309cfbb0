/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The Python package weka: what the files of its one C extension share.
 *
 *    Client ----- a session for each thread -----> struct weka_client      (client-lib)
 *                        ^
 *    Item --> Batch --> struct py_job: requests, leases, names
 *     ^         |
 *     |         +-----> struct py_job of a stream: one struct weka_batch
 *    memoryview, numpy array, tensor
 *
 *    Dataset --- one for each session that uses it --> struct py_opened: struct weka_dataset
 *    Stream ----------> struct py_feed: struct weka_stream ---^
 *
 * Each arrow is a counted reference, so that a view keeps its item, its batch, its leases and its
 * session.  No object of the package refers to an object of the application, so there are no cycles
 * and the types need no garbage collector.
 *
 * The global interpreter lock protects everything here, but for what py_lock() protects: the
 * weka_client and the requests in flight.  Code that holds py_lock() calls no Python code.
 *
 * Only the limited API is used: one file runs with Python 3.11 and later.
 */
#ifndef PY_WEKA_H
#define PY_WEKA_H

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pythread.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/num.h"
#include "client-lib/weka_client.h"

#include <errno.h>
#include <stdatomic.h>

#define PY_SLICE_NS     (20u * 1000 * 1000) /* between two checks for signals */
#define PY_LINE_BYTES   512u
#define PY_ITEMS_MAX    (1u << 20)   /* files of one batch */
#define PY_EXACT_MAX    (4u << 20)   /* a length up to here is believed before the file was seen */
#define PY_NAMES_MAX    (128u << 10) /* bytes of the names of one request */
#define PY_STAT_BYTES   104u         /* of a window, for each name of a batch of stats */
#define PY_STATS_INLINE 9u           /* this many need no window */

/* ---- objects --------------------------------------------------------------------------- */

/* Where to connect, and how: py_config.c. */
struct py_config {
	char *addresses;
	char *key_file;
	char *key_id;
	uint8_t secret[32];
	bool has_secret;
	struct weka_options options;
};

struct py_client {
	PyObject_HEAD PyObject *key; /* of its session in a thread's dictionary */
	struct list sessions;        /* of all threads */
	struct py_config config;
	bool closed;
};

/* One thread's session with the appliance: py_session.c. */
struct py_session {
	PyObject_HEAD struct list of_client;
	struct list of_all;
	struct weka_client *weka; /* NULL: closed */
	PyThread_type_lock lock;
	unsigned long thread;   /* whose it is */
	uint64_t generation;    /* of processes: a child of fork() has another */
	uint32_t calls;         /* in progress: py_begin() without py_end() */
	uint32_t jobs;          /* whose batch is alive */
	struct py_job *dropped; /* ... is not: to be freed by the next to enter */
	uint32_t item_bytes;    /* mean size of the files of the last batch */
	uint32_t window_max_bytes;
	uint32_t batch_items_max;
	uint64_t pool_bytes;
	uint64_t leased_bytes;
	PyThread_type_lock first; /* of those that wait for the lock: one, the others behind it */
	uint32_t waiting;         /* for the lock */
	uint32_t interrupts;      /* calls that a signal handler's exception ended */
	unsigned long forking;    /* the thread whose fork hooks have it locked, or 0 */
	bool closing;             /* no new calls */
	struct list opened;       /* datasets */
	struct py_feed *dropped_feeds; /* to be closed once their batches are gone */
	struct py_added *added;        /* memory of the application's */
	unsigned long blocking;        /* the thread that is in py_block(), or 0 */
	PyThreadState *state;          /* of that thread */
	struct py_progress *progress;  /* of its call, or NULL */
};

/* A dataset that is open in one session.  Its list in a Dataset counts as one reference. */
struct py_opened {
	struct list of_dataset;
	struct list of_session;
	struct py_session *session; /* NULL: unlinked */
	struct weka_dataset *weka;
	uint32_t refs;
};

struct py_dataset {
	PyObject_HEAD struct py_client *client;
	struct list opened;
	struct weka_dataset_info info;
	PyObject *classes; /* a tuple of str */
	bool closed;
	char name[WEKA_DATASET_NAME_MAX + 1];
};

/* The inside of a stream. */
struct py_feed {
	struct py_feed *next; /* on session->dropped_feeds */
	struct weka_stream *weka;
	struct py_opened *opened;
	uint32_t jobs; /* batches that were not given back */
};

struct py_stream {
	PyObject_HEAD struct py_session *session;
	struct py_feed *feed;           /* NULL: closed */
	struct py_job *kept;            /* a batch that came when a signal ended the call */
	struct weka_cursor kept_end;    /* the place after it */
	struct weka_cursor cursor;      /* the place after the last batch that was handed out */
	struct weka_stream_stats stats; /* of a closed stream, and its verdict */
	char verdict[WEKA_VERDICT_BYTES];
	bool busy;   /* a call is inside */
	bool closed; /* by close(), perhaps during a call */
};

/* Memory that the application has given to a session, which keeps it until it is closed. */
struct py_added {
	struct py_added *next;
	Py_buffer view;
};

struct py_pool {
	PyObject_HEAD struct py_session *session;
	struct weka_pool *weka; /* the session's */
	uint64_t bytes;
};

struct py_batch {
	PyObject_HEAD struct py_session *session;
	struct py_job *job; /* NULL: released */
	uint64_t exports;   /* views and tensors of all items */
	uint32_t looks;     /* calls that look at the job; not those of threads before a fork */
};

struct py_item {
	PyObject_HEAD struct py_batch *batch;
	uint32_t index;
};

struct py_types {
	PyTypeObject *client;
	PyTypeObject *session;
	PyTypeObject *batch;
	PyTypeObject *item;
	PyTypeObject *stat;
	PyTypeObject *dataset;
	PyTypeObject *stream;
	PyTypeObject *sample_batch;
	PyTypeObject *sample;
	PyTypeObject *pool;
};
extern struct py_types py_types;
extern PyType_Spec py_client_spec, py_session_spec, py_batch_spec, py_item_spec;
extern PyType_Spec py_pool_spec;
extern PyType_Spec py_dataset_spec, py_stream_spec, py_sample_batch_spec;
extern PyStructSequence_Desc py_sample_desc;
extern PyStructSequence_Desc py_stat_desc;

/* ---- errors: py_error.c ------------------------------------------------------------------ */

/* Raise the OSError of a negative errno.  `line` NULL: the system's words; `path` may be NULL. */
void py_raise(int err, const char *line, PyObject *path);
/* Makes the same exception without raising it, or returns NULL with another one raised. */
PyObject *py_error_new(int err, const char *line, PyObject *path);
/* Adds an item's outcome to a list of results: `value`, which it steals, or the error. */
int py_results_add(PyObject *list, PyObject *value, int err, PyObject *path);

/* ---- arguments: py_args.c ---------------------------------------------------------------- */

struct py_path {
	PyObject *given; /* the caller's argument, for OSError.filename */
	PyObject *owner; /* of the text */
	const char *text;
	uint32_t bytes;
	bool is_bytes; /* given as bytes: names are answered as bytes */
};

/* For "O&" of PyArg_Parse*: a str, bytes or os.PathLike. */
int py_path_from(PyObject *object, void *path);
void py_path_clear(struct py_path *path);
struct weka_ref py_path_ref(const struct py_path *path);
/* Decodes a name of the appliance, as the caller wants it. */
PyObject *py_name(const char *name, Py_ssize_t bytes, bool as_bytes);
/* __reduce__() of a batch and an item: raises a TypeError. */
PyObject *py_not_pickled(PyObject *self, PyObject *none);
/* Takes an int of 0 or more and below 2^63; None is `otherwise`.  Returns -1 with an exception. */
int py_u64(PyObject *object, const char *what, uint64_t otherwise, uint64_t *out);
/* Takes seconds: None is forever.  Returns -1 with an exception. */
int py_seconds(PyObject *object, const char *what, uint64_t *out_ns);
/* Returns a tuple of what a sequence of paths or of pairs has; refuses str and bytes. */
PyObject *py_sequence(PyObject *object, const char *what);

/* ---- connecting: py_config.c, py_connect.c -------------------------------------------------- */

int py_config_init(struct py_config *config, PyObject *args, PyObject *kwargs);
void py_config_clear(struct py_config *config);
PyObject *py_config_pickle(const struct py_config *config);
/* Returns a connected client, or NULL with an exception; a signal ends it. */
struct weka_client *py_connect(const struct py_config *config);

/* ---- sessions: py_session.c, py_fork.c ------------------------------------------------------ */

/* Returns the calling thread's session, connected, until py_end(); or NULL with an exception. */
struct py_session *py_begin(struct py_client *client);
void py_end(struct py_session *session);
/* No call begins in it any more; it is closed once no call uses it. */
void py_session_close(struct py_session *session);
struct py_session *py_session_new(struct py_client *client, struct weka_client *weka);
/* The session is the parent process's. */
bool py_is_stale(const struct py_session *session);
/* Locks the weka_client, without the interpreter's lock while another thread is inside. */
void py_lock(struct py_session *session);
bool py_trylock(struct py_session *session);
void py_unlock(struct py_session *session);

extern uint64_t py_generation;
extern struct list py_sessions;
int py_fork_init(PyObject *module);
PyObject *py_fork_before(PyObject *module, PyObject *none);
PyObject *py_fork_parent(PyObject *module, PyObject *none);
PyObject *py_fork_child(PyObject *module, PyObject *none);

/* ---- requests: py_wait.c --------------------------------------------------------------------- */

/* A request; `done` once it was reaped, by whichever call: what it brought is there then. */
struct py_op {
	struct weka_req req;
	_Atomic bool done; /* set by a thread without the GIL */
	bool settles;      /* the caller's: an exception of a signal handler waits for the answer */
	bool settled;      /* the answer came after that exception: py_wait.c (3) */
};

/* Returns true if the request has ended; its results are then visible: R1 -> A1 (py_wait.c). */
static inline bool py_op_done(const struct py_op *op)
{
	return atomic_load_explicit(&op->done, memory_order_acquire); /* A1 */
}

/* Receives answers; waits for one at most `wait_ns`.  Locked, without the GIL. */
int py_turn(struct py_session *session, uint64_t wait_ns);
/* Ends a request without a waiter.  Locked; never waits. */
void py_forsake(struct py_session *session, struct py_op *op);
/* Reaps, after a submit said -EAGAIN.  Called locked.  Returns true, unlocked, to submit once more;
 * or false, still locked, when nothing will make room, or with a signal handler's exception.
 * Cancelled requests keep their room until the appliance lets go: *naps counts pauses for them. */
bool py_room(struct py_session *session, uint32_t *naps);
/* Waits until it is done.  Returns -1 with an exception, when it is done, too. */
int py_wait(struct py_session *session, struct py_op *op);
/* Locks, and runs `submit` until there is room for it among the requests in flight.  Its result is
 * for py_run() or py_sent(), which unlock. */
#define PY_SUBMIT(s, submit)                                                                       \
	({                                                                                         \
		uint32_t naps_ = 0;                                                                \
		int submitted_;                                                                    \
                                                                                                   \
		do {                                                                               \
			py_lock(s);                                                                \
			submitted_ = (submit);                                                     \
		} while (submitted_ == -EAGAIN && py_room(s, &naps_));                             \
		submitted_;                                                                        \
	})
/*
 * Unlocks, and waits for the request submitted with result `err`.  Returns 0, or -1 with an
 * exception for `err`, for the request's status, or by a signal handler.  The request is done in
 * any case.
 */
int py_run(struct py_session *session, struct py_op *op, int err, PyObject *path);
/* The same, but the request's status is the caller's to look at. */
int py_sent(struct py_session *session, struct py_op *op, int err, PyObject *path);

/*
 * Around code that uses the library without the GIL.  Threads that are inside when the interpreter
 * ends are waited for: libraries that they use, such as OpenSSL, end with the process.
 *
 *   I1 -> J1   (py_module.c)
 */
extern _Atomic uint32_t py_inside;
#define PY_ENTER_LIBRARY                                                                           \
	atomic_fetch_add_explicit(&py_inside, 1, memory_order_relaxed);                            \
	Py_BEGIN_ALLOW_THREADS
#define PY_LEAVE_LIBRARY                                                                           \
	atomic_fetch_sub_explicit(&py_inside, 1, memory_order_release); /* I1 */                   \
	Py_END_ALLOW_THREADS

/* ---- calls of the library that wait: py_block.c --------------------------------------------- */

/* How far a long call is, for the application's function. */
struct py_progress {
	PyObject *call; /* NULL: nobody wants to know */
	uint64_t done;
	uint64_t total;
	uint64_t told; /* `done` when it was called last */
};

/*
 * Around one waiting call of the library, with PY_ENTER_LIBRARY inside.  While it waits, signal
 * handlers and progress functions run, and other threads use the session.  py_block() locks, or
 * returns -1 with an exception.  py_unblock() unlocks, and returns -1 with the exception of `err`,
 * which names `path` (or NULL), or with that of a signal handler or a progress function.  -EINVAL
 * is a ValueError.
 */
int py_block(struct py_session *session, struct py_progress *progress);
int py_unblock(struct py_session *session, int err, PyObject *path);
/* For struct weka_progress; `user` is a struct py_progress. */
int py_progress_note(void *user, uint64_t done, uint64_t total);
/* Tells the application.  Returns -1 with its exception. */
int py_progress_tell(struct py_progress *progress);

/* ---- leases: py_lease.c -------------------------------------------------------------------- */

/* Leases at least `least` and best `bytes`.  Returns NULL with an exception. */
struct weka_lease *py_lease(struct py_session *session, uint64_t bytes, uint64_t least);
void py_release(struct py_session *session, struct weka_lease *lease);
/* The same, locked and without the GIL: 0 or -errno, with the line of weka_error(). */
int py_lease_locked(struct py_session *session, uint64_t bytes, struct weka_lease **out);
void py_release_locked(struct py_session *session, struct weka_lease *lease);

/* ---- memory of the application's: py_pool.c -------------------------------------------------- */

PyObject *py_client_pool_add(PyObject *self, PyObject *args, PyObject *kwargs);
/* Finds the pool that an argument names (None: NULL).  Returns -1 with an exception if it is not
 * one of this session. */
int py_pool_from(PyObject *object, const struct py_session *session, struct weka_pool **out);
/* Lets go of the memory; the session is closed. */
void py_lent_end(struct py_session *session);

/* ---- weights of an epoch: py_weights.c ----------------------------------------------------- */

struct py_weights {
	struct weka_weights weka;
	bool is_given;
	uint32_t *own;
};

/* Returns -1 with an exception; py_weights_clear() in any case. */
int py_weights_from(struct py_weights *w, const struct py_dataset *d, PyObject *weights,
		    PyObject *length);
void py_weights_clear(struct py_weights *w);

/* ---- batches: py_job.c, py_window.c, py_part.c, py_batch.c, py_item.c, py_dlpack.c --------- */

/* One request of a batch, with its window. */
struct py_part {
	struct py_part *next;
	struct py_op op;
	struct weka_window window;
	struct weka_read_item *items;
	uint32_t *index; /* of each in the job; NULL: they are the job's own */
	uint32_t count;
	uint32_t round; /* so often a file was larger than expected */
	bool is_out;
	bool is_done;
};

/* The inside of a batch.  Its memory stays where it is until every part is back. */
struct py_job {
	struct py_job *next; /* on session->dropped */
	struct weka_read_item *items;
	char *names;
	struct py_part *parts;
	uint32_t count;
	_Atomic uint32_t parts_left; /* 0: whole.  Changed by a thread without the GIL */
	uint32_t error_count;
	char line[PY_LINE_BYTES]; /* why `error` */
	int error;                /* of the batch as a whole: 0 or -errno */
	/* A stream's batch has its items and its memory from the library: */
	struct py_feed *feed; /* NULL: it is not a stream's */
	struct weka_batch *batch;
	/* Samples of a dataset, NULL: files. */
	const uint64_t *samples;
	const uint32_t *labels;
	uint64_t *lengths; /* that they must have; NULL: the library has compared them.  Owned, with
			    * `samples` and `labels` behind it */
};

/* Returns what became of an item: 0 or -errno. */
static inline int py_job_status(const struct py_job *job, uint32_t index)
{
	const struct weka_read_item *item = &job->items[index];

	if (job->error || item->status || !job->lengths)
		return job->error ? job->error : item->status;
	return item->got_bytes == job->lengths[index] ? 0 : -ESTALE;
}

/* R2 -> A2 (R2 in py_part.c): all parts' results are visible when parts_left is 0. */
static inline bool py_job_is_whole(const struct py_job *job)
{
	return atomic_load_explicit(&job->parts_left, memory_order_acquire) == 0; /* A2 */
}

/* Makes a job; NULL with an exception.  `lengths` and `offsets` may be None. */
struct py_job *py_job_new(PyObject *paths, PyObject *offsets, PyObject *lengths);
struct py_job *py_job_alloc(Py_ssize_t count);
/* Sends it, perhaps waits, and returns its batch.  Frees it and returns NULL with an exception. */
struct py_batch *py_job_submit(struct py_session *session, struct py_job *job, bool wait,
			       PyTypeObject *type);
/* Cuts it into parts, with leases.  Locked, without the GIL.  Returns 0 or -errno, with a line. */
int py_job_plan(struct py_session *session, struct py_job *job);
/* Sends requests and receives answers, without waiting.  Locked, without the GIL. */
void py_job_turn(struct py_session *session, struct py_job *job, uint64_t wait_ns);
/* Gives back leases and memory.  Locked. */
void py_job_end(struct py_session *session, struct py_job *job);
void py_job_free(struct py_job *job);
/* Leaves it to the next thread that enters the session. */
void py_job_drop(struct py_session *session, struct py_job *job);
/* The part of `count` items from `items` on; with the lease of `blocks`, or of what there is. */
int py_part_add(struct py_session *session, struct py_job *job, struct weka_read_item *items,
		uint32_t *index, uint32_t count, uint64_t blocks, uint64_t blocks_least);
/* Bytes of a window for `files` files of `blocks` blocks together; 0: too many. */
uint64_t py_window_bytes(uint32_t count, uint64_t blocks);
/* Takes in its answers. */
void py_part_finish(struct py_session *session, struct py_job *job, struct py_part *part);

/* A new batch of the type, which has the job; NULL with an exception: the job is the caller's. */
struct py_batch *py_batch_new(struct py_session *session, struct py_job *job, PyTypeObject *type);
PyObject *py_batch_submit(struct py_client *client, PyObject *args, PyObject *kwargs, bool wait);
/* Waits for the batch; -1 with an exception.  With a timeout: 0 when it is over. */
int py_batch_wait(struct py_batch *batch, uint64_t timeout_ns);
/* Drops its job: there are no views. */
void py_batch_let_go(struct py_batch *batch);
/* The item, or NULL with the exception of what became of it. */
const struct weka_read_item *py_batch_item(struct py_batch *batch, Py_ssize_t index);
/* The path of an item, as str.  May wait for the manifest. */
PyObject *py_batch_path(struct py_batch *batch, uint32_t index);
PyObject *py_item_new(struct py_batch *batch, uint32_t index);
/* The file's bytes; an empty file has an address, too.  Returns -1 with an exception. */
int py_item_bytes(struct py_item *item, void **data, uint64_t *bytes);
PyObject *py_item_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_item_dlpack_device(PyObject *self, PyObject *none);

/* ---- datasets and streams: py_opened.c, py_dataset.c, py_stream.c -------------------------- */

/* The dataset in this session, until py_opened_put().  Opens it if it must.  NULL: an exception. */
struct py_opened *py_opened_get(struct py_dataset *dataset, struct py_session *session);
void py_opened_put(struct py_opened *opened);
/* Neither its Dataset nor its session knows it any more. */
void py_opened_unlink(struct py_opened *opened);
/* A sample of it.  Returns -1 with an exception. */
int py_opened_sample(struct py_opened *opened, struct py_session *session, uint64_t index,
		     struct weka_sample *out);
void py_dataset_end(struct py_dataset *dataset); /* Close it; its streams go on. */
void py_dataset_dealloc(PyObject *self);
PyObject *py_client_create_dataset(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_dataset(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_drop_dataset(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_stream_open(struct py_dataset *dataset, struct weka_epoch *epoch,
			 const struct weka_cursor *cursor, PyObject *pool);
PyObject *py_stream_next(PyObject *self);
/* The Stream ends; its batches stay. */
void py_stream_let_go(struct py_stream *stream);
PyObject *py_dataset_read_batch(PyObject *self, PyObject *indices);
PyObject *py_order(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *py_dataset_stream(PyObject *self, PyObject *args, PyObject *kwargs);
/* Closes streams whose batches are gone.  Locked, or when nobody uses the session any more. */
void py_feeds_end(struct py_session *session, bool is_last);

/* ---- files: py_file.c, py_bulk.c, py_name.c, py_list.c, py_many.c --------------------------- */

struct py_bulk {
	struct weka_handle handle;
	char *memory;
	uint64_t length_bytes;
	uint64_t offset_bytes; /* in the file */
	uint64_t done_bytes;
	bool is_write;
};

/* Moves it, in pieces, several in flight.  Returns -1 with an exception. */
int py_bulk(struct py_session *session, struct py_bulk *bulk, PyObject *path);
/* Opens a file that stays until py_close_file().  Returns -1 with an exception. */
int py_open(struct py_session *session, const struct py_path *path, uint32_t flags, uint32_t mode,
	    struct weka_attr *attr);
void py_close_file(struct py_session *session, const struct weka_handle *handle);
/* Writes a whole file.  Returns -1 with an exception. */
int py_put(struct py_session *session, const struct py_path *path, const void *bytes, uint64_t size,
	   const struct weka_create *create);
struct weka_create py_create(uint32_t mode, bool exclusive);
PyObject *py_stat_new(const struct weka_attr *attr);

PyObject *py_client_read(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_readinto(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_write(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_put(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_truncate(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_stat(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_remove(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_rmtree(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_rename(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_mkdir(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_listdir(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_scandir(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_put_batch(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_stat_batch(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_remove_batch(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_client_info(PyObject *self, PyObject *none);

#endif
