/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The parts of wekactl import: the walk, the waves, the files, and the end. */
#ifndef CTL_IMPORT_H
#define CTL_IMPORT_H

#include "appliance/ctl/ctl_wave.h"

struct import {
	struct ctl *c;
	const char *target; /* in the appliance */
	struct ctl_dirs dirs;
	struct ctl_dir **unread; /* directories that are made, and not yet read */
	size_t unread_count, unread_room;
	struct ctl_crew *crew;
	struct ctl_wave *waves;
	uint32_t wave;           /* being filled */
	struct weka_lease *seen; /* --verify: the appliance's content */
	struct weka_read_item *seen_item;
	struct ctl_links links;
	struct ctl_progress progress;
	struct ctl_tally tally;
	int stop;            /* the appliance failed: an error that ends the import */
	char *stop_what;     /* what failed first with it */
	char *stop_why;      /* the library's word on it, or NULL */
	uint64_t stop_count; /* entries that failed with it */
};

/* ---- ctl_import.c ---- */

/* Reports an error of an entry, by its name here or in the appliance. */
void import_error_here(struct import *im, const struct ctl_dir *d, const char *name,
		       const char *why);
void import_error_there(struct import *im, const struct ctl_dir *d, const char *name, int err);
/* Adds a directory that must be read. */
void import_unread(struct import *im, struct ctl_dir *d);
/* Counts an entry that did not get its turn, and looks into it if it is a directory. */
void import_not_tried(struct import *im, struct ctl_dir *parent, const char *name, bool is_dir);

/* ---- ctl_import_wave.c ---- */

/* Sends the wave that was filled, and makes room in the next one. */
void import_send_wave(struct import *im);
void import_finish_waves(struct import *im);

/* ---- ctl_import_file.c ---- */

/* A crew's piece of work: reads one entry of a wave, arg.  With --verify compares it, too. */
struct import_load {
	const struct import *im;
	struct ctl_wave *w;
};
void import_load(void *arg, uint32_t i);
/* Returns 0 if the local file can be opened, or an errno. */
int import_try_open(const struct ctl_file *f);
/* Imports a large or sparse file. */
void import_large(struct import *im, struct ctl_file *f);
/* Counts a file that is as it should be. */
void import_stored(struct import *im, struct ctl_file *f, const struct weka_handle *handle);
void import_skipped(struct import *im, struct ctl_file *f);
struct weka_create import_create(const struct stat *st);
/* The entry's name in the appliance; a symlink there is meant itself. */
struct weka_ref import_ref(const struct ctl_dir *d, const char *name);
void import_send_attrs(struct import *im, const struct ctl_attrs *a, const struct ctl_dir *d,
		       const char *name, const struct weka_handle *handle, uint32_t there);

/* ---- ctl_import_end.c ---- */

void import_finish_links(struct import *im);
void import_finish_dirs(struct import *im);

#endif
