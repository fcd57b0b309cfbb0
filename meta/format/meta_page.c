/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Pages: 16 KiB, a leaf of records or an interior page of children (FORMAT.md 4).
 *
 *   leaf      | header 64 | slot 0 | slot 1 | ...  free  ... | value 1 | value 0 |
 *             slots: key, offset, length, in order of keys    ^ heap_start        ^ 16384
 *
 *   interior  | header 64 | w0 of 408 separators | w1, w2, baddr, gen of 408 children |
 *
 * Invariants of a page that was made here or passed meta__page_check():
 *
 *  (1) Keys ascend strictly; header.first is not above any of them.
 *  (2) heap_start is after the last slot; each value is in [heap_start, 16384), aligned to 8.
 *  (3) The values' bytes (rounded up to 8) and heap_dead add up to 16384 - heap_start: so a
 *      compacted page has room for exactly meta__leaf_free() bytes more.
 */
#include "meta/format/meta_page.h"
#include "base/num.h"

#include <errno.h>
#include <string.h>

static uint32_t round8(uint32_t bytes)
{
	return (bytes + 7) & ~7u;
}

static struct meta_page_disk *head_of(void *page)
{
	return page;
}

static const struct meta_page_disk *head(const void *page)
{
	return page;
}

static const struct meta_slot_disk *slots(const void *page)
{
	return ((const struct meta_leaf_disk *)page)->slot;
}

static struct meta_key key_of_disk(const struct meta_key_disk *d)
{
	return (struct meta_key){ { le64_get(d->w[0]), le64_get(d->w[1]), le64_get(d->w[2]) } };
}

static struct meta_key_disk key_to_disk(const struct meta_key *k)
{
	return (struct meta_key_disk){ { le64_of(k->w[0]), le64_of(k->w[1]), le64_of(k->w[2]) } };
}

/* ---- the parser of foreign pages ------------------------------------------------- */

static const char *leaf_check(const void *page, struct meta_key below)
{
	const struct meta_slot_disk *slot = slots(page);
	uint32_t count = meta__page_count(page), heap = le16_get(head(page)->heap_start);
	uint32_t used = le16_get(head(page)->heap_dead);

	if (count > META_LEAF_SLOTS_MAX || heap > META_PAGE_BYTES || heap % 8 != 0 ||
	    sizeof(struct meta_page_disk) + count * sizeof(*slot) > heap)
		return "its slots run into its values";
	for (uint32_t i = 0; i < count; i++) {
		uint32_t offset = le16_get(slot[i].offset), length = le16_get(slot[i].length);
		struct meta_key key = meta__leaf_key(page, i);

		if (length > META_VALUE_MAX || offset % 8 != 0 || offset < heap ||
		    offset + round8(length) > META_PAGE_BYTES || le32_get(slot[i].reserved))
			return "a value lies outside of it";
		if (meta__key_cmp(&below, &key) > (i == 0 ? 0 : -1))
			return "its keys are out of order";
		below = key;
		used += round8(length);
	}
	if (meta__key_is_last(&below))
		return "a key of it cannot be";
	return used == META_PAGE_BYTES - heap ? NULL : "its bytes do not add up";
}

static const char *inner_check(const void *page, struct meta_key below)
{
	uint32_t count = meta__page_count(page);
	uint64_t baddr, gen;

	if (count > META_INNER_MAX || le16_get(head(page)->heap_start) ||
	    le16_get(head(page)->heap_dead))
		return "it has too many children";
	for (uint32_t i = 0; i < count; i++) {
		struct meta_key key = meta__inner_key(page, i);

		if (meta__key_cmp(&below, &key) > (i == 0 ? 0 : -1))
			return "its separators are out of order";
		below = key;
		meta__inner_child(page, i, &baddr, &gen);
		if (META_BADDR_BLOCK(baddr) == 0 || META_BADDR_DRIVE(baddr) >= META_DRIVES_MAX ||
		    gen > le64_get(head(page)->gen))
			return "a child of it cannot be";
	}
	return NULL;
}

const char *meta__page_check(const void *page, const struct meta__page_want *want)
{
	const struct meta_page_disk *h = head(page);

	if (le32_get(h->magic) != META_PAGE_MAGIC)
		return "it is not a page";
	if (le32_get(h->crc32c) != crc32c((const uint8_t *)page + 4, META_PAGE_BYTES - 4))
		return "its checksum is wrong";
	if (le64_get(h->baddr) != want->baddr)
		return "it belongs elsewhere";
	if (le64_get(h->gen) != want->gen)
		return "it is of another generation";
	if (le32_get(h->shard) != want->shard)
		return "it is of another shard";
	if (le16_get(h->level) != want->level || want->level >= META_PAGE_LEVELS_MAX)
		return "it is of another level";
	if (le32_get(h->order) == 0 || le16_get(h->count) == 0)
		return "its header is malformed";
	return want->level == 0 ? leaf_check(page, key_of_disk(&h->first))
				: inner_check(page, key_of_disk(&h->first));
}

int meta__page_look(const void *page, struct meta__page_look *out)
{
	const struct meta_page_disk *h = head(page);
	const struct meta__page_want itself = {
		.baddr = le64_get(h->baddr),
		.gen = le64_get(h->gen),
		.shard = le32_get(h->shard),
		.level = le16_get(h->level),
	};

	if (meta__page_check(page, &itself))
		return -EUCLEAN;
	*out = (struct meta__page_look){
		.shard = itself.shard,
		.level = itself.level,
		.count = le16_get(h->count),
		.gen = itself.gen,
		.order = le32_get(h->order),
		.first = key_of_disk(&h->first),
	};
	return 0;
}

void meta__page_child(const void *page, uint32_t i, struct meta_key *key, uint64_t *baddr,
		      uint64_t *gen)
{
	*key = meta__inner_key(page, i);
	meta__inner_child(page, i, baddr, gen);
}

void meta__page_record(const void *page, uint32_t i, struct meta_key *key, const void **value,
		       uint32_t *value_len)
{
	*key = meta__leaf_key(page, i);
	meta__leaf_value(page, i, value, value_len);
}

/* ---- both kinds ------------------------------------------------------------------ */

void meta__page_init(void *page, uint32_t shard, uint32_t level, const struct meta_key *first)
{
	memset(page, 0, META_PAGE_BYTES); /* no bytes of an earlier page get onto the drive */
	*head_of(page) = (struct meta_page_disk){
		.magic = le32_of(META_PAGE_MAGIC),
		.shard = le32_of(shard),
		.level = le16_of((uint16_t)level),
		.heap_start = le16_of(level == 0 ? META_PAGE_BYTES : 0),
		.first = key_to_disk(first),
	};
}

void meta__page_place(void *page, uint64_t baddr, uint64_t gen, uint32_t order)
{
	DASSERT(META_BADDR_BLOCK(baddr) > 0);
	head_of(page)->baddr = le64_of(baddr);
	head_of(page)->gen = le64_of(gen);
	head_of(page)->order = le32_of(order);
}

void meta__page_seal(void *page)
{
	ASSERT(meta__page_count(page) > 0);
	head_of(page)->crc32c = le32_of(crc32c((uint8_t *)page + 4, META_PAGE_BYTES - 4));
}

static void set_count(void *page, uint32_t count)
{
	DASSERT(count <= META_LEAF_SLOTS_MAX);
	head_of(page)->count = le16_of((uint16_t)count);
}

static bool is_leaf(const void *page)
{
	return le16_get(head(page)->level) == 0;
}

struct meta_key meta__page_first(const void *page)
{
	return key_of_disk(&head(page)->first);
}

void meta__page_set_first(void *page, const struct meta_key *key)
{
	DASSERT(meta__page_count(page) > 0);
	head_of(page)->first = key_to_disk(key);
}

void meta__page_lower(void *page, const struct meta_key *key)
{
	struct meta_key first = meta__page_first(page);

	if (meta__key_cmp(key, &first) < 0)
		head_of(page)->first = key_to_disk(key);
	if (!is_leaf(page) && meta__page_count(page) > 0) {
		struct meta_inner_disk *p = page;

		first = meta__inner_key(page, 0);
		if (meta__key_cmp(key, &first) < 0) {
			p->w0[0] = le64_of(key->w[0]);
			p->child[0].w1 = le64_of(key->w[1]);
			p->child[0].w2 = le64_of(key->w[2]);
		}
	}
}

uint32_t meta__page_used(const void *page)
{
	if (is_leaf(page))
		return META__LEAF_SPACE - meta__leaf_free(page);
	return meta__page_count(page) * (META__LEAF_SPACE / META_INNER_MAX);
}

bool meta__page_holds(const void *page, const void *more)
{
	return meta__page_used(page) + meta__page_used(more) <= META__LEAF_SPACE * 7 / 8;
}

static void leaf_copy(void *to, const void *from, uint32_t begin, uint32_t end)
{
	DASSERT(begin <= end);
	DASSERT(end <= meta__page_count(from));
	for (uint32_t i = begin; i < end; i++) {
		struct meta_key key = meta__leaf_key(from, i);
		const void *value;
		uint32_t len;

		meta__leaf_value(from, i, &value, &len);
		meta__leaf_insert(to, meta__page_count(to), &key, value, len);
	}
}

static void inner_copy(void *to, const void *from, uint32_t begin, uint32_t end)
{
	const struct meta_inner_disk *f = from;
	struct meta_inner_disk *t = to;
	uint32_t at = meta__page_count(to), n = end - begin;

	ASSERT(begin <= end);
	ASSERT(at + n <= META_INNER_MAX);
	memcpy(&t->w0[at], &f->w0[begin], n * sizeof(f->w0[0]));
	memcpy(&t->child[at], &f->child[begin], n * sizeof(f->child[0]));
	set_count(to, at + n);
}

/* Slots and values of the records from `count` on are given up. */
static void leaf_cut(void *page, uint32_t count)
{
	struct meta_page_disk *h = head_of(page);
	uint32_t dead = le16_get(h->heap_dead);

	DASSERT(count <= meta__page_count(page));
	for (uint32_t i = count; i < meta__page_count(page); i++)
		dead += round8(le16_get(slots(page)[i].length));
	h->heap_dead = le16_of((uint16_t)dead);
	set_count(page, count);
}

void meta__page_split(void *left, void *right, uint32_t at)
{
	uint32_t count = meta__page_count(left);

	ASSERT(at <= count);
	ASSERT(meta__page_count(right) == 0);
	DASSERT(is_leaf(left) == is_leaf(right));
	if (is_leaf(left)) {
		leaf_copy(right, left, at, count);
		leaf_cut(left, at);
	} else {
		inner_copy(right, left, at, count);
		set_count(left, at);
	}
}

void meta__page_append(void *left, const void *right)
{
	DASSERT(is_leaf(left) == is_leaf(right));
	if (is_leaf(left))
		leaf_copy(left, right, 0, meta__page_count(right));
	else
		inner_copy(left, right, 0, meta__page_count(right));
}

/* ---- leaves ------------------------------------------------------------------------ */

static bool slot_below(const struct meta_slot_disk *at, const struct meta_key *key)
{
	uint64_t w = le64_get(at->w[0]);

	if (likely(w != key->w[0]))
		return w < key->w[0];
	w = le64_get(at->w[1]);
	if (w != key->w[1])
		return w < key->w[1];
	return le64_get(at->w[2]) < key->w[2];
}

/* Low bits of the directory and all of the hash: in order within a leaf of one directory or few. */
static uint64_t rank_of(uint64_t w0, uint64_t w1)
{
	return w0 << 24 | w1 >> 40;
}

/*
 * About where key is.  Hashes are spread evenly, so in a leaf of names this is a few slots off,
 * while halves would touch a cold cache line at each step.
 */
static uint32_t guess(const struct meta_slot_disk *s, uint32_t n, const struct meta_key *key)
{
	uint64_t first = le64_get(s[0].w[0]), last = le64_get(s[n - 1].w[0]), low, high, rank;

	DASSERT(n > 0);
	if (first >> 40 != last >> 40 || key->w[0] >> 40 != first >> 40)
		return n / 2;
	low = rank_of(first, le64_get(s[0].w[1]));
	high = rank_of(last, le64_get(s[n - 1].w[1]));
	rank = rank_of(key->w[0], key->w[1]);
	if (low == high && rank == low) { /* one file's: by what counts its chunks */
		low = le64_get(s[0].w[2]);
		high = le64_get(s[n - 1].w[2]);
		rank = key->w[2];
	}
	if (low == high)
		return n / 2;
	if (rank <= low)
		return 0;
	if (rank >= high)
		return n - 1;
	return (uint32_t)((double)(rank - low) / (double)(high - low) * (double)(n - 1));
}

/* The first slot that is not below key, by steps that double from `at` on and then halves. */
static uint32_t gallop(const struct meta_slot_disk *s, uint32_t n, uint32_t at,
		       const struct meta_key *key)
{
	uint32_t lo, hi, step = 1;

	DASSERT(at < n);
	if (slot_below(&s[at], key)) {
		for (lo = at + 1; at + step < n && slot_below(&s[at + step], key); step *= 2)
			lo = at + step + 1;
		hi = min_u32(at + step, n);
	} else {
		for (hi = at; at >= step && !slot_below(&s[at - step], key); step *= 2)
			hi = at - step;
		lo = at >= step ? at - step + 1 : 0;
	}
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (slot_below(&s[mid], key))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Below zero: the slot is below key.  Zero: it is key's. */
static int slot_cmp(const struct meta_slot_disk *at, const struct meta_key *key)
{
	for (uint32_t i = 0; i < 3; i++) {
		const uint64_t w = le64_get(at->w[i]);

		if (w != key->w[i])
			return w < key->w[i] ? -1 : 1;
	}
	return 0;
}

bool meta__leaf_find(const void *page, const struct meta_key *key, uint32_t *pos)
{
	const struct meta_slot_disk *s = slots(page);
	uint32_t n = meta__page_count(page);

	*pos = n ? gallop(s, n, guess(s, n, key), key) : 0;
	DASSERT(*pos <= n);
	DASSERT(n <= META_LEAF_SLOTS_MAX);
	return *pos < n && slot_cmp(&s[*pos], key) == 0;
}

/* A name's inode comes after it, a name before its inode: two comparisons instead of a search. */
bool meta__leaf_find_near(const void *page, const struct meta_key *key, uint32_t *pos)
{
	const struct meta_slot_disk *s = slots(page);
	uint32_t n = meta__page_count(page), at = *pos;
	int cmp;

	if (at >= n)
		return meta__leaf_find(page, key, pos);
	cmp = slot_cmp(&s[at], key);
	if (cmp < 0 && ++at < n) {
		cmp = slot_cmp(&s[at], key);
		if (cmp < 0)
			return meta__leaf_find(page, key, pos);
	} else if (cmp > 0 && at > 0 && slot_cmp(&s[at - 1], key) >= 0) {
		return meta__leaf_find(page, key, pos);
	}
	*pos = at;
	return cmp == 0;
}

uint32_t meta__leaf_fetch(const void *page, const struct meta_key *key, uint32_t step)
{
	const struct meta_slot_disk *s = slots(page);
	uint32_t n = meta__page_count(page), at;

	if (n == 0)
		return 0;
	if (step == 0) { /* the header is here: the ends, for the guess */
		__builtin_prefetch(&s[0]);
		__builtin_prefetch(&s[n - 1]);
		return 0;
	}
	at = guess(s, n, key);
	if (step == 1) {
		for (uint32_t i = at > 2 ? at - 2 : 0; i < n && i <= at + 4; i += 2)
			__builtin_prefetch(&s[i]);
		return at;
	}
	at = gallop(s, n, at, key);
	for (uint32_t i = at; i < n && i < at + 3; i++) { /* name, inode, first extent */
		const char *value = (const char *)page + le16_get(s[i].offset);

		__builtin_prefetch(value);
		__builtin_prefetch(value + 64);
	}
	return at;
}

void meta__leaf_ahead(const void *page, uint32_t pos)
{
	const struct meta_slot_disk *s = &slots(page)[pos];
	uint32_t n = min_u32(meta__page_count(page) - pos, 3);

	DASSERT(pos <= meta__page_count(page));
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *value = (const uint8_t *)page + le16_get(s[i].offset);

		__builtin_prefetch(value);
		__builtin_prefetch(value + 64);
	}
}

/* Between the last slot and the first value. */
static uint32_t leaf_gap(const void *page)
{
	DASSERT(le16_get(head(page)->heap_start) >=
		sizeof(struct meta_page_disk) +
			meta__page_count(page) * sizeof(struct meta_slot_disk)); /* (2) */
	return le16_get(head(page)->heap_start) - (uint32_t)sizeof(struct meta_page_disk) -
	       meta__page_count(page) * (uint32_t)sizeof(struct meta_slot_disk);
}

uint32_t meta__leaf_free(const void *page)
{
	return leaf_gap(page) + le16_get(head(page)->heap_dead);
}

/* Push all values to the end: invariant (3) with heap_dead 0. */
static void leaf_compact(void *page)
{
	_Alignas(8) uint8_t heap[META_PAGE_BYTES];
	struct meta_slot_disk *s = ((struct meta_leaf_disk *)page)->slot;
	uint32_t at = META_PAGE_BYTES, old = le16_get(head(page)->heap_start);

	memcpy(heap + old, (uint8_t *)page + old, META_PAGE_BYTES - old);
	for (uint32_t i = 0; i < meta__page_count(page); i++) {
		uint32_t bytes = round8(le16_get(s[i].length));

		at -= bytes;
		memcpy((uint8_t *)page + at, heap + le16_get(s[i].offset), bytes);
		s[i].offset = le16_of((uint16_t)at);
	}
	ASSERT(at == old + le16_get(head(page)->heap_dead)); /* (3) */
	memset((uint8_t *)page + old, 0, at - old);
	head_of(page)->heap_start = le16_of((uint16_t)at);
	head_of(page)->heap_dead = le16_of(0);
}

/* Zeros follow it, up to a multiple of 8: its last word is cleared first, in one store. */
static void value_put(uint8_t *to, const void *value, uint32_t len)
{
	DASSERT(len <= META_VALUE_MAX);
	if (len == 0)
		return;
	memset(to + round8(len) - 8, 0, 8);
	memcpy(to, value, len);
}

void meta__leaf_insert(void *page, uint32_t pos, const struct meta_key *key, const void *value,
		       uint32_t value_len)
{
	struct meta_slot_disk *s = &((struct meta_leaf_disk *)page)->slot[pos];
	uint32_t count = meta__page_count(page), bytes = round8(value_len), at;

	ASSERT(pos <= count);
	ASSERT(value_len <= META_VALUE_MAX);
	if (leaf_gap(page) < meta__leaf_bytes(value_len))
		leaf_compact(page);
	ASSERT(leaf_gap(page) >= meta__leaf_bytes(value_len));

	at = le16_get(head(page)->heap_start) - bytes;
	value_put((uint8_t *)page + at, value, value_len);
	DASSERT(pos == 0 || slot_cmp(s - 1, key) < 0); /* (1) */
	DASSERT(pos == count || slot_cmp(s, key) > 0);
	memmove(s + 1, s, (count - pos) * sizeof(*s));
	*s = (struct meta_slot_disk){
		.w = { le64_of(key->w[0]), le64_of(key->w[1]), le64_of(key->w[2]) },
		.offset = le16_of((uint16_t)(bytes ? at : META_PAGE_BYTES)),
		.length = le16_of((uint16_t)value_len),
	};
	head_of(page)->heap_start = le16_of((uint16_t)at);
	set_count(page, count + 1);
	meta__page_lower(page, key);
}

bool meta__leaf_replace(void *page, uint32_t pos, const void *value, uint32_t value_len)
{
	struct meta_slot_disk *s = &((struct meta_leaf_disk *)page)->slot[pos];
	uint32_t bytes = round8(value_len);
	uint8_t *to = (uint8_t *)page + le16_get(s->offset);

	ASSERT(pos < meta__page_count(page));
	if (bytes != round8(le16_get(s->length)))
		return false;
	value_put(to, value, value_len);
	s->length = le16_of((uint16_t)value_len);
	return true;
}

void meta__leaf_remove(void *page, uint32_t pos)
{
	struct meta_slot_disk *s = &((struct meta_leaf_disk *)page)->slot[pos];
	uint32_t count = meta__page_count(page);
	uint32_t dead = le16_get(head(page)->heap_dead) + round8(le16_get(s->length));

	ASSERT(pos < count);
	memmove(s, s + 1, (count - pos - 1) * sizeof(*s));
	head_of(page)->heap_dead = le16_of((uint16_t)dead);
	set_count(page, count - 1);
}

uint32_t meta__leaf_middle(const void *page, uint32_t pos, uint32_t bytes)
{
	uint32_t half = (meta__page_used(page) + bytes) / 2, sum = 0, i = 0;

	DASSERT(pos <= meta__page_count(page));
	for (; i < meta__page_count(page) && sum < half; i++) {
		sum += meta__leaf_bytes(le16_get(slots(page)[i].length));
		if (i == pos)
			sum += bytes;
	}
	return i;
}

/* ---- interior pages ------------------------------------------------------------------ */

struct meta_key meta__inner_key(const void *page, uint32_t i)
{
	const struct meta_inner_disk *p = page;

	DASSERT(i < META_INNER_MAX);
	return (struct meta_key){ { le64_get(p->w0[i]), le64_get(p->child[i].w1),
				    le64_get(p->child[i].w2) } };
}

uint32_t meta__inner_find(const void *page, const struct meta_key *key)
{
	const struct meta_inner_disk *p = page;
	uint32_t lo = 0, n = meta__page_count(page);

	DASSERT(n <= META_INNER_MAX);
	/* [lo, lo + n) may still be the first that is > key */
	while (n > 0) {
		uint32_t half = n / 2, at = lo + half;
		uint64_t w = le64_get(p->w0[at]);
		bool not_above = w < key->w[0];

		if (unlikely(w == key->w[0])) {
			w = le64_get(p->child[at].w1);
			not_above = w < key->w[1] ||
				    (w == key->w[1] && le64_get(p->child[at].w2) <= key->w[2]);
		}
		lo = not_above ? at + 1 : lo;
		n = not_above ? n - half - 1 : half;
	}
	return lo > 0 ? lo - 1 : 0;
}

void meta__inner_child(const void *page, uint32_t i, uint64_t *baddr, uint64_t *gen)
{
	const struct meta_inner_disk *p = page;

	ASSERT(i < meta__page_count(page));
	*baddr = le64_get(p->child[i].baddr);
	*gen = le64_get(p->child[i].gen);
}

void meta__inner_set(void *page, uint32_t i, uint64_t baddr, uint64_t gen)
{
	struct meta_inner_disk *p = page;

	DASSERT(META_BADDR_BLOCK(baddr) > 0);
	ASSERT(i < meta__page_count(page));
	p->child[i].baddr = le64_of(baddr);
	p->child[i].gen = le64_of(gen);
}

void meta__inner_insert(void *page, uint32_t i, const struct meta_key *key, uint64_t baddr,
			uint64_t gen)
{
	struct meta_inner_disk *p = page;
	uint32_t count = meta__page_count(page);

	ASSERT(i <= count);
	ASSERT(count < META_INNER_MAX);
	DASSERT(META_BADDR_BLOCK(baddr) > 0);
	memmove(&p->w0[i + 1], &p->w0[i], (count - i) * sizeof(p->w0[0]));
	memmove(&p->child[i + 1], &p->child[i], (count - i) * sizeof(p->child[0]));
	p->w0[i] = le64_of(key->w[0]);
	p->child[i] = (struct meta_child_disk){
		.w1 = le64_of(key->w[1]),
		.w2 = le64_of(key->w[2]),
		.baddr = le64_of(baddr),
		.gen = le64_of(gen),
	};
	set_count(page, count + 1);
}

void meta__inner_remove(void *page, uint32_t i)
{
	struct meta_inner_disk *p = page;
	uint32_t count = meta__page_count(page);

	ASSERT(i < count);
	memmove(&p->w0[i], &p->w0[i + 1], (count - i - 1) * sizeof(p->w0[0]));
	memmove(&p->child[i], &p->child[i + 1], (count - i - 1) * sizeof(p->child[0]));
	set_count(page, count - 1);
}
