/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The configuration file: every limit of the appliance has a name here, a unit, a range and a
 * default.  The whole file is read and checked before anything else happens.
 */
#ifndef APP_CONF_H
#define APP_CONF_H

#include "appliance/conf/app_domains.h"
#include "base/assert.h"
#include "meta/meta_protect.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define APP_CONF_LISTEN_MAX 8u
#define APP_CONF_FILE_MAX   65536u
#define APP_CONF_WHY        512u /* enough for any line that these calls write */
#define APP_KEY_BYTES       32u
#define APP_TOKEN_MIN       16u
#define APP_TOKEN_MAX       128u
#define APP_CORES_MAX       16u
#define APP_OPS_DEFAULT     128u
#define APP_QUEUE_DEFAULT   4096u
#define APP_AUTO            UINT64_MAX
#define APP_CORE_AUTO       UINT64_MAX       /* the highest-numbered CPU that we may use  */
#define APP_CORE_NONE       (UINT64_MAX - 1) /* not pinned                                */

enum app_conf_key {
	APP_CONF_DRIVE,
	APP_CONF_DOMAIN,
	APP_CONF_ALLOW_MISSING,
	APP_CONF_LISTEN,
	APP_CONF_SHM_MODE,
	APP_CONF_SHM_GROUP,
	APP_CONF_SHM_USERS,
	APP_CONF_KEY_ID,
	APP_CONF_KEY_FILE,
	APP_CONF_KEY_DIR,
	APP_CONF_KEYS_MAX,
	APP_CONF_ANONYMOUS,
	APP_CONF_ANONYMOUS_FROM,
	APP_CONF_TLS,
	APP_CONF_METRICS,
	APP_CONF_METRICS_TOKEN,
	APP_CONF_CORE,
	APP_CONF_CORES,
	APP_CONF_SPIN,
	APP_CONF_MEMORY_MAX,
	APP_CONF_CACHE,
	APP_CONF_STAGING,
	APP_CONF_POOLS,
	APP_CONF_SESSION_POOLS,
	APP_CONF_WINDOW_MAX,
	APP_CONF_OPS_MAX,
	APP_CONF_CREDITS,
	APP_CONF_SESSIONS_MAX,
	APP_CONF_LANES_MAX,
	APP_CONF_LONG_BODIES,
	APP_CONF_BATCH_MAX,
	APP_CONF_BATCH_IN_FLIGHT,
	APP_CONF_OPEN_PUTS_MAX,
	APP_CONF_OPENS_MAX,
	APP_CONF_QUEUE_DEPTH,
	APP_CONF_QUEUE_MAX,
	APP_CONF_DRIVE_TIMEOUT,
	APP_CONF_HEDGE,
	APP_CONF_SCRUB,
	APP_CONF_REBUILD,
	APP_CONF_SPARE,
	APP_CONF_SPARE_DRIVES,
	APP_CONF_DEALLOCATE,
	APP_CONF_SHARDS,
	APP_CONF_PROTECT,
	APP_CONF_KEYS,
};

/* Drives that receive deallocate commands. */
enum app_tell {
	APP_TELL_OWN, /* those whose freed space no other user can take   */
	APP_TELL_ALL,
	APP_TELL_NONE,
};

struct app_conf {
	char file[APP_CONF_TEXT_MAX]; /* its name, for messages */
	uint32_t line[APP_CONF_KEYS]; /* where each key was last given; 0: nowhere */
	uint32_t ndrives;
	char drive[APP_CONF_DRIVES_MAX][APP_CONF_TEXT_MAX];
	struct app_domains domains;
	char allow_missing[APP_CONF_TEXT_MAX]; /* "": no drive may be missing */
	uint32_t nlisten;
	char listen[APP_CONF_LISTEN_MAX][APP_CONF_TEXT_MAX];
	char shm_mode[APP_CONF_TEXT_MAX];  /* octal */
	char shm_group[APP_CONF_TEXT_MAX]; /* "": the process's */
	char shm_users[APP_CONF_TEXT_MAX]; /* "": all that the mode admits */
	char key_id[APP_CONF_TEXT_MAX];
	char key_file[APP_CONF_TEXT_MAX]; /* "": none */
	char key_dir[APP_CONF_TEXT_MAX];  /* "": none */
	uint64_t keys_max;
	char anonymous[APP_CONF_TEXT_MAX];
	char anonymous_from[APP_CONF_TEXT_MAX];
	char tls[APP_CONF_TEXT_MAX];                /* "off" or "required" */
	char metrics[APP_CONF_TEXT_MAX];            /* "": none are served */
	char metrics_token_file[APP_CONF_TEXT_MAX]; /* "": none */
	uint64_t core; /* a CPU's number, APP_CORE_AUTO or APP_CORE_NONE */
	uint64_t cores;
	uint64_t spin_max_us;
	uint64_t memory_max_bytes;
	uint64_t cache_bytes;
	uint64_t staging_bytes;
	uint64_t pools_max_bytes;
	uint64_t session_pools_max_bytes;
	uint64_t window_max_bytes;
	uint64_t ops_max;
	uint64_t credits;
	uint64_t sessions_max;
	uint64_t lanes_max;
	uint64_t long_bodies;
	uint64_t batch_max;
	uint64_t batch_in_flight;
	uint64_t open_puts_max;
	uint64_t opens_max;
	uint64_t queue_depth;
	uint64_t queue_max;
	uint64_t drive_timeout_us;
	uint64_t hedge_reads;
	uint64_t scrub_rate;
	uint64_t rebuild_rate;
	uint64_t spare_percent;
	uint64_t spare_drives;              /* or APP_AUTO */
	char deallocate[APP_CONF_TEXT_MAX]; /* "own", "all" or "none" */
	uint64_t shards;
	char protect[APP_CONF_TEXT_MAX]; /* "none", "mirror", "4+1" */
};

/* Every limit at its default; no drives, no addresses, no key. */
void app_conf_defaults(struct app_conf *c);

/**
 * app_conf_parse - check `text` (of `size_bytes`, called `file` in messages) into *c
 *
 * Touches nothing but *c.  On failure `why` (APP_CONF_WHY bytes) gets one line:
 * file:line: which key is wrong and what is allowed.
 *
 * Errors:  -EINVAL.
 */
must_check int app_conf_parse(struct app_conf *c, const char *file, const char *text,
			      size_t size_bytes, char *why);

/* app_conf_load - the same of a file.  Errors: also what open() says, -EFBIG. */
must_check int app_conf_load(struct app_conf *c, const char *path, char *why);

/**
 * app_conf_read_key - the secret in c->key_file: 64 hexadecimal digits, optionally after "ID:"
 *
 * An id in the file is c->key_id from then on.  Only a file that nobody but its owner (we, or
 * root) may read is accepted.
 * Errors:  -EINVAL, -EACCES (permissions), -EKEYREJECTED (another id than configured), errors of
 *          open().
 */
must_check int app_conf_read_key(struct app_conf *c, uint8_t key[APP_KEY_BYTES], char *why);

/* Returns what "none", "mirror", "4+1", "1+2" or "4+2" means.  Any other text has 0 copies. */
struct meta_scheme app_conf_scheme(const char *protect);

/* Returns the core's value for `deallocate`. */
enum app_tell app_conf_tell(const struct app_conf *c);

/* Sets the shm_ fields of *out.  Errors: -EINVAL, with a line in `why`. */
struct fab_server_cfg;
must_check int app_conf_shm(const struct app_conf *c, struct fab_server_cfg *out, char *why);

/* Is `metrics` an address, and has one that others can reach a token?  Errors: -EINVAL, with a line
 * in `why`. */
must_check int app_conf_metrics_check(const struct app_conf *c, char *why);

struct fab_rights;
/* Returns true if clients may connect without a key, and their rights. */
bool app_conf_anonymous(const struct app_conf *c, struct fab_rights *out);

/* Checks what no single line shows.  Errors: -EINVAL, and a line in `why`. */
must_check int app_conf_check(const struct app_conf *c, char *why);

/* A line about `key` for `why`: "file:line: text", or "file: text" when it was not given. */
void app_conf_blame(const struct app_conf *c, enum app_conf_key key, char *why, const char *text);

/* Returns true if `key` differs; false for drive and listen, which are lists. */
bool app_conf_differs(const struct app_conf *a, const struct app_conf *b, enum app_conf_key key);

/* Every key with unit, range, default and meaning, as a configuration file that holds the defaults.
 */
void app_conf_print(FILE *to);

/* "64M", "1G", "4096" into bytes.  Errors: -EINVAL. */
must_check int app_conf_parse_size(const char *text, uint64_t *out);

/* Is `text` a drive's number in its store (0 to 63, one or two digits)?  Then *number is it. */
must_check bool app_conf_drive_number(const char *text, uint32_t *number);

/* Is `text` one or more such numbers, separated by commas?  Then *drives are they, by bits. */
must_check bool app_conf_drive_numbers(const char *text, uint64_t *drives);

/* Returns how many drives allow_missing lets be missing; "": 0. */
uint32_t app_conf_drives_named(const char *text);

/* Is `text` a name or numbers that allow_missing may have? */
must_check bool app_conf_drive_named(const char *text);

#endif
