/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Requests of wekactl that are in flight together. */
#ifndef CTL_REQ_H
#define CTL_REQ_H

#include "appliance/ctl/ctl.h"

/* Requests in flight for a burst: as many as let symlinks go in as fast as files.  The client has
 * more: answers may ask something themselves, and waves of files are on their way beside it. */
#define CTL_BURST     128u
#define CTL_REQUESTS  (CTL_BURST + 32u)
#define CTL_PART_NAME 48u

struct ctl_req { /* zeros: ready */
	struct weka_req req;
	bool in_flight;
};

/* Waits until it has ended; other requests may end meanwhile.  Returns its status, or 0 when it was
 * not in flight. */
int ctl_req_wait(struct ctl *c, struct ctl_req *r);
/* Waits for a request that weka_submit_*() answered with `submitted`.  Returns -errno or 0. */
must_check int ctl_req_run(struct ctl *c, struct ctl_req *r, int submitted);

/* The functions of a burst, called for each i < count. */
struct ctl_burst {
	/* Submits the request for i.  Returns 0, 1 if there is nothing to do, or -errno. */
	int (*submit)(void *arg, uint32_t i, struct weka_req *req);
	/* Takes the answer.  It may wait for requests of its own. */
	void (*answer)(void *arg, uint32_t i, const struct weka_req *req, int status);
	void *arg;
};

/* Asks for all i, several at once, and returns when all are answered. */
void ctl_burst_run(struct ctl *c, const struct ctl_burst *b, uint32_t count);

/* Makes a name that nothing else has, for what gets its own name later. */
void ctl_part_name(char name[CTL_PART_NAME]);

/* Is this the appliance failing, rather than one entry? */
bool ctl_is_fatal(int err);

#endif
