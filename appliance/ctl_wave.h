/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A wave: up to 256 files on their way between a local directory and the appliance, with one
 * leased window.  Import and export keep several waves in flight, so that local files are
 * opened, read and written while requests travel.
 */
#ifndef CTL_WAVE_H
#define CTL_WAVE_H

#include "appliance/ctl_attrs.h"

#define CTL_WAVES        4u
#define CTL_WAVE_FILES   256u
#define CTL_WAVE_PAYLOAD (7u << 20) /* bytes of files; the rest of the window: sums, answers */
#define CTL_WAVE_WINDOW  (8u << 20)
#define CTL_SMALL_FILE   (1u << 20) /* larger ones go one by one, in pieces                  */

struct ctl_file {
	char *local; /* malloc()ed paths */
	char *remote;
	struct stat st;        /* import: the local file as the walk saw it      */
	struct weka_attr attr; /* export: as the listing showed it               */
	struct ctl_attrs attrs;
	uint32_t attrs_there; /* import: how many the appliance's has */
	uint64_t size_bytes;
	uint32_t window_at;
	bool wanted; /* not skipped                                    */
	int err;     /* of the local side: an errno, as a positive one */
	const void *data;
};

struct ctl_wave {
	struct ctl_file file[CTL_WAVE_FILES];
	uint32_t count;
	uint64_t payload_bytes; /* of the files in it, each rounded up to blocks */
	struct weka_lease *lease;
	struct weka_req req;
	bool in_flight;
	union {
		struct weka_put_item put[CTL_WAVE_FILES];
		struct weka_read_item read[CTL_WAVE_FILES];
		struct weka_stat_item stat[CTL_WAVE_FILES];
	} items;
	uint32_t nitems; /* that were sent and not yet looked at; perhaps answered already */
	uint32_t index[CTL_WAVE_FILES]; /* item -> file */
};

/* Would a file of size_bytes (<= CTL_SMALL_FILE) still fit? */
bool ctl_wave_fits(const struct ctl_wave *w, uint64_t size_bytes);
/* Add a file; takes over both paths.  Call ctl_wave_fits() first. */
struct ctl_file *ctl_wave_add(struct ctl_wave *w, char *local, char *remote, uint64_t size_bytes);
/* Forget its files. */
void ctl_wave_clear(struct ctl_wave *w);
/* Wait until this wave's request has ended; 0 or its status. */
int ctl_wave_wait(struct ctl *c, struct ctl_wave *w);
/* The whole window. */
struct weka_window ctl_wave_window(const struct ctl_wave *w);
must_check int ctl_waves_create(struct ctl *c, struct ctl_wave **out);
void ctl_waves_destroy(struct ctl *c, struct ctl_wave *waves);

#endif
