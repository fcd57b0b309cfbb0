/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The local tree of an import or export, by descriptors: no symlink below its top is ever followed,
 * and nothing outside of it is ever opened, even if others rename files meanwhile.
 */
#ifndef CTL_LOCAL_H
#define CTL_LOCAL_H

#include "base/list.h"
#include "client-lib/weka_client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One directory, here and in the appliance. */
struct ctl_dir {
	struct ctl_dir *parent;    /* NULL: the top */
	struct list lru;           /* in ctl_dirs.open while it is open */
	int fd;                    /* -1: not open */
	uint32_t pins;             /* it stays open while there are any */
	struct weka_handle handle; /* in the appliance */
	uint64_t number;           /* ... for WEKA_BY_DIR; 0: it is not there */
	uint32_t mode;             /* mode to set at the end, with its owner and time */
	uint32_t uid, gid;
	uint32_t xattrs; /* in the appliance */
	int64_t mtime_ns;
	char name[]; /* in its parent */
};

/* All directories of a tree, parents before their children.  The top is always open. */
struct ctl_dirs {
	const char *top; /* as the user said it */
	struct ctl_dir **dir;
	size_t count, room;
	struct list open;    /* the one used last is at the end */
	uint32_t open_count; /* the top not counted */
	uint32_t open_max;
};

/* Opens the directory `top`, which may be a symlink to one.  0, or -errno. */
must_check int ctl_dirs_begin(struct ctl_dirs *t, const char *top);
void ctl_dirs_end(struct ctl_dirs *t);
/* Adds a directory, which need not be there yet. */
struct ctl_dir *ctl_dir_add(struct ctl_dirs *t, struct ctl_dir *parent, const char *name);
/* Returns a descriptor of the directory that is valid until the next call, or as long as the
 * directory is pinned; -ELOOP or -ENOTDIR when a symlink is in its place, or another -errno. */
must_check int ctl_dir_open(struct ctl_dirs *t, struct ctl_dir *d);
/* Keeps an open directory open.  One unpin for each. */
void ctl_dir_pin(struct ctl_dir *d);
void ctl_dir_unpin(struct ctl_dir *d);
/* Returns how many directories one wave may pin. */
uint32_t ctl_dirs_a_wave(const struct ctl_dirs *t);
/* Returns "TOP/.../DIR/NAME" in malloc() memory, for people: TOP is the user's argument. */
char *ctl_dir_path(const char *top, const struct ctl_dir *d, const char *name);

#endif
