/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl drives: the list of NVMe devices, for people and for programs. */
#include "appliance/ctl/ctl_drives.h"
#include "base/num.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- for people ---------------------------------------------------------------------------- */

enum column { DRIVE, DRIVER, SIZE, NODE, GROUP, HEALTH, TEMP, WEAR, SERIAL, MODEL, USE, COLUMNS };

struct row {
	char cell[COLUMNS][200];
};

static const struct row head = { { "DRIVE", "DRIVER", "SIZE", "NODE", "GROUP", "HEALTH", "TEMP",
				   "WEAR", "SERIAL", "MODEL", "USED BY" } };

#define CELL(row, column, ...) snprintf((row)->cell[column], sizeof((row)->cell[0]), __VA_ARGS__)

static uint64_t size_of(const struct ctl_drive *d)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < d->nns; i++)
		if (add_overflows(bytes, d->ns[i].size_bytes, &bytes))
			return UINT64_MAX;
	return bytes;
}

static void print_size(struct row *r, const struct ctl_drive *d)
{
	static const char unit[] = "kMGTPE";
	double v = (double)size_of(d) / 1000;
	uint32_t i = 0;
	char many[24] = "";

	for (; v >= 1000 && unit[i + 1]; i++)
		v /= 1000;
	if (d->nns > 1)
		snprintf(many, sizeof(many), " in %u", d->nns);
	CELL(r, SIZE, "%.*f %cB%s", v < 100 ? 1 : 0, v, unit[i], many);
}

static void print_uses(struct row *r, const struct ctl_drive *d)
{
	char *cell = r->cell[USE];
	size_t at = 0, size = sizeof(r->cell[USE]) - 24; /* room for how many more there are */

	for (uint32_t i = 0; i < d->nuses; i++) {
		const struct ctl_use *use = &d->use[i];
		bool says_device = *use->device && d->nns + d->nuses > 2;
		char text[CTL_ENTRY_SIZE + CTL_WHY_SIZE + 8];
		int len = snprintf(text, sizeof(text), "%s%s%s%s", i ? ", " : "",
				   says_device ? use->device : "", says_device ? ": " : "",
				   use->text);

		if (at + (size_t)len >= size) {
			snprintf(cell + at, 24, "%s%u more", i ? ", " : "", d->nuses - i);
			return;
		}
		memcpy(cell + at, text, (size_t)len + 1);
		at += (size_t)len;
	}
	if (d->saved && strcmp(d->driver, "vfio-pci") != 0)
		snprintf(cell + at, 24, "%sto be restored", at ? ", " : "");
}

static void print_row(struct row *r, const struct ctl_drive *d)
{
	for (uint32_t i = 0; i < COLUMNS; i++)
		CELL(r, i, "-");
	CELL(r, DRIVE, "pci:%s", d->pci);
	if (*d->driver)
		CELL(r, DRIVER, "%.20s", d->driver);
	if (d->nns)
		print_size(r, d);
	if (d->node >= 0)
		CELL(r, NODE, "%d", d->node);
	if (d->group >= 0 && d->group_others)
		CELL(r, GROUP, "%d+%u", d->group, d->group_others);
	else if (d->group >= 0)
		CELL(r, GROUP, "%d", d->group);
	if (d->health_known) {
		CELL(r, HEALTH, "%s", ctl_health_word(&d->health));
		CELL(r, TEMP, "%d C", d->health.celsius);
		CELL(r, WEAR, "%u %%", d->health.used_percent);
	}
	if (*d->serial)
		CELL(r, SERIAL, "%s", d->serial);
	if (*d->model || *d->product)
		CELL(r, MODEL, "%.40s", *d->model ? d->model : d->product);
	r->cell[USE][0] = '\0';
	print_uses(r, d);
	if (!r->cell[USE][0])
		CELL(r, USE, "-");
}

static void print_line(FILE *to, const struct row *r, const int *width)
{
	for (uint32_t i = 0; i < COLUMNS - 1; i++)
		fprintf(to, "%-*s  ", width[i], r->cell[i]);
	fprintf(to, "%s\n", r->cell[USE]);
}

void ctl_drives_print(FILE *to, const struct ctl_drive_list *list)
{
	int width[COLUMNS] = { 0 };
	struct row *row = calloc(list->count + 1, sizeof(*row));

	ASSERT(row);
	row[0] = head;
	for (uint32_t i = 0; i < list->count; i++)
		print_row(&row[i + 1], &list->drive[i]);
	for (uint32_t i = 0; i <= list->count; i++)
		for (uint32_t k = 0; k < COLUMNS; k++)
			width[k] = (int)max_u64((uint64_t)width[k], strlen(row[i].cell[k]));
	for (uint32_t i = 0; i <= list->count; i++)
		print_line(to, &row[i], width);
	free(row);
}

/* ---- for programs --------------------------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
	return *text ? json_string(text) : json_null();
}

static json_t *number_or_null(int64_t v)
{
	return v >= 0 ? json_integer(v) : json_null();
}

/* JSON's integers are 64 bits with a sign. */
static json_int_t counter(uint64_t v)
{
	return (json_int_t)min_u64(v, INT64_MAX);
}

static json_t *json_of_health(const struct ctl_drive *d)
{
	const struct ctl_health *h = &d->health;

	if (!d->health_known)
		return json_null();
	return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I}", "health",
			 ctl_health_word(h), "critical_warning", (int)h->warning, "celsius",
			 (int)h->celsius, "spare_percent", (int)h->spare_percent,
			 "spare_threshold_percent", (int)h->spare_threshold_percent, "wear_percent",
			 (int)h->used_percent, "media_errors", counter(h->media_errors),
			 "power_on_hours", counter(h->power_on_hours), "unsafe_shutdowns",
			 counter(h->unsafe_shutdowns), "written_units", counter(h->written_units));
}

static json_t *json_of_namespaces(const struct ctl_drive *d)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < d->nns; i++)
		json_array_append_new(array,
				      json_pack("{s:s, s:I, s:I, s:I}", "device", d->ns[i].name,
						"nsid", (json_int_t)d->ns[i].nsid, "bytes",
						counter(d->ns[i].size_bytes), "block_bytes",
						(json_int_t)d->ns[i].block_bytes));
	return array;
}

static json_t *json_of_uses(const struct ctl_drive *d)
{
	static const char *const kind[] = {
		[CTL_USE_MOUNT] = "mount",         [CTL_USE_SWAP] = "swap",
		[CTL_USE_HOLDER] = "holder",       [CTL_USE_OPEN] = "open",
		[CTL_USE_CLAIMED] = "claimed",     [CTL_USE_UNSEEN] = "unseen",
		[CTL_USE_SIGNATURE] = "signature", [CTL_USE_STORE] = "store",
		[CTL_USE_APPLIANCE] = "appliance",
	};
	json_t *array = json_array();

	for (uint32_t i = 0; i < d->nuses; i++)
		json_array_append_new(
			array, json_pack("{s:s, s:o, s:s}", "kind", kind[d->use[i].kind], "device",
					 text_or_null(d->use[i].device), "text", d->use[i].text));
	return array;
}

static json_t *json_of_drive(const struct ctl_drive *d)
{
	char name[CTL_PCI_SIZE + 4];

	snprintf(name, sizeof(name), "pci:%s", d->pci);
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:I, s:o, s:o, s:i, s:o, "
			 "s:b, s:o, s:o, s:o}",
			 "drive", name, "driver", text_or_null(d->driver), "controller",
			 text_or_null(d->ctrl), "model", text_or_null(d->model), "serial",
			 text_or_null(d->serial), "firmware", text_or_null(d->firmware), "product",
			 text_or_null(d->product), "vendor_id", (int)d->vendor_id, "device_id",
			 (int)d->device_id, "bytes", counter(size_of(d)), "numa_node",
			 number_or_null(d->node), "iommu_group", number_or_null(d->group),
			 "group_others", (int)d->group_others, "group_blocker",
			 text_or_null(d->blocker), "restored", (int)d->saved, "namespaces",
			 json_of_namespaces(d), "health", json_of_health(d), "uses",
			 json_of_uses(d));
}

void ctl_drives_print_json(FILE *to, const struct ctl_drive_list *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		json_t *o = json_of_drive(&list->drive[i]);

		ASSERT(o); /* every text has been made printable */
		json_dumpf(o, to, JSON_COMPACT | JSON_PRESERVE_ORDER);
		fputc('\n', to);
		json_decref(o);
	}
}
