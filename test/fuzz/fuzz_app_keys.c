/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A key's file: whatever is taken is sane, prints, and is read back as the same. */
#include "appliance/conf/app_keys.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char why[APP_KEY_WHY] = "", text[APP_KEY_TEXT_SIZE];
	struct fab_grant g, again;

	if (app_key_parse(&g, "fuzz", (const char *)bytes, size, why)) {
		ASSERT(why[0] && memchr(why, 0, sizeof(why)));
		for (const char *c = why; *c; c++)
			ASSERT(*c >= ' ' && *c <= '~');
		return 0;
	}
	ASSERT(memchr(g.rights.subtree, 0, sizeof(g.rights.subtree)));
	ASSERT(!g.rights.subtree[0] || g.rights.subtree[0] == '/');
	ASSERT(!strstr(g.rights.subtree, "//"));
	ASSERT(app_key_parse(&again, "fuzz", text, app_key_print(&g, text), why) == 0);
	ASSERT(memcmp(&g, &again, sizeof(g)) == 0);
	return 0;
}
