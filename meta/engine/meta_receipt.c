/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Receipts: the changes of clients that were made, and their results.
 *
 *   client --- slot 0 --- number 7 --- receipt                  a change
 *          \-- slot 1 --- number 9 --- item 0 - item 3 - ...    a batch, as far as it was made
 *          \-- slot 63
 *
 * A client whose session broke sends its unanswered changes again.  It numbers its changes: each of
 * its 64 slots has one in flight at a time, with a number higher than all before.  So the last
 * number of a slot tells its fate: the same number was made, a higher one was not.
 *
 *   change --apply--> log record {mutations, receipt} --> table        log   [.. R . | R .. R .]
 *   mount  --replay------------------------------------> table               trimmed ^ still
 *   checkpoint: the table --carried over--> log, which may be trimmed before these   kept
 *
 * Receipts are kept in memory and in the log only, never in a page or tree.  A checkpoint that is
 * about to trim the log first writes the receipts that are still kept into it again; a mount does
 * so in its new log, before a root names it.  A change pays 32 bytes of log, and 8 or 24 more if it
 * has a result.
 *
 * Invariants, true between any two calls:
 *
 *  (1) A receipt is a mutation in the record of its change: a crash leaves both or neither
 *      [test_meta_receipt:a_change_was_made_exactly_if_its_receipt_says_so].
 *  (2) A slot's number and receipts are those of the newest change of it that was made.  If some of
 *      them were dropped for lack of room, it is `lost`.
 *  (3) Everything about a client that is in no table was in the log at or before
 *      `forgotten`.  So for a client that came later (its mark is not below) nothing is forgotten.
 *      The same holds for a slot without a number: a forgotten client may be back, by another slot
 *      [test_meta_receipt:of_a_stranger_nothing_is_known_unless_nobody_was_forgotten].
 *  (4) The content of the table is in the log after `trim`: in the record of its change or carried.
 *      `forgotten` is kept, too, even when the table is empty: a client that has changed nothing
 *      yet is in no table, and its repeated changes are recognised by that alone (3)
 *      [test_meta_receipt:an_idle_client_is_carried_along].
 *  (5) A slot's receipts descend by item: the items of a batch ascend, more or less, so
 *      that the place of the next is near the first however many there are.
 */
#include "meta/engine/meta_self_check.h"
#include "meta/engine/meta_share.h"
#include "meta/engine/meta_tx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS_MAX  1024u
#define RECEIPTS_MAX 16384u
#define NONE         UINT32_MAX
#define AGE_MAX      3u   /* meta_clients_age()s without a sign */
#define CARRY_BYTES  72u  /* of log, at most, that a receipt takes when it is carried over */
#define CARRY_TURN   256u /* receipts that one turn carries, and the rest of a slot */
#define STUCK_TURNS  4u

#define NO_ITEM UINT32_MAX

#define KIND_SLOT 0x3fu
#define KIND_PART 0x40u /* more changes of the same were to follow */
#define KIND_LOST 0x80u

struct receipt {
	uint64_t seq; /* of the log; 0: of an earlier mount */
	le64 value[3];
	uint32_t next; /* of its slot, or free */
	uint16_t item;
	uint8_t value_len;
	bool part;
};

struct slot {
	uint64_t number; /* 0: none yet */
	uint32_t first;
	bool lost;
};

/* The progress of a checkpoint in carrying receipts over. */
struct carry {
	uint32_t client, slot;
	uint64_t number; /* of the slot, when it was begun; 0: it was not */
	uint32_t item;   /* those from this one on have been */
};

struct client {
	struct list lru; /* of clients, or free */
	struct client *hash_next;
	uint64_t id; /* 0: free */
	uint32_t age;
	struct slot slot[META_RECEIPT_SLOTS];
};

struct meta__receipts {
	struct client *client;
	uint32_t client_max, client_count;
	struct client **hash; /* client_max chains, a power of two */
	struct list lru;      /* the one not heard of for longest first */
	struct list free;
	struct receipt *receipt;
	uint32_t receipt_max, receipt_free;
	uint64_t forgotten;
	bool told; /* the replayed log has recorded `forgotten` */
	/* carrying over: */
	uint64_t carry_seq; /* of the first block with it; 0: none yet */
	struct carry carry; /* next receipts to carry */
	struct carry safe;  /* the same without the gathered ones */
	uint32_t stuck;
	struct meta__mut mut[META__TX_RECORDS_MAX];
	uint32_t muts;
};

/* ---- made and ended --------------------------------------------------------------------- */

uint64_t meta__receipts_memory(const struct meta_conf *c)
{
	(void)c;
	return 0;
}

/* Limits the table, so that all of it, carried over, is a small part of the log. */
static void limits(struct meta__receipts *r, const struct meta_conf *conf)
{
	struct meta__geo geo;

	meta__geo_make(&geo, conf, 1, 0);
	r->receipt_max = (uint32_t)min_u64(RECEIPTS_MAX, geo.log_bytes_max / 16 / CARRY_BYTES);
	r->receipt_max = max_u32(r->receipt_max, 64);
	r->client_max = 16;
	while (r->client_max < CLIENTS_MAX && r->client_max < r->receipt_max / 8)
		r->client_max *= 2;
	ASSERT(is_pow2(r->client_max));
	ASSERT(r->receipt_max >= META_RECEIPT_SLOTS);
}

int meta__receipts_create(struct meta *m)
{
	struct meta__receipts *r = calloc(1, sizeof(*r));

	m->receipts = r;
	if (!r)
		return -ENOMEM;
	limits(r, &m->conf);
	r->client = calloc(r->client_max, sizeof(*r->client));
	r->hash = calloc(r->client_max, sizeof(struct client *));
	r->receipt = calloc(r->receipt_max, sizeof(*r->receipt));
	if (!r->client || !r->hash || !r->receipt)
		return -ENOMEM;
	list_init(&r->lru);
	list_init(&r->free);
	for (uint32_t i = 0; i < r->client_max; i++) {
		list_init(&r->client[i].lru);
		list_push_back(&r->free, &r->client[i].lru);
	}
	for (uint32_t i = 0; i < r->receipt_max; i++)
		r->receipt[i].next = i + 1 < r->receipt_max ? i + 1 : NONE;
	return 0;
}

void meta__receipts_destroy(struct meta *m)
{
	struct meta__receipts *r = m->receipts;

	if (!r)
		return;
	free(r->client);
	free(r->hash);
	free(r->receipt);
	free(r);
	m->receipts = NULL;
}

/* ---- the table ---------------------------------------------------------------------------- */

static struct client **chain_of(struct meta__receipts *r, uint64_t id)
{
	return &r->hash[id & (r->client_max - 1)]; /* an id is a hash */
}

static struct client *client_find(struct meta__receipts *r, uint64_t id)
{
	struct client *c = *chain_of(r, id);

	while (c && c->id != id)
		c = c->hash_next;
	return c;
}

static void slot_empty(struct meta__receipts *r, struct slot *s)
{
	while (s->first != NONE) {
		struct receipt *x = &r->receipt[s->first];
		uint32_t next = x->next;

		DASSERT(s->first < r->receipt_max);
		x->next = r->receipt_free;
		r->receipt_free = s->first;
		s->first = next;
	}
}

static void client_forget(struct meta *m, struct client *c)
{
	struct meta__receipts *r = m->receipts;
	struct client **at = chain_of(r, c->id);

	ASSERT(c->id != 0);
	ASSERT(r->client_count > 0);
	for (uint32_t i = 0; i < META_RECEIPT_SLOTS; i++)
		slot_empty(r, &c->slot[i]);
	while (*at != c)
		at = &(*at)->hash_next;
	*at = c->hash_next;
	c->id = 0;
	list_del(&c->lru);
	list_push_back(&r->free, &c->lru);
	r->client_count--;
	r->forgotten = max_u64(r->forgotten, meta__log_last(m)); /* (3) */
	ASSERT(r->client_count < r->client_max);
}

static void client_heard(struct meta__receipts *r, struct client *c)
{
	DASSERT(c->id != 0);
	c->age = 0;
	list_del(&c->lru);
	list_push_back(&r->lru, &c->lru);
}

/* NULL: there is no place. */
static struct client *client_add(struct meta__receipts *r, uint64_t id)
{
	struct list *node = list_pop_front(&r->free);
	struct client *c;

	if (!node)
		return NULL;
	c = list_entry(node, struct client, lru);
	ASSERT(c->id == 0);
	ASSERT(r->client_count < r->client_max);
	c->id = id;
	c->age = 0;
	c->hash_next = *chain_of(r, id);
	*chain_of(r, id) = c;
	list_push_back(&r->lru, &c->lru);
	r->client_count++;
	for (uint32_t i = 0; i < META_RECEIPT_SLOTS; i++)
		c->slot[i] = (struct slot){ .first = NONE };
	return c;
}

static struct client *client_of(struct meta *m, uint64_t id)
{
	struct meta__receipts *r = m->receipts;
	struct client *c = client_find(r, id);

	if (!c && list_empty(&r->free))
		client_forget(m, list_entry(r->lru.next, struct client, lru));
	ASSERT(c || !list_empty(&r->free));
	return c ? c : client_add(r, id);
}

/* Makes room for one more: forgets the client that was silent for longest. */
static uint32_t receipt_take(struct meta__receipts *r)
{
	struct list *node = r->lru.next;
	uint32_t at;

	for (; r->receipt_free == NONE; node = node->next) {
		struct client *c = list_entry(node, struct client, lru);

		ASSERT(node != &r->lru);
		for (uint32_t i = 0; i < META_RECEIPT_SLOTS; i++) {
			c->slot[i].lost |= c->slot[i].first != NONE; /* (2) */
			slot_empty(r, &c->slot[i]);
		}
	}
	at = r->receipt_free;
	DASSERT(at < r->receipt_max);
	r->receipt_free = r->receipt[at].next;
	return at;
}

/* Returns the place of the item, present or not (5). */
static uint32_t *item_place(struct meta__receipts *r, struct slot *s, uint32_t item)
{
	uint32_t *at = &s->first;

	while (*at != NONE && r->receipt[*at].item > item)
		at = &r->receipt[*at].next;
	return at;
}

static struct receipt *item_find(struct meta__receipts *r, struct slot *s, uint32_t item)
{
	uint32_t at = *item_place(r, s, item);

	return at != NONE && r->receipt[at].item == item ? &r->receipt[at] : NULL;
}

static struct receipt *item_add(struct meta__receipts *r, struct slot *s, uint32_t item)
{
	uint32_t i = receipt_take(r); /* which may take away this slot's others */
	uint32_t *at = item_place(r, s, item);

	DASSERT(item <= UINT16_MAX);
	DASSERT(*at == NONE || r->receipt[*at].item < item); /* (5) */
	r->receipt[i].item = (uint16_t)item;
	r->receipt[i].next = *at;
	*at = i;
	return &r->receipt[i];
}

/* ---- to and from mutations (FORMAT.md 5) ---------------------------------------------------- */

struct seen { /* a mutation taken apart */
	uint64_t client, number;
	uint32_t slot, item, value_len;
	bool part, lost;
	le64 value[3];
};

static struct meta_key key_of(uint64_t client, uint32_t kind, uint32_t item, uint64_t number)
{
	return meta__key(0, client >> 24, META__CLASS_RECEIPT, (client & 0xffffff) << 16 | item,
			 (enum meta__kind)kind, number);
}

static bool is_receipt(const struct meta__mut *mut)
{
	return meta__key_dir(&mut->key) == 0 && meta__key_class(&mut->key) == META__CLASS_RECEIPT;
}

static bool len_ok(const struct seen *s)
{
	if (s->client == 0)
		return s->number == 0 && s->value_len == sizeof(le64);
	if (s->number == 0 || s->lost)
		return s->value_len == 0;
	return s->value_len == 0 || s->value_len == sizeof(le64) ||
	       s->value_len == 3 * sizeof(le64);
}

static int parse(const struct meta__mut *mut, struct seen *s)
{
	const uint64_t uniq = meta__key_uniq(&mut->key);
	const uint32_t kind = (uint32_t)meta__key_kind(&mut->key);

	*s = (struct seen){
		.client = meta__key_hash(&mut->key) << 24 | uniq >> 16,
		.number = meta__key_index(&mut->key),
		.slot = kind & KIND_SLOT,
		.item = uniq & 0xffff,
		.part = kind & KIND_PART,
		.lost = kind & KIND_LOST,
		.value_len = mut->value_len,
	};
	if (mut->del || !len_ok(s))
		return -EUCLEAN;
	if (s->value_len)
		memcpy(s->value, mut->value, s->value_len);
	return 0;
}

int meta__receipt_check(const struct meta__mut *mut)
{
	struct seen s;

	return is_receipt(mut) ? parse(mut, &s) : 0;
}

/* Takes `forgotten` from the log (3), (4). */
static void forgotten_seen(struct meta__receipts *r, uint64_t seq)
{
	r->forgotten = r->told ? max_u64(r->forgotten, seq) : seq;
	r->told = true;
}

static void slot_turn(struct meta__receipts *r, struct slot *s, uint64_t number)
{
	DASSERT(number > s->number); /* (2) */
	slot_empty(r, s);
	s->number = number;
	s->lost = false;
}

bool meta__receipt_apply(struct meta *m, const struct meta__mut *mut, uint64_t seq)
{
	struct meta__receipts *r = m->receipts;
	struct client *c;
	struct receipt *x;
	struct slot *slot;
	struct seen s;

	if (likely(!is_receipt(mut)))
		return false;
	ASSERT(parse(mut, &s) == 0); /* a mount has checked receipts from the log */
	if (s.client == 0) {
		forgotten_seen(r, le64_get(s.value[0]));
		return true;
	}
	c = client_of(m, s.client);
	client_heard(r, c);
	slot = &c->slot[s.slot];
	if (s.number == 0 || s.number < slot->number)
		return true;
	if (s.number > slot->number)
		slot_turn(r, slot, s.number);
	DASSERT(slot->number == s.number); /* (2) */
	slot->lost |= s.lost;
	if (s.lost)
		return true;
	x = item_find(r, slot, s.item);
	if (!x)
		x = item_add(r, slot, s.item);
	x->seq = seq;
	x->part = s.part;
	x->value_len = (uint8_t)s.value_len;
	memcpy(x->value, s.value, sizeof(x->value));
	return true;
}

/* ---- operations ------------------------------------------------------------------------------ */

static uint32_t result_of(const struct meta_op *op, le64 value[3])
{
	const struct meta_handle *h = &op->attr.handle;

	switch (op->type) {
	case META_OP_WRITE:
		value[0] = le64_of(op->attr.size);
		return sizeof(value[0]);
	case META_OP_PUT:
	case META_OP_MKDIR:
	case META_OP_SYMLINK:
	case META_OP_TRUNCATE:
		value[0] = le64_of(h->dir);
		value[1] = le64_of(h->hash);
		value[2] = le64_of(h->uniq);
		return 3 * sizeof(value[0]);
	default:
		return 0;
	}
}

int meta__receipt_want(struct meta *m, const struct meta_op *op)
{
	const struct meta_receipt_id *id = &op->receipt;
	const uint32_t kind = id->slot | (id->part ? KIND_PART : 0);
	const struct meta_key key = key_of(id->client, kind, id->item, id->number);
	const uint32_t shard = m->tx->nmut ? m->tx->mut[0].shard : 0; /* no part of its own */
	le64 value[3];
	uint32_t len = result_of(op, value);

	ASSERT(id->client && id->slot < META_RECEIPT_SLOTS);
	if (!meta__may_look(m, shard))
		return meta__later(m);                   /* its part moves that shard's counters */
	return meta__tx_put(m, shard, &key, value, len); /* (1) */
}

static int found(struct meta *m, const struct receipt *x, struct meta_op *op)
{
	if (x->part)
		return -ECONNRESET;
	m->tx->seen = max_u64(m->tx->seen, x->seq);
	if (x->value_len == sizeof(x->value[0])) {
		op->attr.size = le64_get(x->value[0]);
		return 0;
	}
	op->attr.handle = (struct meta_handle){ 0 };
	if (x->value_len)
		op->attr.handle = (struct meta_handle){
			.dir = le64_get(x->value[0]),
			.hash = le64_get(x->value[1]),
			.uniq = le64_get(x->value[2]),
		};
	return 0;
}

int meta__plan_recall(struct meta *m, struct meta_op *op)
{
	struct meta__receipts *r = m->receipts;
	const struct meta_receipt_id *id = &op->receipt;
	struct client *c = client_find(r, id->client);
	const struct receipt *x;
	struct slot *s;

	ASSERT(!m->home);
	ASSERT(id->slot < META_RECEIPT_SLOTS);
	if (c)
		client_heard(r, c);
	/* (3); a client in the table may be new there, by a change of another slot */
	if (!c || c->slot[id->slot].number == 0)
		return id->sure && id->forgotten == r->forgotten ? -ENOENT : -ECONNRESET;
	s = &c->slot[id->slot];
	if (id->number != s->number)
		return id->number > s->number ? -ENOENT : -ECONNRESET;
	x = item_find(r, s, id->item);
	if (!x)
		return s->lost ? -ECONNRESET : -ENOENT;
	return found(m, x, op);
}

/* ---- clients come and go ------------------------------------------------------------------- */

uint64_t meta_clients_forgotten(const struct meta *m)
{
	return m->receipts->forgotten;
}

void meta_client_keep(struct meta *m, uint64_t client)
{
	struct meta__receipts *r = m->receipts;
	struct client *c = client_find(r, client);

	if (!c)
		c = client_add(r, client);
	if (c)
		client_heard(r, c);
}

void meta_clients_age(struct meta *m)
{
	struct list *node = m->receipts->lru.next, *next;

	for (; node != &m->receipts->lru; node = next) {
		struct client *c = list_entry(node, struct client, lru);

		next = node->next;
		if (++c->age >= AGE_MAX)
			client_forget(m, c);
	}
}

/* ---- replay --------------------------------------------------------------------------------- */

void meta__receipts_replaying(struct meta *m, uint64_t first)
{
	ASSERT(first > 0);
	m->receipts->forgotten = first - 1; /* unless it says better */
}

/* ---- carrying over (4) ----------------------------------------------------------------------- */

void meta__receipts_carry_start(struct meta *m)
{
	struct meta__receipts *r = m->receipts;

	r->carry_seq = 0;
	r->stuck = 0;
	r->carry = r->safe = (struct carry){ 0 };
	r->muts = 0;
}

uint64_t meta__receipts_trim(const struct meta *m)
{
	return m->receipts->carry_seq ? m->receipts->carry_seq - 1 : UINT64_MAX;
}

/* Writes the gathered receipts as one record; false: no room now.  Its part has the number of the
 * shard's last one: a mount finds it in the tree already, and takes only the receipts. */
static bool carry_flush(struct meta *m)
{
	struct meta__receipts *r = m->receipts;
	uint64_t seq;

	ASSERT(r->muts > 0);
	ASSERT(r->muts <= META__TX_RECORDS_MAX);
	if (!meta__log_room(m, meta__log_record_bytes(r->mut, r->muts)))
		return false;
	seq = meta__log_append(m, r->mut, r->muts, 0);
	if (!r->carry_seq)
		r->carry_seq = seq;
	ASSERT(seq >= r->carry_seq); /* (4) */
	r->muts = 0;
	r->safe = r->carry;
	return true;
}

static bool carry_mut(struct meta *m, struct meta_key key, const void *value, uint32_t len)
{
	struct meta__receipts *r = m->receipts;

	if (r->muts == META__TX_RECORDS_MAX && !carry_flush(m))
		return false;
	r->mut[r->muts++] = (struct meta__mut){ .key = key, .value = value, .value_len = len };
	return true;
}

/* A slot may have more receipts than a record takes, and a turn may end between two: the next one
 * continues after those in the log, if the slot is still about the same change. */
static bool carry_slot(struct meta *m, const struct client *c, uint32_t at, uint32_t *count)
{
	struct meta__receipts *r = m->receipts;
	const struct slot *s = &c->slot[at];

	ASSERT(at < META_RECEIPT_SLOTS);
	if (r->carry.number != s->number)
		r->carry.item = NO_ITEM;
	r->carry.number = s->number;
	if (s->number && s->lost) {
		if (!carry_mut(m, key_of(c->id, at | KIND_LOST, 0, s->number), NULL, 0))
			return false;
	}
	for (uint32_t i = s->first; i != NONE; i = r->receipt[i].next) {
		const struct receipt *x = &r->receipt[i];
		const uint32_t kind = at | (x->part ? KIND_PART : 0);

		if (x->item >= r->carry.item) /* (5) */
			continue;
		if (!carry_mut(m, key_of(c->id, kind, x->item, s->number), x->value, x->value_len))
			return false;
		r->carry.item = x->item;
		++*count;
	}
	r->carry.number = 0;
	return true;
}

static bool carry_client(struct meta *m, const struct client *c, uint32_t *count)
{
	struct meta__receipts *r = m->receipts;

	ASSERT(c->id != 0);
	if (r->carry.slot == 0 && !carry_mut(m, key_of(c->id, 0, 0, 0), NULL, 0))
		return false;
	for (; r->carry.slot < META_RECEIPT_SLOTS; r->carry.slot++)
		if (!carry_slot(m, c, r->carry.slot, count))
			return false;
	return true;
}

static bool carry_some(struct meta *m)
{
	struct meta__receipts *r = m->receipts;
	const le64 forgotten = le64_of(r->forgotten);
	uint32_t count = 0;

	r->muts = 0;
	if (!carry_mut(m, key_of(0, 0, 0, 0), &forgotten, sizeof(forgotten)))
		return false;
	for (; r->carry.client < r->client_max; r->carry.client++, r->carry.slot = 0) {
		if (count >= CARRY_TURN)
			break;
		if (r->client[r->carry.client].id &&
		    !carry_client(m, &r->client[r->carry.client], &count))
			return false;
	}
	return carry_flush(m);
}

/* The log is full, or there is no zone for it: it is better to tell clients that a result is
 * unknown than to stop all changes. */
static wk_cold void forget_all(struct meta *m)
{
	struct meta__receipts *r = m->receipts;

	while (!list_empty(&r->lru))
		client_forget(m, list_entry(r->lru.next, struct client, lru));
	r->carry_seq = 0;
	r->carry.client = r->client_max;
}

bool meta__receipts_carry(struct meta *m)
{
	struct meta__receipts *r = m->receipts;

	ASSERT(r->carry.client <= r->client_max);
	ASSERT(r->safe.client <= r->client_max);
	if (r->carry.client == r->client_max)
		return true;
	if (carry_some(m)) {
		r->stuck = 0;
		return r->carry.client == r->client_max;
	}
	r->carry = r->safe; /* receipts gathered in this turn */
	if (meta__log_moves(m))
		r->stuck = 0;
	else if (++r->stuck >= STUCK_TURNS)
		forget_all(m);
	return r->carry.client == r->client_max;
}

#ifdef WK_DEBUG

/* Returns how many receipts the slot has. */
static uint32_t slot_check(const struct meta__receipts *r, const struct slot *s)
{
	uint32_t count = 0;

	ASSERT(s->number > 0 || s->first == NONE);
	for (uint32_t i = s->first; i != NONE; i = r->receipt[i].next, count++) {
		const uint32_t next = r->receipt[i].next;

		ASSERT(count < r->receipt_max);
		ASSERT(next == NONE || r->receipt[next].item < r->receipt[i].item); /* (5) */
	}
	return count;
}

void meta__receipts_check(const struct meta *m)
{
	const struct meta__receipts *r = m->receipts;
	uint32_t clients = 0, receipts = 0;

	for (const struct list *at = r->lru.next; at != &r->lru; at = at->next, clients++) {
		const struct client *c = list_entry(at, struct client, lru);

		ASSERT(c->id != 0);
		ASSERT(clients < r->client_count);
		for (uint32_t i = 0; i < META_RECEIPT_SLOTS; i++)
			receipts += slot_check(r, &c->slot[i]);
	}
	ASSERT(clients == r->client_count);
	for (uint32_t i = r->receipt_free; i != NONE; i = r->receipt[i].next)
		ASSERT(++receipts <= r->receipt_max);
	ASSERT(receipts == r->receipt_max); /* each is of one slot, or free */
}

#endif
