/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Several namespaces of one controller, each a drive of its own.
 *
 *   nvme_open("pci:A")         --> drive: the controller, and its namespace 1
 *   nvme_open("pci:A?nsid=2")  --> drive: namespace 2, share.ctl is the first one
 *
 *   the controller's     registers, admin queue, events, watch, reset, ids of queue pairs, lines
 *   the namespace's      size, format, identifiers, proof, count of cached writes, read-only
 *
 * A queue pair reads and writes one namespace, so the hot path knows nothing of this.  Calls about
 * the controller (step, arm, health, line, ...) may use any of its drives; all of these have the
 * same owner.
 *
 * Invariants, true between any two calls:
 *
 *  (1) A controller is opened once, and reset for all of its drives.  It is back when each of its
 *      namespaces is unchanged: one that is missing, changed or emptied keeps all of them away
 *      [test_nvme_share:namespace_that_was_emptied_keeps_all_away_until_it_is_what_it_was].
 *  (2) The first drive has the controller until the last one is closed: if it is closed before, it
 *      is vacant, and its namespace is not used any more
 *      [test_nvme_share:drive_goes_on_without_the_one_that_was_opened_first].
 *  (3) The list of drives changes at the helm, on a thread that has dma->open_lock
 *      [test_nvme_share:namespace_cannot_join_amid_a_reset_and_can_after_it].
 */
#include "nvme/nvme_internal.h"
#include "nvme/pci/nvme_vfu.h"
#include "nvme/pci/nvme_vfio.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <time.h>

const char *nvme__share_word(struct nvme_drive *ns, char text[NVME_SHARE_WORD])
{
	struct nvme_drive *first = nvme__first_ns(ns->share.ctl);

	text[0] = 0;
	if (nvme__next_ns(first))
		(void)snprintf(text, NVME_SHARE_WORD, "namespace %u: ", ns->nsid);
	return text;
}

static bool is_shared_kind(enum nvme_name_kind kind)
{
	return kind == NVME_NAME_PCI || kind == NVME_NAME_VFIO_USER;
}

static bool same_place(const char *a, const char *b)
{
	struct stat of_a, of_b;

	if (strcmp(a, b) == 0)
		return true;
	return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
	       of_a.st_ino == of_b.st_ino;
}

bool nvme_name_shares(const char *a, const char *b)
{
	struct nvme_name of_a, of_b;

	if (nvme__name_parse(&of_a, a, NULL, 0) || nvme__name_parse(&of_b, b, NULL, 0) ||
	    of_a.kind != of_b.kind || !is_shared_kind(of_a.kind))
		return false;
	nvme__vfu_find_socket(&of_a);
	nvme__vfu_find_socket(&of_b);
	return same_place(of_a.path, of_b.path);
}

/* ---- a namespace more ------------------------------------------------------------------- */

/* Takes one step at the helm.  A reset may have used bring-up's page since the last one. */
static int look_step(struct nvme_drive *ns, uint64_t epoch)
{
	struct nvme_drive *ctl = ns->share.ctl;
	struct nvme_up *up = &ns->up;

	if (ctl->reset.life == NVME_LIVE && ctl->counts.reset_count == epoch)
		return nvme__up_step(up, clock_now_ns());
	if (up->cmd.state == NVME_ADMIN_FLYING)
		nvme__admin_lose(ctl, &up->cmd);
	(void)snprintf(up->text, sizeof(up->text),
		       "its controller is being reset, or was given up");
	return -EAGAIN;
}

static int look(struct nvme_drive *ns)
{
	struct nvme_drive *ctl = ns->share.ctl;
	struct timespec pause = { .tv_nsec = 100000 };
	uint64_t epoch;
	int rc;

	nvme__helm_take(ctl);
	epoch = ctl->counts.reset_count;
	nvme__up_begin_ns(&ns->up, ns);
	nvme__helm_leave(ctl);
	for (;;) {
		nvme__helm_take(ctl);
		rc = look_step(ns, epoch);
		nvme__helm_leave(ctl);
		if (rc <= 0)
			break;
		nanosleep(&pause, NULL);
	}
	nvme__kick(ctl); /* something of the owner's may have completed besides */
	return rc;
}

/* Another's descriptor, which an epoll cannot have twice. */
static int open_fd(struct nvme_drive *ns)
{
	struct epoll_event e = { .events = EPOLLIN };

	ns->share.fd = epoll_create1(EPOLL_CLOEXEC);
	if (ns->share.fd < 0 ||
	    epoll_ctl(ns->share.fd, EPOLL_CTL_ADD, ns->share.ctl->watch.epoll_fd, &e)) {
		(void)snprintf(ns->up.text, sizeof(ns->up.text), "no file descriptor for it");
		return -errno;
	}
	return 0;
}

/* (3): its lines are of all of its namespaces from here on. */
static void enter(struct nvme_drive *ns)
{
	struct nvme_drive *ctl = ns->share.ctl, *last = ctl;
	char *query;

	nvme__helm_take(ctl);
	query = strstr(ctl->name, "?nsid=");
	if (query)
		*query = 0;
	while (last->share.next)
		last = last->share.next;
	ASSERT(last != ns && !ns->share.next); /* (3) */
	last->share.next = ns;
	nvme__helm_leave(ctl);
}

int nvme__share_join(struct nvme_drive **out, struct nvme_drive *ctl, const char *name,
		     char *err_text, size_t err_text_size)
{
	struct nvme_drive *ns = nvme__drive_alloc(ctl, name);
	int err;

	ASSERT(ctl->share.ctl == ctl);
	if (!ns)
		return -ENOMEM;
	err = open_fd(ns);
	if (!err)
		err = look(ns);
	if (err) {
		nvme__err_text(err_text, err_text_size, name, "%s (%s)", ns->up.text,
			       strerror(-err));
		nvme__drive_free(ns);
		return err;
	}
	enter(ns);
	*out = ns;
	return 0;
}

/* ---- open and close --------------------------------------------------------------------- */

static struct nvme_drive *find(struct nvme_dma *dma, const struct nvme_name *parsed)
{
	struct list *at;

	list_for_each (at, &dma->controllers) {
		struct nvme_drive *ctl = list_entry(at, struct nvme_drive, share.node);

		if (ctl->share.kind == (int)parsed->kind &&
		    same_place(ctl->share.where, parsed->path))
			return ctl;
	}
	return NULL;
}

static int open_first(struct nvme_drive **out, const struct nvme_name *parsed, const char *name,
		      struct nvme_dma *dma, const struct nvme_options *options, char *err_text,
		      size_t err_text_size)
{
	char *where = strdup(parsed->path);
	struct nvme_options wanted = { 0 };
	struct nvme__found found;
	int err;

	if (!where)
		return -ENOMEM;
	if (options)
		wanted = *options;
	wanted.namespace_count = max_u32(wanted.namespace_count, 1);
	wanted.qpair_count_max = min_u32(max_u32(wanted.qpair_count_max, 1), NVME_QPAIRS_MAX) *
				 min_u32(wanted.namespace_count, NVME_QPAIRS_MAX);
	err = parsed->kind == NVME_NAME_PCI
		      ? nvme__vfio_open(&found, parsed, name, dma, &wanted, err_text, err_text_size)
		      : nvme__vfu_open(&found, parsed, name, dma, &wanted, err_text, err_text_size);
	if (!err)
		err = nvme__drive_up(out, found.ops, found.ctrl, name, dma, &wanted, err_text,
				     err_text_size);
	if (err) {
		free(where);
		return err;
	}
	(*out)->share.where = where;
	(*out)->share.kind = (int)parsed->kind;
	(*out)->share.count = wanted.namespace_count;
	list_push_back(&dma->controllers, &(*out)->share.node);
	return 0;
}

int nvme__share_open(struct nvme_drive **out, struct nvme_name *parsed, const char *name,
		     struct nvme_dma *dma, const struct nvme_options *options, char *err_text,
		     size_t err_text_size)
{
	struct nvme_drive *ctl;
	int err;

	nvme__vfu_find_socket(parsed);
	pthread_mutex_lock(&dma->open_lock);
	ctl = find(dma, parsed);
	err = ctl ? nvme__share_join(out, ctl, name, err_text, err_text_size)
		  : open_first(out, parsed, name, dma, options, err_text, err_text_size);
	pthread_mutex_unlock(&dma->open_lock);
	return err;
}

bool nvme__share_leave(struct nvme_drive *drive)
{
	struct nvme_drive *ctl = drive->share.ctl, *before = ctl;
	bool last;

	nvme__helm_take(ctl);
	if (drive == ctl) {
		ASSERT(!ctl->share.vacant);
		ctl->share.vacant = true; /* (2) */
	} else {
		while (before->share.next != drive) {
			ASSERT(before->share.next); /* (3): it is in the list */
			before = before->share.next;
		}
		before->share.next = drive->share.next;
	}
	last = !nvme__first_ns(ctl);
	/* A reset may be looking at this one: it begins again, without it. */
	if (!last && (ctl->reset.life == NVME_RISING || ctl->reset.life == NVME_PROVING))
		nvme__trouble(ctl, ctl->reset.cause, 0, clock_now_ns());
	nvme__helm_leave(ctl);
	if (last)
		list_del(&ctl->share.node);
	return last;
}
