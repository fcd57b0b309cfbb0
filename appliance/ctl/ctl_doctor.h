/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl doctor: problems of this machine for drives, and the commands that fix them. */
#ifndef CTL_DOCTOR_H
#define CTL_DOCTOR_H

#include "appliance/conf/app_conf.h"
#include "appliance/ctl/ctl_drives.h"

#define CTL_CPUS_MAX 8192u

struct ctl_finding {
	const char *check; /* "iommu" */
	bool ok;
	char text[CTL_WHY_SIZE];
	char fix[CTL_WHY_SIZE]; /* what to type; "" when it is ok */
};

struct ctl_doctor {
	const char *root;
	const char *conf_file; /* its name, for what to type */
	const struct app_conf
		*conf; /* NULL: none that could be read; needs are those of defaults */
	struct ctl_drive_list drives;
	struct ctl_saved_list saved;
	uint32_t count;
	struct ctl_finding *finding;
};

/* Look at everything.  conf_why: why there is no conf; "" none is needed yet. */
void ctl_doctor_look(struct ctl_doctor *d, const char *root, const char *conf_file,
		     const struct app_conf *conf, const char *conf_why);
void ctl_doctor_free(struct ctl_doctor *d);
uint32_t ctl_doctor_wrong(const struct ctl_doctor *d);
void ctl_doctor_print(FILE *to, const struct ctl_doctor *d);
void ctl_doctor_print_json(FILE *to, const struct ctl_doctor *d);

/* ---- between its files ------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) void ctl_doctor_ok(struct ctl_doctor *d, const char *check,
							 const char *fmt, ...);
/* Something is wrong; ctl_doctor_fix() says what to type. */
__attribute__((format(printf, 3, 4))) void ctl_doctor_wrong_is(struct ctl_doctor *d,
							       const char *check, const char *fmt,
							       ...);
__attribute__((format(printf, 2, 3))) void ctl_doctor_fix(struct ctl_doctor *d, const char *fmt,
							  ...);

/* The address in "pci:ADDRESS[?...]"; false: it is another kind of drive. */
bool ctl_doctor_pci(const char *name, char out[CTL_PCI_SIZE]);
const struct ctl_drive *ctl_doctor_drive(const struct ctl_doctor *d, const char *pci);
/* Returns how many of the configured drives have names with this prefix. */
uint32_t ctl_doctor_kind(const struct ctl_doctor *d, const char *kind);
/* Does anything here go through vfio?  Drives of the configuration or attached ones; without a
 * configuration, any NVMe device of the machine may be meant. */
bool ctl_doctor_wants_vfio(const struct ctl_doctor *d);
/* Has this process the capability of that number? */
bool ctl_doctor_capable(const struct ctl_doctor *d, uint32_t capability);
/* The CPU of the polling thread, -1 when it is not pinned; and a CPU's node, -1 unknown. */
int32_t ctl_doctor_core(const struct ctl_doctor *d);
int32_t ctl_doctor_node_of(const struct ctl_doctor *d, int32_t cpu);

/* Is `v` in a list such as "0-3,8"?  The highest number in it, or -1. */
bool ctl_list_has(const char *list, int64_t v);
int64_t ctl_list_highest(const char *list);
/* "infinity", "64M", "1024:64M" as systemd takes a limit.  Errors: -EINVAL. */
must_check int ctl_limit_parse(const char *text, uint64_t *out);

/* ctl_doctor_vfio.c */
void ctl_doctor_kernel(struct ctl_doctor *d);
void ctl_doctor_iommu(struct ctl_doctor *d);
void ctl_doctor_vfio(struct ctl_doctor *d);
void ctl_doctor_drives(struct ctl_doctor *d);
void ctl_doctor_restore(struct ctl_doctor *d);

/* ctl_doctor_service.c */
void ctl_doctor_permissions(struct ctl_doctor *d);
void ctl_doctor_ports(struct ctl_doctor *d);
void ctl_doctor_rdma(struct ctl_doctor *d);
void ctl_doctor_clock(struct ctl_doctor *d);

/* ctl_doctor_store.c */
void ctl_doctor_store(struct ctl_doctor *d);

/* ctl_doctor_host.c */
/* Is the unit of this name installed? */
bool ctl_doctor_has_unit(const struct ctl_doctor *d, const char *unit);
void ctl_doctor_hugepages(struct ctl_doctor *d);
void ctl_doctor_memlock(struct ctl_doctor *d);
void ctl_doctor_numa(struct ctl_doctor *d);
void ctl_doctor_uring(struct ctl_doctor *d);

#endif
