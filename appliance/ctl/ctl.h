/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl: declarations shared by its commands.  Text for people, one JSON object a line for
 * programs. */
#ifndef CTL_H
#define CTL_H

#include "base/assert.h"
#include "client-lib/weka_client.h"
#include "meta/meta_set.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#define CTL_DRIVES_MAX 64

struct ctl {
	const char *config;  /* the daemon's configuration file, or NULL             */
	const char *address; /* of the appliance                                      */
	const char *key_file;
	const char *key_id; /* NULL: "weka" */
	bool anonymous;     /* prove no key  */
	bool json;
	bool force;
	bool long_list;
	bool recursive;
	bool verify;      /* import: content is compared, too                         */
	bool quiet;       /* no progress bar                                          */
	bool looks;       /* no more than at the appliance itself                     */
	bool moves;       /* bytes of files: more memory than for questions           */
	uint32_t copies;  /* format: of each block; 0: two, with as many drives */
	uint32_t fold;    /* ... zones of data of a fold; 0: there are none */
	uint32_t shards;  /* format                                                   */
	uint32_t threads; /* import, export: for the local side                       */
	bool once;        /* drives attach, detach: until the next restart; top: one page */
	const char *user; /* drives attach: the user that may use it; NULL: root                */
	const char *group;
	const char *path; /* keys add: the subtree; NULL: everything */
	bool write;       /* keys add: not only read                 */
	uint64_t ops_per_s;
	uint64_t bytes_per_s;
	const char *uid;
	const char *gids;
	bool compare;        /* check: all copies of each block, too */
	const char *salvage; /* check: directory for the verified data */
	const char *log;     /* support-bundle: the file of the log; NULL: the journal */
	bool names;          /* support-bundle: with names of files */
	bool follow;         /* log: go on with lines that come */
	const char *glob;    /* dataset create: only these files; NULL: all */
	const char *records; /* dataset create: samples are records of that format */
	bool quick;          /* dataset create: do not read the files       */
	bool no_labels;      /* dataset create                              */
	int argc;            /* the command's own arguments                              */
	char **argv;
	struct weka_client *client; /* connected on first use: ctl_connect()           */
	char address_buffer[256];
	char key_file_buffer[256];
	char key_id_buffer[32];
};

/* One line on stderr, "wekactl: ..."; returns 1, the exit status of what failed. */
__attribute__((format(printf, 1, 2))) int ctl_fail(const char *fmt, ...);

/* Returns `memory`, just allocated; if that is NULL, ends wekactl with a line on stderr. */
void *ctl_need(void *memory);

/* Connect if we are not yet; 0, or 1 after a line on stderr. */
must_check int ctl_connect(struct ctl *c);

/* ---- commands: each returns an exit status; ctl_*.c ------------------------------- */

int ctl_cmd_format(struct ctl *c);
int ctl_cmd_check(struct ctl *c);
int ctl_salvage(struct ctl *c); /* check --salvage */
int ctl_compare(struct ctl *c); /* check --copies */
int ctl_cmd_dump(struct ctl *c);
int ctl_cmd_status(struct ctl *c);
int ctl_cmd_top(struct ctl *c);
int ctl_cmd_clients(struct ctl *c);
int ctl_cmd_jobs(struct ctl *c);
int ctl_cmd_space(struct ctl *c);
int ctl_cmd_bundle(struct ctl *c);
int ctl_cmd_damaged(struct ctl *c);
int ctl_cmd_log(struct ctl *c);
int ctl_cmd_dataset(struct ctl *c);
int ctl_cmd_import(struct ctl *c);
int ctl_cmd_export(struct ctl *c);
int ctl_cmd_ls(struct ctl *c);
int ctl_cmd_stat(struct ctl *c);
int ctl_cmd_du(struct ctl *c);
int ctl_cmd_cat(struct ctl *c);
int ctl_cmd_put(struct ctl *c);
int ctl_cmd_rm(struct ctl *c);
int ctl_cmd_mkdir(struct ctl *c);
int ctl_cmd_ln(struct ctl *c);
int ctl_cmd_mv(struct ctl *c);
int ctl_cmd_drives(struct ctl *c);
int ctl_cmd_protect(struct ctl *c);
/* Does the configuration's store miss one, so that none may be added?  The status, after a line. */
int ctl_drives_member(const struct ctl *c, const char *const *name, uint32_t count);
struct ctl_place {               /* of a drive of the store, for a new one */
	struct meta_offer offer; /* without its tag */
	uint64_t bytes_min;      /* that the new one must have */
	char then[320];          /* what else is to be done: the end of a line */
};
/* argv: names of drives, which are offered; place: NULL, or what the one of them replaces. */
int ctl_drives_add(struct ctl *c, const struct ctl_place *place);
int ctl_drives_replace(struct ctl *c);          /* argv: "replace", the old one, the new one */
int ctl_drives_drain(struct ctl *c, bool back); /* argv: "drain" or "undrain", then its name */
int ctl_cmd_doctor(struct ctl *c);
int ctl_cmd_config(struct ctl *c);
int ctl_cmd_keys(struct ctl *c);

/* Name by name, for whom a tree is not removed at once: ctl_rm.c.  An exit status. */
int ctl_rm_tree(struct ctl *c, const char *path, const struct weka_attr *attr);

/* ---- drives that no appliance runs on: ctl_store.c, ctl_raw.c ---------------------- */

/* Opens the configuration with the drives that the arguments name, or its own (to be freed, also
 * after an error).  0, or 1 after a line on stderr. */
struct app_conf;
must_check int ctl_drive_names(struct ctl *c, struct app_conf **conf,
			       const char *name[CTL_DRIVES_MAX], uint32_t *count);

/* These drives, opened, and the unmounted store on them: nothing is written. */
struct ctl_raw;
struct meta_raw;
must_check int ctl_raw_open(struct ctl *c, struct ctl_raw **out);
struct meta_raw *ctl_raw_store(struct ctl_raw *raw);
void ctl_raw_close(struct ctl_raw *raw);

/* ---- progress: ctl_progress.c ------------------------------------------------------- */

struct ctl_progress {
	const char *what;
	bool on;
	uint64_t files, files_total;
	uint64_t bytes, bytes_total;
	uint64_t start_ns;
	uint64_t drawn_ns;
};

void ctl_progress_begin(struct ctl_progress *p, const char *what, bool wanted);
void ctl_progress_step(struct ctl_progress *p);
double ctl_progress_end(struct ctl_progress *p); /* seconds since begin */

/* ---- work for several threads: ctl_crew.c --------------------------------------------- */

/* Threads that sleep until ctl_crew_run(), which returns when fn(arg, i) was called once for each
 * i < count.  The caller works too. */
struct ctl_crew;
must_check int ctl_crew_create(struct ctl_crew **out, uint32_t threads);
void ctl_crew_run(struct ctl_crew *crew, uint32_t count, void (*fn)(void *arg, uint32_t i),
		  void *arg);
void ctl_crew_destroy(struct ctl_crew *crew);

/* ---- trees: what import and export count, and a wave of files: ctl_wave.c ------------- */

struct ctl_tally {
	uint64_t files, dirs, symlinks, links, attrs, attrs_left, attrs_failed;
	uint64_t skipped, bytes, errors;
	uint64_t repaired;      /* import --verify: content that differed, written again */
	uint64_t times_changed; /* times out of range: the nearest is stored             */
	uint64_t not_tried;     /* entries not tried after the appliance failed           */
	double seconds;
};

/* The closing line; returns the exit status: 0 when nothing failed. */
int ctl_tally_print(const struct ctl *c, const char *what, const struct ctl_tally *t);
/* Name what failed on stderr, and count it. */
__attribute__((format(printf, 3, 4))) void ctl_tally_error(struct ctl_tally *t,
							   struct ctl_progress *p, const char *fmt,
							   ...);

/* A line that is no error. */
__attribute__((format(printf, 2, 3))) void ctl_tally_note(struct ctl_progress *p, const char *fmt,
							  ...);

/* a/b without doubled slashes; malloc()ed. */
char *ctl_join(const char *dir, const char *name);

/* Times are stored as 64 bits of nanoseconds: from September 1677 to April 2262. */
#define CTL_MTIME_SECONDS_MAX 9223372035LL

static inline bool ctl_mtime_fits(const struct stat *st)
{
	return st->st_mtim.tv_sec <= CTL_MTIME_SECONDS_MAX &&
	       st->st_mtim.tv_sec >= -CTL_MTIME_SECONDS_MAX;
}

/* The time of a local file as it is stored: the nearest that can be. */
static inline int64_t ctl_mtime_ns(const struct stat *st)
{
	if (st->st_mtim.tv_sec > CTL_MTIME_SECONDS_MAX)
		return INT64_MAX;
	if (st->st_mtim.tv_sec < -CTL_MTIME_SECONDS_MAX)
		return INT64_MIN;
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static inline struct timespec ctl_timespec(int64_t ns)
{
	struct timespec ts = { ns / 1000000000, ns % 1000000000 };

	if (ts.tv_nsec < 0) {
		ts.tv_sec--;
		ts.tv_nsec += 1000000000;
	}
	return ts;
}

/* Returns the mode for the local file `st` that had `mode`, `uid` and `gid` in a store: setuid only
 * with the owner that it was set for, setgid only with the group. */
static inline uint32_t ctl_mode_kept(uint32_t mode, uint32_t uid, uint32_t gid,
				     const struct stat *st)
{
	if (st->st_uid != uid)
		mode &= ~(uint32_t)S_ISUID;
	if (st->st_gid != gid)
		mode &= ~(uint32_t)S_ISGID;
	return mode;
}

#endif
