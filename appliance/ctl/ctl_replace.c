/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl drives replace OLD NEW: another drive takes the place of one of the store.
 *
 *   offer NEW, "for drive N of this store" --the line in the configuration, SIGHUP--> one set of
 *   drives has NEW and drains N --> N is empty and gone: by itself, also after a restart
 *
 * A drive that is lost is rebuilt without NEW already; NEW brings the room.  If NEW belongs to the
 * store, only the drain is left to begin: so the command may be typed again at any time.
 */
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_figures.h"
#include "appliance/ctl/ctl_status_text.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_word(const json_t *drive, const char *key, const char *word)
{
	const char *is = json_string_value(json_object_get(drive, key));

	return is && strcmp(is, word) == 0;
}

/* By its name, its serial number, or its number in the store. */
static const json_t *find(const json_t *status, const char *what)
{
	const json_t *drives = json_object_get(status, "drives"), *d;
	static const char *const keys[] = { "name", "serial" };
	char number[16];
	size_t i;

	for (size_t k = 0; k < ARRAY_LEN(keys); k++)
		json_array_foreach(drives, i, d) if (is_word(d, keys[k], what)) return d;
	json_array_foreach(drives, i, d)
	{
		snprintf(number, sizeof(number), "%u", (unsigned)ctl_num(d, NULL, "number"));
		if (strcmp(number, what) == 0)
			return d;
	}
	return NULL;
}

/* Live bytes of the drive for which the others have no room, with the index growing meanwhile. */
static uint64_t bytes_min(const json_t *status, const json_t *old)
{
	const json_t *drives = json_object_get(status, "drives"), *d;
	const uint64_t zone = ctl_num(status, "store", "zone_bytes");
	const uint64_t kept = ctl_num(status, "store", "zones_kept") * zone;
	uint64_t room = 0, need = ctl_num(old, NULL, "live_bytes");
	size_t i;

	need += need / 32 + 4 * zone;
	json_array_foreach(drives, i, d) if (d != old && is_word(d, "state", "serving")) room +=
		(ctl_num(d, NULL, "zones") - ctl_num(d, NULL, "zones_used")) * zone;
	room = room > kept ? room - kept : 0;
	return need > room ? need - room : 0;
}

static int uuid_of(const json_t *status, uint8_t out[16])
{
	const char *text =
		json_string_value(json_object_get(json_object_get(status, "store"), "uuid"));
	unsigned byte;

	if (!text || strlen(text) != 32)
		return -1;
	for (int i = 0; i < 16; i++, out++) {
		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			return -1;
		*out = (uint8_t)byte;
	}
	return 0;
}

/* NEW is a drive of the store already. */
static int goes_on(struct ctl *c, const json_t *old, const char *name)
{
	char *words[] = { (char *)"drain", (char *)name };

	if (!old || !is_word(old, "state", "serving")) {
		printf("%s: is a drive of the store already, and %s\n", c->argv[2],
		       old ? "the old one is leaving: wekactl status says how far"
			   : "the old one is gone");
		return 0;
	}
	c->argc = 2;
	c->argv = words;
	return ctl_drives_drain(c, false);
}

static int place_of(const struct ctl *c, const json_t *status, const json_t *old,
		    struct ctl_place *out)
{
	const unsigned number = (unsigned)ctl_num(old, NULL, "number");

	if (number >= META_DRIVES_MAX || uuid_of(status, out->offer.uuid))
		return ctl_fail("the appliance is older than this wekactl: use drives add, then "
				"drives drain");
	if (is_word(old, "state", "missing"))
		return ctl_fail("%s: is missing, and the store is read only", c->argv[1]);
	out->offer.replaces = true;
	out->offer.drive = number;
	out->bytes_min = bytes_min(status, old);
	if (is_word(old, "state", "lost"))
		snprintf(out->then, sizeof(out->then),
			 "; the line of drive %u, which is lost, may be removed", number);
	else
		snprintf(out->then, sizeof(out->then),
			 "; drive %u is drained then, and its line must stay until the "
			 "log says that it was removed from the store",
			 number);
	return 0;
}

int ctl_drives_replace(struct ctl *c)
{
	struct ctl_place place = { .bytes_min = 0 };
	const json_t *old, *new;
	char why[CTL_STATUS_WHY], *text;
	json_t *status;
	int rc;

	if (ctl_connect(c))
		return 1;
	if (ctl_status_get(c, &text, &status, why))
		return ctl_fail("%s", why);
	old = find(status, c->argv[1]);
	new = find(status, c->argv[2]);
	if (old && old == new)
		rc = ctl_fail("%s: is the drive that is to be replaced", c->argv[2]);
	else if (new &&is_word(new, "name", c->argv[2]) && is_word(new, "state", "serving"))
		rc = goes_on(c, old, old ? json_string_value(json_object_get(old, "name")) : "");
	else if (new &&is_word(new, "name", c->argv[2]))
		rc = ctl_fail("%s: is drive %u of the store, and is leaving it", c->argv[2],
			      (unsigned)ctl_num(new, NULL, "number"));
	else if (!old)
		rc = ctl_fail("%s: no drive of the store has this name, serial number or number: "
			      "wekactl status lists the drives",
			      c->argv[1]);
	else
		rc = place_of(c, status, old, &place);
	if (!rc && place.offer.replaces) {
		c->argc = 1;
		c->argv += 2;
		rc = ctl_drives_add(c, &place);
	}
	json_decref(status);
	free(text);
	return rc;
}
