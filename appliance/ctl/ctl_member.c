/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl drives add refuses every drive while the configuration's store misses one.  The missing
 * drive was wiped, or another is in its place.  Added as a new drive it would not bring back its
 * contents, and the store does not start without them.
 */
#include "appliance/conf/app_conf.h"
#include "meta/meta_set.h"
#include "appliance/core/app_core.h"
#include "appliance/media/app_drives.h"
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_drives.h"

#include <stdlib.h>
#include <string.h>

struct member {
	struct app_conf conf;
	struct app_found found[APP_CONF_DRIVES_MAX];
	uint32_t count;
	const struct meta_set *set;
};

static bool is_named(const char *const *name, uint32_t count, const char *what)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(name[i], what) == 0)
			return true;
	return false;
}

/* One that is in use, or is not there, says nothing. */
static void look(struct member *m, struct nvme_dma *dma, const char *name)
{
	struct app_core_cfg cfg = { .ndrives = 1 };
	const struct nvme_options options = { .memory_bytes = app_core_dma_needed(&cfg) };
	struct app_found *found = &m->found[m->count];
	char why[NVME_ERR_TEXT];
	struct nvme_drive *drive;

	if (nvme_open(&drive, name, dma, &options, why, sizeof(why)))
		return;
	if (app_drive_look(drive, dma, found) == 0 && found->kind == APP_FOUND_STORE) {
		if (found->set.ndrives && (!m->set || found->set.number > m->set->number))
			m->set = &found->set;
		m->count++;
	}
	nvme_close(drive);
}

static int judge(const struct member *m, const char *name)
{
	const uint32_t missing = app_drives_missing(m->set, m->found, m->count, name);

	if (missing == META_DRIVES_MAX)
		return 0;
	return ctl_fail("%s: cannot be added: the store of %s misses its drive %u, %s, and does "
			"not start without it; put that one in its place, or save what is on the "
			"others: wekactl check --salvage DIR",
			name, m->conf.file, missing,
			*m->set->name[missing] ? m->set->name[missing] : "without a name");
}

int ctl_drives_member(const struct ctl *c, const char *const *name, uint32_t count)
{
	struct member *m = ctl_need(calloc(1, sizeof(*m)));
	struct nvme_dma *dma = NULL;
	char why[APP_CONF_WHY];
	int status = 0;

	if (app_conf_load(&m->conf, c->config ? c->config : "/etc/weka-appliance.conf", why) ||
	    nvme_dma_create(&dma)) {
		free(m);
		return 0; /* nobody knows of a store */
	}
	for (uint32_t i = 0; i < m->conf.ndrives; i++)
		if (!is_named(name, count, m->conf.drive[i]))
			look(m, dma, m->conf.drive[i]);
	for (uint32_t i = 0; i < count && m->set && !status; i++)
		status = judge(m, name[i]);
	nvme_dma_destroy(dma);
	free(m);
	return status;
}
