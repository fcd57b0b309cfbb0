/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The limit of locked memory, checked before the kernel refuses.
 *
 * vfio pins the memory that it maps, huge pages too, and counts it as the process's locked memory,
 * in addition to mlock(): no page may be counted twice, or the limit would have to be twice as
 * high.  CAP_IPC_LOCK overrides the limit.
 */
#include "nvme/pci/nvme_vfio.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define CAP_IPC_LOCK_BIT 14

void nvme__memlock_read(struct nvme_memlock *out, const char *proc)
{
	char path[PATH_MAX], line[128];
	struct rlimit limit;
	FILE *f;

	memset(out, 0, sizeof(*out));
	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		out->unlimited = true;
	else
		out->limit_bytes = limit.rlim_cur;
	(void)snprintf(path, sizeof(path), "%s/self/status", proc);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "VmLck:", 6) == 0)
			out->locked_bytes = strtoull(line + 6, NULL, 10) << 10;
		else if (strncmp(line, "CapEff:", 7) == 0)
			out->unlimited |= strtoull(line + 7, NULL, 16) >> CAP_IPC_LOCK_BIT & 1;
	}
	fclose(f);
}

bool nvme__memlock_allows(const struct nvme_memlock *lock, uint64_t more_bytes, char *text,
			  size_t text_size)
{
	uint64_t all_bytes, need_kib;

	if (lock->unlimited)
		return true;
	if (add_overflows(lock->locked_bytes, more_bytes, &all_bytes))
		all_bytes = UINT64_MAX;
	if (all_bytes <= lock->limit_bytes)
		return true;
	need_kib = div_up(all_bytes, 1u << 20) << 10;
	(void)snprintf(text, text_size,
		       "%llu KiB of memory must be locked for its DMA, the limit is %llu KiB; "
		       "type: ulimit -l %llu (systemd: LimitMEMLOCK=%lluM)",
		       (unsigned long long)all_bytes >> 10,
		       (unsigned long long)lock->limit_bytes >> 10, (unsigned long long)need_kib,
		       (unsigned long long)need_kib >> 10);
	return false;
}
