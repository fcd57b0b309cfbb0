/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl protect: says how many drives a store may lose; lets it keep two or three copies of each
 * block, or parity. */
#include "appliance/conf/app_conf.h"
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_figures.h"
#include "appliance/ctl/ctl_status_text.h"
#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* It is refused whatever the state of the store is, or the scheme is not known. */
static const char *why_never(const struct meta_scheme *asked)
{
	if (asked->copies > 2 && asked->fold)
		return "that needs three copies of each block first: wekactl protect 1+2";
	if (asked->copies > 2)
		return "the files of the store have one parity (wekactl protect says so): only "
		       "format makes a store that may lose two drives of it (wekactl format "
		       "--protect 1+2, or 4+2)";
	if (asked->copies > 1)
		return "how many drives may be lost never becomes less: the store has three "
		       "copies of each block";
	return "there are these ways to ask for: mirror, 1+2, 2+1 ... 10+1, and 2+2 ... 10+2 in a "
	       "store of three copies";
}

static const char *why_not(int err, const char *scheme)
{
	const struct meta_scheme asked = app_conf_scheme(scheme);
	const bool is_fold = asked.fold > 0;

	switch (err) {
	case -EINVAL:
		return why_never(&asked);
	case -EALREADY:
		return asked.copies > 2 && !is_fold
			       ? "the store does that already, or is getting its third copies: "
				 "wekactl protect says which"
			       : "the store does that already, or is getting its second copies: "
				 "wekactl protect says which";
	case -EPERM:
		return is_fold && asked.copies > 2
			       ? "that needs three copies of each block first (wekactl protect "
				 "1+2), and as many drives, or failure domains if the "
				 "configuration names some, as both numbers together (wekactl "
				 "drives add)"
		       : is_fold ? "that needs two copies of each block first (wekactl protect "
				   "mirror), and as many drives, or failure domains if the "
				   "configuration names some, as both numbers together (wekactl "
				   "drives add)"
		       : asked.copies > 2
			       ? "three copies need three drives, and three failure domains if "
				 "the configuration names some: wekactl drives add"
			       : "two copies need two drives, and two failure domains if the "
				 "configuration names some: wekactl drives add";
	case -ENODEV:
		return "a drive is dead, missing or being drained, or the store is still copying "
		       "blocks: wait until that has ended, or see wekactl status";
	case -EFBIG:
		return "the store has too many shards: their roots cannot be put into zones";
	case -EACCES:
		return "the key may not: a key is needed that may write everywhere, without a uid";
	case -EBUSY:
		return "the drives of the store are being changed: try again";
	case -EROFS:
		return "the store takes no changes: wekactl status says why";
	default:
		return strerror(-err);
	}
}

/* The appliance has refused for lack of room: says how much is missing, and what helps. */
static int no_room(struct ctl *c, const struct meta_scheme *asked)
{
	char why[CTL_STATUS_WHY], *text;
	struct ctl_text bytes = ctl_bytes(0);
	uint64_t missing = 0;
	json_t *status;

	if (!ctl_status_get(c, &text, &status, why)) {
		missing = ctl_num(status, "store", "protect_missing_bytes");
		bytes = ctl_bytes((double)missing);
		json_decref(status);
		free(text);
	}
	if (missing == 0)
		return ctl_fail("protect: too little is free to begin: try again in a moment, or "
				"remove files; nothing was changed");
	return ctl_fail("protect: %s do not fit into the store beside the room that spare_drives "
			"keeps: room for %s is missing: wekactl drives add, remove files, or set "
			"spare_drives = 0; nothing was changed",
			asked->fold         ? "the files, in such folds,"
			: asked->copies > 2 ? "three copies of what is there"
					    : "two copies of what is there",
			bytes.s);
}

static int protect(struct ctl *c)
{
	const struct meta_scheme scheme = app_conf_scheme(c->argv[0]);
	const bool is_fold = scheme.fold > 0;
	int err;

	if (ctl_connect(c))
		return 1;
	err = weka_protect(c->client, c->argv[0]);
	if (err == -ENOSPC)
		return no_room(c, &scheme);
	if (err)
		return ctl_fail("protect: %s", why_not(err, c->argv[0]));
	if (c->json && is_fold)
		printf("{\"command\":\"protect\",\"copies\":%u,\"fold\":%u}\n", scheme.copies,
		       scheme.fold);
	else if (is_fold)
		printf("from now on copies of zones on %u drives become one zone on each, with "
		       "their parity on %s: %s may be lost, as before, and free space grows\n",
		       scheme.fold, scheme.copies > 2 ? "two others" : "another",
		       scheme.copies > 2 ? "two drives" : "one drive");
	else if (c->json)
		printf("{\"command\":\"protect\",\"copies\":%u}\n", scheme.copies);
	else if (scheme.copies > 2)
		printf("each block that is written now is on three drives, and what is there is "
		       "being copied; until wekactl protect says that all have three copies, as "
		       "many drives may be lost as before\n");
	else
		printf("each block that is written now is on two drives, and what is there is "
		       "being copied; until wekactl protect says that all have two copies, no "
		       "drive may be lost\n");
	return 0;
}

/* Returns the bytes of blocks that lack a copy: of zones that never had all, and of lost drives. */
static uint64_t left_bytes(const json_t *status)
{
	const json_t *rebuild = json_object_get(status, "rebuild");
	const char *what = json_string_value(json_object_get(rebuild, "what"));
	const uint64_t lost =
		what && strcmp(what, "lost") == 0 ? ctl_num(rebuild, NULL, "left_bytes") : 0;

	return max_u64(ctl_num(status, "store", "one_copy_bytes"), lost);
}

static void say_three(const json_t *status)
{
	if (left_bytes(status) || ctl_lost_drives(status))
		printf("each block is on three drives, but for %s that have fewer copies and are "
		       "being copied: wekactl status says why\n",
		       ctl_bytes((double)left_bytes(status)).s);
	else if (ctl_num(status, "store", "fold"))
		printf("any two drives may be lost while the store serves: new blocks are on three "
		       "drives, and places for %s of files have parity instead, two for up to "
		       "%llu\n",
		       ctl_bytes((double)ctl_num(status, "store", "parity_protected_bytes")).s,
		       (unsigned long long)ctl_num(status, "store", "fold"));
	else
		printf("each block is on three drives: any two drives may be lost while the store "
		       "serves\n");
}

/* The log has fewer copies than blocks: until a zone is opened for another one. */
static bool log_is_short(const json_t *status)
{
	const uint64_t copies = ctl_num(status, "store", "log_copies");

	return !left_bytes(status) && !ctl_lost_drives(status) && copies > 0 &&
	       copies < ctl_num(status, "store", "copies") &&
	       !json_is_true(json_object_get(json_object_get(status, "store"), "converts"));
}

static void say(const json_t *status)
{
	const json_t *store = json_object_get(status, "store");
	const uint64_t left = left_bytes(status);

	if (log_is_short(status))
		printf("the newest changes are on %s only, so that %s may be lost: wekactl status "
		       "says why\n",
		       ctl_may_lose(status) ? "two drives" : "one drive",
		       ctl_may_lose(status) ? "one" : "none");
	else if (json_is_true(json_object_get(store, "converts")))
		ctl_say_converts(stdout, status, "");
	else if (ctl_num(store, NULL, "copies") > 2)
		say_three(status);
	else if (ctl_num(store, NULL, "copies") < 2)
		printf("each block is on one drive: if it fails, its files are lost; "
		       "wekactl protect mirror keeps two copies\n");
	else if (left || ctl_lost_drives(status))
		printf("each block is on two drives, but for %s that have one copy and are being "
		       "copied: wekactl status says why\n",
		       ctl_bytes((double)left).s);
	else if (ctl_num(store, NULL, "fold"))
		printf("one drive may be lost while the store serves: new blocks are on two "
		       "drives, and places for %s of files have parity instead, one for up to "
		       "%llu\n",
		       ctl_bytes((double)ctl_num(store, NULL, "parity_protected_bytes")).s,
		       (unsigned long long)ctl_num(store, NULL, "fold"));
	else
		printf("each block is on two drives: one drive may be lost while the store "
		       "serves\n");
}

static void say_domains(const json_t *status)
{
	const json_t *store = json_object_get(status, "store");

	if (ctl_num(store, NULL, "domains"))
		printf("the drives are in %llu failure domains: all drives of one count as one\n",
		       (unsigned long long)ctl_num(store, NULL, "domains"));
	if (json_is_true(json_object_get(store, "domains_ignored")))
		printf("the configuration names fewer failure domains than a block has copies: "
		       "they do not count\n");
	if (ctl_num(store, NULL, "one_domain_bytes"))
		printf("%s have two copies in one failure domain, since before it was named: they "
		       "are being moved, and until then no domain may be lost\n",
		       ctl_bytes((double)ctl_num(store, NULL, "one_domain_bytes")).s);
}

int ctl_cmd_protect(struct ctl *c)
{
	char why[CTL_STATUS_WHY], *text;
	json_t *status, *store;

	if (c->argc > 0)
		return protect(c);
	if (ctl_status_get(c, &text, &status, why))
		return ctl_fail("%s", why);
	free(text);
	store = json_object_get(status, "store");
	if (c->json)
		printf("{\"command\":\"protect\",\"copies\":%llu,\"converts\":%s,"
		       "\"one_copy_bytes\":%llu,\"fold\":%llu,"
		       "\"parity_protected_bytes\":%llu,\"domains\":%llu,"
		       "\"one_domain_bytes\":%llu,\"may_lose\":%llu}\n",
		       (unsigned long long)ctl_num(store, NULL, "copies"),
		       json_is_true(json_object_get(store, "converts")) ? "true" : "false",
		       (unsigned long long)ctl_num(store, NULL, "one_copy_bytes"),
		       (unsigned long long)ctl_num(store, NULL, "fold"),
		       (unsigned long long)ctl_num(store, NULL, "parity_protected_bytes"),
		       (unsigned long long)ctl_num(store, NULL, "domains"),
		       (unsigned long long)ctl_num(store, NULL, "one_domain_bytes"),
		       (unsigned long long)ctl_may_lose(status));
	else
		say(status);
	if (!c->json)
		say_domains(status);
	json_decref(status);
	return 0;
}
