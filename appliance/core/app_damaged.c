/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * FAB_DAMAGED: a page of the list of damaged files, as JSON text; and FAB_CHECK: checks blocks that
 * a client reports as damaged.
 *
 *   request --APP_SAY_DAMAGED--> the store's core: damage_askers --> the scrub's operation lists
 *      ^                                                              entry by entry into op->sums
 *      +------------------------APP_SAY_DONE---------------------------------'
 *
 *  (1) The text is in a table of the request's own core, which waits meanwhile and does not read
 *      it.
 *  (2) A page ends where the longest entry might not fit; "next" names the next entry.
 *  (3) Blocks that a read found bad go to the store's core through a ring of a few places, and from
 *      there to the scrub's.  A FAB_CHECK waits for a place.  A suspect of a failed read is dropped
 *      when the ring is full: the next read, or the scrub, finds the same damage.
 */
#include "appliance/core/app_op.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PAGE_BYTES = 64 << 10, ENTRY_MAX = 6 * META_PATH_MAX + 512 };

static_assert(PAGE_BYTES > 2 * ENTRY_MAX, "(2)");

struct page {
	uint32_t used;
	uint32_t entries;
	char text[];
};

static struct page *page_of(const struct app_op *op)
{
	return (struct page *)(void *)op->sums;
}

__attribute__((format(printf, 2, 3))) static void put(struct page *p, const char *fmt, ...)
{
	const uint32_t room = PAGE_BYTES - (uint32_t)sizeof(*p) - p->used;
	va_list args;
	int n;

	ASSERT(p->used < PAGE_BYTES - sizeof(*p));
	va_start(args, fmt);
	n = vsnprintf(p->text + p->used, room, fmt, args);
	va_end(args);
	ASSERT(n >= 0 && (uint32_t)n < room); /* (2) */
	p->used += (uint32_t)n;
}

/* A path is any bytes: each that is not printable ASCII is one character \u00XX. */
static void put_path(struct page *p, const struct meta_damaged *d)
{
	ASSERT(d->path_len <= META_PATH_MAX);
	for (uint32_t i = 0; i < d->path_len; i++) {
		const unsigned char c = (unsigned char)d->path[i];

		if (c < ' ' || c > '~' || c == '"' || c == '\\')
			put(p, "\\u%04x", c);
		else
			put(p, "%c", c);
	}
}

static const char *reason(const struct meta_damaged *d, uint64_t unreachable)
{
	const uint32_t bad = 1u << META_DAMAGE_SUM | 1u << META_DAMAGE_PAGE;

	ASSERT(d->kinds != 0);
	if (d->kinds == (1u << META_DAMAGE_PAGE | 1u << META_DAMAGE_UNREACHABLE))
		return "unreachable";
	if (d->kinds & 1u << META_DAMAGE_PAGE)
		return "index";
	if (d->kinds & bad)
		return "checksum";
	if (d->kinds & 1u << META_DAMAGE_UNREADABLE && d->drives & ~unreachable)
		return "unreadable";
	return "unreachable";
}

static void put_entry(struct app_op *op, const struct meta_damaged *d, uint64_t unreachable)
{
	struct page *p = page_of(op);
	const char *between = "";

	ASSERT(page_of(op)->used + ENTRY_MAX <= PAGE_BYTES - sizeof(struct page)); /* (2) */
	put(p, "%s{\"path\":\"", p->entries++ ? "," : "");
	put_path(p, d);
	put(p,
	    "\",\"handle\":\"%llx.%llx.%llx\",\"damage\":\"%s\",\"blocks\":%llu,\"first\":%llu,"
	    "\"last\":%llu,\"drive_block\":%llu,\"drives\":[",
	    (unsigned long long)d->file.dir, (unsigned long long)d->file.hash,
	    (unsigned long long)d->file.uniq, reason(d, unreachable), (unsigned long long)d->blocks,
	    (unsigned long long)d->block, (unsigned long long)d->end_block - 1,
	    (unsigned long long)META_BADDR_BLOCK(d->baddr));
	for (uint32_t i = 0; i < META_DRIVES_MAX; i++)
		if (d->drives >> i & 1) {
			put(p, "%s%u", between, i);
			between = ",";
		}
	put(p, d->kinds & 1u << META_DAMAGE_PAGE ? "],\"index\":true}" : "]}");
}

/* ---- on the store's core ------------------------------------------------------------------- */

void app_damage_ask(struct app_core *core, struct app_op *op)
{
	ASSERT(core->index == 0 && !list_linked(&op->store_link));
	list_push_back(&core->damage_askers, &op->store_link);
}

static struct app_op *asker(struct app_core *core)
{
	ASSERT(!list_empty(&core->damage_askers));
	return list_entry(core->damage_askers.next, struct app_op, store_link);
}

static void answer(struct app_core *core, int status)
{
	struct app_op *op =
		list_entry(list_pop_front(&core->damage_askers), struct app_op, store_link);

	ASSERT(status <= 0 && !core->damage_listing);
	list_init(&op->store_link);
	op->meta.status = status;
	if (op->core == core)
		app_op_ready(op);
	else
		app_cores_say(core, op->core->index,
			      (struct app_message){ { .op = op }, APP_SAY_DONE });
}

void app_damage_begin(struct app_core *core, struct meta_scrub *of, struct meta_damaged *entry)
{
	if (!list_empty(&core->damage_askers) && !core->damage_listing) {
		core->damage_listing = true;
		meta_scrub_list(of, (uint32_t)min_u64(asker(core)->offset_bytes, UINT32_MAX),
				entry);
	}
}

void app_damage_listed(struct app_core *core, struct meta_scrub *of,
		       const struct meta_damaged *entry)
{
	struct app_op *op = asker(core);
	struct page *p = page_of(op);
	struct meta_damage_stat stat;

	ASSERT(core->damage_listing); /* (1): the request waits */
	core->damage_listing = false;
	if (!entry->end) {
		put_entry(op, entry, app_ailing_unreachable(core));
		op->offset_bytes = entry->next;
		if (p->used + ENTRY_MAX < PAGE_BYTES - sizeof(*p) - 512)
			return; /* the next one of the same */
		put(p, "],\"next\":%u", entry->next);
	} else {
		put(p, "]");
	}
	(void)meta_scrub_damaged(of, &stat);
	put(p,
	    ",\"files\":%llu,\"blocks\":%llu,\"unreachable_files\":%llu,"
	    "\"unreachable_blocks\":%llu,\"pages\":%llu,\"unreachable_pages\":%llu,"
	    "\"complete\":%s}",
	    (unsigned long long)stat.files, (unsigned long long)stat.blocks,
	    (unsigned long long)stat.unreachable_files, (unsigned long long)stat.unreachable_blocks,
	    (unsigned long long)stat.pages, (unsigned long long)stat.unreachable_pages,
	    stat.complete ? "true" : "false");
	answer(core, 0);
}

void app_damage_stop(struct app_core *core, struct meta_scrub *of)
{
	if (core->damage_listing)
		meta_scrub_list_end(of);
	core->damage_listing = false;
	while (!list_empty(&core->damage_askers))
		answer(core, -ECONNRESET);
	ASSERT(list_empty(&core->damage_askers) && !core->damage_listing);
}

/* ---- the request --------------------------------------------------------------------------- */

enum damaged_at { DAMAGED_ACCEPTED, DAMAGED_LISTED };

enum app_next app_damaged_step(struct app_op *op)
{
	struct app_core *core = op->core;
	struct page *p;

	ASSERT(op->req->type == FAB_DAMAGED);
	switch ((enum damaged_at)op->at) {
	case DAMAGED_ACCEPTED:
		op->sums = app_table_take(core, op->session, PAGE_BYTES);
		if (!op->sums)
			return app_op_end(op, -EAGAIN);
		op->sums_bytes = PAGE_BYTES;
		p = page_of(op);
		p->used = p->entries = 0;
		put(p, "{\"damaged\":[");
		op->offset_bytes = op->req->args.page.from;
		op->on = APP_ON_META;
		op->at = DAMAGED_LISTED;
		if (core->index == 0) {
			app_damage_ask(core, op);
			return APP_WAIT;
		}
		op->asks_out++;
		app_cores_say(core, 0, (struct app_message){ { .op = op }, APP_SAY_DAMAGED });
		return APP_WAIT;

	case DAMAGED_LISTED:
		return app_op_end(op, op->meta.status);
	}
	UNREACHABLE();
}

void app_damaged_answer(struct app_op *op)
{
	struct page *p = page_of(op);

	ASSERT(op->status || page_of(op)->used <= PAGE_BYTES);
	if (op->status)
		fab_reply(op->req, op->status, NULL, 0);
	else
		app_text_answer(op, p->text, p->used);
}

/* ---- suspects ------------------------------------------------------------------------------ */

wk_cold bool app_suspect(struct app_core *core, const struct meta_handle *file, uint64_t block,
			 uint64_t nblocks)
{
	struct app_suspects *s = &core->suspects;
	uint32_t at;

	ASSERT(nblocks > 0);
	core->suspects_new = true;
	if (!spsc_place(&s->ends, APP_SUSPECTS, &at))
		return false;
	s->slot[at] = (struct app_suspect){ .file = *file, .block = block, .nblocks = nblocks };
	spsc_put(&s->ends);
	spsc_tell(&s->ends);
	return true;
}

/* Hands suspects to the scrub.  Returns false if it has no place for the rest (3). */
static bool take_from(struct app_suspects *s, struct meta_scrub *of)
{
	uint32_t at;

	while (spsc_oldest(&s->ends, APP_SUSPECTS, &at)) {
		const struct app_suspect x = s->slot[at];

		ASSERT(at < APP_SUSPECTS && x.nblocks > 0); /* (3) */
		if (!meta_scrub_suspect(of, &x.file, x.block, x.nblocks))
			return false;
		spsc_free(&s->ends);
	}
	return true;
}

void app_suspects_take(struct app_core *core, struct meta_scrub *of)
{
	ASSERT(core->index == 0);
	core->suspects_new = !take_from(&core->suspects, of);
	for (uint32_t i = 1; core->cores && i < core->cores->count; i++)
		if (core->cores->suspects[i])
			core->suspects_new |= !take_from(core->cores->suspects[i], of);
}
