/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The configuration: what is refused, and that the line which says so names file, line and key. */
#define _GNU_SOURCE /* asprintf */
#include "appliance/conf/app_conf.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENOUGH "drive = mem:64M\nlisten = shm:/run/w.sock\nkey_file = /etc/k\n"

static struct app_conf c;
static char why[APP_CONF_WHY];

static int parse(const char *text)
{
	why[0] = '\0';
	return app_conf_parse(&c, "w.conf", text, strlen(text), why);
}

TestSuite(app_conf, .timeout = 10);

Test(app_conf, little_is_enough_and_the_rest_has_defaults)
{
	cr_assert_eq(parse(ENOUGH), 0, "%s", why);
	cr_assert_eq(c.ndrives, 1);
	cr_assert_str_eq(c.drive[0], "mem:64M");
	cr_assert_str_eq(c.key_id, "weka");
	cr_assert_eq(c.cache_bytes, 256u << 20);
	cr_assert_eq(c.core, APP_CORE_AUTO);
}

Test(app_conf, units_are_understood)
{
	cr_assert_eq(parse(ENOUGH
			   "cache = 1G\nstaging=32M ; a comment\nspin_max = 2ms\ncore = none\n"
			   "\n# another\n   ops_max = 64\n"),
		     0, "%s", why);
	cr_assert_eq(c.cache_bytes, 1ull << 30);
	cr_assert_eq(c.staging_bytes, 32u << 20);
	cr_assert_eq(c.spin_max_us, 2000);
	cr_assert_eq(c.core, APP_CORE_NONE);
	cr_assert_eq(c.ops_max, 64, "an indented line is a line of its own");
}

static const struct {
	const char *text;
	const char *why;
} refused[] = {
	{ ENOUGH "cache = 3Q\n", "w.conf:4: cache = 3Q: allowed is 4M to 1T" },
	{ ENOUGH "\ncache = 1K\n", "w.conf:5: cache = 1K: allowed" },
	{ ENOUGH "cache = -1\n", "w.conf:4: cache" },
	{ ENOUGH "cache = 99999999999999999999G\n", "w.conf:4: cache" },
	{ ENOUGH "ops_max = 3\n", "w.conf:4: ops_max = 3: allowed is 4 to 4096" },
	{ ENOUGH "ops_max = 8x\n", "w.conf:4: ops_max" },
	{ ENOUGH "shards = 48\n", "w.conf:4: shards = 48: allowed is 1 to 4096, a power of two" },
	{ ENOUGH "spin_max = 2m\n", "w.conf:4: spin_max" },
	{ ENOUGH "cahce = 1G\n", "w.conf:4: cahce: no such key" },
	{ ENOUGH "[drives]\nx = 1\n", "w.conf:5: [drives]: sections are not allowed" },
	{ ENOUGH "cache = 64M\ncache = 64M\n", "w.conf:5: cache: given before, in line 4" },
	{ ENOUGH "what\n", "w.conf:4: not a line of the form" },
	{ ENOUGH "drive = nvme:0\n", "w.conf:4: drive = nvme:0: unknown kind" },
	{ ENOUGH "drive = file:/x\n", "w.conf:4: drive: mem: drives" },
	{ "drive=file:/x\ndrive=file:/x\n", "w.conf:2: drive = file:/x: named twice" },
	{ ENOUGH "listen = tcp://storage-7:7010\n",
	  "w.conf:4: listen = \"tcp://storage-7:7010\": a host is an IPv4 address" },
	{ ENOUGH "listen = http://0.0.0.0:80\n",
	  "w.conf:4: listen = \"http://0.0.0.0:80\": an ad" },
	{ ENOUGH "listen = tcp://127.0.0.1:70100\n", "w.conf:4: listen" },
	{ ENOUGH "anonymous = on\n", "w.conf:4: anonymous = on: allowed is none, read, write, " },
	{ ENOUGH "anonymous = all of it\n",
	  "w.conf:4: anonymous: allowed are none, read, write, " },
	{ ENOUGH "anonymous_from = a\n",
	  "w.conf:4: anonymous_from = a: allowed is loopback or any" },
	{ ENOUGH "tls = maybe\n", "w.conf:4: tls: allowed are off and required" },
	{ ENOUGH "deallocate = some\n", "w.conf:4: deallocate: allowed are own, all and none" },
	{ ENOUGH "listen = rdma://x\n", "w.conf:4: listen" },
	{ ENOUGH "domain = shelf one\n",
	  "w.conf:4: domain = shelf one: allowed are 1 to 31 letters" },
	{ ENOUGH "domain = 12345678901234567890123456789012\n", "w.conf:4: domain = 1234567" },
	{ ENOUGH "domain =\n", "w.conf:4: domain = : allowed are" },
	{ "listen = shm:/x\nkey_file = /k\n", "w.conf: drive: not given" },
	{ "drive = mem:64M\nkey_file = /k\n", "w.conf: listen: not given" },
	{ "drive = mem:64M\nlisten = shm:/x\n",
	  "w.conf: key_file: not given, and neither is key_dir" },
	{ ENOUGH "pools_max = 64M\nsession_pools_max = 128M\n",
	  "w.conf:5: session_pools_max: more" },
	{ ENOUGH "window_max = 5000001\n", "w.conf:4: window_max: not a multiple" },
};

Test(app_conf, each_mistake_is_named_with_file_line_and_key)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		cr_expect_eq(parse(refused[i].text), -EINVAL, "%s", refused[i].why);
		cr_expect_eq(strncmp(why, refused[i].why, strlen(refused[i].why)), 0,
			     "\"%s\" is not \"%s...\"", why, refused[i].why);
	}
}

Test(app_conf, a_line_that_would_be_cut_is_refused)
{
	char text[600];

	snprintf(text, sizeof(text), "key_file = /%0400d\n", 0);
	cr_assert_eq(parse(text), -EINVAL);
	cr_assert(strstr(why, "w.conf:1: a line of 412 characters"), "%s", why);
}

Test(app_conf, a_nul_byte_is_refused)
{
	cr_assert_eq(app_conf_parse(&c, "w.conf", "drive\0 = x\n", 11, why), -EINVAL);
	cr_assert(strstr(why, "w.conf:1: a NUL byte"), "%s", why);
}

Test(app_conf, each_key_of_few_values_lists_them)
{
	static const char *const lines[] = {
		"\n# none, read, write, read:/PATH or write:/PATH\nanonymous = none\n",
		"\n# loopback or any\nanonymous_from = loopback\n",
		"\n# off or required\ntls = off\n",
		"\n# own, all or none\ndeallocate = own\n",
	};
	size_t size_bytes;
	char *text;
	FILE *f = open_memstream(&text, &size_bytes);

	app_conf_print(f);
	fclose(f);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		cr_expect_not_null(strstr(text, lines[i]), "%s is not in %s", lines[i], text);
	free(text);
}

Test(app_conf, what_it_prints_it_reads)
{
	char *text, *more;
	size_t size_bytes;
	FILE *f = open_memstream(&text, &size_bytes);

	app_conf_print(f);
	fclose(f);
	cr_assert_gt(asprintf(&more, ENOUGH "%s", text), 0);
	cr_assert_eq(parse(more), 0, "%s", why);
	free(text);
	free(more);
}

Test(app_conf, a_key_that_others_may_read_is_refused)
{
	char path[] = "/tmp/weka-test-key-XXXXXX";
	int fd = mkstemp(path);
	uint8_t key[APP_KEY_BYTES];
	const char *digits = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF\n";

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, digits, strlen(digits)), (ssize_t)strlen(digits));
	app_conf_defaults(&c);
	snprintf(c.key_file, sizeof(c.key_file), "%s", path);
	cr_expect_eq(app_conf_read_key(&c, key, why), 0, "%s", why);
	cr_expect_eq(key[1], 0x11);
	cr_expect_eq(key[31], 0xff);
	cr_expect_eq(pwrite(fd, "me:", 3, 0) == 3 && pwrite(fd, digits, 65, 3) == 65, 1);
	cr_expect_eq(app_conf_read_key(&c, key, why), 0, "%s", why);
	cr_expect_str_eq(c.key_id, "me");
	cr_expect_eq(key[2], 0x22);
	c.line[APP_CONF_KEY_ID] = 3;
	c.key_id[0] = 'w';
	cr_expect_eq(app_conf_read_key(&c, key, why), -EKEYREJECTED);
	c.line[APP_CONF_KEY_ID] = 0;
	cr_expect_eq(pwrite(fd, "@root:", 6, 0) == 6 && pwrite(fd, digits, 65, 6) == 65, 1);
	cr_expect_eq(app_conf_read_key(&c, key, why), -EINVAL); /* root's needs no file */
	cr_expect_eq(fchmod(fd, 0640), 0);
	cr_expect_eq(app_conf_read_key(&c, key, why), -EACCES);
	cr_expect(strstr(why, "chmod 600"), "%s", why);
	cr_expect_eq(fchmod(fd, 0600) | ftruncate(fd, 63), 0);
	cr_expect_eq(app_conf_read_key(&c, key, why), -EINVAL);
	cr_expect_not(strstr(why, "0011"), "the key stays out of messages");
	unlink(path);
	cr_expect_eq(app_conf_read_key(&c, key, why), -ENOENT);
	cr_expect(strstr(why, "type: wekactl keys init"), "%s", why);
}

Test(app_conf, the_example_is_one)
{
	FILE *f = fopen("appliance/host/weka-appliance.conf.example", "r");
	static char text[APP_CONF_FILE_MAX];

	cr_assert(f, "run in the top directory");
	cr_assert_gt(fread(text, 1, sizeof(text) - 1, f), 0);
	fclose(f);
	cr_assert_eq(parse(text), 0, "%s", why);
	cr_assert_eq(c.ndrives, 2);
	for (char *p = text; (p = strstr(p, "\n#")); p++)
		if (p[2] != ' ')
			p[1] = ' '; /* and so is what it shows as defaults */
	cr_assert_eq(parse(text), 0, "%s", why);
}

/* Comments of several lines become one line. */
static void join_lines(char *text)
{
	char *to = text;

	for (const char *p = text; *p;) {
		if (strncmp(p, "\n# ", 3) == 0 && to > text && to[-1] != '\n') {
			*to++ = ' ';
			p += 3;
		} else {
			*to++ = *p++;
		}
	}
	*to = '\0';
}

Test(app_conf, the_example_says_of_each_key_what_config_keys_does)
{
	static char example[APP_CONF_FILE_MAX];
	FILE *f = fopen("appliance/host/weka-appliance.conf.example", "r");
	char *keys = NULL, *save;
	uint32_t count = 0;
	size_t size;

	cr_assert(f, "run in the top directory");
	cr_assert_gt(fread(example, 1, sizeof(example) - 1, f), 0);
	fclose(f);
	f = open_memstream(&keys, &size);
	app_conf_print(f);
	fclose(f);
	join_lines(example);
	join_lines(keys);
	for (char *line = strtok_r(keys, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *said = strstr(line, "# ");

		if (!said)
			continue;
		cr_expect(strstr(example, said + 2), "%s", line);
		count++;
	}
	cr_assert_eq(count, APP_CONF_KEYS);
	free(keys);
}

/* ---- failure domains ----------------------------------------------------------------- */

#define LONG_NAME "file:/a/name/that/is/longer/than/what/a/store/keeps/d7"

Test(app_conf, drives_are_in_the_domain_above_them)
{
	static const struct {
		const char *drive, *domain;
	} of[] = {
		{ "file:/0", "" },
		{ "file:/1", "a" },
		{ "file:/2", "a" },
		{ LONG_NAME, "b.2" },
		{ "...hat/a/store/keeps/d7", "b.2" },
		{ "...hat/a/store/keeps/d8", "" },
		{ "file:/3", "" },
		{ "file:/4", "a" },
		{ "file:/5", "" },
	};

	cr_assert_eq(parse("drive = file:/0\ndomain = a\ndrive = file:/1\ndrive = file:/2\n"
			   "domain = b.2\ndrive = " LONG_NAME "\ndomain = none\ndrive = file:/3\n"
			   "domain = a\ndrive = file:/4\nlisten = shm:/x\nkey_file = /k\n"),
		     0, "%s", why);
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		cr_assert_str_eq(
			app_domains_name(&c.domains, app_domains_of(&c.domains, of[i].drive)),
			of[i].domain, "%s", of[i].drive);
}

Test(app_conf, domains_differ_by_name_and_not_by_number)
{
	struct app_domains a = { 0 }, b = { 0 };
	uint32_t number = 0;

	cr_assert(app_domains_number(&a, "x", &number));
	app_domains_put(&a, "file:/1", number);
	cr_assert(app_domains_number(&b, "y", &number) && app_domains_number(&b, "x", &number));
	app_domains_put(&b, "file:/1", number);
	cr_assert(!app_domains_differ(&a, &b));
	app_domains_put(&b, "file:/2", number);
	cr_assert(app_domains_differ(&a, &b) && app_domains_differ(&b, &a));
	app_domains_put(&b, "file:/2", 0);
	cr_assert(!app_domains_differ(&a, &b));
	app_domains_put(&b, "file:/1", 1);
	cr_assert(app_domains_differ(&a, &b));
}

Test(app_conf, more_domains_than_drives_are_refused)
{
	struct app_domains d = { 0 };
	uint32_t number;
	char name[8];

	for (uint32_t i = 0; i < APP_CONF_DRIVES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "d%u", i);
		cr_assert(app_domains_number(&d, name, &number));
		cr_assert_eq(number, i + 1);
	}
	cr_assert(!app_domains_number(&d, "more", &number));
	cr_assert(app_domains_number(&d, "d3", &number));
	cr_assert_eq(number, 4);
}
