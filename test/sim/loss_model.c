/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/loss_model.h"
#include "test/sim/sim_args.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct path {
	char text[32];
};

void loss_model_init(struct loss_model *lm, struct rig *r, uint64_t seed)
{
	memset(lm, 0, sizeof(*lm));
	lm->r = r;
	lm->largest = LOSS_LARGEST;
	lm->now[0] = 1;
	rand_seed(&lm->rand, seed ^ 0x1055);
}

/* ---- names ------------------------------------------------------------------------ */

static bool is_dir(uint32_t name)
{
	return name < LOSS_DIRS;
}

static uint32_t dir_of(uint32_t file)
{
	return file % LOSS_DIRS;
}

static struct path dir_path(uint32_t dir, uint64_t as)
{
	struct path p = { "" };

	if (dir > 0)
		(void)snprintf(p.text, sizeof(p.text), "/%c%u", as == 2 ? 'e' : 'd', dir);
	return p;
}

static struct path path_of(const struct loss_model *lm, uint32_t name)
{
	const uint32_t dir = is_dir(name) ? name : dir_of(name);
	struct path p = dir_path(dir, lm->now[dir]);
	const size_t at = strlen(p.text);

	if (!is_dir(name))
		(void)snprintf(p.text + at, sizeof(p.text) - at, "/f%u", name);
	return p;
}

/* It can be changed: all that it depends on is known, and there. */
static bool is_free(const struct loss_model *lm, uint32_t name)
{
	if (lm->unsure[name])
		return false;
	return is_dir(name) || (!lm->unsure[dir_of(name)] && lm->now[dir_of(name)]);
}

/* ---- changes ---------------------------------------------------------------------- */

static bool settled(struct loss_model *lm, const struct loss_doubt *d, int err, const char *what)
{
	if (err == 0) {
		lm->done++;
		for (uint32_t i = 0; i < 2 && d->name[i] != LOSS_NOBODY; i++)
			lm->now[d->name[i]] = d->after[i];
		return true;
	}
	if (err == -ENOSPC) {
		lm->full++;
		return true;
	}
	if (err != -ECANCELED && err != -EIO && err != -EROFS)
		return sim_wrong("%s of %s: %d", what, path_of(lm, d->name[0]).text, err);
	if (err != -ECANCELED && meta_health(lm->r->m) == 0)
		return sim_wrong("%s of %s: %d, and the store is not frozen", what,
				 path_of(lm, d->name[0]).text, err);
	lm->doubt[lm->doubts++] = *d;
	for (uint32_t i = 0; i < 2 && d->name[i] != LOSS_NOBODY; i++)
		lm->unsure[d->name[i]] = true;
	return true;
}

static bool put(struct loss_model *lm, uint32_t file)
{
	struct loss_doubt d = { { file, LOSS_NOBODY }, { ++lm->fills, 0 } };

	return settled(lm, &d,
		       rig_put(lm->r, path_of(lm, file).text, (uint32_t)(lm->fills % lm->largest),
			       lm->fills),
		       "put");
}

bool loss_remove(struct loss_model *lm, uint32_t file)
{
	struct loss_doubt d = { { file, LOSS_NOBODY }, { 0, 0 } };
	int err;

	if (is_dir(file) || !is_free(lm, file) || lm->now[file] == 0)
		return true;
	err = rig_unlink(lm->r, path_of(lm, file).text);
	if (err == -ENOSPC)
		return sim_wrong("unlink of %s: no space", path_of(lm, file).text);
	return settled(lm, &d, err, "unlink");
}

static bool make_dir(struct loss_model *lm, uint32_t dir)
{
	struct loss_doubt d = { { dir, LOSS_NOBODY }, { 1, 0 } };

	return settled(lm, &d, rig_mkdir(lm->r, dir_path(dir, 1).text), "mkdir");
}

static int rename_to(struct loss_model *lm, const char *from, const char *to)
{
	struct meta_op op = {
		.type = META_OP_RENAME,
		.target = { .path = from, .path_len = (uint32_t)strlen(from) },
		.other = { .path = to, .path_len = (uint32_t)strlen(to) },
		.wall_ns = 7,
	};

	return rig_run(lm->r, &op);
}

static bool rename_dir(struct loss_model *lm, uint32_t dir)
{
	const uint64_t to = 3 - lm->now[dir];
	struct loss_doubt d = { { dir, LOSS_NOBODY }, { to, 0 } };
	const struct path a = path_of(lm, dir), b = dir_path(dir, to);

	return settled(lm, &d, rename_to(lm, a.text, b.text), "rename");
}

static bool rename_file(struct loss_model *lm, uint32_t from, uint32_t to)
{
	struct loss_doubt d = { { from, to }, { 0, lm->now[from] } };
	const struct path a = path_of(lm, from), b = path_of(lm, to);

	if (from == to || lm->now[from] == 0 || !is_free(lm, to))
		return true;
	return settled(lm, &d, rename_to(lm, a.text, b.text), "rename");
}

bool loss_fill(struct loss_model *lm)
{
	bool good = true;

	for (uint32_t i = 1; good && i < LOSS_NAMES && lm->doubts < LOSS_DOUBTS; i++)
		if (is_free(lm, i) && lm->now[i] == 0)
			good = is_dir(i) ? make_dir(lm, i) : put(lm, i);
	return good;
}

/* Returns this name, or in place of a file that changes seldom another one. */
static uint32_t warm(struct loss_model *lm, uint32_t name)
{
	if (!lm->cold || is_dir(name) || name % 4 == 0 || rand_below(&lm->rand, 8) == 0)
		return name;
	return LOSS_DIRS + 4 * (uint32_t)rand_below(&lm->rand, LOSS_FILES / 4);
}

bool loss_change(struct loss_model *lm)
{
	const uint32_t name = warm(lm, 1 + (uint32_t)rand_below(&lm->rand, LOSS_NAMES - 1));
	const uint64_t how = rand_below(&lm->rand, 16);

	if (!is_free(lm, name) || lm->doubts == LOSS_DOUBTS)
		return true;
	if (is_dir(name))
		return lm->now[name] ? rename_dir(lm, name) : make_dir(lm, name);
	if (how < 11)
		return put(lm, name);
	if (how < 13)
		return loss_remove(lm, name);
	return rename_file(lm, name, LOSS_DIRS + (uint32_t)rand_below(&lm->rand, LOSS_FILES));
}

/* ---- looking ---------------------------------------------------------------------- */

static bool look_dir(struct loss_model *lm, uint32_t dir, uint64_t *seen)
{
	*seen = 0;
	for (uint64_t as = 1; as <= 2; as++) {
		const struct path p = dir_path(dir, as);
		struct meta_op op = {
			.type = META_OP_STAT,
			.target = { .path = p.text, .path_len = (uint32_t)strlen(p.text) },
		};
		int err = rig_run(lm->r, &op);

		if (err && err != -ENOENT)
			return sim_wrong("%s: %d", p.text, err);
		if (!err && *seen)
			return sim_wrong("%s is there twice", p.text);
		if (!err)
			*seen = as;
	}
	return true;
}

static bool look_file(struct loss_model *lm, uint32_t file, const uint64_t *seen_dir,
		      uint64_t *seen)
{
	const uint32_t dir = dir_of(file);
	char path[64];
	uint32_t blocks;
	int err;

	*seen = 0;
	if (seen_dir[dir] == 0)
		return true;
	(void)snprintf(path, sizeof(path), "%s/f%u", dir_path(dir, seen_dir[dir]).text, file);
	err = rig_get(lm->r, path, &blocks, seen);
	if (err == -ENOENT) {
		*seen = 0;
		return true;
	}
	if (err)
		return sim_wrong("%s: %d, with fill %llu of %llu", path, err,
				 (unsigned long long)*seen, (unsigned long long)lm->now[file]);
	return blocks == *seen % lm->largest ? true : sim_wrong("%s: %u blocks", path, blocks);
}

static bool is_after(const struct loss_doubt *d, const uint64_t *seen)
{
	return seen[d->name[0]] == d->after[0] &&
	       (d->name[1] == LOSS_NOBODY || seen[d->name[1]] == d->after[1]);
}

static bool is_before(const struct loss_model *lm, const struct loss_doubt *d, const uint64_t *seen)
{
	return seen[d->name[0]] == lm->now[d->name[0]] &&
	       (d->name[1] == LOSS_NOBODY || seen[d->name[1]] == lm->now[d->name[1]]);
}

static bool compare(const struct loss_model *lm, const uint64_t *seen)
{
	for (uint32_t i = 0; i < LOSS_NAMES; i++)
		if (!lm->unsure[i] && seen[i] != lm->now[i])
			return sim_wrong("%s holds %llu, not %llu", path_of(lm, i).text,
					 (unsigned long long)seen[i],
					 (unsigned long long)lm->now[i]);
	for (uint32_t i = 0; i < lm->doubts; i++)
		if (!is_after(&lm->doubt[i], seen) && !is_before(lm, &lm->doubt[i], seen))
			return sim_wrong("%s: a change is there in part",
					 path_of(lm, lm->doubt[i].name[0]).text);
	return true;
}

bool loss_look(struct loss_model *lm)
{
	uint64_t seen[LOSS_NAMES] = { 1 };

	for (uint32_t i = 1; i < LOSS_DIRS; i++)
		if (!look_dir(lm, i, &seen[i]))
			return false;
	for (uint32_t i = LOSS_DIRS; i < LOSS_NAMES; i++)
		if (!look_file(lm, i, seen, &seen[i]))
			return false;
	if (!compare(lm, seen))
		return false;
	if (meta_health(lm->r->m))
		return true; /* what it shows may not be durable */
	memcpy(lm->now, seen, sizeof(seen));
	memset(lm->unsure, 0, sizeof(lm->unsure));
	lm->doubts = 0;
	return true;
}
