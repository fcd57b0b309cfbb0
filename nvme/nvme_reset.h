/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The state of a drive with trouble: nvme_watch.c detects it, nvme_reset.c repairs it.  Both have
 * drawings.  Private to nvme/ and its tests.
 */
#ifndef NVME_RESET_H
#define NVME_RESET_H

#include "nvme/nvme_admin.h"

#include <stdatomic.h>

struct nvme_qpair;

/* ---- orders of the drive's owner to each queue pair's thread ------------------------- */

/* An order is | round of the reset, 30 | what, 2 |: one of long ago is not taken for a new one. */
enum nvme_order {
	NVME_ORDER_RUN,    /* the queues are there: submit, ring, poll                    */
	NVME_ORDER_STOP,   /* touch neither the queues nor a doorbell, and obey           */
	NVME_ORDER_RETURN, /* the controller writes nothing: give all I/Os back, and obey */
	NVME_ORDER_DEAD,   /* the same, and it was the last                               */
};

#define NVME_ORDER_BITS       2
#define NVME_ORDER_WHAT(word) ((enum nvme_order)((word) & ((1u << NVME_ORDER_BITS) - 1)))

/* A complaint of a queue pair's thread: | kind, 8 | command id, 16 |; 0: none. */
enum nvme_complaint {
	NVME_COMPLAINT_NONE,
	NVME_COMPLAINT_ID,    /* a completion for a command that is not there, or no more */
	NVME_COMPLAINT_QUEUE, /* one that names another submission queue                  */
};

/* ---- the reset ------------------------------------------------------------------------ */

enum nvme_life {
	NVME_LIVE,      /* I/Os flow                                                   */
	NVME_STOPPING,  /* the cores must stop and report that                         */
	NVME_DELETING,  /* the one queue pair that hangs is taken from the controller  */
	NVME_DISABLING, /* CC.EN = 0 is written: RDY is to fall                        */
	NVME_RESETTING, /* it did not: function-level reset                            */
	NVME_RETURNING, /* nothing is written any more: I/Os are returned                     */
	NVME_RESTING,   /* it did not come up: a pause before it is tried again        */
	NVME_RISING,    /* nvme__up_step()                                             */
	NVME_PROVING,   /* nvme_proof.c: does it hold the same content?               */
	NVME_CREATING,  /* the queue pairs, one after the other                        */
	NVME_DEAD,      /* for good                                                    */
};

enum nvme_cause {
	NVME_CAUSE_TIMEOUT,   /* commands do not end, aborted or not       */
	NVME_CAUSE_ADMIN,     /* admin commands do not end, or come made up */
	NVME_CAUSE_FATAL,     /* CSTS.CFS                                   */
	NVME_CAUSE_PROTOCOL,  /* unexpected completions          */
	NVME_CAUSE_GONE,      /* registers read all ones, or the alarm      */
	NVME_CAUSE_BUS,       /* the bus says that there was an error */
	NVME_CAUSE_NAMESPACE, /* ours is not there any more, or is another one */
	NVME_CAUSE_REQUEST,   /* the host wants the device back             */
	NVME_CAUSE_CLOSING,   /* nvme_qpair_stop() on a drive that hangs    */
	NVME_CAUSES,
};

#define NVME_RESET_RECENT 5u /* resets in a short time that are too many */

struct nvme_reset {
	enum nvme_life life;
	enum nvme_cause cause;
	uint32_t qid;           /* the one queue pair that is restarted; 0: the controller    */
	uint32_t round;         /* of the orders that are out                                 */
	uint64_t since_ns;      /* when this life began */
	uint64_t deadline_ns;   /* of this life                                               */
	uint64_t look_ns;       /* not before: a register costs a trip to the device          */
	uint32_t attempts;      /* failed ones, to bring it up again                          */
	uint64_t trouble_ns;    /* when it ceased to serve; 0: it serves                      */
	_Atomic bool away;      /* the trouble began so long ago that I/Os get -EHOSTDOWN     */
	bool vacant;            /* its server has left: I/Os come back before there is one    */
	bool checking;          /* it was reset: is it?                                       */
	int reset_rc;           /* result of ops->reset()                                  */
	bool dead;              /* it does not come back: status of all I/Os                  */
	bool forced;            /* waits for no other thread                                  */
	bool released;          /* ops->release() was called                                  */
	bool stopped;           /* the controller reaches no memory any more                  */
	uint64_t stopped_epoch; /* counts.reset_count when it was so last                     */
	bool quarantine;        /* it could not be stopped: memory that it knew is never reused */
	bool restarted;         /* another incarnation: its volatile cache may have been lost */
	struct nvme_admin_cmd cmd; /* deleting, creating */
	uint32_t next_qid;
	bool next_sq;
	uint64_t recent_ns[NVME_RESET_RECENT]; /* when resets began, oldest first */
};

/* ---- the watch ------------------------------------------------------------------------- */

#define NVME_TICKS       8u /* of a timeout */
#define NVME_LINES       16u
#define NVME_LINE_BYTES  192u
#define NVME_TIMEOUT_MAX (3600 * 1000000000ull)

/* Lines for people: one thread writes, one reads; when full, further ones are counted only. */
struct nvme_lines {
	_Atomic uint32_t head;
	_Atomic uint32_t tail;
	_Atomic uint32_t lost_count;
	char text[NVME_LINES][NVME_LINE_BYTES];
};

struct nvme_watch {
	uint64_t tick_ns;      /* 0: commands may take for ever                        */
	uint64_t next_tick_ns; /* UINT64_MAX: nothing was in flight, twice             */
	uint64_t next_look_ns; /* at alarms and the admin queue                        */
	const void *owner;     /* nvme__me() of the thread of the last step; NULL: none */
	uint32_t stamp;        /* 1 .. 255: what commands that are submitted now carry */
	uint32_t self_check;   /* steps, in variants with WK_DEBUG                     */
	uint64_t restarted_ns; /* a queue pair, the last time; 0: never                */
	bool csts_wanted;      /* it was asked for at a tick, and has not been answered */
	bool cooling;          /* nothing was in flight at the last tick               */
	_Atomic bool on;       /* there is a next tick: a submit need not start one    */
	_Atomic bool stepped;  /* a thread calls nvme_drive_step()                     */
	_Atomic bool kicked;   /* a queue pair's thread asks the owner to check        */
	int kick_fd;
	int epoll_fd; /* nvme_drive_fd() */
	struct nvme_admin_cmd abort;
	uint32_t abort_qid;
	uint32_t abort_cid;
	struct nvme_lines lines;
};

/* nvme_watch.c */
must_check int nvme__watch_init(struct nvme_drive *drive, uint64_t timeout_ns);
void nvme__watch_fini(struct nvme_drive *drive);
/* From any thread of a queue pair: asks the owner to check. */
void nvme__kick(struct nvme_drive *drive);
/* A line for people; "NAME: " is put before it. */
void nvme__tell(struct nvme_drive *drive, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Checks a live drive, and passes any trouble to nvme__trouble(). */
void nvme__watch_look(struct nvme_drive *drive, uint64_t now_ns);
/* After a reset: from now on. */
void nvme__watch_restart(struct nvme_drive *drive, uint64_t now_ns);
/* Alarms in the middle of a reset. */
void nvme__watch_alarms(struct nvme_drive *drive, uint64_t now_ns);

/* nvme_reset.c.  The owner's, but for those of a queue pair. */
void nvme__trouble(struct nvme_drive *drive, enum nvme_cause cause, uint32_t qid, uint64_t now_ns);
/* One transition; false: it waits for something. */
must_check bool nvme__reset_turn(struct nvme_drive *drive, uint64_t now_ns);
/* For a drive that does not serve: returns when it will count as away; UINT64_MAX: it does. */
uint64_t nvme__away_ns(const struct nvme_drive *drive);
void nvme__away_look(struct nvme_drive *drive, uint64_t now_ns);
/* For nvme_qpair_stop(): stops the controller by any means, permanently.  Blocks. */
void nvme__halt(struct nvme_drive *drive, struct nvme_qpair *own);

/* nvme_qpair.c: the queue pair's thread carries out its orders. */
void nvme__qpair_obey(struct nvme_qpair *qp);
/* nvme_queues.c: an order for one queue pair, and its thread is woken. */
void nvme__qpair_order(struct nvme_qpair *qp, uint32_t order);

#endif
