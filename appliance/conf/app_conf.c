/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The configuration file, by libinih: lines of "key = value", no sections, comments behind
 * '#' or ';' at the start of a line, or behind " ;".
 *
 * One table describes each key; parsing, messages, defaults and app_conf_print() all use it.
 * libinih's handler does not get the line number, so the reader that passes it lines counts them;
 * the reader also refuses lines that libinih would silently truncate (a long line) or append to the
 * key before (an indented line).
 */
#include "appliance/conf/app_conf.h"
#include "appliance/conf/app_keys.h"
#include "base/num.h"
#include "fabric/fab.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define TIB (1ull << 40)

enum kind {
	KIND_DRIVE,
	KIND_DOMAIN,
	KIND_LISTEN,
	KIND_TEXT,
	KIND_CORE,
	KIND_AUTO, /* a count, or auto */
	KIND_COUNT,
	KIND_POW2,
	KIND_BYTES,
	KIND_US
};

struct key {
	const char *name;
	enum kind kind;
	size_t at; /* of its field in struct app_conf */
	uint64_t min, max, usual;
	const char *meaning;
	const char *values; /* NULL: any text or number within min and max */
};

#define AT(field) offsetof(struct app_conf, field)

static const struct key keys[APP_CONF_KEYS] = {
	[APP_CONF_DRIVE] = { "drive", KIND_DRIVE, 0, 0, 0, 0,
			     "pci:ADDRESS, vfio-user:SOCKET, file:PATH or mem:SIZE; "
			     "a line for each",
			     NULL },
	[APP_CONF_DOMAIN] = { "domain", KIND_DOMAIN, 0, 1, APP_DOMAIN_MAX - 1, 0,
			      "failure domain of the drives below it: they count as one; none: of "
			      "each its own",
			      NULL },
	[APP_CONF_ALLOW_MISSING] = { "allow_missing", KIND_TEXT, AT(allow_missing), 1,
				     APP_CONF_TEXT_MAX - 1, 0,
				     "lost drives, by their numbers, such as 1,3, or one by its "
				     "name; a store of one copy is then served read only",
				     NULL },
	[APP_CONF_LISTEN] = { "listen", KIND_LISTEN, 0, 0, 0, 0,
			      "shm:/PATH, rdma://HOST:PORT or tcp://HOST:PORT, "
			      "HOST a number; one a line",
			      NULL },
	[APP_CONF_SHM_MODE] = { "shm_mode", KIND_TEXT, AT(shm_mode), 3, 4, 0,
				"permission bits of the sockets of shm: addresses; clients write",
				NULL },
	[APP_CONF_SHM_GROUP] = { "shm_group", KIND_TEXT, AT(shm_group), 1, APP_CONF_TEXT_MAX - 1, 0,
				 "group of those sockets, a name or number; default: the process's",
				 NULL },
	[APP_CONF_SHM_USERS] = { "shm_users", KIND_TEXT, AT(shm_users), 1, APP_CONF_TEXT_MAX - 1, 0,
				 "users that may connect there besides root and the appliance's, "
				 "with commas; default: all that the mode allows",
				 NULL },
	[APP_CONF_KEY_ID] = { "key_id", KIND_TEXT, AT(key_id), 1, 31, 0,
			      "name of the key that clients prove", NULL },
	[APP_CONF_KEY_FILE] = { "key_file", KIND_TEXT, AT(key_file), 1, APP_CONF_TEXT_MAX - 1, 0,
				"file of that key: 64 hexadecimal digits, optionally after ID:; "
				"the key may do everything",
				NULL },
	[APP_CONF_KEY_DIR] = { "key_dir", KIND_TEXT, AT(key_dir), 1, APP_CONF_TEXT_MAX - 1, 0,
			       "directory of more keys, each with its rights: wekactl keys", NULL },
	[APP_CONF_KEYS_MAX] = { "keys_max", KIND_COUNT, AT(keys_max), 1, APP_KEYS_MAX, 256,
				"keys at once", NULL },
	[APP_CONF_ANONYMOUS] = { "anonymous", KIND_TEXT, AT(anonymous), 4, APP_CONF_TEXT_MAX - 1, 0,
				 "rights of clients without a key; none: they are refused",
				 "none, read, write, read:/PATH or write:/PATH" },
	[APP_CONF_ANONYMOUS_FROM] = { "anonymous_from", KIND_TEXT, AT(anonymous_from), 3, 8, 0,
				      "where such clients may connect from; loopback: this "
				      "machine only",
				      "loopback or any" },
	[APP_CONF_TLS] = { "tls", KIND_TEXT, AT(tls), 3, 8, 0,
			   "required: TCP is within TLS 1.3, clients use tls://HOST:PORT",
			   "off or required" },
	[APP_CONF_METRICS] = { "metrics", KIND_TEXT, AT(metrics), 0, APP_CONF_TEXT_MAX - 1, 0,
			       "HOST:PORT where metrics and the page are served over HTTP; none if "
			       "not given",
			       NULL },
	[APP_CONF_METRICS_TOKEN] = { "metrics_token_file", KIND_TEXT, AT(metrics_token_file), 1,
				     APP_CONF_TEXT_MAX - 1, 0,
				     "file with the token that is asked for there; must be given "
				     "unless HOST is loopback",
				     NULL },
	[APP_CONF_CORE] = { "core", KIND_CORE, AT(core), 0, 1023, APP_CORE_AUTO,
			    "CPU of the first polling thread, the others below it; "
			    "auto: the highest; none: not pinned",
			    NULL },
	[APP_CONF_CORES] = { "cores", KIND_COUNT, AT(cores), 1, APP_CORES_MAX, 1,
			     "polling threads; clients are spread over them", NULL },
	[APP_CONF_SPIN] = { "spin_max", KIND_US, AT(spin_max_us), 0, 1000000, 200,
			    "longest polling without work before the thread sleeps", NULL },
	[APP_CONF_MEMORY_MAX] = { "memory_max", KIND_BYTES, AT(memory_max_bytes), 64 * MIB,
				  16 * TIB, 16 * TIB,
				  "all memory together, whatever the number of clients; limits "
				  "that add up to more are refused",
				  NULL },
	[APP_CONF_CACHE] = { "cache", KIND_BYTES, AT(cache_bytes), 4 * MIB, TIB, 256 * MIB,
			     "pages of the store's index in memory", NULL },
	[APP_CONF_STAGING] = { "staging", KIND_BYTES, AT(staging_bytes), 16 * MIB, 64 * GIB,
			       64 * MIB, "payload in transit: writes, and reads over TCP", NULL },
	[APP_CONF_POOLS] = { "pools_max", KIND_BYTES, AT(pools_max_bytes), 2 * MIB, TIB, 4 * GIB,
			     "memory shared with all clients of this host together", NULL },
	[APP_CONF_SESSION_POOLS] = { "session_pools_max", KIND_BYTES, AT(session_pools_max_bytes),
				     2 * MIB, TIB, GIB, "memory shared with one client", NULL },
	[APP_CONF_WINDOW_MAX] = { "window_max", KIND_BYTES, AT(window_max_bytes),
				  4 * MIB + 64 * KIB, 64 * MIB, 64 * MIB,
				  "landing or payload window of one request", NULL },
	[APP_CONF_OPS_MAX] = { "ops_max", KIND_COUNT, AT(ops_max), 4, 4096, 128,
			       "operations that run at once; each needs its share of the cache",
			       NULL },
	[APP_CONF_CREDITS] = { "credits", KIND_COUNT, AT(credits), 1, 1024, 64,
			       "requests that one client may have in flight", NULL },
	[APP_CONF_SESSIONS_MAX] = { "sessions_max", KIND_COUNT, AT(sessions_max), 1, 4096, 64,
				    "connections of all clients at once", NULL },
	[APP_CONF_LANES_MAX] = { "lanes_max", KIND_COUNT, AT(lanes_max), 1, FAB_LANES_MAX, 4,
				 "connections of one client, to several cores or links; beyond "
				 "the first they leave a quarter of sessions_max free",
				 NULL },
	[APP_CONF_LONG_BODIES] = { "long_bodies", KIND_COUNT, AT(long_bodies), 1, 1024, 16,
				   "requests with long lists of names at once, 256 KiB each",
				   NULL },
	[APP_CONF_BATCH_MAX] = { "batch_max", KIND_COUNT, AT(batch_max), 1, 1024, 1024,
				 "items of one request", NULL },
	[APP_CONF_BATCH_IN_FLIGHT] = { "batch_in_flight", KIND_COUNT, AT(batch_in_flight), 1, 1024,
				       64, "items of one request that run at once", NULL },
	[APP_CONF_OPEN_PUTS_MAX] = { "open_puts_max", KIND_COUNT, AT(open_puts_max), 1, 65536, 256,
				     "files of more than 4 MiB being put at once", NULL },
	[APP_CONF_OPENS_MAX] = { "opens_max", KIND_COUNT, AT(opens_max), 16, 1 << 20, 16384,
				 "files that clients may have open on one core", NULL },
	[APP_CONF_QUEUE_DEPTH] = { "queue_depth", KIND_COUNT, AT(queue_depth), 64, 4096, 256,
				   "commands in flight on one drive", NULL },
	[APP_CONF_QUEUE_MAX] = { "queue_max", KIND_COUNT, AT(queue_max), 16, 1 << 20,
				 APP_QUEUE_DEFAULT,
				 "requests that wait on one core; a client beyond its share is "
				 "told to wait and come again",
				 NULL },
	[APP_CONF_DRIVE_TIMEOUT] = { "drive_timeout", KIND_US, AT(drive_timeout_us), 100000,
				     600000000, 10000000,
				     "longest a command to pci: or vfio-user: may take; then it is "
				     "aborted, or the drive reset",
				     NULL },
	[APP_CONF_HEDGE] = { "hedge_reads", KIND_COUNT, AT(hedge_reads), 0, 1000, 8,
			     "multiple of usual latency: later reads are hedged; 0: none", NULL },
	[APP_CONF_SCRUB] = { "scrub_bytes_per_second", KIND_BYTES, AT(scrub_rate), 0, 64 * GIB,
			     16 * MIB, "read by the scrub, which looks for damage; 0: no scrub",
			     NULL },
	[APP_CONF_REBUILD] = { "rebuild_bytes_per_second", KIND_BYTES, AT(rebuild_rate), 0, TIB, 0,
			       "moved from drives that are lost or drained; 0: no limit", NULL },
	[APP_CONF_SPARE] = { "spare_percent", KIND_COUNT, AT(spare_percent), 0, 50, 9,
			     "of the drives, kept free of files, so that collection moves less "
			     "where files change all the time",
			     NULL },
	[APP_CONF_SPARE_DRIVES] = { "spare_drives", KIND_AUTO, AT(spare_drives), 0, 8, APP_AUTO,
				    "drives for whose rebuild files leave room on the others; "
				    "auto: 1 with several copies and more drives than that, else 0",
				    NULL },
	[APP_CONF_DEALLOCATE] = { "deallocate", KIND_TEXT, AT(deallocate), 3, 8, 0,
				  "drives that receive deallocate commands; own: no files, and no "
				  "drives whose freed space others may take",
				  "own, all or none" },
	[APP_CONF_SHARDS] = { "shards", KIND_POW2, AT(shards), 1, 4096, 64,
			      "shards of a store on mem: drives, which is formatted at each start",
			      NULL },
	[APP_CONF_PROTECT] = { "protect", KIND_TEXT, AT(protect), 3, 6, 0,
			       "of a store on mem: drives; mirror, 4+1: one may be lost; 4+2: two",
			       "none, mirror, 2+1 ... 10+1, or 1+2 ... 10+2" },
};

struct parser {
	struct app_conf *c;
	uint32_t domain; /* of the drives that follow; 0: of each its own */
	const char *text;
	size_t size_bytes;
	size_t at;
	uint32_t line;
	bool failed; /* why is written: the first problem wins */
	char *why;
};

__attribute__((format(printf, 2, 3))) static void fail(struct parser *p, const char *fmt, ...)
{
	va_list args;
	int n;

	if (p->failed)
		return;
	p->failed = true;
	n = snprintf(p->why, APP_CONF_WHY, "%s:%u: ", p->c->file, p->line);
	va_start(args, fmt);
	vsnprintf(p->why + n, APP_CONF_WHY - (size_t)n, fmt, args);
	va_end(args);
}

/* ---- values ------------------------------------------------------------------- */

/* The number at the start of `text`, and where it ends; no sign, no blanks. */
static int parse_number(const char *text, uint64_t *out, const char **end)
{
	char *stop;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	*out = strtoull(text, &stop, 10);
	*end = stop;
	return errno ? -EINVAL : 0;
}

int app_conf_parse_size(const char *text, uint64_t *out)
{
	static const char suffix[] = "KMGT";
	const char *end, *s;
	uint64_t unit = 1;

	if (parse_number(text, out, &end))
		return -EINVAL;
	if (*end) {
		s = strchr(suffix, toupper((unsigned char)*end));
		if (!s || end[1])
			return -EINVAL;
		unit = 1ull << 10 * (s - suffix + 1);
	}
	return mul_overflows(*out, unit, out) ? -EINVAL : 0;
}

/* "200us", "5ms", "1s"; a bare number is microseconds. */
static int parse_us(const char *text, uint64_t *out)
{
	const char *end;
	uint64_t unit;

	if (parse_number(text, out, &end))
		return -EINVAL;
	if (!*end || strcmp(end, "us") == 0)
		unit = 1;
	else if (strcmp(end, "ms") == 0)
		unit = 1000;
	else if (strcmp(end, "s") == 0)
		unit = 1000000;
	else
		return -EINVAL;
	return mul_overflows(*out, unit, out) ? -EINVAL : 0;
}

static void size_text(char *out, size_t out_size, uint64_t bytes)
{
	static const char suffix[] = "\0KMGT";
	int i = 0;

	while (i < 4 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		i++;
	}
	snprintf(out, out_size, "%llu%.1s", (unsigned long long)bytes, &suffix[i]);
}

static void us_text(char *out, size_t out_size, uint64_t us)
{
	if (us && us % 1000000 == 0)
		snprintf(out, out_size, "%llus", (unsigned long long)us / 1000000);
	else if (us && us % 1000 == 0)
		snprintf(out, out_size, "%llums", (unsigned long long)us / 1000);
	else
		snprintf(out, out_size, "%lluus", (unsigned long long)us);
}

/* Writes a key's allowed values, for people: "16M to 64G (bytes, or with K, M, G, T)". */
static void range_text(char *out, size_t out_size, const struct key *k)
{
	char min[32], max[32];

	switch (k->kind) {
	case KIND_BYTES:
		size_text(min, sizeof(min), k->min);
		size_text(max, sizeof(max), k->max);
		snprintf(out, out_size, "%s to %s (bytes, or with K, M, G, T)", min, max);
		return;
	case KIND_US:
		us_text(min, sizeof(min), k->min);
		us_text(max, sizeof(max), k->max);
		snprintf(out, out_size, "%s to %s (us, ms or s)", min, max);
		return;
	case KIND_COUNT:
		snprintf(out, out_size, "%llu to %llu", (unsigned long long)k->min,
			 (unsigned long long)k->max);
		return;
	case KIND_POW2:
		snprintf(out, out_size, "%llu to %llu, a power of two", (unsigned long long)k->min,
			 (unsigned long long)k->max);
		return;
	case KIND_CORE:
		snprintf(out, out_size, "auto, none, or %llu to %llu", (unsigned long long)k->min,
			 (unsigned long long)k->max);
		return;
	case KIND_AUTO:
		snprintf(out, out_size, "auto, or %llu to %llu", (unsigned long long)k->min,
			 (unsigned long long)k->max);
		return;
	case KIND_TEXT:
		if (k->values) {
			snprintf(out, out_size, "%s", k->values);
			return;
		}
		snprintf(out, out_size, "%llu to %llu characters", (unsigned long long)k->min,
			 (unsigned long long)k->max);
		return;
	case KIND_DRIVE:
		snprintf(out, out_size, "1 to %u of them", APP_CONF_DRIVES_MAX);
		return;
	case KIND_DOMAIN:
		snprintf(out, out_size, "1 to %u letters, digits and - _ . :", APP_DOMAIN_MAX - 1);
		return;
	case KIND_LISTEN:
		snprintf(out, out_size, "1 to %u of them", APP_CONF_LISTEN_MAX);
		return;
	}
	UNREACHABLE();
}

static int number_of_kind(enum kind kind, const char *value, uint64_t *out)
{
	const char *end;
	int err;

	switch (kind) {
	case KIND_BYTES:
		return app_conf_parse_size(value, out);
	case KIND_US:
		return parse_us(value, out);
	case KIND_COUNT:
	case KIND_POW2:
	case KIND_CORE:
	case KIND_AUTO:
		err = parse_number(value, out, &end);
		return err || *end ? -EINVAL : 0;
	case KIND_TEXT:
	case KIND_DRIVE:
	case KIND_DOMAIN:
	case KIND_LISTEN:
		break;
	}
	UNREACHABLE();
}

static void take_number(struct parser *p, const struct key *k, const char *value)
{
	uint64_t *field = (uint64_t *)(void *)((char *)p->c + k->at), number;
	char range[96];

	if ((k->kind == KIND_CORE || k->kind == KIND_AUTO) && strcmp(value, "auto") == 0) {
		*field = APP_AUTO;
		return;
	}
	if (k->kind == KIND_CORE && strcmp(value, "none") == 0) {
		*field = APP_CORE_NONE;
		return;
	}
	if (number_of_kind(k->kind, value, &number) || number < k->min || number > k->max ||
	    (k->kind == KIND_POW2 && !is_pow2(number))) {
		range_text(range, sizeof(range), k);
		fail(p, "%s = %s: allowed is %s", k->name, value, range);
		return;
	}
	*field = number;
}

static void take_text(struct parser *p, const struct key *k, const char *value)
{
	char range[96];

	if (strlen(value) < k->min || strlen(value) > k->max) {
		range_text(range, sizeof(range), k);
		fail(p, "%s = %s: allowed %s %s", k->name, value, k->values ? "is" : "are", range);
		return;
	}
	memcpy((char *)p->c + k->at, value, strlen(value) + 1);
}

static void take_drive(struct parser *p, const char *value)
{
	struct app_conf *c = p->c;

	if (strncmp(value, "file:", 5) != 0 && strncmp(value, "mem:", 4) != 0 &&
	    strncmp(value, "pci:", 4) != 0 && strncmp(value, "vfio-user:", 10) != 0) {
		fail(p,
		     "drive = %s: unknown kind of drive; allowed are pci:ADDRESS, "
		     "vfio-user:SOCKET, file:PATH and mem:SIZE",
		     value);
		return;
	}
	for (uint32_t i = 0; i < c->ndrives; i++) {
		if (strncmp(value, "mem:", 4) != 0 && strcmp(c->drive[i], value) == 0) {
			fail(p, "drive = %s: named twice", value);
			return;
		}
	}
	if (c->ndrives == APP_CONF_DRIVES_MAX) {
		fail(p, "drive = %s: at most %u drives", value, APP_CONF_DRIVES_MAX);
		return;
	}
	memcpy(c->drive[c->ndrives++], value, strlen(value) + 1);
	app_domains_put(&c->domains, value, p->domain);
}

static void take_domain(struct parser *p, const struct key *k, const char *value)
{
	char range[96];

	p->domain = 0;
	if (strcmp(value, "none") == 0 || app_domains_number(&p->c->domains, value, &p->domain))
		return;
	range_text(range, sizeof(range), k);
	fail(p, "%s = %s: allowed are %s", k->name, value, range);
}

static void take_listen(struct parser *p, const char *value)
{
	struct app_conf *c = p->c;
	char why[256];

	if (fab_address_check(value, why)) {
		fail(p, "listen = %s", why);
		return;
	}
	if (c->nlisten == APP_CONF_LISTEN_MAX) {
		fail(p, "listen = %s: at most %u addresses", value, APP_CONF_LISTEN_MAX);
		return;
	}
	memcpy(c->listen[c->nlisten++], value, strlen(value) + 1);
}

/* ---- lines ---------------------------------------------------------------------- */

static int take(void *user, const char *section, const char *name, const char *value)
{
	struct parser *p = user;
	uint32_t i;

	if (p->failed)
		return 1;
	if (*section) {
		fail(p, "[%s]: sections are not allowed", section);
		return 1;
	}
	for (i = 0; i < APP_CONF_KEYS && strcmp(name, keys[i].name) != 0; i++)
		;
	if (i == APP_CONF_KEYS) {
		fail(p, "%s: no such key (weka-appliance --list-keys names them all)", name);
		return 1;
	}
	if (p->c->line[i] && keys[i].kind >= KIND_TEXT) {
		fail(p, "%s: given before, in line %u", name, p->c->line[i]);
		return 1;
	}
	p->c->line[i] = p->line;
	switch (keys[i].kind) {
	case KIND_DRIVE:
		take_drive(p, value);
		break;
	case KIND_DOMAIN:
		take_domain(p, &keys[i], value);
		break;
	case KIND_LISTEN:
		take_listen(p, value);
		break;
	case KIND_TEXT:
		take_text(p, &keys[i], value);
		break;
	default:
		take_number(p, &keys[i], value);
	}
	return 1;
}

/* libinih's fgets(): the next line, without the blanks it begins with. */
static char *next_line(char *out, int out_size, void *user)
{
	struct parser *p = user;
	const char *start = p->text + p->at, *end;
	size_t left = p->size_bytes - p->at, length;

	if (left == 0 || p->failed)
		return NULL;
	end = memchr(start, '\n', left);
	length = end ? (size_t)(end - start) : left;
	p->at += length + (end != NULL);
	p->line++;
	if (memchr(start, '\0', length))
		fail(p, "a NUL byte: this is not a configuration file");
	while (length && (*start == ' ' || *start == '\t')) {
		start++;
		length--;
	}
	if (length + 3 > (size_t)out_size) {
		fail(p, "a line of %zu characters; at most %d are read", length, out_size - 3);
		length = 0;
	}
	memcpy(out, start, length);
	out[length] = '\n';
	out[length + 1] = '\0';
	return out;
}

void app_conf_defaults(struct app_conf *c)
{
	memset(c, 0, sizeof(*c));
	memcpy(c->key_id, "weka", sizeof("weka"));
	memcpy(c->shm_mode, "0600", sizeof("0600"));
	memcpy(c->anonymous, "none", sizeof("none"));
	memcpy(c->anonymous_from, "loopback", sizeof("loopback"));
	memcpy(c->tls, "off", sizeof("off"));
	memcpy(c->deallocate, "own", sizeof("own"));
	memcpy(c->protect, "none", sizeof("none"));
	for (uint32_t i = 0; i < APP_CONF_KEYS; i++)
		if (keys[i].kind >= KIND_CORE)
			*(uint64_t *)(void *)((char *)c + keys[i].at) = keys[i].usual;
}

void app_conf_blame(const struct app_conf *c, enum app_conf_key key, char *why, const char *text)
{
	if (c->line[key])
		snprintf(why, APP_CONF_WHY, "%s:%u: %s: %s", c->file, c->line[key], keys[key].name,
			 text);
	else
		snprintf(why, APP_CONF_WHY, "%s: %s: %s", c->file, keys[key].name, text);
}

bool app_conf_differs(const struct app_conf *a, const struct app_conf *b, enum app_conf_key key)
{
	const char *at_a = (const char *)a + keys[key].at, *at_b = (const char *)b + keys[key].at;

	if (keys[key].kind == KIND_DOMAIN)
		return app_domains_differ(&a->domains, &b->domains);
	if (keys[key].kind == KIND_DRIVE || keys[key].kind == KIND_LISTEN)
		return false;
	if (keys[key].kind == KIND_TEXT)
		return strcmp(at_a, at_b) != 0;
	return memcmp(at_a, at_b, sizeof(uint64_t)) != 0;
}

struct meta_scheme app_conf_scheme(const char *protect)
{
	struct meta_scheme s;

	return meta_scheme_parse(protect, strlen(protect), &s) ? s : (struct meta_scheme){ 0 };
}

enum app_tell app_conf_tell(const struct app_conf *c)
{
	if (strcmp(c->deallocate, "all") == 0)
		return APP_TELL_ALL;
	return strcmp(c->deallocate, "none") == 0 ? APP_TELL_NONE : APP_TELL_OWN;
}

bool app_conf_anonymous(const struct app_conf *c, struct fab_rights *out)
{
	if (app_key_rights_parse(c->anonymous, out))
		return false;
	out->peer = strcmp(c->anonymous_from, "any") != 0 ? FAB_PEER_LOCAL : FAB_PEER_ANY;
	return true;
}

int app_conf_parse(struct app_conf *c, const char *file, const char *text, size_t size_bytes,
		   char *why)
{
	struct parser p = { .c = c, .text = text, .size_bytes = size_bytes, .why = why };
	int err;

	app_conf_defaults(c);
	snprintf(c->file, sizeof(c->file), "%s", file);
	err = ini_parse_stream(next_line, &p, take, &p);
	if (!p.failed && err > 0) {
		p.line = (uint32_t)err;
		fail(&p, "not a line of the form key = value");
	}
	if (p.failed)
		return -EINVAL;
	if (err < 0) {
		snprintf(why, APP_CONF_WHY, "%s: out of memory", c->file);
		return -ENOMEM;
	}
	c->session_pools_max_bytes =
		min_u64(c->session_pools_max_bytes,
			c->line[APP_CONF_SESSION_POOLS] ? UINT64_MAX : c->pools_max_bytes);
	return app_conf_check(c, why);
}

/* ---- files ---------------------------------------------------------------------- */

/* Reads at most size - 1 bytes: an error beyond. */
static int read_whole(int fd, char *out, size_t out_size, size_t *done)
{
	ssize_t n;

	*done = 0;
	while (*done < out_size) {
		n = read(fd, out + *done, out_size - *done);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return 0;
		if (n > 0)
			*done += (size_t)n;
	}
	return -EFBIG;
}

int app_conf_load(struct app_conf *c, const char *path, char *why)
{
	char *text = malloc(APP_CONF_FILE_MAX + 1);
	size_t size_bytes;
	int fd, err;

	if (!text) {
		snprintf(why, APP_CONF_WHY, "%s: out of memory", path);
		return -ENOMEM;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	err = fd < 0 ? -errno : read_whole(fd, text, APP_CONF_FILE_MAX + 1, &size_bytes);
	if (fd >= 0)
		close(fd);
	if (err)
		snprintf(why, APP_CONF_WHY, "%s: %s", path, strerror(-err));
	else
		err = app_conf_parse(c, path, text, size_bytes, why);
	free(text);
	return err;
}

/* "SECRET" or "ID:SECRET", the secret as 64 digits; white space may follow. */
static int parse_key(struct app_conf *c, const char *text, size_t size_bytes,
		     uint8_t key[APP_KEY_BYTES])
{
	const char *colon = memchr(text, ':', size_bytes);
	size_t id_bytes = colon ? (size_t)(colon - text) : 0;

	if (colon) {
		if (id_bytes < keys[APP_CONF_KEY_ID].min || id_bytes > keys[APP_CONF_KEY_ID].max)
			return -EINVAL;
		if (c->line[APP_CONF_KEY_ID] &&
		    (strlen(c->key_id) != id_bytes || memcmp(c->key_id, text, id_bytes) != 0))
			return -EKEYREJECTED;
		memcpy(c->key_id, text, id_bytes);
		c->key_id[id_bytes] = '\0';
		if (app_key_id_reserved(c->key_id))
			return -EINVAL;
		text += id_bytes + 1;
		size_bytes -= id_bytes + 1;
	}
	while (size_bytes && isspace((unsigned char)text[size_bytes - 1]))
		size_bytes--;
	if (size_bytes != 2 * (size_t)APP_KEY_BYTES)
		return -EINVAL;
	for (uint32_t i = 0; i < APP_KEY_BYTES; i++) {
		char two[3] = { text[2 * i], text[2 * i + 1], '\0' };

		if (!isxdigit((unsigned char)two[0]) || !isxdigit((unsigned char)two[1]))
			return -EINVAL;
		key[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	return 0;
}

int app_conf_read_key(struct app_conf *c, uint8_t key[APP_KEY_BYTES], char *why)
{
	char text[256], line[2 * APP_CONF_TEXT_MAX + 128];
	size_t size_bytes = 0;
	struct stat st;
	const char *what = NULL;
	int fd, err;

	fd = open(c->key_file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	err = fd < 0 || fstat(fd, &st) ? -errno : 0;
	if (!err && !S_ISREG(st.st_mode)) {
		err = -EINVAL;
		what = "not a regular file";
	} else if (!err && ((st.st_mode & 077) || (st.st_uid != 0 && st.st_uid != geteuid()))) {
		err = -EACCES;
		what = "not private to its owner (chmod 600, owned by us or root)";
	}
	if (!err)
		err = read_whole(fd, text, sizeof(text), &size_bytes);
	if (!err) {
		err = parse_key(c, text, size_bytes, key);
		what = err == -EKEYREJECTED ? "holds another key than key_id says"
					    : "not a key: 64 hexadecimal digits are needed";
	}
	explicit_bzero(text, sizeof(text));
	if (fd >= 0)
		close(fd);
	if (!err)
		return 0;
	if (err == -EACCES && !what)
		snprintf(line, sizeof(line),
			 "%s: the daemon's user may not read it; type: chown %u %s", c->key_file,
			 geteuid(), c->key_file);
	else
		snprintf(line, sizeof(line), "%s: %s%s", c->key_file, what ? what : strerror(-err),
			 err == -ENOENT ? "; type: wekactl keys init" : "");
	app_conf_blame(c, APP_CONF_KEY_FILE, why, line);
	return err;
}

static const char *text_of(const struct app_conf *c, const struct key *k)
{
	return (const char *)c + k->at;
}

void app_conf_print(FILE *to)
{
	struct app_conf c;
	char range[96], usual[32];

	app_conf_defaults(&c);
	for (uint32_t i = 0; i < APP_CONF_KEYS; i++) {
		const struct key *k = &keys[i];

		range_text(range, sizeof(range), k);
		fprintf(to, "# %s\n# %s\n", k->meaning, range);
		if (k->kind == KIND_BYTES)
			size_text(usual, sizeof(usual), k->usual);
		else if (k->kind == KIND_US)
			us_text(usual, sizeof(usual), k->usual);
		else if (k->usual == APP_AUTO)
			snprintf(usual, sizeof(usual), "auto");
		else
			snprintf(usual, sizeof(usual), "%llu", (unsigned long long)k->usual);
		if (k->kind >= KIND_CORE)
			fprintf(to, "%s = %s\n\n", k->name, usual);
		else if (k->kind == KIND_TEXT && text_of(&c, k)[0])
			fprintf(to, "%s = %s\n\n", k->name, text_of(&c, k));
		else if (i == APP_CONF_KEY_FILE || i == APP_CONF_KEY_DIR)
			fprintf(to, "#%s = (none; one of key_file and key_dir must be given)\n\n",
				k->name);
		else if (k->kind == KIND_TEXT || k->kind == KIND_DOMAIN)
			fprintf(to, "#%s = (none)\n\n", k->name);
		else
			fprintf(to, "#%s = (must be given)\n\n", k->name);
	}
}
