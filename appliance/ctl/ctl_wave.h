/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A wave: up to 256 files, symlinks and directories in transit between a local directory and the
 * appliance, with one leased window.  Import and export keep several waves in flight, so that local
 * files are opened, read and written while requests travel.
 */
#ifndef CTL_WAVE_H
#define CTL_WAVE_H

#include "appliance/ctl/ctl_attrs.h"
#include "appliance/ctl/ctl_links.h"
#include "appliance/ctl/ctl_local.h"
#include "appliance/ctl/ctl_req.h"

#define CTL_WAVES        4u
#define CTL_WAVE_FILES   256u
#define CTL_WAVE_PAYLOAD (7u << 20) /* bytes of files; the rest of the window: sums, answers */
#define CTL_WAVE_WINDOW  (8u << 20)
#define CTL_SMALL_FILE   (1u << 20) /* larger ones go one by one, in pieces                  */
#define CTL_TEXT_BYTES   4096u      /* of a window, for a symlink's target                   */

enum ctl_kind {
	CTL_SMALL, /* a file that travels in the window */
	CTL_LARGE, /* ... in pieces of its own          */
	CTL_SYMLINK,
	CTL_DIR,
};

struct ctl_file {
	struct ctl_dir *dir; /* its directory; pinned */
	char *name;
	enum ctl_kind kind;
	struct stat st;        /* import: the local file */
	struct weka_attr attr; /* the appliance's, if there is one */
	int there;  /* import: 0 if the appliance has something of this name, or -errno */
	char *text; /* a symlink's target */
	struct ctl_first *first; /* not NULL: it has more names */
	struct ctl_attrs attrs;
	uint64_t size_bytes;
	uint32_t window_at;
	bool wanted;  /* not skipped */
	bool repair;  /* import: the appliance's content differs or is damaged */
	bool renames; /* import: a symlink that was made under a name of its own first */
	bool done;    /* import: the symlink is made.  export: the entry is as it should be */
	bool changed; /* export: its time could not be kept */
	char part[CTL_PART_NAME];
	int err; /* of the local side: an errno, as a positive one */
};

struct ctl_wave {
	struct ctl_file file[CTL_WAVE_FILES];
	uint32_t count;
	uint32_t dirs;          /* most directories that it pins                 */
	uint64_t payload_bytes; /* of the files in it, each rounded up to blocks */
	struct weka_lease *lease;
	struct ctl_req r;
	bool sent; /* and not yet looked at; perhaps answered already */
	union {
		struct weka_put_item put[CTL_WAVE_FILES];
		struct weka_read_item read[CTL_WAVE_FILES];
		struct weka_stat_item stat[CTL_WAVE_FILES];
	} items;
	uint32_t nitems;
	uint32_t index[CTL_WAVE_FILES]; /* item -> file */
	uint32_t item[CTL_WAVE_FILES];  /* file -> item; UINT32_MAX: none */
};

/* Returns true if an entry of `dir` with this many bytes for the window still fits. */
bool ctl_wave_fits(const struct ctl_wave *w, const struct ctl_dirs *dirs, const struct ctl_dir *dir,
		   uint64_t size_bytes);
/* Adds an entry of an open directory, which it pins.  Call ctl_wave_fits() first. */
struct ctl_file *ctl_wave_add(struct ctl_wave *w, struct ctl_dir *dir, const char *name,
			      uint64_t size_bytes);
/* Forgets its entries. */
void ctl_wave_clear(struct ctl_wave *w);
/* Waits until this wave's request has ended.  Returns its status. */
int ctl_wave_wait(struct ctl *c, struct ctl_wave *w);
/* The whole window. */
struct weka_window ctl_wave_window(const struct ctl_wave *w);
/* The part of the window, of CTL_TEXT_BYTES, for entry i. */
struct weka_window ctl_wave_text(const struct ctl_wave *w, uint32_t i);
must_check int ctl_waves_create(struct ctl *c, struct ctl_wave **out);
void ctl_waves_destroy(struct ctl *c, struct ctl_wave *waves);

#endif
