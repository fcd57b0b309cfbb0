/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl doctor: memory that drives can reach, the polling core's NUMA node, io_uring. */
#include "appliance/core/app_core.h"
#include "appliance/ctl/ctl_doctor.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HUGE_BYTES   (2ull << 20)
#define HUGE_DIR     "hugepages-2048kB"
#define NODES        "/sys/devices/system/node"
#define UNIT         "weka-appliance.service"
#define CAP_IPC_LOCK 14
#define CAP_ADMIN    21 /* CAP_SYS_ADMIN */

/* Returns the memory for the core's buffers and the drives' queues. */
static uint64_t core_bytes(const struct ctl_doctor *d)
{
	struct app_conf *defaults = calloc(1, sizeof(*defaults));
	const struct app_conf *c = d->conf;
	struct app_core_cfg cfg;
	uint64_t bytes;

	ASSERT(defaults);
	if (!c) {
		app_conf_defaults(defaults);
		defaults->ndrives = 1;
		c = defaults;
	}
	cfg = (struct app_core_cfg){
		.ndrives = c->ndrives,
		.cache_bytes = c->cache_bytes,
		.staging_bytes = c->staging_bytes,
		.ops_max = (uint32_t)c->ops_max,
		.batch_in_flight = (uint32_t)c->batch_in_flight,
		.open_puts_max = (uint32_t)c->open_puts_max,
		.opens_max = (uint32_t)c->opens_max,
		.queue_depth = (uint32_t)c->queue_depth,
		.nshards = (uint32_t)c->shards,
	};
	bytes = app_core_memory_needed(&cfg) + c->ndrives * HUGE_BYTES;
	free(defaults);
	return align_up(bytes, HUGE_BYTES);
}

/* ---- huge pages --------------------------------------------------------------------------- */

static int64_t huge_count(const struct ctl_doctor *d, int32_t node, const char *what)
{
	int64_t count;
	int err;

	if (node >= 0)
		err = ctl_sysfs_i64(&count, d->root, NODES "/node%d/hugepages/" HUGE_DIR "/%s",
				    node, what);
	else
		err = ctl_sysfs_i64(&count, d->root, "/sys/kernel/mm/hugepages/" HUGE_DIR "/%s",
				    what);
	return err || count < 0 ? 0 : count;
}

static void say_huge(struct ctl_doctor *d, int32_t node, const char *where, int64_t needed)
{
	int64_t total = huge_count(d, node, "nr_hugepages");
	int64_t unused = huge_count(d, node, "free_hugepages");
	char path[CTL_PATH_SIZE];

	if (needed == 0 || total >= needed) {
		ctl_doctor_ok(d, "hugepages", "%s%lld of 2 MiB, %lld free%s", where,
			      (long long)total, (long long)unused,
			      needed ? "" : "; none are needed here");
		return;
	}
	ctl_doctor_wrong_is(d, "hugepages", "%s%lld of 2 MiB, the configuration wants %lld", where,
			    (long long)total, (long long)needed);
	if (node >= 0)
		snprintf(path, sizeof(path), NODES "/node%d/hugepages/" HUGE_DIR "/nr_hugepages",
			 node);
	else
		snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/" HUGE_DIR "/nr_hugepages");
	ctl_doctor_fix(d,
		       "echo 'w %.100s - - - - %lld' > /etc/tmpfiles.d/weka-hugepages.conf && "
		       "systemd-tmpfiles --create weka-hugepages.conf",
		       path, (long long)needed);
}

/* Drives that are ours reach memory by tables of the IOMMU: huge pages make those short. */
void ctl_doctor_hugepages(struct ctl_doctor *d)
{
	bool wanted = ctl_doctor_kind(d, "pci:") || ctl_doctor_kind(d, "vfio-user:");
	int64_t needed = wanted ? (int64_t)(core_bytes(d) / HUGE_BYTES) : 0;
	int32_t home = ctl_doctor_node_of(d, ctl_doctor_core(d));
	struct ctl_entries e;
	uint32_t nodes = 0;
	char where[32];
	int64_t node;

	if (ctl_sysfs_list(&e, d->root, NODES) == 0)
		for (uint32_t i = 0; i < e.count; i++) {
			if (strncmp(e.name[i], "node", 4) != 0 ||
			    ctl_parse_i64(e.name[i] + 4, &node) || node < 0 || node > 1023)
				continue;
			nodes++;
			if (home < 0)
				home = (int32_t)node;
			snprintf(where, sizeof(where), "node %d: ", (int)node);
			say_huge(d, (int32_t)node, where, node == home ? needed : 0);
		}
	ctl_entries_free(&e);
	if (!nodes)
		say_huge(d, -1, "", needed);
}

/* ---- memory that may be locked
 * -------------------------------------------------------------------- */

int ctl_limit_parse(const char *text, uint64_t *out)
{
	char soft[32];

	snprintf(soft, sizeof(soft), "%.*s", (int)min_u64(strcspn(text, ":"), 31), text);
	if (strcmp(soft, "infinity") == 0 || strcmp(soft, "unlimited") == 0) {
		*out = UINT64_MAX;
		return 0;
	}
	return app_conf_parse_size(soft, out);
}

static void print_bytes(char *out, size_t size, uint64_t bytes)
{
	if (bytes == UINT64_MAX)
		snprintf(out, size, "no limit");
	else if (bytes >= 1u << 20)
		snprintf(out, size, "%llu MiB", (unsigned long long)(bytes >> 20));
	else
		snprintf(out, size, "%llu KiB", (unsigned long long)(bytes >> 10));
}

/* The last LimitMEMLOCK= of a file of a unit into *limit; false: it is not there. */
static bool unit_limit(const struct ctl_doctor *d, const char *path, uint64_t *limit)
{
	static const char key[] = "LimitMEMLOCK=";
	char *text, *at, *line;
	size_t bytes;

	if (ctl_sysfs_slurp(&text, &bytes, d->root, "%s", path))
		return false;
	for (at = text; (line = ctl_next_line(&at));) {
		uint64_t value;

		line += strspn(line, " \t");
		if (strncmp(line, key, sizeof(key) - 1) == 0 &&
		    ctl_limit_parse(line + sizeof(key) - 1, &value) == 0)
			*limit = value;
	}
	free(text);
	return true;
}

static const char *const unit_dirs[] = { "/etc/systemd/system", "/run/systemd/system",
					 "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
					 "/lib/systemd/system" };

bool ctl_doctor_has_unit(const struct ctl_doctor *d, const char *unit)
{
	for (size_t i = 0; i < ARRAY_LEN(unit_dirs); i++)
		if (ctl_sysfs_exists(d->root, "%s/%s", unit_dirs[i], unit))
			return true;
	return false;
}

/* Reads the limit from the unit of highest precedence and its drop-ins.  False: no unit. */
static bool service_limit(const struct ctl_doctor *d, uint64_t *limit)
{
	char path[CTL_PATH_SIZE];
	struct ctl_entries e;
	bool found = false;

	*limit = 8u << 20; /* systemd's own default */
	for (size_t i = 0; i < ARRAY_LEN(unit_dirs) && !found; i++) {
		snprintf(path, sizeof(path), "%s/" UNIT, unit_dirs[i]);
		found = unit_limit(d, path, limit);
	}
	for (size_t i = ARRAY_LEN(unit_dirs); i-- > 0;) {
		if (ctl_sysfs_list(&e, d->root, "%s/" UNIT ".d", unit_dirs[i]) == 0)
			for (uint32_t k = 0; k < e.count; k++) {
				snprintf(path, sizeof(path), "%s/" UNIT ".d/%s", unit_dirs[i],
					 e.name[k]);
				(void)unit_limit(d, path, limit);
			}
		ctl_entries_free(&e);
	}
	return found;
}

/* "Max locked memory   SOFT   HARD   bytes" */
static bool own_limit(const struct ctl_doctor *d, uint64_t *limit)
{
	static const char key[] = "Max locked memory";
	char *text, *at, *line, *word;
	bool found = false;
	size_t bytes;

	if (ctl_sysfs_slurp(&text, &bytes, d->root, "/proc/self/limits"))
		return false;
	for (at = text; !found && (line = ctl_next_line(&at));) {
		if (strncmp(line, key, sizeof(key) - 1) != 0)
			continue;
		line += sizeof(key) - 1;
		word = ctl_next_word(&line);
		found = word && ctl_limit_parse(word, limit) == 0;
	}
	free(text);
	return found;
}

static void look_unit(struct ctl_doctor *d, uint64_t limit, uint64_t needed)
{
	char is[32], wants[32];

	print_bytes(is, sizeof(is), limit);
	print_bytes(wants, sizeof(wants), needed);
	if (limit >= needed || !ctl_doctor_wants_vfio(d)) {
		ctl_doctor_ok(d, "memlock", UNIT ": %s", is);
		return;
	}
	ctl_doctor_wrong_is(d, "memlock", UNIT ": %s, up to %s are wanted", is, wants);
	ctl_doctor_fix(
		d, "mkdir -p /etc/systemd/system/" UNIT
		   ".d && printf '[Service]\\nLimitMEMLOCK=infinity\\n' > /etc/systemd/system/" UNIT
		   ".d/memlock.conf && systemctl daemon-reload");
}

void ctl_doctor_memlock(struct ctl_doctor *d)
{
	uint64_t clients = d->conf ? d->conf->pools_max_bytes : 0, needed, limit, unit;
	bool service = service_limit(d, &unit);
	char is[32], wants[32];

	if (add_overflows(core_bytes(d), clients, &needed))
		needed = UINT64_MAX;
	if (service)
		look_unit(d, unit, needed);
	if (ctl_doctor_capable(d, CAP_IPC_LOCK)) {
		ctl_doctor_ok(d, "memlock", "this user may lock all memory");
		return;
	}
	if (!own_limit(d, &limit))
		limit = 0;
	print_bytes(is, sizeof(is), limit);
	print_bytes(wants, sizeof(wants), needed);
	if (limit >= needed) {
		ctl_doctor_ok(d, "memlock", "this shell: %s", is);
	} else if (!ctl_doctor_wants_vfio(d)) {
		ctl_doctor_ok(
			d, "memlock",
			"this shell: %s; only pci: drives need more, others are faster with it",
			is);
	} else if (service) {
		ctl_doctor_ok(d, "memlock", "this shell: %s; the service has a limit of its own",
			      is);
	} else {
		ctl_doctor_wrong_is(d, "memlock", "this shell: %s, up to %s are wanted", is, wants);
		ctl_doctor_fix(d, "echo \"$(id -un) - memlock unlimited\" | sudo tee "
				  "/etc/security/limits.d/weka.conf   # and log in again");
	}
}

/* ---- NUMA
 * -------------------------------------------------------------------------------------------- */

/* The number of 10ths of a local access that one from `from` to `to` takes; 0: unknown. */
static int64_t distance(const struct ctl_doctor *d, int32_t from, int32_t to)
{
	char text[4096], *at = text, *word;
	int64_t v = 0;

	if (ctl_sysfs_read(text, sizeof(text), d->root, NODES "/node%d/distance", from))
		return 0;
	for (int32_t i = 0; i <= to; i++) {
		word = ctl_next_word(&at);
		if (!word || ctl_parse_i64(word, &v))
			return 0;
	}
	return v;
}

static int64_t last_cpu_of(const struct ctl_doctor *d, int32_t node)
{
	char list[1024];

	if (ctl_sysfs_read(list, sizeof(list), d->root, NODES "/node%d/cpulist", node))
		return -1;
	return ctl_list_highest(list);
}

/* The node of most of the configured drives, -1 when none says. */
static int32_t node_of_drives(const struct ctl_doctor *d)
{
	uint32_t count[1024] = { 0 };
	char pci[CTL_PCI_SIZE];
	int32_t most = -1;

	for (uint32_t i = 0; d->conf && i < d->conf->ndrives; i++) {
		const struct ctl_drive *drive = NULL;

		if (ctl_doctor_pci(d->conf->drive[i], pci))
			drive = ctl_doctor_drive(d, pci);
		if (!drive || drive->node < 0)
			continue;
		ASSERT(drive->node < (int32_t)ARRAY_LEN(count));
		count[drive->node]++;
		if (most < 0 || count[drive->node] > count[most])
			most = drive->node;
	}
	return most;
}

void ctl_doctor_numa(struct ctl_doctor *d)
{
	int32_t cpu = ctl_doctor_core(d), home = ctl_doctor_node_of(d, cpu);
	int32_t drives = node_of_drives(d);
	int64_t better;

	if (drives < 0)
		return; /* one node, or no drive that is on one */
	if (cpu < 0 || home < 0) {
		ctl_doctor_ok(d, "numa", "most drives on node %d, the core is not pinned", drives);
		return;
	}
	if (home == drives) {
		ctl_doctor_ok(d, "numa", "core %d is on node %d, as most drives are", cpu, home);
		return;
	}
	ctl_doctor_wrong_is(d, "numa",
			    "core %d is on node %d, most drives on node %d (distance %lld)", cpu,
			    home, drives, (long long)distance(d, home, drives));
	better = last_cpu_of(d, drives);
	if (better < 0)
		better = 0;
	ctl_doctor_fix(d,
		       "grep -q '^core' %s && sed -i 's/^core.*/core = %lld/' %s || echo 'core = "
		       "%lld' >> %s",
		       d->conf_file, (long long)better, d->conf_file, (long long)better,
		       d->conf_file);
}

/* ---- io_uring
 * -------------------------------------------------------------------------------------------
 */

void ctl_doctor_uring(struct ctl_doctor *d)
{
	bool wanted = !d->conf || ctl_doctor_kind(d, "file:") > 0;
	int64_t disabled;

	/* Kernels before 6.6 have no such switch. */
	if (ctl_sysfs_i64(&disabled, d->root, "/proc/sys/kernel/io_uring_disabled") ||
	    disabled == 0) {
		ctl_doctor_ok(d, "io_uring", "allowed");
		return;
	}
	if (!wanted || (disabled == 1 && ctl_doctor_capable(d, CAP_ADMIN))) {
		ctl_doctor_ok(d, "io_uring",
			      wanted ? "allowed to this user"
				     : "forbidden, and no file: drive wants it");
		return;
	}
	ctl_doctor_wrong_is(d, "io_uring",
			    "forbidden (kernel.io_uring_disabled = %lld): file: drives "
			    "need it",
			    (long long)disabled);
	ctl_doctor_fix(d,
		       "echo 'kernel.io_uring_disabled = 0' > /etc/sysctl.d/80-weka.conf && sysctl "
		       "-p /etc/sysctl.d/80-weka.conf");
}
