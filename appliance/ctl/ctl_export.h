/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The parts of wekactl export: the walk with its waves, and the local files. */
#ifndef CTL_EXPORT_H
#define CTL_EXPORT_H

#include "appliance/ctl/ctl_wave.h"

struct export_run {
	struct ctl *c;
	const char *source; /* in the appliance */
	struct ctl_dirs dirs;
	struct ctl_crew *crew;
	struct ctl_wave *waves;
	struct weka_lease *texts; /* targets of symlinks on their way */
	uint32_t wave;            /* being filled */
	struct ctl_links links;
	struct ctl_progress progress;
	struct ctl_tally tally;
	int stop;
};

/* Local errors that have a text of their own. */
#define EXPORT_CHANGED ESTALE    /* the appliance's file, meanwhile */
#define EXPORT_IN_USE  ENOTEMPTY /* a directory is where the entry belongs */

/* ---- ctl_export_file.c: local files, by the descriptor of their directory.  Any thread. ---- */

/* A crew's piece of work: is this file there already, as it should be?  arg: the wave. */
void export_look(void *arg, uint32_t i);
/* Work of the crew: writes the bytes that were read, or makes the symlink. */
void export_store(void *arg, uint32_t i);

/* Opens a new file beside f under f->part.  A descriptor, or -errno. */
int export_part_open(struct ctl_file *f);
/* Gives it attributes, owner, mode, time and its own name, or removes it after the error `err`.
 * Closes fd.  0 or -errno. */
int export_part_close(struct ctl_file *f, int fd, int err);
/* Adds a name to a file.  0, 1 if it has it already, or -errno. */
int export_link(int first_fd, const char *first, int fd, const char *name);
/* Renames `part` to `name`, replacing an existing file. */
int export_rename(int fd, const char *part, const char *name);
/* Makes a directory, and opens it; a symlink or a file in its place gives way.  0 or -errno. */
int export_dir_make(struct ctl_dirs *dirs, struct ctl_dir *d);
/* Sets attributes, owner, mode and time of a directory.  *changed: it has another time.  0 or
 * -errno. */
int export_dir_finish(const struct ctl_dir *d, struct ctl_attrs *attrs, bool *changed);

#endif
