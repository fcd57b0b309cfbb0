/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl doctor: one line for each thing that a drive's speed or attachment depends on; a problem
 * has a second line, a command that fixes it.
 */
#include "appliance/ctl/ctl_doctor.h"
#include "appliance/ctl/ctl.h"
#include "base/num.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- findings ------------------------------------------------------------------------------ */

static struct ctl_finding *add(struct ctl_doctor *d, const char *check, bool ok, const char *fmt,
			       va_list ap)
{
	struct ctl_finding *f;

	d->finding = realloc(d->finding, (d->count + 1) * sizeof(*f));
	ASSERT(d->finding);
	f = &d->finding[d->count++];
	*f = (struct ctl_finding){ .check = check, .ok = ok };
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	ctl_printable(f->text);
	return f;
}

void ctl_doctor_ok(struct ctl_doctor *d, const char *check, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)add(d, check, true, fmt, ap);
	va_end(ap);
}

void ctl_doctor_wrong_is(struct ctl_doctor *d, const char *check, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)add(d, check, false, fmt, ap);
	va_end(ap);
}

void ctl_doctor_fix(struct ctl_doctor *d, const char *fmt, ...)
{
	struct ctl_finding *f;
	va_list ap;

	ASSERT(d->count > 0);
	f = &d->finding[d->count - 1];
	ASSERT(!f->ok);
	va_start(ap, fmt);
	vsnprintf(f->fix, sizeof(f->fix), fmt, ap);
	va_end(ap);
	ctl_printable(f->fix);
}

/* ---- what several checks ask ---------------------------------------------------------------- */

bool ctl_doctor_pci(const char *name, char out[CTL_PCI_SIZE])
{
	char address[64];

	if (strncmp(name, "pci:", 4) != 0)
		return false;
	snprintf(address, sizeof(address), "%.*s", (int)min_u64(strcspn(name, "?"), 60), name);
	return ctl_pci_parse(address, out) == 0;
}

const struct ctl_drive *ctl_doctor_drive(const struct ctl_doctor *d, const char *pci)
{
	for (uint32_t i = 0; i < d->drives.count; i++)
		if (strcmp(d->drives.drive[i].pci, pci) == 0)
			return &d->drives.drive[i];
	return NULL;
}

uint32_t ctl_doctor_kind(const struct ctl_doctor *d, const char *kind)
{
	uint32_t count = 0;

	for (uint32_t i = 0; d->conf && i < d->conf->ndrives; i++)
		count += strncmp(d->conf->drive[i], kind, strlen(kind)) == 0;
	return count;
}

bool ctl_doctor_wants_vfio(const struct ctl_doctor *d)
{
	const bool any = !d->conf || d->conf->ndrives == 0;

	return ctl_doctor_kind(d, "pci:") > 0 || d->saved.count > 0 || (any && d->drives.count > 0);
}

/* "Name:  value" of a file of such lines. */
static bool status_value(const struct ctl_doctor *d, const char *name, char *out, size_t out_size)
{
	char *text, *at, *line;
	bool found = false;
	size_t bytes;

	if (ctl_sysfs_slurp(&text, &bytes, d->root, "/proc/self/status"))
		return false;
	for (at = text; !found && (line = ctl_next_line(&at));) {
		found = strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':';
		if (found) {
			line += strlen(name) + 1;
			snprintf(out, out_size, "%s", line + strspn(line, " \t"));
		}
	}
	free(text);
	return found;
}

bool ctl_doctor_capable(const struct ctl_doctor *d, uint32_t capability)
{
	char text[64], *end;
	unsigned long long bits;

	if (!status_value(d, "CapEff", text, sizeof(text)))
		return false;
	bits = strtoull(text, &end, 16);
	return end != text && !*end && bits >> capability & 1;
}

/* Cuts a list of ranges at its commas.  False after the last. */
static bool next_range(const char **list, uint64_t *first, uint64_t *last)
{
	char *end;

	if (**list < '0' || **list > '9')
		return false;
	*first = *last = strtoull(*list, &end, 10);
	if (*end == '-' && end[1] >= '0' && end[1] <= '9')
		*last = strtoull(end + 1, &end, 10);
	*list = *end == ',' ? end + 1 : "";
	return true;
}

bool ctl_list_has(const char *list, int64_t v)
{
	uint64_t first, last;

	while (next_range(&list, &first, &last))
		if (v >= 0 && first <= (uint64_t)v && (uint64_t)v <= last)
			return true;
	return false;
}

int64_t ctl_list_highest(const char *list)
{
	uint64_t first, last;
	int64_t highest = -1;

	while (next_range(&list, &first, &last))
		if (first <= last && last < CTL_CPUS_MAX && (int64_t)last > highest)
			highest = (int64_t)last;
	return highest;
}

int32_t ctl_doctor_core(const struct ctl_doctor *d)
{
	char list[1024];

	if (d->conf && d->conf->core == APP_CORE_NONE)
		return -1;
	if (d->conf && d->conf->core != APP_CORE_AUTO)
		return (int32_t)d->conf->core;
	if (!status_value(d, "Cpus_allowed_list", list, sizeof(list)))
		return -1;
	return (int32_t)ctl_list_highest(list);
}

int32_t ctl_doctor_node_of(const struct ctl_doctor *d, int32_t cpu)
{
	struct ctl_entries e;
	char list[1024];
	int32_t node = -1;

	if (ctl_sysfs_list(&e, d->root, "/sys/devices/system/node") == 0)
		for (uint32_t i = 0; i < e.count && node < 0; i++) {
			int64_t number;

			if (strncmp(e.name[i], "node", 4) != 0 ||
			    ctl_parse_i64(e.name[i] + 4, &number) || number < 0 || number > 1023 ||
			    ctl_sysfs_read(list, sizeof(list), d->root,
					   "/sys/devices/system/node/%s/cpulist", e.name[i]))
				continue;
			if (ctl_list_has(list, cpu))
				node = (int32_t)number;
		}
	ctl_entries_free(&e);
	return node;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void look_conf(struct ctl_doctor *d, const char *conf_why)
{
	if (d->conf) {
		ctl_doctor_ok(d, "config", "%s: %u drive%s", d->conf_file, d->conf->ndrives,
			      d->conf->ndrives == 1 ? "" : "s");
	} else if (!*conf_why) {
		ctl_doctor_ok(d, "config", "no %s yet: needs are those of the defaults",
			      d->conf_file);
	} else {
		ctl_doctor_wrong_is(d, "config", "%s", conf_why);
		ctl_doctor_fix(d, "weka-appliance --list-keys, and edit %s", d->conf_file);
	}
}

void ctl_doctor_look(struct ctl_doctor *d, const char *root, const char *conf_file,
		     const struct app_conf *conf, const char *conf_why)
{
	char why[CTL_WHY_SIZE];
	int err;

	*d = (struct ctl_doctor){ .root = root, .conf_file = conf_file, .conf = conf };
	look_conf(d, conf_why);
	err = ctl_drives_scan(&d->drives, root, false);
	if (err) {
		ctl_doctor_wrong_is(d, "pci", "/sys/bus/pci/devices: %s", strerror(-err));
		ctl_doctor_fix(d, "mount -t sysfs sysfs /sys");
	}
	if (ctl_saved_load(root, &d->saved, why)) {
		ctl_doctor_wrong_is(d, "drives", "%s", why);
		ctl_doctor_fix(d, "chown root: " CTL_DRIVES_FILE " && chmod 644 " CTL_DRIVES_FILE
				  " && cat " CTL_DRIVES_FILE);
	}
	ctl_doctor_kernel(d);
	ctl_doctor_iommu(d);
	ctl_doctor_vfio(d);
	ctl_doctor_drives(d);
	ctl_doctor_restore(d);
	ctl_doctor_hugepages(d);
	ctl_doctor_memlock(d);
	ctl_doctor_numa(d);
	ctl_doctor_uring(d);
	ctl_doctor_permissions(d);
	ctl_doctor_store(d);
	ctl_doctor_ports(d);
	ctl_doctor_rdma(d);
	ctl_doctor_clock(d);
}

void ctl_doctor_free(struct ctl_doctor *d)
{
	ctl_drives_free(&d->drives);
	free(d->saved.drive);
	free(d->finding);
}

uint32_t ctl_doctor_wrong(const struct ctl_doctor *d)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < d->count; i++)
		count += !d->finding[i].ok;
	return count;
}

void ctl_doctor_print(FILE *to, const struct ctl_doctor *d)
{
	for (uint32_t i = 0; i < d->count; i++) {
		const struct ctl_finding *f = &d->finding[i];

		fprintf(to, "%-5s  %-11s  %s\n", f->ok ? "ok" : "WRONG", f->check, f->text);
		if (!f->ok)
			fprintf(to, "%-5s  %-11s  type: %s\n", "", "", f->fix);
	}
	if (ctl_doctor_wrong(d))
		fprintf(to, "doctor: %u of %u wrong\n", ctl_doctor_wrong(d), d->count);
	else
		fprintf(to, "doctor: all %u fine\n", d->count);
}

void ctl_doctor_print_json(FILE *to, const struct ctl_doctor *d)
{
	for (uint32_t i = 0; i < d->count; i++) {
		const struct ctl_finding *f = &d->finding[i];
		json_t *o = json_pack("{s:s, s:b, s:s, s:o}", "check", f->check, "ok", (int)f->ok,
				      "text", f->text, "type",
				      f->ok ? json_null() : json_string(f->fix));

		ASSERT(o);
		json_dumpf(o, to, JSON_COMPACT | JSON_PRESERVE_ORDER);
		fputc('\n', to);
		json_decref(o);
	}
}

int ctl_cmd_doctor(struct ctl *c)
{
	const char *file = c->config ? c->config : "/etc/weka-appliance.conf";
	struct app_conf *conf = calloc(1, sizeof(*conf));
	char why[APP_CONF_WHY] = "";
	struct ctl_doctor d;
	int status, err;

	ASSERT(conf);
	err = app_conf_load(conf, file, why);
	if (err == -ENOENT && !c->config)
		why[0] = '\0'; /* not installed yet: the machine can be checked anyway */
	ctl_doctor_look(&d, "", file, err ? NULL : conf, why);
	if (c->json)
		ctl_doctor_print_json(stdout, &d);
	else
		ctl_doctor_print(stdout, &d);
	status = ctl_doctor_wrong(&d) ? 1 : 0;
	ctl_doctor_free(&d);
	free(conf);
	return status;
}
