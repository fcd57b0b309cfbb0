/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl format, check and drives add: work on the drives, without a running appliance.
 *
 * format and drives add refuse drives that hold data (a store of ours, a file system, a partition
 * table; libblkid knows them) unless they are forced; and remove files that they made when they
 * fail.  format and check drive a core without clients, exactly as the daemon would.
 */
#include "appliance/conf/app_conf.h"
#include "appliance/core/app_core.h"
#include "appliance/media/app_drives.h"
#include "appliance/media/app_missing.h"
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_drives.h"
#include "base/clock.h"
#include "base/num.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define CACHE_LEAST (32ull << 20)
#define CACHE_MOST  (256ull << 20)

struct drive_set { /* what format and check work on */
	char name[CTL_DRIVES_MAX][APP_CONF_TEXT_MAX];
	bool made[CTL_DRIVES_MAX]; /* the file was not there before */
	uint32_t count;
	uint32_t store_count;         /* the others are offered to it */
	uint32_t left_outs;           /* drives that could not be opened */
	char left_out[NVME_ERR_TEXT]; /* ... why the first could not */
	struct app_conf *conf;        /* when the names come from it */
	struct nvme_dma *dma;
	struct nvme_drive *drive[CTL_DRIVES_MAX];
	struct app_core *core;
};

/* "file:PATH?size=1G" -> PATH; false: it is no file. */
static bool path_of(const char *name, char *out, size_t out_size)
{
	if (strncmp(name, "file:", 5) != 0)
		return false;
	snprintf(out, out_size, "%.*s", (int)strcspn(name + 5, "?"), name + 5);
	return true;
}

int ctl_drive_names(struct ctl *c, struct app_conf **conf, const char *name[CTL_DRIVES_MAX],
		    uint32_t *count)
{
	char why[APP_CONF_WHY], err_text[NVME_ERR_TEXT];
	int err = 0;

	*count = 0;
	*conf = calloc(1, sizeof(**conf));
	ASSERT(*conf);
	if (c->argc == 0) {
		if (app_conf_load(*conf, c->config ? c->config : "/etc/weka-appliance.conf", why))
			return ctl_fail("%s", why);
		for (; *count < (*conf)->ndrives; ++*count)
			name[*count] = (*conf)->drive[*count];
	}
	if (c->argc > CTL_DRIVES_MAX)
		return ctl_fail("%d drives are more than a store can have", c->argc);
	for (int i = 0; i < c->argc; i++)
		name[(*count)++] = c->argv[i];
	for (uint32_t i = 0; i < *count && !err; i++) {
		err = nvme_name_check(name[i], err_text, sizeof(err_text));
		if (!err && strncmp(name[i], "mem:", 4) == 0)
			return ctl_fail("%s: the daemon formats memory drives at each start",
					name[i]);
	}
	return err ? ctl_fail("%s", err_text) : 0;
}

static int names_of(struct ctl *c, struct drive_set *b)
{
	const char *name[CTL_DRIVES_MAX];
	int status = ctl_drive_names(c, &b->conf, name, &b->count);

	for (uint32_t i = 0; i < b->count && !status; i++) {
		if (strlen(name[i]) >= APP_CONF_TEXT_MAX)
			return ctl_fail("%s: is too long", name[i]);
		memcpy(b->name[i], name[i], strlen(name[i]) + 1);
	}
	b->store_count = b->count;
	return status;
}

/* ---- whose is this? --------------------------------------------------------------- */

/* 0: nothing known is on it. */
static int refuse(const char *name, int found, const char *text)
{
	switch (found) {
	case CTL_SIGNATURE_STORE:
		return ctl_fail("%s: holds a store already (--force formats it anyway)", name);
	case CTL_SIGNATURE_FOREIGN:
		return ctl_fail("%s: holds %s (--force formats it anyway)", name, text);
	default:
		return 0;
	}
}

static int look_before(struct ctl *c, struct drive_set *b)
{
	char path[4096], text[64];
	int status = 0;

	for (uint32_t i = 0; i < b->count && !status; i++) {
		if (!path_of(b->name[i], path, sizeof(path)))
			continue;
		b->made[i] = access(path, F_OK) != 0;
		if (!b->made[i] && !c->force)
			status = refuse(b->name[i], ctl_signature(path, text, sizeof(text)), text);
	}
	return status; /* too small for anything, or unreadable: opening will say */
}

/* Drives that are no files, which only we can read: when they are open. */
static int look_inside(struct ctl *c, struct drive_set *b)
{
	char path[4096], text[64];
	int status = 0, found;

	for (uint32_t i = 0; i < b->count && !status && !c->force; i++) {
		if (path_of(b->name[i], path, sizeof(path)))
			continue;
		found = ctl_look(b->drive[i], b->dma, text, sizeof(text));
		if (found < 0)
			status = ctl_fail("%s: cannot be examined: %s (--force formats it anyway)",
					  b->name[i], strerror(-found));
		else
			status = refuse(b->name[i], found, text);
	}
	return status;
}

/* ---- a core without clients ---------------------------------------------------------- */

/* Those that are namespaces of the same controller. */
static uint32_t namespaces(const struct drive_set *b, const char *name)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < b->count; i++)
		count += nvme_name_shares(b->name[i], name);
	return count;
}

/* Takes a drive that cannot be opened out of the set: a store of several copies can do without it.
 */
static void leave_out(struct drive_set *b, uint32_t i, const char *why)
{
	ASSERT(i < b->count && b->left_outs < META_DRIVES_MAX);
	if (b->left_outs++ == 0)
		(void)snprintf(b->left_out, sizeof(b->left_out), "%s", why);
	b->count--;
	b->store_count = b->count;
	memmove(b->name[i], b->name[i + 1], (b->count - i) * sizeof(b->name[0]));
}

static int open_drives(const struct ctl *c, struct drive_set *b, bool create)
{
	struct app_core_cfg cfg = { .nshards = c->shards };
	struct nvme_options options = { .create = create };
	char err_text[NVME_ERR_TEXT];

	if (nvme_dma_create(&b->dma))
		return ctl_fail("no memory");
	for (uint32_t i = 0; i < b->count; i++) {
		cfg.ndrives = b->count - i;
		options.memory_bytes = app_core_dma_needed(&cfg);
		options.namespace_count = namespaces(b, b->name[i]);
		if (nvme_open(&b->drive[i], b->name[i], b->dma, &options, err_text,
			      sizeof(err_text)) == 0)
			continue;
		if (create || b->count == 1)
			return ctl_fail("%s", err_text);
		leave_out(b, i--, err_text);
	}
	return 0;
}

/* Sleep until a drive has something, as the daemon does. */
static void rest(struct app_core *core)
{
	struct pollfd fds[CTL_DRIVES_MAX + 4];
	int fd[ARRAY_LEN(fds)];
	uint32_t count = app_core_fds(core, fd, ARRAY_LEN(fds));

	for (uint32_t i = 0; i < count; i++)
		fds[i] = (struct pollfd){ .fd = fd[i], .events = POLLIN };
	if (app_core_arm(core))
		(void)poll(fds, count, 10);
	app_core_disarm(core);
}

static void turn(struct app_core *core)
{
	if (!app_core_step(core, clock_now_ns(), clock_wall_ns()))
		rest(core);
}

/* Returns the size of the cache: a quarter of the drives, so that a small store is not waited for
 * while memory is cleared that it has no use for; from a certain size on the daemon's default. */
static uint64_t cache_bytes(const struct drive_set *b)
{
	struct nvme_info info;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < b->store_count; i++) {
		if (!b->drive[i])
			continue; /* the store has none there any more */
		nvme_drive_info(b->drive[i], &info);
		bytes += info.nblocks * NVME_BLOCK_SIZE / 4;
	}
	return min_u64(max_u64(bytes, CACHE_LEAST), CACHE_MOST);
}

static int boot(struct ctl *c, struct drive_set *b, enum app_boot how)
{
	struct app_core_cfg cfg = {
		.dma = b->dma,
		.drive = b->drive,
		.drive_name = b->name,
		.domains = b->conf ? &b->conf->domains : NULL,
		.ndrives = b->store_count,
		.cache_bytes = cache_bytes(b),
		.boot = how,
		.nshards = c->shards,
		.copies = c->copies,
		.fold = c->fold,
		.queue_depth = b->conf ? (uint32_t)b->conf->queue_depth : 0, /* as the start will */
		.wall_ns = (int64_t)clock_wall_ns(),
	};
	char why[APP_WHY];
	int err;

	if (getrandom(cfg.uuid, sizeof(cfg.uuid), 0) != sizeof(cfg.uuid) ||
	    getrandom(&cfg.secret, sizeof(cfg.secret), 0) != sizeof(cfg.secret))
		return ctl_fail("no random numbers: %s", strerror(errno));
	if (app_core_create(&b->core, &cfg, why))
		return ctl_fail("%s", why);
	while ((err = app_core_boot_status(b->core)) == -EAGAIN)
		turn(b->core);
	return err ? ctl_fail("%s", app_core_error(b->core)) : 0;
}

static int stop(struct drive_set *b)
{
	int err;

	app_core_stop(b->core);
	while ((err = app_core_stop_status(b->core)) == -EAGAIN)
		turn(b->core);
	return err ? ctl_fail("%s", app_core_error(b->core)) : 0;
}

static void close_all(struct drive_set *b, bool failed)
{
	char path[4096];

	if (b->core) {
		app_core_abandon(b->core);
		app_core_destroy(b->core);
	}
	for (uint32_t i = 0; i < b->count; i++) {
		if (b->drive[i])
			nvme_close(b->drive[i]);
		if (failed && b->made[i] && path_of(b->name[i], path, sizeof(path)))
			(void)unlink(path);
	}
	if (b->dma)
		nvme_dma_destroy(b->dma);
	free(b->conf);
}

/* ---- the commands ------------------------------------------------------------------- */

static void print_format(const struct ctl *c, const struct drive_set *b)
{
	uint64_t bytes = 0;
	struct nvme_info info;

	for (uint32_t i = 0; i < b->count; i++) {
		if (!b->drive[i])
			continue; /* the store has none there any more */
		nvme_drive_info(b->drive[i], &info);
		bytes += info.nblocks * NVME_BLOCK_SIZE;
		if (*info.note && !c->quiet)
			fprintf(stderr, "wekactl: %s: %s\n", b->name[i], info.note);
	}
	if (c->json)
		printf("{\"command\":\"format\",\"drives\":%u,\"bytes\":%llu,\"shards\":%u,"
		       "\"copies\":%u,\"fold\":%u}\n",
		       b->count, (unsigned long long)bytes, c->shards, c->copies, c->fold);
	else
		printf("format: %u drive%s, %.1f GB, %u shards\n", b->count,
		       b->count == 1 ? "" : "s", (double)bytes / 1e9, c->shards);
	if (c->json || c->quiet)
		return;
	if (c->fold)
		printf("new blocks are on %s drives, and soon in zones of %u drives and their "
		       "parity on %s\n"
		       "%s may be lost while the store serves; %u %% of the capacity is for "
		       "files\n",
		       c->copies > 2 ? "three" : "two", c->fold,
		       c->copies > 2 ? "two others" : "another",
		       c->copies > 2 ? "any two drives" : "one drive",
		       100 * c->fold / (c->fold + c->copies - 1));
	else if (c->copies > 2)
		printf("each block is on three drives: any two drives may be lost while the store "
		       "serves\n"
		       "a third of the capacity is for files; --protect mirror leaves half of "
		       "it%s\n",
		       b->count > 5 ? ", 4+2 two thirds" : "");
	else if (c->copies > 1)
		printf("each block is on two drives: one drive may be lost while the store serves\n"
		       "half of the capacity is for files; --protect none leaves all of it%s\n",
		       b->count > 3 ? ", 3+1 most of it" : "");
	else
		printf("each block is on one drive: if it fails, its files are lost%s\n",
		       b->count > 1 ? "; --protect mirror keeps two copies" : "");
}

/* Returns how many failure domains the configuration puts the drives into. */
static uint32_t domains_of(const struct drive_set *b)
{
	uint64_t seen = 0;
	uint32_t alone = 0;

	ASSERT(b->count <= CTL_DRIVES_MAX);
	for (uint32_t i = 0; i < b->count; i++) {
		const uint32_t domain = b->conf ? app_domains_of(&b->conf->domains, b->name[i]) : 0;

		if (domain)
			seen |= 1ull << (domain - 1);
		else
			alone++;
	}
	return alone + (uint32_t)__builtin_popcountll(seen);
}

static int has_drives_for(const struct ctl *c, const struct drive_set *b)
{
	const uint32_t copies = c->copies ? c->copies : min_u32(2, b->count);
	const uint32_t domains = domains_of(b);

	ASSERT(b->count > 0);
	if (copies <= b->count && copies > domains)
		return ctl_fail("format: the drives are in %u failure domain%s, and %u copies of "
				"each block need %u: name %u more in the configuration, or use "
				"--protect %s",
				domains, domains == 1 ? "" : "s", copies, copies, copies - domains,
				domains == 1 ? "none" : "mirror");
	if (c->copies <= b->count)
		return 0;
	return c->copies > 2 ? ctl_fail("format: three copies of each block need three drives: "
					"name %u more, or use --protect mirror for two copies",
					c->copies - b->count)
			     : ctl_fail("format: two copies of each block need two drives");
}

/* Up to three drives, or failure domains, have copies: on three, parity would leave no more
 * room for files, since there must be room to rebuild a drive on the other two. Four or more
 * have parity, as wide as they allow, and six or more two zones of it, as the rebuild of one
 * of many drives may meet a second failure. */
static void protect_by_default(struct ctl *c, uint32_t drives)
{
	enum { PARITY = 4, DOUBLE = 6, WIDEST = 8 };

	ASSERT(drives > 0 && c->copies == 0 && c->fold == 0);
	c->copies = drives >= DOUBLE ? 3 : drives > 1 ? 2 : 1;
	if (drives >= PARITY)
		c->fold = (uint32_t)min_u64(drives - c->copies + 1, WIDEST);
}

/* The drives are named by the command; those of the configuration may have domains. */
static int take_domains(const struct ctl *c, struct drive_set *b)
{
	char why[APP_CONF_WHY];

	ASSERT(b->conf);
	if (c->argc == 0 || !c->config)
		return 0;
	return app_conf_load(b->conf, c->config, why) ? ctl_fail("%s", why) : 0;
}

int ctl_cmd_format(struct ctl *c)
{
	struct drive_set b = { 0 };
	int status = names_of(c, &b);

	if (!status)
		status = take_domains(c, &b);

	if (!status)
		status = has_drives_for(c, &b);
	if (!status)
		status = look_before(c, &b);
	if (!status)
		status = open_drives(c, &b, true);
	if (!status)
		status = look_inside(c, &b);
	if (c->copies == 0)
		protect_by_default(c, domains_of(&b));
	if (!status)
		status = boot(c, &b, APP_BOOT_FORMAT);
	if (!status)
		status = stop(&b);
	if (!status)
		print_format(c, &b);
	close_all(&b, status != 0);
	return status;
}

static int report_check(const struct ctl *c, const struct meta_check *found)
{
	for (uint64_t i = 0; i < min_u64(found->problems, ARRAY_LEN(found->first)); i++)
		ctl_fail("check: %s", found->first[i]);
	if (c->json)
		printf("{\"command\":\"check\",\"pages\":%llu,\"names\":%llu,\"inodes\":%llu,"
		       "\"extents\":%llu,\"blocks\":%llu,\"problems\":%llu}\n",
		       (unsigned long long)found->pages, (unsigned long long)found->names,
		       (unsigned long long)found->inodes, (unsigned long long)found->extents,
		       (unsigned long long)found->blocks, (unsigned long long)found->problems);
	else
		printf("check: %llu names, %llu inodes, %llu extents of %llu blocks, %llu pages: "
		       "%llu problems\n",
		       (unsigned long long)found->names, (unsigned long long)found->inodes,
		       (unsigned long long)found->extents, (unsigned long long)found->blocks,
		       (unsigned long long)found->pages, (unsigned long long)found->problems);
	return found->problems ? 1 : 0;
}

static int too_small(const struct drive_set *b, const struct ctl_place *place)
{
	struct nvme_info info;

	nvme_drive_info(b->drive[0], &info);
	if (info.nblocks * NVME_BLOCK_SIZE >= place->bytes_min)
		return 0;
	return ctl_fail(
		"%s: is too small: %llu MB, and what lives on drive %u needs %llu MB that the "
		"others do not have; give a larger drive, or remove files",
		b->name[0], (unsigned long long)(info.nblocks * NVME_BLOCK_SIZE / 1000000),
		place->offer.drive, (unsigned long long)(place->bytes_min / 1000000));
}

/* Offers a drive and prints its line; the administrator does the next step. */
static int offer(const struct ctl *c, struct drive_set *b, const struct ctl_place *place)
{
	struct meta_offer as = place ? place->offer : (struct meta_offer){ 0 };
	int err;

	for (uint32_t i = 0; i < b->count; i++) {
		if (place && too_small(b, place))
			return 1;
		if (getrandom(&as.tag, sizeof(as.tag), 0) != sizeof(as.tag))
			return ctl_fail("no random numbers: %s", strerror(errno));
		err = app_drive_offer(b->drive[i], b->dma, &as);
		if (err)
			return ctl_fail("%s: cannot be written: %s", b->name[i], strerror(-err));
		if (c->json)
			printf("{\"command\":\"drives %s\",\"drive\":\"%s\"}\n",
			       place ? "replace" : "add", b->name[i]);
		else
			printf("drive = %s\n", b->name[i]);
	}
	if (!c->json && !c->quiet)
		fprintf(stderr,
			"wekactl: add %s to the appliance's configuration, and send the daemon "
			"SIGHUP%s\n",
			b->count == 1 ? "this line" : "these lines", place ? place->then : "");
	return 0;
}

int ctl_drives_add(struct ctl *c, const struct ctl_place *place)
{
	const char *name[CTL_DRIVES_MAX];
	struct drive_set b = { 0 };
	int status = names_of(c, &b);

	for (uint32_t i = 0; i < b.count; i++)
		name[i] = b.name[i];
	if (!status && !place) /* else the appliance has the store, and serves it */
		status = ctl_drives_member(c, name, b.count);
	if (!status)
		status = look_before(c, &b);
	if (!status)
		status = open_drives(c, &b, true);
	if (!status)
		status = look_inside(c, &b);
	if (!status)
		status = offer(c, &b, place);
	close_all(&b, status != 0);
	return status;
}

/* In whatever order they are given. */
static int sort_drives(struct drive_set *b)
{
	struct app_missing missing = { .allow = "" };
	char why[APP_WHY];
	int err = app_drives_sort_without(b->drive, b->name, &b->count, b->dma, &b->store_count,
					  &missing, why, sizeof(why));

	if (b->left_outs && (err || missing.copies <= b->left_outs))
		return ctl_fail("%s", b->left_out);
	return err ? ctl_fail("%s", why) : 0;
}

int ctl_cmd_check(struct ctl *c)
{
	struct drive_set b = { 0 };
	struct meta_check found = { 0 };
	int status, err;

	if (c->salvage)
		return ctl_salvage(c);
	status = names_of(c, &b);
	if (!status)
		status = open_drives(c, &b, false);
	if (!status)
		status = sort_drives(&b);
	if (!status)
		status = boot(c, &b, APP_BOOT_MOUNT);
	if (!status) {
		if (*app_core_error(b.core)) /* the other copy is good: it counts as no problem */
			fprintf(stderr, "wekactl: check: %s\n", app_core_error(b.core));
		meta_check_start(app_core_meta(b.core), &found);
		while ((err = meta_check_status(app_core_meta(b.core))) == -EAGAIN)
			turn(b.core);
		if (err && !found.problems)
			status = ctl_fail("check: %s", app_core_error(b.core));
		else
			status = report_check(c, &found);
		status = stop(&b) || status;
	}
	close_all(&b, false);
	return status || !c->compare ? status : ctl_compare(c);
}
