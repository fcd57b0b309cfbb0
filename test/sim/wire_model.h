/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The answers that clients may get: all possible present states of a group of names, a directory.
 *
 * A group is the set of its possible states.  An operation is open from when it was submitted until
 * nobody can carry it out any more, and takes place in one moment between; when its answer comes,
 * the states from which no order of open operations leads to that answer are gone.  If none is
 * left, no order explains the answers: that is what a test looks for.  So a change that was
 * acknowledged is there from then on, once; one whose answer was lost may be there, and once it was
 * seen it is.
 *
 * A held file stays in the group's states when it loses its name: answers by handle are then as
 * strict as before.  A file without a name that is perhaps not held may be gone or not.
 *
 * A file may have several names in its group, and an attribute; some groups are removed whole, and
 * made again.  The appliance's totals of their trees are compared at the end.
 *
 * The content of a file is a chain of changes: a put of its own bytes, appends, writes, truncates;
 * each byte names the change that wrote it, and its place in that change.
 */
#ifndef WIRE_MODEL_H
#define WIRE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define WIRE_GROUPS   12u
#define WIRE_TREES    2u /* the first groups are removed with all that is in them, and made again */
#define WIRE_NAMES    3u
#define WIRE_HOLDS    2u /* files of one group that are held at once */
#define WIRE_OPEN     5u /* operations of one group: each more makes states many times as many */
#define WIRE_FILE_MAX (96u << 10)
#define WIRE_ABSENT   0u
#define WIRE_DEAD     UINT32_MAX /* by handle: the file has no name any more */

enum wire_kind {
	WIRE_PUT,
	WIRE_APPEND,
	WIRE_WRITE,
	WIRE_TRUNCATE,
	WIRE_PUNCH,
	WIRE_UNLINK,
	WIRE_RENAME,
	WIRE_EXCHANGE,
	WIRE_READ, /* by name: also what a stat or a listing says of it */
	WIRE_READ_HANDLE,
	WIRE_HOLD, /* the file that has the name now stays */
	WIRE_LINK,
	WIRE_SET_ATTR, /* by handle: the change's number is the value */
	WIRE_GET_ATTR,
	WIRE_MKDIR, /* the group's directory */
	WIRE_RMTREE,
};

struct wire_op {
	bool used;
	bool ended; /* its request has; the change may yet take place */
	enum wire_kind kind;
	uint32_t name, to; /* of the group */
	uint32_t object;   /* by handle: the put that made it */
	uint32_t hold;     /* of a WIRE_HOLD: wire_hold_take() */
	uint32_t id;       /* of a change: unlike any other */
	uint32_t offset, size;
	uint32_t client; /* of an ended one, whose it was: see wire_client.c */
	uint32_t life;
};

struct wire_group {
	struct wire_op op[WIRE_OPEN];
	struct wire_state *state;
	uint32_t count, room;
	bool holds[WIRE_HOLDS]; /* given out */
};

extern struct wire_group wire_group[WIRE_GROUPS];
extern uint64_t wire_nameless; /* answers about a file that had no name, and was held */

void wire_model_begin(void);
void wire_model_end(void);

/* A number for a change. */
uint32_t wire_id(void);
/* An operation begins; -1: too many of this group are open. */
int wire_open(uint32_t group, const struct wire_op *op);
/* More may be asked about the group: not too much of it is unsure; else a read helps. */
bool wire_may_ask(uint32_t group, bool read);
/* Changes of the group that have ended and may yet take place. */
uint32_t wire_unsure(uint32_t group);

/* It ended with this: a change's status, and of an append or write the size after it. false: no
 * order explains it (sim_why). */
bool wire_did(uint32_t group, int op, int status, uint64_t size);
/* ... a read: status, and of the `asked` bytes of the file from `offset` on the `got` that came. */
bool wire_found(uint32_t group, int op, int status, const uint8_t *bytes, uint32_t offset,
		uint32_t asked, uint32_t got);
/* ... a stat or a listing: absent, or so large. */
bool wire_saw(uint32_t group, int op, int status, uint64_t size);
/* ... a WIRE_HOLD: it holds this file, which stays for users of its handle; after an error:
 * none. */
bool wire_held(uint32_t group, int op, int status, uint32_t object);
/* Takes a place for a hold, before the request, or returns -1; and frees it when it may have
 * ended. */
int wire_hold_take(uint32_t group);
void wire_hold_end(uint32_t group, uint32_t hold);
/* It was a read, and has no answer; or a change that certainly did not take place: false as above.
 */
void wire_dropped(uint32_t group, int op);
bool wire_not_done(uint32_t group, int op);
/* A change ended without an answer: it took place, or may yet, or not.  And: from now on it cannot.
 */
void wire_ended(uint32_t group, int op);
void wire_closed(uint32_t group, int op);

/* No file of the group is longer than that, whatever takes place. */
uint32_t wire_size_most(uint32_t group);

/* May these be the totals of its directory, now that nothing is under way?  And so many inodes are
 * there then. */
bool wire_totals_are(uint32_t group, int status, uint64_t entries, uint64_t bytes);
void wire_inodes(uint64_t *least, uint64_t *most);

/* The bytes of change `id` from `offset` on. */
void wire_bytes(uint32_t id, uint32_t offset, uint8_t *to, uint32_t size);

/* The group that was wrong. */
void wire_describe(void);

#endif
