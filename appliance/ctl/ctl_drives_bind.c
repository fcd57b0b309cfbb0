/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl drives attach, detach, restore: moves a PCI device from one driver to another.
 *
 *   check all --> claim --> override --> unbind --> probe --> owner --> (next) --> remember
 *       |           +----------+------------+----------+---------+----------------------+
 *    refused:                                  |
 *    nothing has changed             failed: undone in reverse order
 *
 * driver_override names the only driver that may have the device; unbind takes it from its present
 * driver; drivers_probe makes the kernel look for a driver again.  The result of a write does not
 * count: after each step sysfs is read to see whether it happened.
 *
 * Invariants:
 *
 *  (1) A drive in use is not moved, whatever the options: while the nvme driver is detached, this
 *      process has each of its block devices open exclusively, which fails if it is mounted, and
 *      prevents mounts [guest_drives, test_ctl_bind:what_is_in_use_is_refused_with_force_too].
 *  (2) Nothing is ever written to a drive [test_ctl_bind:nothing_is_written_to_a_drive].
 *  (3) All drives of one command are moved, or none
 *      [test_ctl_bind:each_step_of_an_attach_that_fails_undoes_those_before,
 *      test_ctl_bind:each_step_of_a_detach_that_fails_undoes_those_before].
 */
#include "appliance/ctl/ctl_drives.h"
#include "base/num.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PCI_DEVICES "/sys/bus/pci/devices"
#define VFIO_DRIVER "vfio-pci"
#define NVME_DRIVER "nvme"
#define PROBES_MAX  30
#define PROBE_US    100000

struct move { /* one drive's, and how it was before */
	struct ctl_drive *d;
	char override[CTL_ENTRY_SIZE];
	char driver[CTL_ENTRY_SIZE];
};

struct job { /* one command's */
	const struct ctl_bind *how;
	const char *root;
	char *why;
	int lock_fd;
	struct ctl_saved_list saved;
	struct ctl_drive_list drives;
	struct ctl_users *users;
	uint32_t nmoves; /* done so far */
	struct move *move;
};

__attribute__((format(printf, 3, 4))) static int say(struct job *j, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(j->why, CTL_WHY_SIZE, fmt, ap);
	va_end(ap);
	return err;
}

/* ---- moving ------------------------------------------------------------------------------- */

static int write_device(const char *root, const char *pci, const char *file, const char *text)
{
	char path[CTL_PATH_SIZE];
	int err = ctl_sysfs_path(path, "", PCI_DEVICES "/%s/%s", pci, file);

	return err ? err : ctl_sysfs_write(root, path, text);
}

static int set_override(const char *root, const char *pci, const char *override)
{
	char is[CTL_ENTRY_SIZE];
	int err = write_device(root, pci, "driver_override", *override ? override : "\n");

	if (!err)
		err = ctl_sysfs_read(is, sizeof(is), root, PCI_DEVICES "/%s/driver_override", pci);
	if (!err && strcmp(is, "(null)") == 0)
		is[0] = '\0';
	return !err && strcmp(is, override) != 0 ? -EIO : err;
}

static int unbind(const char *root, const char *pci)
{
	char driver[CTL_ENTRY_SIZE];
	int err;

	ctl_pci_driver(root, pci, driver);
	if (!*driver)
		return 0;
	err = write_device(root, pci, "driver/unbind", pci);
	ctl_pci_driver(root, pci, driver);
	return !err && *driver ? -EBUSY : err;
}

/*
 * A process that was asked for its device releases the device first, and the group a moment later;
 * until then no driver of the host can get it: hence `patient`.
 */
static int probe(const char *root, const char *pci, const char *wanted, bool patient)
{
	char driver[CTL_ENTRY_SIZE];
	int err = 0;

	for (uint32_t tries = patient ? PROBES_MAX : 1; tries > 0; tries--) {
		err = ctl_sysfs_write(root, "/sys/bus/pci/drivers_probe", pci);
		ctl_pci_driver(root, pci, driver);
		if (strcmp(driver, wanted) == 0)
			return 0;
		if (tries > 1)
			usleep(PROBE_US);
	}
	return err ? err : -ENODEV;
}

/* Undoes the move; appends a second error to the first. */
static void move_back(struct job *j, const struct move *m)
{
	const char *pci = m->d->pci, *what = "its driver_override";
	char driver[CTL_ENTRY_SIZE];
	size_t at = strlen(j->why);
	int err = set_override(j->root, pci, m->override);

	ctl_pci_driver(j->root, pci, driver);
	if (!err && strcmp(driver, m->driver) != 0) {
		what = *m->driver ? m->driver : "no driver";
		err = unbind(j->root, pci);
		if (!err && *m->driver)
			err = probe(j->root, pci, m->driver, false);
	}
	if (err)
		snprintf(j->why + at, CTL_WHY_SIZE - at,
			 "; and pci:%s could not be given back to %s (%s), type: echo %s > "
			 "/sys/bus/pci/drivers_probe",
			 pci, what, strerror(-err), pci);
}

static void move_all_back(struct job *j)
{
	while (j->nmoves)
		move_back(j, &j->move[--j->nmoves]);
}

/* From here on move_all_back() takes care of this drive. */
static void begin_move(struct job *j, struct ctl_drive *d)
{
	struct move *m = &j->move[j->nmoves++];

	m->d = d;
	ctl_pci_driver(j->root, d->pci, m->driver);
	if (ctl_sysfs_read(m->override, sizeof(m->override), j->root,
			   PCI_DEVICES "/%s/driver_override", d->pci) ||
	    strcmp(m->override, "(null)") == 0)
		m->override[0] = '\0';
}

/* By a process, through vfio. */
static bool is_held(const struct ctl_drive *d)
{
	const struct ctl_use *use = ctl_drive_use(d);

	return strcmp(d->driver, VFIO_DRIVER) == 0 && use && use->kind == CTL_USE_APPLIANCE;
}

static int move_to(struct job *j, struct ctl_drive *d, const char *override, const char *wanted)
{
	int err = set_override(j->root, d->pci, override);

	if (err)
		return say(j, err, "pci:%s: driver_override: %s", d->pci, strerror(-err));
	err = unbind(j->root, d->pci);
	if (err)
		return say(j, err, "pci:%s: driver %s did not release it: %s", d->pci, d->driver,
			   strerror(-err));
	err = probe(j->root, d->pci, wanted, is_held(d));
	if (err)
		return say(j, err, "pci:%s: driver %s did not accept it (see dmesg): %s", d->pci,
			   wanted, strerror(-err));
	return 0;
}

/* ---- its new owner ------------------------------------------------------------------------- */

static int find_user(struct job *j, const char *name, uid_t *out)
{
	struct passwd *pw;
	int64_t id;

	if (!name)
		return 0;
	if (ctl_parse_i64(name, &id) == 0 && id >= 0 && id < UINT32_MAX) {
		*out = (uid_t)id;
		return 0;
	}
	pw = ctl_account_ok(name) ? getpwnam(name) : NULL;
	if (!pw)
		return say(j, -ENOENT, "there is no user '%s'; type: adduser --system %s", name,
			   name);
	*out = pw->pw_uid;
	return 0;
}

static int find_group(struct job *j, const char *name, gid_t *out)
{
	struct group *gr;
	int64_t id;

	if (!name)
		return 0;
	if (ctl_parse_i64(name, &id) == 0 && id >= 0 && id < UINT32_MAX) {
		*out = (gid_t)id;
		return 0;
	}
	gr = ctl_account_ok(name) ? getgrnam(name) : NULL;
	if (!gr)
		return say(j, -ENOENT, "there is no group '%s'; type: addgroup --system %s", name,
			   name);
	*out = gr->gr_gid;
	return 0;
}

/* An appliance that does not run as root opens /dev/vfio/GROUP. */
static int give_to(struct job *j, const struct ctl_drive *d)
{
	const struct ctl_bind *how = j->how;
	char path[CTL_PATH_SIZE];
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;
	int err = ctl_sysfs_path(path, j->root, "/dev/vfio/%d", d->group);

	if (!err && access(path, F_OK))
		return say(j, -ENODEV, "pci:%s: /dev/vfio/%d is not there; type: modprobe vfio_pci",
			   d->pci, d->group);
	if (err || (!how->user && !how->group))
		return err;
	err = find_user(j, how->user, &uid);
	if (!err)
		err = find_group(j, how->group, &gid);
	if (err)
		return err;
	if (chown(path, uid, gid) || chmod(path, how->group ? 0660 : 0600))
		return say(j, -errno, "/dev/vfio/%d: %s", d->group, strerror(errno));
	return 0;
}

/* ---- refusals ------------------------------------------------------------------------------- */

static struct ctl_drive *find_drive(const struct job *j, const char *pci)
{
	for (uint32_t i = 0; i < j->drives.count; i++)
		if (strcmp(j->drives.drive[i].pci, pci) == 0)
			return &j->drives.drive[i];
	return NULL;
}

static int check_is_drive(struct job *j, const char *pci)
{
	char class[32];

	if (find_drive(j, pci))
		return 0;
	if (ctl_sysfs_read(class, sizeof(class), j->root, PCI_DEVICES "/%s/class", pci))
		return say(j, -ENODEV, "pci:%s: no such device; wekactl drives lists them", pci);
	return say(j, -ENODEV,
		   "pci:%s: not an NVMe device (its class is %s); wekactl drives lists them", pci,
		   class);
}

static int check_uses(struct job *j, const struct ctl_drive *d)
{
	const struct ctl_use *use = ctl_drive_use(d);

	if (!use || use->kind >= CTL_USE_STORE)
		return 0;
	if (use->kind < CTL_USE_UNSEEN)
		return say(j, -EBUSY, "pci:%s: %s: %s: a drive that is in use is not attached",
			   d->pci, use->device, use->text);
	if (j->how->force)
		return 0;
	return say(j, -EEXIST, "pci:%s: %s%s%s (--force attaches it anyway)", d->pci, use->device,
		   *use->device ? ": " : "", use->text);
}

static int check_group(struct job *j, struct ctl_drive *d, const struct ctl_saved_list *with)
{
	char fix[CTL_WHY_SIZE];

	if (d->group < 0) {
		ctl_fix_iommu(j->root, fix);
		return say(j, -ENODEV, "pci:%s: no IOMMU is on; type: %.300s", d->pci, fix);
	}
	ctl_group_look(d, j->root, with);
	if (!*d->blocker)
		return 0;
	if (find_drive(j, d->blocker))
		return say(j, -EBUSY,
			   "pci:%s: its IOMMU group %d has pci:%s too: they go together; type: "
			   "wekactl drives attach pci:%s pci:%s",
			   d->pci, d->group, d->blocker, d->pci, d->blocker);
	return say(j, -EBUSY,
		   "pci:%s: its IOMMU group %d has %s too, which %s has; give that up first, type: "
		   "echo %s > /sys/bus/pci/devices/%s/driver/unbind",
		   d->pci, d->group, d->blocker, d->blocker_driver, d->blocker, d->blocker);
}

static int check_attach(struct job *j, const char *pci, const struct ctl_saved_list *wanted)
{
	struct ctl_drive *d = find_drive(j, pci);
	int err = check_is_drive(j, pci);

	if (err || strcmp(d->driver, VFIO_DRIVER) == 0)
		return err;
	ctl_drive_uses(d, j->users);
	err = check_uses(j, d);
	if (!err && !ctl_sysfs_exists(j->root, "/sys/bus/pci/drivers/" VFIO_DRIVER))
		err = say(j, -ENODEV,
			  "pci:%s: the driver vfio-pci is not there; type: modprobe vfio-pci", pci);
	return err ? err : check_group(j, d, j->how->with ? j->how->with : wanted);
}

static int check_detach(struct job *j, const char *pci)
{
	struct ctl_drive *d = find_drive(j, pci);

	if (!d && ctl_saved_find(&j->saved, pci))
		return 0; /* it has been taken out of the machine: forget it */
	if (!d)
		return check_is_drive(j, pci);
	if (*d->driver && strcmp(d->driver, VFIO_DRIVER) != 0 &&
	    strcmp(d->driver, NVME_DRIVER) != 0)
		return say(j, -EBUSY, "pci:%s: the driver %s has it, not vfio-pci", pci, d->driver);
	ctl_drive_uses(d, j->users);
	if (is_held(d) && !j->how->force)
		return say(j, -EBUSY,
			   "pci:%s: in use by %s; stop it (or use --force: the kernel asks it to "
			   "release the drive)",
			   pci, ctl_drive_use(d)->text);
	if (strcmp(d->driver, NVME_DRIVER) != 0 &&
	    !ctl_sysfs_exists(j->root, "/sys/bus/pci/drivers/" NVME_DRIVER))
		return say(j, -ENODEV, "pci:%s: the driver nvme is not there; type: modprobe nvme",
			   pci);
	return 0;
}

/* ---- one drive ------------------------------------------------------------------------------ */

static void close_claims(int *claim, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (claim[i] >= 0)
			close(claim[i]);
	free(claim);
}

/* After the checks: prevents users from coming in between (1). */
static int claim_all(struct job *j, const struct ctl_drive *d, int **out)
{
	int *claim = calloc(d->nns + 1, sizeof(*claim));

	ASSERT(claim);
	for (uint32_t i = 0; i < d->nns; i++) {
		claim[i] = ctl_claim(j->root, d->ns[i].name);
		if (claim[i] != -EBUSY)
			continue; /* one that cannot be opened is not mounted */
		close_claims(claim, i);
		return say(j, -EBUSY, "pci:%s: %s: it came into use just now", d->pci,
			   d->ns[i].name);
	}
	*out = claim;
	return 0;
}

static int attach_one(struct job *j, struct ctl_drive *d)
{
	int *claim = NULL, err;

	if (strcmp(d->driver, VFIO_DRIVER) == 0)
		return give_to(j, d);
	err = claim_all(j, d, &claim);
	if (err)
		return err;
	begin_move(j, d);
	err = move_to(j, d, VFIO_DRIVER, VFIO_DRIVER);
	close_claims(claim, d->nns);
	return err ? err : give_to(j, d);
}

static int detach_one(struct job *j, struct ctl_drive *d)
{
	if (!d || strcmp(d->driver, NVME_DRIVER) == 0)
		return 0;
	begin_move(j, d);
	return move_to(j, d, "", NVME_DRIVER);
}

/* ---- a command
 * ------------------------------------------------------------------------------------ */

static int begin_job(struct job *j, const struct ctl_bind *how, uint32_t count, char *why)
{
	int err;

	*j = (struct job){ .how = how, .root = how->root, .why = why, .lock_fd = -1 };
	why[0] = '\0';
	j->move = calloc(count + 1, sizeof(*j->move));
	ASSERT(j->move);
	err = ctl_saved_lock(j->root, why);
	if (err < 0)
		return err;
	j->lock_fd = err;
	err = ctl_saved_load(j->root, &j->saved, why);
	if (err)
		return err;
	err = ctl_drives_scan(&j->drives, j->root, false);
	if (err)
		return say(j, err, PCI_DEVICES ": %s", strerror(-err));
	j->users = ctl_users_create(j->root);
	return 0;
}

static void end_job(struct job *j)
{
	if (j->users)
		ctl_users_destroy(j->users);
	ctl_drives_free(&j->drives);
	free(j->saved.drive);
	free(j->move);
	if (j->lock_fd >= 0)
		close(j->lock_fd);
}

static void note_saved(struct job *j, const char *pci)
{
	const struct ctl_drive *d = find_drive(j, pci);
	const struct ctl_saved *was = ctl_saved_find(&j->saved, pci);
	struct ctl_saved s = { 0 };

	if (was && strcmp(d->driver, VFIO_DRIVER) == 0)
		s = *was; /* attached already: only the given options change */
	s.forced |= j->how->force && *d->serial;
	snprintf(s.pci, sizeof(s.pci), "%s", pci);
	memcpy(s.serial, d->serial, sizeof(s.serial));
	if (j->how->user)
		snprintf(s.user, sizeof(s.user), "%s", j->how->user);
	if (j->how->group)
		snprintf(s.group, sizeof(s.group), "%s", j->how->group);
	ctl_saved_put(&j->saved, &s);
}

int ctl_drives_attach(const struct ctl_bind *how, const struct ctl_saved_list *wanted,
		      char why[CTL_WHY_SIZE])
{
	struct job j;
	int err = begin_job(&j, how, wanted->count, why);

	for (uint32_t i = 0; !err && i < wanted->count; i++)
		err = check_attach(&j, wanted->drive[i].pci, wanted);
	for (uint32_t i = 0; !err && i < wanted->count; i++)
		err = attach_one(&j, find_drive(&j, wanted->drive[i].pci));
	for (uint32_t i = 0; !err && !how->once && i < wanted->count; i++)
		note_saved(&j, wanted->drive[i].pci);
	if (!err && !how->once)
		err = ctl_saved_store(j.root, &j.saved, why);
	if (err)
		move_all_back(&j);
	end_job(&j);
	return err;
}

int ctl_drives_detach(const struct ctl_bind *how, const struct ctl_saved_list *wanted,
		      char why[CTL_WHY_SIZE])
{
	struct job j;
	int err = begin_job(&j, how, wanted->count, why);
	bool was_saved = false;

	for (uint32_t i = 0; !err && i < wanted->count; i++)
		err = check_detach(&j, wanted->drive[i].pci);
	for (uint32_t i = 0; !err && i < wanted->count; i++)
		err = detach_one(&j, find_drive(&j, wanted->drive[i].pci));
	for (uint32_t i = 0; !err && !how->once && i < wanted->count; i++) {
		was_saved |= ctl_saved_find(&j.saved, wanted->drive[i].pci) != NULL;
		ctl_saved_drop(&j.saved, wanted->drive[i].pci);
	}
	if (!err && was_saved)
		err = ctl_saved_store(j.root, &j.saved, why);
	if (err)
		move_all_back(&j);
	end_job(&j);
	return err;
}

/* ---- after a restart
 * --------------------------------------------------------------------------------
 */

/* Addresses move when cards do: the drive at this one may be another.  0: it is the one. */
static int check_same_drive(const char *root, const struct ctl_saved *s, char why[CTL_WHY_SIZE])
{
	struct ctl_drive_list drives;
	int err = 0;

	if (!*s->serial || ctl_drives_scan(&drives, root, false))
		return 0;
	for (uint32_t i = 0; i < drives.count; i++) {
		const struct ctl_drive *d = &drives.drive[i];

		if (strcmp(d->pci, s->pci) != 0 || !*d->ctrl || strcmp(d->serial, s->serial) == 0)
			continue;
		snprintf(why, CTL_WHY_SIZE,
			 "pci:%s: another drive has this address now (serial %s, it was %s); "
			 "type: wekactl "
			 "drives detach pci:%s",
			 s->pci, d->serial, s->serial, s->pci);
		err = -EEXIST;
	}
	ctl_drives_free(&drives);
	return err;
}

int ctl_drives_restore(const char *root, void (*complain)(const char *line))
{
	char why[CTL_WHY_SIZE];
	struct ctl_saved_list saved;
	int first_err = ctl_saved_load(root, &saved, why);

	if (first_err)
		complain(why);
	for (uint32_t i = 0; i < saved.count; i++) {
		const struct ctl_saved *s = &saved.drive[i];
		struct ctl_saved_list one = { .count = 1, .drive = &saved.drive[i] };
		struct ctl_bind how = {
			.root = root,
			.force = s->forced,
			.once = true,
			.with = &saved,
			.user = *s->user ? s->user : NULL,
			.group = *s->group ? s->group : NULL,
		};
		int err = check_same_drive(root, s, why);

		if (!err)
			err = ctl_drives_attach(&how, &one, why);
		if (err)
			complain(why);
		if (err && !first_err)
			first_err = err;
	}
	free(saved.drive);
	return first_err;
}
