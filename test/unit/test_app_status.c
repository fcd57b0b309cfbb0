/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* STATUS: who is told what.  A file is damaged, so that the scrub has a line that names it. */
#define _GNU_SOURCE
#include "base/log.h"
#include "test/lib/app_rig.h"
#include "test/lib/fab_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DRIVE_BYTES = 64 << 20 };

#define SECRET "/private/diary"
#define TEXT   "Nobody is to know that this is here. "

static char image[64];
static char drive_name[META_DRIVES_MAX][APP_CONF_TEXT_MAX];
static void open_drive(struct app_rig *rig, uint32_t i);
static void keys_set(struct app_rig *rig);
static struct app_rig rig = { .transport = "tcp", .open_drive = open_drive, .turn = keys_set };

static void open_drive(struct app_rig *r, uint32_t i)
{
	struct nvme_options wanted = { .qpair_count_max = r->cores };
	char why[NVME_ERR_TEXT];

	cr_assert_eq(nvme_open(&r->drive[i], drive_name[i], r->dma, &wanted, why, sizeof(why)), 0,
		     "%s", why);
}

static void keys_set(struct app_rig *r)
{
	struct fab_grant ann = fab_rig_grant("ann", 1, "", true);
	struct fab_grant super = fab_rig_grant("super", 2, "", true);

	ann.rights.has_uid = super.rights.has_uid = true;
	ann.rights.uid = 1000;
	ann.rights.gids = super.rights.gids = 1;
	ann.rights.gid[0] = 100;
	cr_assert_geq(fab_server_key_set(r->srv, &ann), 0);
	cr_assert_geq(fab_server_key_set(r->srv, &super), 0);
}

static void setup(void)
{
	int fd;

	(void)snprintf(image, sizeof(image), "/tmp/weka-status.XXXXXX");
	fd = mkstemp(image);
	cr_assert_eq(ftruncate(fd, DRIVE_BYTES), 0);
	close(fd);
	(void)snprintf(drive_name[0], sizeof(drive_name[0]), "file:%s", image);
	rig.cfg.cache_bytes = 16 << 20;
	rig.cfg.scrub_rate = 1 << 30;
	rig.cfg.drive_name = drive_name;
	log_level_set(LOG_ERROR);
}

static void teardown(void)
{
	unlink(image);
}

TestSuite(app_status, .init = setup, .fini = teardown, .timeout = 120);

/* Where its bytes lie, another one. */
static void damage(void)
{
	const int fd = open(image, O_RDWR);
	char *drive, *at;

	cr_assert_geq(fd, 0);
	drive = mmap(NULL, DRIVE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(drive, MAP_FAILED);
	at = memmem(drive, DRIVE_BYTES, TEXT TEXT, sizeof(TEXT TEXT) - 1);
	cr_assert_not_null(at);
	*at ^= 1;
	munmap(drive, DRIVE_BYTES);
	close(fd);
}

static void damaged_store(void)
{
	static char bytes[64 << 10];
	struct weka_client *c;

	for (size_t i = 0; i + sizeof(TEXT) < sizeof(bytes); i += sizeof(TEXT) - 1)
		memcpy(bytes + i, TEXT, sizeof(TEXT) - 1);
	rig.cfg.boot = APP_BOOT_FORMAT;
	app_rig_begin(&rig);
	c = app_rig_connect(&rig);
	cr_assert_eq(weka_mkdir(c, "/private", 0700), 0);
	cr_assert_eq(weka_write_file(c, SECRET, bytes, sizeof(bytes), NULL), 0);
	weka_close(c);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
	damage();
	rig.cfg.boot = APP_BOOT_MOUNT;
	app_rig_begin(&rig);
}

/* One connection: the status counts each by itself. */
static struct weka_client *connect_as(const char *id, uint8_t secret)
{
	const struct weka_options one = { .size_bytes = sizeof(one), .lanes = 1 };

	return app_rig_connect_as(&rig, id, secret, &one);
}

static bool is_told(struct weka_client *c, const char *what)
{
	char *text;
	bool told;

	cr_assert_eq(weka_status(c, &text), 0, "%s", weka_error(c));
	told = strstr(text, what) != NULL;
	free(text);
	return told;
}

Test(app_status, who_may_not_see_a_file_is_not_told_its_name)
{
	struct weka_client *admin, *ann, *super;

	damaged_store();
	admin = app_rig_connect(&rig);
	ann = connect_as("ann", 1);
	super = connect_as("super", 2);
	for (int i = 0; i < 1000 && !is_told(admin, "last_found"); i++)
		usleep(10000);
	cr_assert(is_told(admin, SECRET)); /* ... on whatever core he is */
	cr_assert(is_told(super, SECRET));
	cr_assert(is_told(admin, image));
	cr_assert(is_told(admin, "\"key\":\"ann\",\"peer\":\"127.0.0.1:"));
	cr_assert(is_told(admin, "\"clients_left_out\":0"));
	cr_assert(is_told(ann, "\"bad_blocks\":1"));
	cr_assert_not(is_told(ann, "\"peer\""), "nor who is there");
	cr_assert_not(is_told(ann, "last_found"));
	cr_assert_not(is_told(ann, SECRET));
	cr_assert_not(is_told(ann, image));
	weka_close(super);
	weka_close(ann);
	weka_close(admin);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

Test(app_status, what_is_not_there_is_no_error)
{
	struct app_core_stat before, after;
	struct weka_client *c;
	struct weka_attr attr;

	rig.cfg.boot = APP_BOOT_FORMAT;
	app_rig_begin(&rig);
	c = app_rig_connect(&rig);
	app_rig_stat(&rig, &before);
	cr_assert_eq(weka_stat(c, "/nothing", &attr), -ENOENT);
	cr_assert_eq(weka_unlink(c, "/nothing"), -ENOENT);
	app_rig_stat(&rig, &after);
	cr_assert_eq(after.not_found - before.not_found, 2);
	cr_assert_eq(after.errors, before.errors);
	weka_close(c);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

/* Returns the connection of `key` in the status; each client has one lane. */
static json_t *client_of(struct weka_client *c, json_t **status, const char *key)
{
	json_t *each;
	char *text;
	size_t i;

	cr_assert_eq(weka_status(c, &text), 0, "%s", weka_error(c));
	*status = json_loads(text, 0, NULL);
	free(text);
	cr_assert_not_null(*status);
	json_array_foreach(json_object_get(*status, "clients"), i, each)
	{
		if (strcmp(json_string_value(json_object_get(each, "key")), key) == 0)
			return each;
	}
	return NULL;
}

static json_int_t figure(const json_t *of, const char *key)
{
	cr_assert(json_is_integer(json_object_get(of, key)), "%s", key);
	return json_integer_value(json_object_get(of, key));
}

Test(app_status, each_connection_has_its_own_counters)
{
	static char bytes[20000];
	struct weka_client *admin, *super;
	json_t *status, *of;
	void *read;
	size_t size;

	rig.cfg.boot = APP_BOOT_FORMAT;
	app_rig_begin(&rig);
	admin = app_rig_connect(&rig);
	super = connect_as("super", 2);
	cr_assert_eq(weka_write_file(super, "/a", bytes, sizeof(bytes), NULL), 0);
	cr_assert_eq(weka_read_file(super, "/a", &read, &size), 0, "%s", weka_error(super));
	free(read);
	of = client_of(admin, &status, "super");
	cr_assert_not_null(of);
	cr_assert_eq(figure(of, "written_bytes"), 20000);
	cr_assert_eq(figure(of, "read_bytes"), 20000);
	cr_assert_geq(figure(of, "requests"), 2);
	cr_assert_eq(figure(of, "running"), 0);
	cr_assert_gt(figure(of, "credits"), 0);
	json_decref(status);
	weka_close(super);
	for (int i = 0; i < 1000; i++) { /* its end is heard of a moment later */
		of = client_of(admin, &status, "super");
		json_decref(status);
		if (!of)
			break;
		usleep(10000);
	}
	cr_assert_null(of, "its place is free");
	super = connect_as("super", 2);
	of = client_of(admin, &status, "super");
	cr_assert_eq(figure(of, "written_bytes"), 0, "a new one begins at nothing");
	json_decref(status);
	weka_close(super);
	weka_close(admin);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}
