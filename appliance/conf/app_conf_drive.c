/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Finds the drives of a store that are missing, by name or numbers in the configuration. */
#include "appliance/conf/app_conf.h"
#include "meta/meta.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool app_conf_drive_number(const char *text, uint32_t *number)
{
	const bool digits = isdigit((unsigned char)text[0]) &&
			    (!text[1] || isdigit((unsigned char)text[1])) && strlen(text) <= 2;

	*number = digits ? (uint32_t)strtoul(text, NULL, 10) : META_DRIVES_MAX;
	return digits;
}

bool app_conf_drive_numbers(const char *text, uint64_t *drives)
{
	*drives = 0;
	for (;;) {
		char *end;
		const unsigned long number = strtoul(text, &end, 10);

		if (!isdigit((unsigned char)*text) || end - text > 2 || number >= META_DRIVES_MAX)
			return false;
		*drives |= 1ull << number;
		text = end + strspn(end, " ");
		if (*text == '\0')
			return true;
		if (*text++ != ',')
			return false;
		text += strspn(text, " ");
	}
}

uint32_t app_conf_drives_named(const char *text)
{
	uint64_t drives;

	if (app_conf_drive_numbers(text, &drives))
		return (uint32_t)__builtin_popcountll(drives);
	return *text != '\0';
}

bool app_conf_drive_named(const char *text)
{
	uint64_t drives;

	if (isdigit((unsigned char)*text))
		return app_conf_drive_numbers(text, &drives);
	return strncmp(text, "file:", 5) == 0 || strncmp(text, "pci:", 4) == 0 ||
	       strncmp(text, "vfio-user:", 10) == 0 || strncmp(text, "...", 3) == 0;
}
