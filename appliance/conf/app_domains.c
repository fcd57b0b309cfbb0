/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "appliance/conf/app_domains.h"

#include <string.h>

static bool is_name(const char *name)
{
	const size_t length = strlen(name);

	return length > 0 && length < APP_DOMAIN_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") ==
		       length;
}

bool app_domains_number(struct app_domains *domains, const char *name, uint32_t *number)
{
	uint32_t i = 0;

	ASSERT(domains->count <= APP_CONF_DRIVES_MAX);
	if (!is_name(name))
		return false;
	while (i < domains->count && strcmp(domains->name[i], name) != 0)
		i++;
	if (i == APP_CONF_DRIVES_MAX)
		return false;
	if (i == domains->count)
		memcpy(domains->name[domains->count++], name, strlen(name) + 1);
	*number = i + 1;
	return true;
}

void app_domains_put(struct app_domains *domains, const char *drive, uint32_t domain)
{
	uint32_t i = 0;

	ASSERT(domain <= domains->count);
	ASSERT(strlen(drive) < APP_CONF_TEXT_MAX);
	while (i < domains->drives && strcmp(domains->of[i].drive, drive) != 0)
		i++;
	if (i == APP_CONF_DRIVES_MAX || (i == domains->drives && domain == 0))
		return;
	memcpy(domains->of[i].drive, drive, strlen(drive) + 1);
	domains->of[i].domain = domain;
	domains->drives += i == domains->drives;
}

/* Is the second one what a store keeps of the first? */
static bool is_end_of(const char *drive, const char *kept)
{
	const size_t length = strlen(drive), end = strlen(kept);

	if (strncmp(kept, "...", 3) != 0 || length + 3 < end)
		return false;
	return strcmp(drive + length - (end - 3), kept + 3) == 0;
}

uint32_t app_domains_of(const struct app_domains *domains, const char *drive)
{
	uint32_t found = 0;

	ASSERT(domains->drives <= APP_CONF_DRIVES_MAX);
	for (uint32_t i = 0; i < domains->drives; i++) {
		if (strcmp(domains->of[i].drive, drive) == 0)
			return domains->of[i].domain;
		if (is_end_of(domains->of[i].drive, drive))
			found = domains->of[i].domain;
	}
	return found;
}

const char *app_domains_name(const struct app_domains *domains, uint32_t number)
{
	ASSERT(number <= domains->count);
	return number ? domains->name[number - 1] : "";
}

static bool is_same(const struct app_domains *a, const struct app_domains *b, const char *drive)
{
	return strcmp(app_domains_name(a, app_domains_of(a, drive)),
		      app_domains_name(b, app_domains_of(b, drive))) == 0;
}

bool app_domains_differ(const struct app_domains *a, const struct app_domains *b)
{
	bool differ = false;

	ASSERT(a->drives <= APP_CONF_DRIVES_MAX && b->drives <= APP_CONF_DRIVES_MAX);
	for (uint32_t i = 0; i < a->drives; i++)
		differ |= !is_same(a, b, a->of[i].drive);
	for (uint32_t i = 0; i < b->drives; i++)
		differ |= !is_same(a, b, b->of[i].drive);
	return differ;
}
