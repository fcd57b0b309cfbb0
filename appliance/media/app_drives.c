/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The two ends of a drive, which have a store's superblocks, or an offer to be added to a store.
 *
 *   [ first block ] ..................... [ last block ]
 *     superblock, or offer                  the same
 *
 *  (1) An offered drive has the offer at both ends: a store that it once belonged to is gone
 *      [e2e_grow].
 *  (2) A superblock at one end and an offer at the other were left by a power cut, while the
 *      drive was being offered or added.  The superblock counts; the mount decides the rest.
 *      An offer in the first block is valid, whatever the last has: a superblock is written there
 *      first, and may be torn, or unreadable
 *      [test_app_drives:one_that_is_offered_is_so_whatever_its_last_block_holds].
 *
 * Only for threads that may wait; the drive has a queue pair for that time, and no other I/O.
 */
#define _GNU_SOURCE
#include "appliance/media/app_drives.h"
#include "appliance/media/app_missing.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEPTH  8u
#define BUFFER ((size_t)NVME_BLOCK_SIZE)

struct ends {
	struct nvme_drive *drive;
	struct nvme_dma *dma;
	struct nvme_qpair *qp;
	int fd;
	void *block;
	uint64_t iova;
};

static int make(struct ends *e)
{
	int err;

	ASSERT(e->fd < 0 && !e->block && !e->qp);
	e->fd = memfd_create("weka-ends", MFD_CLOEXEC);
	if (e->fd < 0 || ftruncate(e->fd, (off_t)BUFFER))
		return -errno;
	e->block = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, 0);
	if (e->block == MAP_FAILED) {
		e->block = NULL;
		return -errno;
	}
	err = nvme_dma_map_file(e->dma, e->block, BUFFER, e->fd, 0, &e->iova);
	if (err) {
		munmap(e->block, BUFFER);
		e->block = NULL;
		return err;
	}
	return nvme_qpair_create(e->drive, DEPTH, &e->qp);
}

static void unmake(struct ends *e)
{
	if (e->qp) {
		nvme_qpair_stop(e->qp);
		nvme_qpair_destroy(e->qp);
	}
	if (e->block) {
		nvme_dma_unmap(e->dma, e->iova, BUFFER);
		munmap(e->block, BUFFER);
	}
	if (e->fd >= 0)
		close(e->fd);
}

/* One I/O, waited for.  A drive that does not answer is ended by its own step. */
static int run(struct ends *e, enum nvme_op op, uint64_t block)
{
	struct nvme_io io = { .op = op, .fua = op == NVME_WRITE, .nblocks = 1, .block = block };
	struct nvme_io *done[1];
	int err;

	ASSERT(e->qp && (op == NVME_READ || op == NVME_WRITE));
	io.iova = e->iova;
	while ((err = nvme_submit(e->qp, &io)) == -EAGAIN)
		(void)nvme_drive_step(e->drive, clock_now_ns());
	if (err)
		return err;
	nvme_ring(e->qp);
	while (nvme_poll(e->qp, done, 1) == 0)
		(void)nvme_drive_step(e->drive, clock_now_ns());
	return io.status;
}

/* The newest one counts. */
static void take_set(const void *block, struct meta_set *out)
{
	struct meta_set set;

	ASSERT(out->ndrives <= META_DRIVES_MAX);
	if (meta_super_set(block, &set) && (out->ndrives == 0 || set.number > out->number))
		*out = set;
}

/* (2) */
static int look(struct ends *e, uint64_t nblocks, struct app_found *out)
{
	bool offered = false, gone;
	struct meta_offer offer;
	int err = 0;

	ASSERT(nblocks > 1 && out->kind == APP_FOUND_OTHER);
	for (uint32_t i = 0; i < 2; i++) {
		int bad = run(e, NVME_READ, i ? nblocks - 1 : 0);

		err = bad ? bad : err;
		if (bad)
			continue;
		if (meta_super_place(e->block, out->uuid, &out->place, &gone)) {
			out->kind = APP_FOUND_STORE;
			out->gone |= gone;
			take_set(e->block, &out->set);
		}
		if (!meta_offer_parse(e->block, &offer))
			continue;
		if (i == 0) {
			offered = true;
			out->offer = offer;
		}
	}
	if (out->kind == APP_FOUND_STORE)
		return 0;
	if (!offered)
		return err;
	out->kind = APP_FOUND_OFFER;
	return 0;
}

int app_drive_look(struct nvme_drive *drive, struct nvme_dma *dma, struct app_found *out)
{
	struct ends e = { .drive = drive, .dma = dma, .fd = -1 };
	struct nvme_info info;
	int err = make(&e);

	ASSERT(drive && dma);
	*out = (struct app_found){ 0 };
	nvme_drive_info(drive, &info);
	if (!err)
		err = look(&e, info.nblocks, out);
	unmake(&e);
	return err;
}

/* One end says that it is this drive of this store: uuid, then the place. */
static bool is_ours(const uint8_t of[32], const void *block)
{
	uint8_t uuid[16];
	uint32_t place;
	bool gone;

	return meta_super_place(block, uuid, &place, &gone) && !gone &&
	       memcmp(uuid, of, sizeof(uuid)) == 0 && memcmp(&place, of + 16, sizeof(place)) == 0;
}

int app_drive_prove(struct nvme_drive *drive, const struct app_found *found)
{
	struct nvme_proof proof = { .count = 2, .holds = is_ours };
	struct nvme_info info;

	ASSERT(found->kind == APP_FOUND_STORE);
	nvme_drive_info(drive, &info);
	proof.block[1] = info.nblocks - 1;
	memcpy(proof.of, found->uuid, sizeof(found->uuid));
	memcpy(proof.of + 16, &found->place, sizeof(found->place));
	return nvme_drive_prove(drive, &proof);
}

int app_drive_offer(struct nvme_drive *drive, struct nvme_dma *dma, const struct meta_offer *offer)
{
	struct ends e = { .drive = drive, .dma = dma, .fd = -1 };
	struct nvme_info info;
	int err = make(&e);

	ASSERT(drive && dma && offer->tag != 0);
	nvme_drive_info(drive, &info);
	if (!err) {
		meta_offer_build(offer, e.block);
		err = run(&e, NVME_WRITE, 0);
	}
	if (!err)
		err = run(&e, NVME_WRITE, info.nblocks - 1);
	unmake(&e);
	return err;
}

/* ---- in the order of the store ------------------------------------------------------------ */

static bool is_of_same_store(const struct app_found *a, const struct app_found *b)
{
	return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
}

/* Returns true if `a` names a newer set of drives than `b`.  If both sets have the same number, and
 * one of them says that the other's drive is lost, it is the newer one: the lost drive has missed
 * all changes since.  (If each says so, the mount refuses both.) */
static bool is_newer(const struct app_found *a, const struct app_found *b)
{
	ASSERT(a->place < META_DRIVES_MAX && b->place < META_DRIVES_MAX);
	if (a->set.number != b->set.number)
		return a->set.number > b->set.number;
	return is_of_same_store(a, b) && a->set.lost[b->place] && !b->set.lost[a->place];
}

/* Returns the newest set of drives that any drive found here names, or NULL; with `of`, one of the
 * same store. */
static const struct meta_set *newest_set(const struct app_found *found, uint32_t count,
					 const struct app_found *of)
{
	const struct app_found *newest = of;

	ASSERT(count <= META_DRIVES_MAX);
	for (uint32_t i = 0; i < count; i++)
		if (found[i].set.ndrives && (!newest || is_newer(&found[i], newest)) &&
		    (!of || is_of_same_store(&found[i], of)))
			newest = &found[i];
	return newest ? &newest->set : NULL;
}

/* The store does not want back what it counts as lost: such a drive may not know that.  Another
 * store's drive, given by mistake, says nothing of this one's. */
static void find_lost(struct app_found *found, uint32_t count)
{
	ASSERT(count <= META_DRIVES_MAX);
	for (uint32_t i = 0; i < count; i++) {
		const struct meta_set *set;

		if (found[i].kind != APP_FOUND_STORE)
			continue;
		set = newest_set(found, count, &found[i]);
		if (found[i].place < set->ndrives)
			found[i].gone |= set->lost[found[i].place] || set->gone[found[i].place];
	}
}

static uint32_t rank(const struct app_found *f)
{
	ASSERT(f->kind != APP_FOUND_STORE || f->place < UINT32_MAX);
	return f->kind == APP_FOUND_STORE ? f->place : UINT32_MAX;
}

static void swap(struct nvme_drive **drive, char (*name)[APP_CONF_TEXT_MAX],
		 struct app_found *found, uint32_t a, uint32_t b)
{
	struct nvme_drive *d = drive[a];
	struct app_found f = found[a];
	char text[APP_CONF_TEXT_MAX];

	ASSERT(a < META_DRIVES_MAX && b < META_DRIVES_MAX);
	drive[a] = drive[b];
	drive[b] = d;
	found[a] = found[b];
	found[b] = f;
	memcpy(text, name[a], sizeof(text));
	memcpy(name[a], name[b], sizeof(text));
	memcpy(name[b], text, sizeof(text));
}

static void tell_dropped(const char *name, const struct app_found *found)
{
	if (!found->err && !found->gone)
		log_warn("WEKA-209: %s: has no superblock and is not used: the store serves "
			 "without a drive that is missing",
			 name);
	else if (found->err)
		log_error("WEKA-210: %s: cannot be read: %s: not used; if it was removed from "
			  "its store, remove its line, else the store reports it as missing",
			  name, strerror(-found->err));
	else
		log_warn(
			"WEKA-211: %s: was removed from its store and is not used: remove its line",
			name);
}

/* Those that the store has let go are none of these any more, and those that say nothing may be
 * such: the mount knows. */
static void drop_gone(struct nvme_drive **drive, char (*name)[APP_CONF_TEXT_MAX],
		      struct app_found *found, uint32_t *count, bool wiped)
{
	uint32_t kept = 0;

	ASSERT(*count <= META_DRIVES_MAX);
	for (uint32_t i = 0; i < *count; i++) {
		if (!found[i].gone && !found[i].err &&
		    !(wiped && found[i].kind == APP_FOUND_OTHER)) {
			swap(drive, name, found, kept++, i);
			continue;
		}
		tell_dropped(name[i], &found[i]);
		nvme_close(drive[i]);
		drive[i] = NULL;
		name[i][0] = '\0';
	}
	*count = kept;
	ASSERT(kept <= *count);
}

static void move(struct nvme_drive **drive, char (*name)[APP_CONF_TEXT_MAX], uint32_t from,
		 uint32_t to)
{
	if (from == to)
		return;
	ASSERT(from < META_DRIVES_MAX && to < META_DRIVES_MAX && !drive[to]);
	drive[to] = drive[from];
	drive[from] = NULL;
	memcpy(name[to], name[from], sizeof(name[to]));
	name[from][0] = '\0';
}

/* A drive that is not in the store yet does not prevent the start. */
static void drop_offer(struct nvme_drive **drive, char (*name)[APP_CONF_TEXT_MAX], uint32_t i)
{
	ASSERT(i < META_DRIVES_MAX && drive[i]);
	log_error("WEKA-212: %s: cannot be added: the store has had %u drives, the limit", name[i],
		  META_DRIVES_MAX);
	nvme_close(drive[i]);
	drive[i] = NULL;
	name[i][0] = '\0';
}

/* Sorts drives to their places, offered ones last; unless two claim the same place, which the mount
 * reports. */
static void spread(struct nvme_drive **drive, char (*name)[APP_CONF_TEXT_MAX],
		   const struct app_found *found, uint32_t *count, uint32_t *stores,
		   const struct app_missing *missing)
{
	const uint32_t last = missing->drive < META_DRIVES_MAX ? missing->drive : 0;
	const uint32_t known = missing->copies > 1 ? newest_set(found, *stores, NULL)->ndrives : 0;
	const uint32_t places = max_u32(max_u32(found[*stores - 1].place, last) + 1, known);

	ASSERT(*stores > 0 && *stores <= *count);
	for (uint32_t i = 1; i < *stores; i++)
		if (found[i].place == found[i - 1].place)
			return;
	while (places + *count - *stores > META_DRIVES_MAX)
		drop_offer(drive, name, --*count);
	for (uint32_t i = *count; i-- > *stores;)
		move(drive, name, i, i + places - *stores);
	for (uint32_t i = *stores; i-- > 0;)
		move(drive, name, i, found[i].place);
	*count += places - *stores;
	*stores = places;
	if (missing->drive < META_DRIVES_MAX)
		memcpy(name[missing->drive], missing->name, sizeof(missing->name));
	for (uint32_t d = 0; d < known; d++) /* as the store keeps them */
		if (!drive[d])
			memcpy(name[d], newest_set(found, *stores, NULL)->name[d], META_DRIVE_NAME);
}

static bool is_found(const struct app_found *found, uint32_t count, uint32_t place)
{
	ASSERT(count <= META_DRIVES_MAX);
	for (uint32_t i = 0; i < count; i++)
		if (found[i].kind == APP_FOUND_STORE && found[i].place == place)
			return true;
	return false;
}

uint32_t app_drives_missing(const struct meta_set *set, const struct app_found *found,
			    uint32_t count, const char *name)
{
	uint32_t missing = META_DRIVES_MAX;
	char kept[META_DRIVE_NAME];

	ASSERT(set->ndrives <= META_DRIVES_MAX);
	app_drive_name(name ? name : "", kept);
	for (uint32_t d = set->ndrives; d-- > 0;) {
		if (set->gone[d] || set->lost[d] || is_found(found, count, d))
			continue;
		missing = d;
		if (name && strcmp(set->name[d], kept) == 0)
			break;
	}
	ASSERT(missing == META_DRIVES_MAX || !set->gone[missing]);
	return missing;
}

/* Explains why a drive without a superblock is refused: if the store misses a drive, it may be that
 * one, wiped or damaged. */
static int refuse_other(const char *name, const struct app_found *found, uint32_t count, char *why,
			size_t why_size)
{
	const struct meta_set *set = newest_set(found, count, NULL);
	const uint32_t missing = app_drives_missing(set, found, count, name);

	ASSERT(missing == META_DRIVES_MAX || set);
	if (missing == META_DRIVES_MAX)
		snprintf(why, why_size,
			 "%s: not a drive of the store; to add it, type: wekactl drives add '%s'",
			 name, name);
	else
		snprintf(why, why_size,
			 "%s: has no superblock, and drive %u of the store, %s, is missing: if "
			 "this is it, it was wiped, or is damaged; put the right one in its place, "
			 "serve what is on the others, read only: allow_missing = %u, or save it: "
			 "wekactl check --salvage DIR",
			 name, missing, *set->name[missing] ? set->name[missing] : "without a name",
			 missing);
	return -ENODEV;
}

/* A drive of a store of several copies is missing: one that says nothing may be it, wiped. */
static bool may_be_lost(const struct app_found *found, uint32_t count)
{
	const struct meta_set *set = newest_set(found, count, NULL);

	ASSERT(!set || set->ndrives <= META_DRIVES_MAX);
	return set && set->sure > 1 &&
	       app_drives_missing(set, found, count, NULL) < META_DRIVES_MAX;
}

/* Identifies each.  One that cannot be read is left to the mount if another belongs to a store. */
static int look_at(struct nvme_drive **drive, char (*name)[APP_CONF_TEXT_MAX], uint32_t count,
		   struct nvme_dma *dma, struct app_found *found, char *why, size_t why_size)
{
	uint32_t gone = 0, stores = 0, bad = count;

	ASSERT(count > 0 && count <= META_DRIVES_MAX);
	for (uint32_t i = 0; i < count; i++) {
		const int err = app_drive_look(drive[i], dma, &found[i]);

		found[i].err = err;
		bad = found[i].err && bad == count ? i : bad;
		gone += found[i].gone;
		stores += !found[i].err && !found[i].gone && found[i].kind == APP_FOUND_STORE;
	}
	if (bad < count && stores == 0) {
		snprintf(why, why_size, "%s: cannot be read: %s", name[bad],
			 strerror(-found[bad].err));
		return found[bad].err;
	}
	if (gone < count)
		return 0;
	snprintf(why, why_size, "%s: was removed from its store", name[0]);
	return -ENODEV;
}

int app_drives_sort(struct nvme_drive **drive, char (*name)[APP_CONF_TEXT_MAX], uint32_t *count,
		    struct nvme_dma *dma, uint32_t *store_count, char *why, size_t why_size)
{
	struct app_missing none = { .allow = "" };

	return app_drives_sort_without(drive, name, count, dma, store_count, &none, why, why_size);
}

int app_drives_sort_without(struct nvme_drive **drive, char (*name)[APP_CONF_TEXT_MAX],
			    uint32_t *count, struct nvme_dma *dma, uint32_t *store_count,
			    struct app_missing *missing, char *why, size_t why_size)
{
	static struct app_found found[META_DRIVES_MAX]; /* one thread, before it has others */
	uint32_t stores = 0;
	int err;

	ASSERT(*count <= META_DRIVES_MAX);
	memset(found, 0, sizeof(found));
	missing->drive = META_DRIVES_MAX;
	err = look_at(drive, name, *count, dma, found, why, why_size);
	if (!err && *missing->allow)
		err = app_missing_find(missing, newest_set(found, *count, NULL), found, *count, why,
				       why_size);
	if (err)
		return err;
	find_lost(found, *count);
	drop_gone(drive, name, found, count, *missing->allow || may_be_lost(found, *count));
	app_missing_count(missing, newest_set(found, *count, NULL));
	for (uint32_t i = 0; i < *count && !err; i++)
		if (found[i].kind == APP_FOUND_STORE)
			err = app_drive_prove(drive[i], &found[i]);
	if (err) {
		snprintf(why, why_size, "no memory that drives can reach: %s", strerror(-err));
		return err;
	}
	for (uint32_t i = 0; i < *count; i++)
		stores += found[i].kind == APP_FOUND_STORE;
	*store_count = stores ? stores : *count;
	for (uint32_t i = 0; i < *count && stores; i++)
		if (found[i].kind == APP_FOUND_OTHER)
			return refuse_other(name[i], found, *count, why, why_size);
	for (uint32_t i = 0; i < *count && stores; i++) /* few, and once */
		for (uint32_t k = i; k > 0 && rank(&found[k]) < rank(&found[k - 1]); k--)
			swap(drive, name, found, k, k - 1);
	if (stores)
		spread(drive, name, found, count, store_count, missing);
	return 0;
}

/* A thin drive may have no room when deallocated blocks are written again. */
static uint32_t told_blocks(const struct nvme_info *info, enum app_tell deallocate)
{
	ASSERT(deallocate <= APP_TELL_NONE);
	if (deallocate == APP_TELL_NONE || (deallocate == APP_TELL_OWN && info->thin))
		return 0;
	return info->deallocate_max_blocks;
}

void app_drive_name(const char *name, char out[META_DRIVE_NAME])
{
	const size_t length = strlen(name), most = META_DRIVE_NAME - 1;

	memset(out, 0, META_DRIVE_NAME);
	if (length <= most)
		memcpy(out, name, length);
	else /* its end says more */
		(void)snprintf(out, META_DRIVE_NAME, "...%s", name + length - most + 3);
	ASSERT(out[META_DRIVE_NAME - 1] == 0);
}

void app_drive_info(const struct nvme_drive *drive, const char *name, uint64_t tag,
		    enum app_tell deallocate, struct meta_drive_info *out)
{
	struct nvme_info info;

	nvme_drive_info(drive, &info);
	*out = (struct meta_drive_info){ .nblocks = info.nblocks,
					 .volatile_cache = info.volatile_cache,
					 .tag = tag,
					 .deallocate_max_blocks = told_blocks(&info, deallocate) };
	app_drive_name(name, out->name);
	ASSERT(out->nblocks > 0);
}
