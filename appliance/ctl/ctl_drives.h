/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl drives and doctor: the NVMe devices of a machine, their users, and their drivers.  All of
 * the machine is behind a root (ctl_sysfs.h).
 */
#ifndef CTL_DRIVES_H
#define CTL_DRIVES_H

#include "appliance/ctl/ctl_sysfs.h"

#include <stdio.h>

#define CTL_WHY_SIZE     512u
#define CTL_PCI_SIZE     20u /* "0000:01:00.0"; a domain may have 8 digits */
#define CTL_SERIAL_SIZE  24u
#define CTL_ACCOUNT_SIZE 64u /* the name of a user or a group */
#define CTL_DRIVES_FILE  "/etc/weka/drives"
#define CTL_DRIVES_LIMIT 1024u /* in that file */

/* ---- foreign text: ctl_drives_text.c --------------------------------------------------- */

/*
 * "pci:0000:01:00.0", "0000:01:00.0", "01:00.0" or "1:0.0" as sysfs writes it.  Errors: -EINVAL.
 */
must_check int ctl_pci_parse(const char *text, char out[CTL_PCI_SIZE]);

struct ctl_mount {          /* points into the line that was parsed */
	const char *dev;    /* "259:3" */
	const char *where;  /* mount point, escapes undone */
	const char *type;   /* "ext4" */
	const char *source; /* "/dev/nvme0n1p1" */
};

/* Parses one line of mountinfo, in place.  False: malformed. */
must_check bool ctl_mount_parse(char *line, struct ctl_mount *out);

/* Returns the next line of *text, cut off at its end; NULL after the last. */
char *ctl_next_line(char **text);
/* The next word of *line, likewise. */
char *ctl_next_word(char **line);

struct ctl_health {      /* log page 02h, SMART / health information */
	uint8_t warning; /* bits of critical warning */
	uint8_t spare_percent;
	uint8_t spare_threshold_percent;
	uint8_t used_percent; /* of the rated life: wear.  255: 255 or more */
	int32_t celsius;
	uint64_t media_errors;
	uint64_t power_on_hours;
	uint64_t unsafe_shutdowns;
	uint64_t written_units; /* of 512,000 bytes */
};

#define CTL_HEALTH_BYTES 512u
void ctl_health_parse(const uint8_t page[CTL_HEALTH_BYTES], struct ctl_health *out);
/* "ok", or the gravest warning in two or three words. */
const char *ctl_health_word(const struct ctl_health *h);

/* A line of CTL_DRIVES_FILE: a drive that is the appliance's after a restart too. */
struct ctl_saved {
	char pci[CTL_PCI_SIZE];
	char serial[CTL_SERIAL_SIZE]; /* "": not known when it was attached */
	char user[CTL_ACCOUNT_SIZE];  /* "": root */
	char group[CTL_ACCOUNT_SIZE];
	bool forced; /* with a foreign signature on it */
};

struct ctl_saved_list {
	uint32_t count;
	struct ctl_saved *drive; /* free() */
};

/*
 * The text of CTL_DRIVES_FILE, which is cut up.  Errors: -EINVAL, with a line in `why` that starts
 * with the file's name and the line's number.
 */
must_check int ctl_saved_parse(char *text, size_t text_bytes, struct ctl_saved_list *out,
			       char why[CTL_WHY_SIZE]);
/* The line of one, with its newline. */
void ctl_saved_print(FILE *to, const struct ctl_saved *s);
/* Letters, digits, '_', '.' and '-', the last not first. */
must_check bool ctl_account_ok(const char *name);

/* ---- content: ctl_signature.c ------------------------------------------------------------ */

enum ctl_signature { CTL_SIGNATURE_NONE, CTL_SIGNATURE_STORE, CTL_SIGNATURE_FOREIGN };

/*
 * Identifies the content of a file or device in `text`: "store 0123abcd-...", "ext4", "gpt".
 * Errors: -errno when it cannot be read.
 */
must_check int ctl_signature(const char *path, char *text, size_t text_size);
must_check int ctl_signature_fd(int fd, char *text, size_t text_size);

/* The same of an open drive of any kind, of whose blocks only both ends are read: ctl_look.c. */
struct nvme_dma;
struct nvme_drive;
must_check int ctl_look(struct nvme_drive *drive, struct nvme_dma *dma, char *text,
			size_t text_size);

/* ---- the drives: ctl_drives_scan.c, ctl_drives_use.c -------------------------------------- */

/* In the order of graveness. */
enum ctl_use_kind {
	CTL_USE_MOUNT,
	CTL_USE_SWAP,
	CTL_USE_HOLDER,    /* md, dm, LVM, bcache, ... */
	CTL_USE_OPEN,      /* by a process */
	CTL_USE_CLAIMED,   /* by the kernel, in a way that none of the above shows */
	CTL_USE_UNSEEN,    /* it cannot be read; from here on --force helps */
	CTL_USE_SIGNATURE, /* of another owner */
	CTL_USE_STORE,     /* ours, which stays as it is; from here on nothing is in the way */
	CTL_USE_APPLIANCE, /* a process has its vfio group open: in the way of a detach only */
};

struct ctl_use {
	enum ctl_use_kind kind;
	char device[CTL_ENTRY_SIZE]; /* "nvme0n1p1" */
	char text[CTL_WHY_SIZE];     /* "ext4 mounted on /data" */
};

struct ctl_ns {                    /* a namespace that the kernel's driver has */
	char name[CTL_ENTRY_SIZE]; /* "nvme0n1": the block device */
	uint32_t nsid;             /* 0: the kernel does not say */
	uint64_t size_bytes;
	uint32_t block_bytes;
};

struct ctl_drive {
	char pci[CTL_PCI_SIZE];
	uint32_t vendor_id, device_id;
	char product[160];           /* of vendor and device, from the list of PCI ids */
	char driver[CTL_ENTRY_SIZE]; /* "": none */
	char ctrl[CTL_ENTRY_SIZE];   /* "nvme0"; "": not bound to the kernel's driver */
	char model[48];
	char serial[CTL_SERIAL_SIZE];
	char firmware[16];
	int32_t node;               /* -1: the machine has one, or does not say */
	int32_t group;              /* of the IOMMU; -1: none */
	uint32_t group_others;      /* devices that share it */
	char blocker[CTL_PCI_SIZE]; /* one of them that a host driver has; "" */
	char blocker_driver[CTL_ENTRY_SIZE];
	bool saved; /* attached after a restart too */
	bool health_known;
	struct ctl_health health;
	uint32_t nns;
	struct ctl_ns *ns;
	uint32_t nuses;
	struct ctl_use *use;
};

struct ctl_drive_list {
	uint32_t count;
	struct ctl_drive *drive; /* by PCI address */
};

/*
 * Every NVMe device.  `deeply`: with health, signatures and processes, which takes opening them.
 * Errors: -errno of /sys/bus/pci/devices; of a single drive what cannot be known stays empty.
 */
must_check int ctl_drives_scan(struct ctl_drive_list *out, const char *root, bool deeply);
void ctl_drives_free(struct ctl_drive_list *list);

/* Mounts, swaps and open files of the machine, read once for all drives. */
struct ctl_users;
struct ctl_users *ctl_users_create(const char *root);
void ctl_users_destroy(struct ctl_users *u);
/* Fill in d->use. */
void ctl_drive_uses(struct ctl_drive *d, const struct ctl_users *u);
/* The gravest use, or NULL. */
const struct ctl_use *ctl_drive_use(const struct ctl_drive *d);
/*
 * Opens a block device exclusively, so that nobody can mount it, or make it part of a volume, until
 * the descriptor is closed.  Errors: -EBUSY: it is in use.
 */
must_check int ctl_claim(const char *root, const char *device);

/* Fill in d->health when the kernel's driver lets us: ctl_drives_health.c. */
void ctl_drive_health(struct ctl_drive *d, const char *root);

/* Driver of a PCI device into `out`; "" none. */
void ctl_pci_driver(const char *root, const char *pci, char out[CTL_ENTRY_SIZE]);
/* Would vfio give its IOMMU group away?  Looks for a device that is in the way, but not in `own`.
 */
void ctl_group_look(struct ctl_drive *d, const char *root, const struct ctl_saved_list *own);

/* A table for people; one JSON object a line for programs: ctl_drives_print.c. */
void ctl_drives_print(FILE *to, const struct ctl_drive_list *list);
void ctl_drives_print_json(FILE *to, const struct ctl_drive_list *list);

/* ---- remembered drives: ctl_drives_saved.c ------------------------------------------------ */

/* Absent: an empty list.  Errors: -errno with a line in `why`; -EPERM: others may write it. */
must_check int ctl_saved_load(const char *root, struct ctl_saved_list *out, char why[CTL_WHY_SIZE]);
/* Replace the file as a whole.  Errors: -errno with a line in `why`; then it is as it was. */
must_check int ctl_saved_store(const char *root, const struct ctl_saved_list *list,
			       char why[CTL_WHY_SIZE]);
/* Takes the lock for changing drives or the file: a descriptor to close, or -errno. */
must_check int ctl_saved_lock(const char *root, char why[CTL_WHY_SIZE]);
struct ctl_saved *ctl_saved_find(const struct ctl_saved_list *list, const char *pci);
void ctl_saved_put(struct ctl_saved_list *list, const struct ctl_saved *s);
void ctl_saved_drop(struct ctl_saved_list *list, const char *pci);

/* ---- to and from vfio-pci: ctl_drives_bind.c ------------------------------------------------ */

struct ctl_bind {
	const char *root;
	bool force;
	bool once;        /* not after a restart */
	const char *user; /* the user that may use it; NULL: root */
	const char *group;
	/* Drives that are moved too, before or later: they may share a group. */
	const struct ctl_saved_list *with; /* NULL: those of the command */
};

/*
 * All of them or none: when one is refused nothing has been changed, when one fails the others are
 * given back.  Errors: -errno, with a line in `why`.
 */
must_check int ctl_drives_attach(const struct ctl_bind *how, const struct ctl_saved_list *wanted,
				 char why[CTL_WHY_SIZE]);
must_check int ctl_drives_detach(const struct ctl_bind *how, const struct ctl_saved_list *wanted,
				 char why[CTL_WHY_SIZE]);
/* Attaches the remembered drives, each separately: calls `complain` for each failure. */
must_check int ctl_drives_restore(const char *root, void (*complain)(const char *line));

/* Writes the fix for a machine without IOMMU groups; and for its kernel command line: ctl_doctor.
 */
void ctl_fix_iommu(const char *root, char out[CTL_WHY_SIZE]);

#endif
