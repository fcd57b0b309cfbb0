/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Finds the name of a damaged block's file.  An inode does not have its name, but its handle has
 * the directory and the hash of the name with which it was created:
 *
 *   {directory, hash} --> a name with this handle? --> the directory's record: parent, handle
 *                              | no                    --> ... until the root
 *                              v
 *                         all names of that directory --> no: lost; at the round's end one walk
 *                                                         over all names finds those
 *
 * As elsewhere in the scrub each step begins at the tree's root, so the tree may change meanwhile;
 * then the result is a path that the file has had.
 *
 *  (1) It ends: each climb is one directory more, and the path has room for a bounded number.
 *  (2) Meanwhile no damage is looked for: a page that cannot be read ends the search
 *      [test_meta_scrub:damaged_page_is_named].
 */
#include "meta/check/meta_scrub.h"

#include <stdio.h>
#include <string.h>

#define WHERE 128u

static const char *where_of(const struct meta__scrub_bad *bad, char text[WHERE])
{
	(void)snprintf(text, WHERE, "drive %u block %llu %s", META_BADDR_DRIVE(bad->baddr),
		       (unsigned long long)META_BADDR_BLOCK(bad->baddr),
		       bad->unreadable ? "cannot be read"
		       : bad->page     ? "is not the page that its parent names"
				       : "does not match its checksum");
	return text;
}

/* Reports damage; `name` is the path, or a substitute. */
static void tell(struct meta_scrub *s, const struct meta__scrub_bad *bad, const char *name)
{
	char where[WHERE];

	ASSERT(s->naming.for_list || !s->has_line);
	if (s->naming.for_list) { /* the shard's own records */
		meta__listed(s, name, (uint32_t)strlen(name));
		return;
	}
	if (bad->page)
		(void)snprintf(s->line, sizeof(s->line),
			       "a page of the index (shard %u, level %llu): %s; with it is what "
			       "stands from %s on",
			       bad->shard, (unsigned long long)bad->block, where_of(bad, where),
			       name);
	else
		(void)snprintf(s->line, sizeof(s->line), "%s: block %llu of the file: %s", name,
			       (unsigned long long)bad->block, where_of(bad, where));
	s->has_line = true;
	s->naming.on = false;
}

static void tell_handle(struct meta_scrub *s, const struct meta__scrub_bad *bad)
{
	char name[96];

	ASSERT(s->naming.for_list || !s->has_line);
	if (s->naming.for_list) {
		meta__listed(s, "", 0);
		return;
	}
	if (bad->page)
		(void)snprintf(name, sizeof(name), "directory %llx",
			       (unsigned long long)bad->file.dir);
	else
		(void)snprintf(name, sizeof(name), "a file without a name, %llx.%llx.%llx",
			       (unsigned long long)bad->file.dir,
			       (unsigned long long)bad->file.hash,
			       (unsigned long long)bad->file.uniq);
	tell(s, bad, name);
}

/* ---- the path ----------------------------------------------------------------------- */

static void finish(struct meta_scrub *s)
{
	struct meta__scrub_naming *n = &s->naming;
	char name[META__SCRUB_LINE_PATH + 1];
	uint32_t len = META__SCRUB_PATH - n->from, most;

	ASSERT(n->on);
	ASSERT(n->from <= META__SCRUB_PATH);
	if (n->for_list) {
		meta__listed(s, len ? n->path + n->from : "/", len ? len : 1);
		return;
	}
	most = min_u32(len, META__SCRUB_LINE_PATH);
	memcpy(name, n->path + META__SCRUB_PATH - most, most);
	if (most < len)
		memcpy(name, "...", 3);
	name[most] = '\0';
	for (char *c = name; *c; c++) /* names are any bytes, lines are not */
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	tell(s, &n->bad, len ? name : "/");
}

/* Prepends a component.  False: no room; the rest is reported. */
static bool prepend(struct meta_scrub *s, const char *bytes, uint32_t len)
{
	struct meta__scrub_naming *n = &s->naming;

	ASSERT(n->from <= META__SCRUB_PATH); /* (1) */
	ASSERT(len > 0);                     /* (1): each has less room left */
	if (n->from < len + 1 + 3) {
		n->from -= 3;
		memcpy(n->path + n->from, "...", 3);
		finish(s);
		return false;
	}
	n->from -= len + 1;
	n->path[n->from] = '/';
	memcpy(n->path + n->from + 1, bytes, len);
	ASSERT(n->from >= 3);
	return true;
}

/* It is in directory `dir` under this name. */
static void named(struct meta_scrub *s, uint64_t dir, const struct meta__name *name)
{
	struct meta__scrub_naming *n = &s->naming;

	ASSERT(s->naming.on);
	if (!prepend(s, name->bytes, name->len))
		return; /* (1) */
	n->dir = meta__whole_of(dir);
	n->climbing = true;
	if (n->dir == META_ROOT_DIR)
		finish(s);
}

/* A directory on the way has no name that can be read. */
static void stuck(struct meta_scrub *s)
{
	struct meta__scrub_naming *n = &s->naming;
	char text[40];
	int len = snprintf(text, sizeof(text), "(directory %llx)", (unsigned long long)n->dir);

	ASSERT(len > 0);
	ASSERT(n->on);
	if (n->from == META__SCRUB_PATH)
		tell_handle(s, &n->bad);
	else if (prepend(s, text, (uint32_t)len))
		finish(s);
}

/* ---- steps -------------------------------------------------------------------------- */

static void look_for(struct meta_scrub *s, uint64_t dir, const struct meta_handle *h)
{
	struct meta__scrub_naming *n = &s->naming;

	ASSERT(n->on);
	n->climbing = n->whole = false;
	n->dir = dir;
	n->want = *h;
	n->at = meta__key(dir, h->hash, META__CLASS_NAME, 0, META__KIND_NONE, 0);
}

void meta__scrub_name_begin(struct meta_scrub *s, const struct meta__scrub_bad *bad)
{
	struct meta__scrub_naming *n = &s->naming;

	ASSERT(!s->has_line);
	ASSERT(!n->on);
	n->on = true;
	n->for_list = false;
	n->bad = *bad;
	n->from = META__SCRUB_PATH;
	look_for(s, bad->file.dir, &bad->file);
	n->climbing = bad->page; /* of a directory itself */
	if (bad->page)
		n->dir = meta__whole_of(n->dir);
	if (n->dir == META_ROOT_DIR && bad->page)
		finish(s);
	else if (bad->file.dir == 0)
		tell(s, bad, "the shard's own records");
}

void meta__scrub_name_list(struct meta_scrub *s, uint32_t entry)
{
	const struct meta__damage *d = &s->damages.of[entry];
	struct meta__scrub_naming *n = &s->naming;
	const struct meta__scrub_bad bad = {
		.page = d->kinds & 1u << META_DAMAGE_PAGE,
		.file = d->file,
	};

	ASSERT(entry < s->damages.high);
	ASSERT(d->used);
	ASSERT(!n->on);
	n->on = true;
	n->for_list = true;
	n->entry = entry;
	n->bad = bad;
	n->from = META__SCRUB_PATH;
	look_for(s, bad.file.dir, &bad.file);
	n->climbing = bad.page;
	if (bad.page)
		n->dir = meta__whole_of(n->dir);
	if (d->dir) { /* where the last walk over all names has found it */
		n->dir = d->dir;
		n->whole = true;
		n->at = meta__dir_key(n->dir);
	}
	if (n->dir == META_ROOT_DIR && bad.page)
		finish(s);
	else if (bad.file.dir == 0)
		tell(s, &bad, "(the shard's own records)");
}

/* Not where it was born. */
static void not_here(struct meta_scrub *s)
{
	struct meta__scrub_naming *n = &s->naming;

	ASSERT(n->on);
	ASSERT(s->lost_count <= META__SCRUB_LOST);
	if (!n->whole) {
		n->whole = true;
		n->at = meta__dir_key(n->dir);
	} else if (n->from < META__SCRUB_PATH) {
		stuck(s);
	} else if (n->for_list) {
		meta__damage_unnamed(&s->damages, n->entry);
		tell_handle(s, &n->bad);
	} else if (s->lost_count < META__SCRUB_LOST && s->in_round) {
		s->lost[s->lost_count++] = n->bad;
		n->on = false;
	} else {
		tell_handle(s, &n->bad);
	}
}

/* Names from n->at on, in this leaf. */
static void look(struct meta_scrub *s, const struct meta__scrub_place *at)
{
	struct meta__scrub_naming *n = &s->naming;
	struct meta__name name;
	uint32_t pos, len;
	const void *value;

	ASSERT(at->leaf);
	ASSERT(n->on);
	ASSERT(!n->climbing);
	(void)meta__leaf_find(at->leaf, &n->at, &pos);
	for (; pos < meta__page_count(at->leaf); pos++) {
		const struct meta_key key = meta__leaf_key(at->leaf, pos);

		if (meta__key_dir(&key) != n->dir ||
		    (!n->whole && (meta__key_hash(&key) != n->want.hash ||
				   meta__key_class(&key) != META__CLASS_NAME))) {
			not_here(s);
			return;
		}
		if (meta__key_class(&key) != META__CLASS_NAME)
			continue;
		meta__leaf_value(at->leaf, pos, &value, &len);
		if (meta__name_parse(&key, value, len, &name) == 0 &&
		    meta__handle_eq(&name.handle, &n->want)) {
			named(s, n->dir, &name);
			return;
		}
	}
	if (at->has_hi)
		n->at = at->hi;
	else
		not_here(s);
}

/* Handles the record of directory n->dir: its inode, and where its name must be. */
static void climb(struct meta_scrub *s, const struct meta__scrub_place *at)
{
	struct meta__scrub_naming *n = &s->naming;
	const struct meta_key key = meta__dir_key(n->dir);
	struct meta__dir d;
	const void *value;
	uint32_t pos, len;

	ASSERT(at->leaf);
	ASSERT(n->climbing);
	if (!meta__leaf_find(at->leaf, &key, &pos)) {
		stuck(s);
		return;
	}
	meta__leaf_value(at->leaf, pos, &value, &len);
	if (meta__dir_parse(value, len, &d) != 0)
		stuck(s);
	else
		look_for(s, d.parent, &d.inode);
}

enum meta_scrub_next meta__scrub_name_step(struct meta_scrub *s)
{
	struct meta__scrub_naming *n = &s->naming;
	const struct meta_key key = n->climbing ? meta__dir_key(n->dir) : n->at;
	struct meta__scrub_place at;

	ASSERT(n->on);
	ASSERT(!s->has_line);
	switch (meta__scrub_walk(s, meta__dir_shard(s->m, n->dir), &key, false, &at)) {
	case SCRUB_READ:
		return META_SCRUB_READ;
	case SCRUB_AWAY:
		return META_SCRUB_MORE;
	case SCRUB_EMPTY:
	case SCRUB_DAMAGED: /* (2) */
		n->whole = true;
		if (n->climbing)
			stuck(s);
		else
			not_here(s);
		return META_SCRUB_MORE;
	case SCRUB_LEAF:
		if (n->climbing)
			climb(s, &at);
		else
			look(s, &at);
		return META_SCRUB_MORE;
	}
	UNREACHABLE();
}

/* ---- the walk over all names -------------------------------------------------------- */

static struct meta__scrub_bad lost_take(struct meta_scrub *s, uint32_t i)
{
	const struct meta__scrub_bad bad = s->lost[i];

	ASSERT(i < s->lost_count);
	s->lost[i] = s->lost[--s->lost_count];
	return bad;
}

void meta__scrub_name_seen(struct meta_scrub *s, const struct meta_key *key, const void *value,
			   uint32_t len)
{
	struct meta__name name;

	ASSERT(s->cur.names_only);
	ASSERT(!s->naming.on);
	if (meta__key_class(key) != META__CLASS_NAME || meta__key_dir(key) == 0 ||
	    meta__name_parse(key, value, len, &name) != 0)
		return;
	if (s->damages.unnamed) {
		const uint32_t entry = meta__damage_of(&s->damages, &name.handle);

		if (entry != META__DAMAGE_NONE && s->damages.of[entry].unnamed)
			meta__damage_named(&s->damages, entry, meta__whole_of(meta__key_dir(key)));
	}
	for (uint32_t i = 0; i < s->lost_count; i++) {
		struct meta__scrub_bad bad;

		if (!meta__handle_eq(&s->lost[i].file, &name.handle))
			continue;
		bad = lost_take(s, i);
		s->naming.on = true;
		s->naming.for_list = false;
		s->naming.bad = bad;
		s->naming.from = META__SCRUB_PATH;
		named(s, meta__key_dir(key), &name);
		s->cur.at = *key; /* there may be more of it */
		return;
	}
}

bool meta__scrub_name_none(struct meta_scrub *s)
{
	struct meta__scrub_bad bad;

	ASSERT(s->lost_count <= META__SCRUB_LOST);
	ASSERT(!s->naming.on);
	if (s->lost_count == 0)
		return false;
	bad = lost_take(s, 0);
	s->naming.for_list = false; /* the last search may have been for one */
	tell_handle(s, &bad);
	return true;
}
