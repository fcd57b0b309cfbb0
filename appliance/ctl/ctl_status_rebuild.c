/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl status: a rebuild or a drain: how far it has come, and what keeps it from its end. */
#include "appliance/ctl/ctl_status_text.h"
#include "appliance/ctl/ctl_figures.h"

#include <stdbool.h>
#include <string.h>

static const char *word_of(const json_t *rebuild, const char *key)
{
	const char *word = json_string_value(json_object_get(rebuild, key));

	return word ? word : "";
}

static bool is(const json_t *rebuild, const char *key, const char *word)
{
	return strcmp(word_of(rebuild, key), word) == 0;
}

static const char *name_of(const json_t *rebuild)
{
	return is(rebuild, "what", "drain") ? "drain" : "rebuild";
}

static void of_loss(FILE *to, const json_t *rebuild, uint64_t copies)
{
	const char *moves =
		is(rebuild, "state", "moving") ? ", and are being copied to the other drives" : "";

	if (copies > 2) {
		fprintf(to,
			"! drive %u: its blocks are read from other drives; %s have fewer "
			"than three%s\n",
			(unsigned)ctl_num(rebuild, NULL, "drive"),
			ctl_bytes((double)ctl_num(rebuild, NULL, "left_bytes")).s, moves);
		return;
	}
	fprintf(to,
		"! drive %u: its blocks are read from other drives; %s have one copy "
		"only%s\n",
		(unsigned)ctl_num(rebuild, NULL, "drive"),
		ctl_bytes((double)ctl_num(rebuild, NULL, "left_bytes")).s, moves);
}

static void of_room(FILE *to, const json_t *rebuild)
{
	fprintf(to,
		"! the %s cannot go on: the other drives have no room for %s: add a drive "
		"(wekactl drives add), or remove files\n",
		name_of(rebuild), ctl_bytes((double)ctl_num(rebuild, NULL, "missing_bytes")).s);
}

/* Fewer drives than copies can be written. */
static void of_drives(FILE *to, uint64_t copies, uint32_t serving)
{
	if (copies > 2 && serving > 1)
		fprintf(to, "! files have two copies, because only two drives can be written: add "
			    "a drive (wekactl drives add)\n");
	else
		fprintf(to, "! files have one copy, because only one drive can be written: add a "
			    "drive (wekactl drives add)\n");
}

void ctl_status_rebuild_warn(FILE *to, const json_t *rebuild, uint64_t copies, uint32_t serving)
{
	const unsigned drive = (unsigned)ctl_num(rebuild, NULL, "drive");

	if (is(rebuild, "what", "lost"))
		of_loss(to, rebuild, copies);
	if (is(rebuild, "state", "no_room"))
		of_room(to, rebuild);
	else if (is(rebuild, "state", "no_drive"))
		of_drives(to, copies, serving);
	else if (is(rebuild, "state", "damaged"))
		fprintf(to,
			"! %s of drive %u cannot be read, and keep it in the store: remove or "
			"replace the files that wekactl damaged lists\n",
			ctl_bytes((double)ctl_num(rebuild, NULL, "unreadable_bytes")).s, drive);
	else if (is(rebuild, "state", "not_written") && is(rebuild, "what", "copies"))
		fprintf(to,
			"! all blocks have %s copies, but a superblock could not be written: "
			"see the log, then type wekactl protect %s again\n",
			copies > 2 ? "three" : "two", copies > 2 ? "1+2" : "mirror");
	else if (is(rebuild, "state", "not_written"))
		fprintf(to,
			"! drive %u is empty, and cannot be taken out: a superblock could not be "
			"written; see the log, then type wekactl drives drain again\n",
			drive);
	else if (is(rebuild, "state", "stalled"))
		fprintf(to, "! the %s has moved nothing for some time: see the log\n",
			name_of(rebuild));
}

void ctl_say_converts(FILE *to, const json_t *status, const char *mark)
{
	const struct ctl_text bytes = ctl_bytes((double)ctl_num(status, "store", "one_copy_bytes"));
	const uint64_t sure = ctl_num(status, "store", "sure_copies");

	if (ctl_num(status, "store", "copies") > 2)
		fprintf(to,
			"%sthe store is getting three copies of each block: %s still have %s, and "
			"until all have three %s may be lost\n",
			mark, bytes.s, sure > 1 ? "two" : "one",
			ctl_may_lose(status)      ? "only one drive"
			: ctl_lost_drives(status) ? "no other drive"
						  : "no drive");
	else
		fprintf(to,
			"%sthe store is getting a second copy of each block: %s still have one, "
			"and until all have two no drive may be lost\n",
			mark, bytes.s);
}

void ctl_status_rebuild_line(FILE *to, const json_t *rebuild)
{
	const uint64_t rate = ctl_num(rebuild, NULL, "bytes_per_second");

	fprintf(to, "%-9s ", name_of(rebuild));
	if (json_object_get(rebuild, "drive"))
		fprintf(to, "drive %u: ", (unsigned)ctl_num(rebuild, NULL, "drive"));
	else
		fprintf(to, "missing copies: ");
	fprintf(to, "%s moved, ", ctl_bytes((double)ctl_num(rebuild, NULL, "done_bytes")).s);
	fprintf(to, "%s left", ctl_bytes((double)ctl_num(rebuild, NULL, "left_bytes")).s);
	if (rate)
		fprintf(to, "; %s/s", ctl_bytes((double)rate).s);
	if (rate && is(rebuild, "state", "moving"))
		fprintf(to, ", about %s to its end",
			ctl_duration(ctl_num(rebuild, NULL, "seconds_left")).s);
	fprintf(to, "\n");
}
