/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The texts that wekactl drives and doctor parse: the first byte chooses the parser of the rest.  A
 * file of drives that the parser accepts, written again, must give the same drives.
 */
#include "appliance/ctl/ctl_doctor.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void address(const char *text)
{
	char once[CTL_PCI_SIZE], twice[CTL_PCI_SIZE];

	if (ctl_pci_parse(text, once))
		return;
	ASSERT(strlen(once) >= strlen("0000:01:00.0") && strlen(once) < sizeof(once));
	ASSERT(ctl_pci_parse(once, twice) == 0);
	ASSERT(strcmp(once, twice) == 0);
	ASSERT(!strchr(once, '/'));
}

static void mounts(char *text)
{
	struct ctl_mount m;
	char *line;

	while ((line = ctl_next_line(&text))) {
		if (!ctl_mount_parse(line, &m))
			continue;
		ASSERT(*m.dev && *m.where && *m.type && *m.source);
		ASSERT(!strchr(m.type, ' ') && !strchr(m.dev, ' '));
	}
}

static void drives(char *text, size_t size)
{
	char why[CTL_WHY_SIZE] = "", *again = NULL;
	struct ctl_saved_list list, same;
	size_t again_size;
	FILE *f;

	if (ctl_saved_parse(text, size, &list, why)) {
		ASSERT(strncmp(why, CTL_DRIVES_FILE ":", strlen(CTL_DRIVES_FILE) + 1) == 0);
		ASSERT(!strchr(why, '\n') && list.count == 0 && !list.drive);
		return;
	}
	f = open_memstream(&again, &again_size);
	ASSERT(f);
	for (uint32_t i = 0; i < list.count; i++) {
		const struct ctl_saved *s = &list.drive[i];

		ASSERT(!*s->user || ctl_account_ok(s->user));
		ASSERT(!*s->group || ctl_account_ok(s->group));
		ctl_saved_print(f, s);
	}
	fclose(f);
	ASSERT(ctl_saved_parse(again, again_size, &same, why) == 0);
	ASSERT(same.count == list.count);
	for (uint32_t i = 0; i < list.count; i++) {
		const struct ctl_saved *a = &list.drive[i], *b = &same.drive[i];

		ASSERT(strcmp(a->pci, b->pci) == 0 && strcmp(a->serial, b->serial) == 0);
		ASSERT(strcmp(a->user, b->user) == 0 && strcmp(a->group, b->group) == 0);
		ASSERT(a->forced == b->forced);
	}
	free(again);
	free(list.drive);
	free(same.drive);
}

static void health(const char *text, size_t size)
{
	uint8_t page[CTL_HEALTH_BYTES] = { 0 };
	struct ctl_health h;

	memcpy(page, text, size < sizeof(page) ? size : sizeof(page));
	ctl_health_parse(page, &h);
	ASSERT(*ctl_health_word(&h));
	ASSERT(h.celsius >= -273);
}

static void lists(const char *text)
{
	int64_t highest = ctl_list_highest(text), number;
	uint64_t limit;

	ASSERT(highest < (int64_t)CTL_CPUS_MAX);
	ASSERT(highest < 0 || ctl_list_has(text, highest));
	ASSERT(!ctl_list_has(text, -1));
	(void)!ctl_limit_parse(text, &limit);
	(void)!ctl_parse_i64(text, &number);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char *text;

	if (size == 0)
		return 0;
	text = malloc(size);
	ASSERT(text);
	memcpy(text, bytes + 1, size - 1);
	text[size - 1] = '\0';
	switch (bytes[0] % 5) {
	case 0:
		address(text);
		break;
	case 1:
		mounts(text);
		break;
	case 2:
		drives(text, size - 1);
		break;
	case 3:
		health(text, size - 1);
		break;
	default:
		lists(text);
	}
	free(text);
	return 0;
}
