/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Finds the drive of a store that is missing, by its name or number in the configuration. */
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

bool app_conf_drive_named(const char *text)
{
	uint32_t number;

	if (app_conf_drive_number(text, &number))
		return number < META_DRIVES_MAX;
	return strncmp(text, "file:", 5) == 0 || strncmp(text, "pci:", 4) == 0 ||
	       strncmp(text, "vfio-user:", 10) == 0 || strncmp(text, "...", 3) == 0;
}
