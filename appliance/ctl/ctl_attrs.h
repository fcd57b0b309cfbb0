/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Extended attributes of one file or directory, in transit between here and the appliance. */
#ifndef CTL_ATTRS_H
#define CTL_ATTRS_H

#include "appliance/ctl/ctl_req.h"

struct ctl_attr {
	char *name;
	void *value;
	size_t size_bytes;
};

struct ctl_attrs { /* zeros: none */
	struct ctl_attr *attr;
	uint32_t count, room;
	char *refused; /* the first name that could not be carried, */
	int why;       /* ... the errno,                            */
	uint32_t left; /* and how many could not                    */
	bool partial;  /* some could not be read: the set is incomplete */
};

/* Loads those of a local file that are of the appliance's namespace; others are `left`, with
 * ENOTSUP.  By a path of which the last name is not followed, by a descriptor, and by a name in a
 * directory.  Any thread. */
void ctl_attrs_load(struct ctl_attrs *a, const char *local);
void ctl_attrs_load_fd(struct ctl_attrs *a, int fd);
void ctl_attrs_load_at(struct ctl_attrs *a, int dir_fd, const char *name);
/* Loads those of a file in the appliance.  0, or -errno. */
must_check int ctl_attrs_fetch(struct ctl_attrs *a, struct ctl *c, const struct weka_ref *ref);
/* Sets them on the local file; `left` counts those that it refuses.  Any thread. */
void ctl_attrs_store(struct ctl_attrs *a, int fd);
/* Sets them on the appliance's file, which has `count` now: removes others, unless our set is
 * incomplete, and keeps equal ones.  0, or -errno. */
must_check int ctl_attrs_send(const struct ctl_attrs *a, struct ctl *c, const struct weka_ref *ref,
			      uint32_t count);
void ctl_attrs_clear(struct ctl_attrs *a);

/* Counts the attributes; of all that were left out, names the first, as an error or as a note. */
void ctl_attrs_tell(const struct ctl_attrs *a, struct ctl_tally *t, struct ctl_progress *p,
		    const char *path, bool is_error);

#endif
