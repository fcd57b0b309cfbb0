/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl support-bundle: one tar archive with the facts that a bug report needs.
 *
 * Never in it: files of keys, tokens, bytes of files.  Only with --names: names of files, which the
 * log and the status mention where files are damaged.  The files of keys are not even opened; the
 * token is read, in order to ask for metrics.
 *
 * A part that is not available is a file with the reason: a bundle is made above all when something
 * does not work.
 */
#include "appliance/conf/app_conf_metrics.h"
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_doctor.h"
#include "appliance/ctl/ctl_fetch.h"
#include "appliance/ctl/ctl_redact.h"
#include "appliance/ctl/ctl_status_text.h"
#include "appliance/ctl/ctl_sysfs.h"
#include "appliance/ctl/ctl_tar.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/version.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LOG_BYTES  ((size_t)8 << 20)
#define PAGE_BYTES ((size_t)8 << 20)
#define FACT_BYTES ((size_t)64 << 10)

struct bundle {
	struct ctl *c;
	FILE *tar;
	uint64_t now_s;
	char folder[64];
	struct app_conf *conf;
	bool has_conf;
	char conf_why[APP_CONF_WHY];
	/* The part that is being written. */
	FILE *f;
	char *text;
	size_t size;
};

static FILE *part_begin(struct bundle *b)
{
	ASSERT(!b->f); /* one part at a time */
	b->f = open_memstream(&b->text, &b->size);
	ASSERT(b->f);
	return b->f;
}

static void part_end(struct bundle *b, const char *name)
{
	char path[CTL_TAR_NAME_MAX + 1];

	if (fclose(b->f))
		UNREACHABLE();
	b->f = NULL;
	ASSERT((size_t)snprintf(path, sizeof(path), "%s/%s", b->folder, name) < sizeof(path));
	ctl_tar_add(b->tar, path, b->text, b->size, b->now_s);
	free(b->text);
}

/* ---- the appliance ------------------------------------------------------------------------- */

static void put_readme(struct bundle *b)
{
	fprintf(part_begin(b),
		"Made by wekactl %s (%s, %s).\n\n"
		"configuration.txt  lines of %s, without comments\n"
		"status.json        wekactl --json status: wekactl-status(5)\n"
		"metrics.txt        the appliance's metrics: weka-metrics(5)\n"
		"log.txt            the last lines of the log: weka-messages(7)\n"
		"doctor.txt         wekactl doctor\n"
		"drives.json        wekactl --json drives\n"
		"machine.txt        kernel, processors, memory, networks\n\n"
		"There are no keys, no tokens and no bytes of files in it.\n%s",
		version_text, version_commit, version_variant, b->conf->file,
		b->c->names ? "Names of files are in it where the log or the status has them.\n"
			    : "Names of files were left out.\n");
	part_end(b, "README.txt");
}

/* Cuts a line of the configuration before the comment at its end: app_conf.c. */
static void cut_comment(char *line)
{
	for (char *at = line; *at; at++)
		if ((*at == ' ' || *at == '\t') && at[1] == ';')
			*at = '\0';
}

/* `anonymous` has a path of the store. */
static void put_conf_line(const struct bundle *b, char *line)
{
	char *path;

	line += strspn(line, " \t");
	if (*line == '#' || *line == ';' || !*line)
		return;
	cut_comment(line);
	path = strncmp(line, "anonymous", 9) == 0 ? strchr(line, '/') : NULL;
	if (path && !b->c->names)
		snprintf(path, strlen(path) + 1, "...");
	fprintf(b->f, "%s\n", line);
}

static void put_conf(struct bundle *b)
{
	char *text, *at, *line;
	size_t bytes;
	int err = ctl_sysfs_slurp(&text, &bytes, "", "%s", b->conf->file);

	part_begin(b);
	if (err) {
		fprintf(b->f, "%s: %s\n", b->conf->file, strerror(-err));
	} else {
		for (at = text; (line = ctl_next_line(&at));)
			put_conf_line(b, line);
		free(text);
	}
	if (!b->has_conf)
		fprintf(b->f, "\nIt is wrong: %s\n", b->conf_why);
	part_end(b, "configuration.txt");
}

static void put_status(struct bundle *b)
{
	char why[CTL_STATUS_WHY] = "there is no connection", *text;
	json_t *status;

	part_begin(b);
	b->c->looks = true;
	if (ctl_connect(b->c) || ctl_status_get(b->c, &text, &status, why)) {
		status = json_pack("{s:s}", "error", why);
		ASSERT(status);
	} else {
		free(text);
		if (!b->c->names)
			json_object_del(json_object_get(status, "scrub"), "last_found");
	}
	json_dumpf(status, b->f, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
	fprintf(b->f, "\n");
	json_decref(status);
	part_end(b, "status.json");
}

/* Into *text, or an error with a line. */
static int get_metrics(const struct bundle *b, char **text, char why[APP_CONF_WHY])
{
	struct app_conf_address address;
	char token[APP_TOKEN_MAX + 1] = "";
	int err;

	snprintf(why, APP_CONF_WHY, "the configuration has no metrics");
	if (!b->has_conf || !*b->conf->metrics)
		return -ENOENT;
	err = app_conf_metrics_address(b->conf->metrics, &address);
	if (!err)
		err = app_conf_metrics_token(b->conf, token, why);
	if (err)
		return err;
	err = ctl_fetch_http(&address, "/metrics", token, PAGE_BYTES, text);
	explicit_bzero(token, sizeof(token));
	if (err)
		snprintf(why, APP_CONF_WHY, "http://%s/metrics: %s", b->conf->metrics,
			 strerror(-err));
	return err;
}

static void put_metrics(struct bundle *b)
{
	char why[APP_CONF_WHY], *text;

	part_begin(b);
	if (get_metrics(b, &text, why)) {
		fprintf(b->f, "# %s\n", why);
	} else {
		fputs(text, b->f);
		free(text);
	}
	part_end(b, "metrics.txt");
}

static int get_log(const struct bundle *b, char **text)
{
	static const char *const journal[] = {
		"journalctl", "--no-pager", "-o", "short-iso-precise",      "--no-hostname",
		"-n",         "20000",      "-u", "weka-appliance.service", NULL
	};
	size_t bytes;

	if (b->c->log)
		return ctl_sysfs_slurp(text, &bytes, "", "%s", b->c->log);
	return ctl_fetch_program(journal, LOG_BYTES, text);
}

static void put_log(struct bundle *b)
{
	char *text;
	int err = get_log(b, &text);

	part_begin(b);
	if (err) {
		fprintf(b->f, "%s: %s%s\n", b->c->log ? b->c->log : "journalctl", strerror(-err),
			b->c->log ? "" : "; if the log is a file, say --log FILE");
	} else {
		if (b->c->names)
			fputs(text, b->f);
		else
			ctl_redact(b->f, text, b->conf);
		free(text);
	}
	part_end(b, "log.txt");
}

/* ---- the machine --------------------------------------------------------------------------- */

static void put_doctor(struct bundle *b)
{
	struct ctl_doctor d;

	ctl_doctor_look(&d, "", b->conf->file, b->has_conf ? b->conf : NULL, b->conf_why);
	ctl_doctor_print(part_begin(b), &d);
	ctl_doctor_free(&d);
	part_end(b, "doctor.txt");
}

static void put_drives(struct bundle *b)
{
	struct ctl_drive_list list;
	int err = ctl_drives_scan(&list, "", true);

	part_begin(b);
	if (err)
		fprintf(b->f, "{\"error\":\"/sys/bus/pci/devices: %s\"}\n", strerror(-err));
	else
		ctl_drives_print_json(b->f, &list);
	ctl_drives_free(&list);
	part_end(b, "drives.json");
}

static void put_file(struct bundle *b, const char *path)
{
	size_t bytes;
	char *text;

	if (ctl_sysfs_slurp(&text, &bytes, "", "%s", path))
		return;
	fprintf(b->f, "\n---- %s\n%.*s", path, (int)min_u64(bytes, FACT_BYTES), text);
	free(text);
}

static void put_list(struct bundle *b, const char *path)
{
	struct ctl_entries e;

	fprintf(b->f, "\n---- %s\n", path);
	if (ctl_sysfs_list(&e, "", "%s", path) == 0)
		for (uint32_t i = 0; i < e.count; i++)
			fprintf(b->f, "%s\n", e.name[i]);
	else
		fprintf(b->f, "there is none\n");
	ctl_entries_free(&e);
}

static void put_machine(struct bundle *b)
{
	static const char *const files[] = {
		"/etc/os-release",   "/proc/cmdline",         "/proc/uptime",
		"/proc/loadavg",     "/proc/meminfo",         "/proc/self/limits",
		"/proc/self/status", "/proc/sys/fs/aio-nr",   "/proc/sys/kernel/io_uring_disabled",
		"/proc/cpuinfo",     "/proc/pressure/memory", "/proc/pressure/io",
	};
	static const char *const lists[] = { "/sys/class/infiniband", "/sys/class/net",
					     "/sys/class/iommu", "/sys/devices/system/node" };
	struct utsname u;
	char now[CLOCK_TEXT];

	part_begin(b);
	clock_print_utc(now, clock_wall_ns());
	fprintf(b->f, "time %s\n", now);
	if (uname(&u) == 0) /* without the name of the host */
		fprintf(b->f, "kernel %s %s %s %s\n", u.sysname, u.release, u.version, u.machine);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		put_list(b, lists[i]);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		put_file(b, files[i]);
	part_end(b, "machine.txt");
}

/* ---- the command --------------------------------------------------------------------------- */

static void load_conf(struct bundle *b)
{
	const char *file = b->c->config ? b->c->config : "/etc/weka-appliance.conf";
	int err;

	b->conf = ctl_need(calloc(1, sizeof(*b->conf)));
	err = app_conf_load(b->conf, file, b->conf_why);
	b->has_conf = !err;
	if (err) {
		memset(b->conf, 0, sizeof(*b->conf));
		snprintf(b->conf->file, sizeof(b->conf->file), "%s", file);
	}
}

static void put_all(struct bundle *b)
{
	put_readme(b);
	put_conf(b);
	put_status(b);
	put_metrics(b);
	put_log(b);
	put_doctor(b);
	put_drives(b);
	put_machine(b);
	ctl_tar_end(b->tar);
}

int ctl_cmd_bundle(struct ctl *c)
{
	struct bundle b = { .c = c, .now_s = clock_wall_ns() / NS_PER_S };
	char name[CLOCK_TEXT + 32], now[CLOCK_TEXT];
	const char *file = c->argc ? c->argv[0] : name;
	int fd, failed;

	clock_print_utc(now, clock_wall_ns());
	now[strcspn(now, ".")] = '\0'; /* 2026-11-24T17:52:07, without the fraction */
	for (char *at = now; *at; at++)
		if (*at == ':')
			*at = '-';
	snprintf(b.folder, sizeof(b.folder), "weka-support-%s", now);
	snprintf(name, sizeof(name), "weka-support-%s.tar", now);
	fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return ctl_fail("%s: %s", file, strerror(errno));
	b.tar = ctl_need(fdopen(fd, "w"));
	load_conf(&b);
	put_all(&b);
	free(b.conf);
	failed = ferror(b.tar);
	if (fclose(b.tar) || failed) {
		unlink(file);
		return ctl_fail("%s: it could not be written: %s", file, strerror(errno));
	}
	if (c->json)
		printf("{\"file\":\"%s\"}\n", file);
	else
		printf("%s was written; look into it before you send it to anybody\n", file);
	return 0;
}
