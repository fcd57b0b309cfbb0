/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The configuration file's parser: whatever the bytes, it answers or refuses with one line. */
#include "appliance/conf/app_conf.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
	static struct app_conf c;
	char why[APP_CONF_WHY] = "";
	int err = app_conf_parse(&c, "fuzz.conf", (const char *)bytes, size_bytes, why);

	if (err) {
		ASSERT(err == -22);
		ASSERT(strncmp(why, "fuzz.conf:", 10) == 0 && !strchr(why, '\n'));
		return 0;
	}
	ASSERT(c.ndrives >= 1 && c.ndrives <= APP_CONF_DRIVES_MAX);
	ASSERT(c.nlisten >= 1 && c.nlisten <= APP_CONF_LISTEN_MAX);
	/* Somebody can come in: with a key of the file or the directory, or with none. */
	ASSERT(c.key_file[0] || c.key_dir[0] || strcmp(c.anonymous, "none") != 0);
	ASSERT(c.ops_max >= 4 && c.ops_max <= 4096);
	ASSERT(c.window_max_bytes % 4096 == 0 && c.session_pools_max_bytes <= c.pools_max_bytes);
	return 0;
}
