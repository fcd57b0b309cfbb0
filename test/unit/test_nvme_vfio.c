/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Tests the parts of the vfio code that run without vfio: sysfs, answers of the kernel, locked
 * memory, the guard of a BAR. */
#define _GNU_SOURCE
#include "base/seal.h"
#include "nvme/pci/nvme_vfio.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(nvme_vfio, .timeout = 30);

/* ---- sysfs ----------------------------------------------------------------------------- */

static char root[64];

static void put(const char *path, const char *bytes)
{
	char full[256];
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *slash = full + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		(void)mkdir(full, 0755);
		*slash = '/';
	}
	f = fopen(full, "we");
	cr_assert(f, "%s", full);
	fputs(bytes, f);
	fclose(f);
}

static void point(const char *path, const char *to)
{
	char full[256];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	cr_assert_eq(symlink(to, full), 0);
}

static void device(const char *address, const char *class_code, const char *driver,
		   const char *group)
{
	char path[128], to[128];

	snprintf(path, sizeof(path), "bus/pci/devices/%s/class", address);
	put(path, class_code);
	snprintf(path, sizeof(path), "bus/pci/devices/%s/vendor", address);
	put(path, "0x1b36\n");
	snprintf(path, sizeof(path), "bus/pci/devices/%s/device", address);
	put(path, "0x0010\n");
	if (driver) {
		snprintf(path, sizeof(path), "bus/pci/devices/%s/driver", address);
		snprintf(to, sizeof(to), "../../../bus/pci/drivers/%s", driver);
		point(path, to);
	}
	if (!group)
		return;
	snprintf(path, sizeof(path), "bus/pci/devices/%s/iommu_group", address);
	snprintf(to, sizeof(to), "../../../kernel/iommu_groups/%s", group);
	point(path, to);
	snprintf(path, sizeof(path), "kernel/iommu_groups/%s/devices/%s", group, address);
	put(path, "");
}

static void make_tree(void)
{
	snprintf(root, sizeof(root), "/tmp/weka-sysfs-XXXXXX");
	cr_assert(mkdtemp(root));
	device("0000:01:00.0", "0x010802\n", "vfio-pci", "12");
	device("0000:01:00.1", "0x010802\n", "nvme", "12");
	device("0000:00:01.0", "0x060400\n", "pcieport", "12");
	device("0000:02:00.0", "0x010802\n", NULL, "13");
	device("0000:03:00.0", "0x010802\n", "vfio-pci", NULL);
	device("0000:04:00.0", "0x020000\n", "vfio-pci", "14");
}

static void remove_tree(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	cr_assert_eq(system(command), 0);
}

/* Returns what nvme__pci_check() says of the device; its line is in `text`. */
static int check(const char *address, char text[NVME_ERR_TEXT])
{
	const struct nvme_why why = { "pci:x", text, NVME_ERR_TEXT };
	struct nvme_pci pci;

	cr_assert_eq(nvme__pci_read(&pci, root, address), 0);
	text[0] = 0;
	return nvme__pci_check(&pci, &why);
}

Test(nvme_vfio, device_is_read_from_sysfs, .init = make_tree, .fini = remove_tree)
{
	struct nvme_pci pci;

	cr_assert_eq(nvme__pci_read(&pci, root, "0000:01:00.0"), 0);
	cr_assert_str_eq(pci.address, "0000:01:00.0");
	cr_assert_str_eq(pci.driver, "vfio-pci");
	cr_assert_eq(pci.class_code, 0x010802);
	cr_assert_eq(pci.vendor, 0x1b36);
	cr_assert_eq(pci.device, 0x0010);
	cr_assert_eq(pci.group, 12);
	cr_assert_eq(nvme__pci_read(&pci, root, "0000:01:00.2"), -ENODEV);
	cr_assert_eq(nvme__pci_read(&pci, "/nonexistent", "0000:01:00.0"), -ENODEV);
	cr_assert_eq(nvme__pci_read(&pci, root, "0000:02:00.0"), 0);
	cr_assert_str_eq(pci.driver, "");
	cr_assert_eq(nvme__pci_read(&pci, root, "0000:03:00.0"), 0);
	cr_assert_eq(pci.group, -1);
}

Test(nvme_vfio, device_that_is_not_ours_is_refused_with_what_to_do, .init = make_tree,
     .fini = remove_tree)
{
	char text[NVME_ERR_TEXT];

	cr_assert_eq(check("0000:01:00.0", text), 0);
	cr_assert_eq(check("0000:01:00.1", text), -EBUSY);
	cr_assert(strstr(text, "bound to nvme, not to vfio-pci"), "%s", text);
	cr_assert(strstr(text, "wekactl drives attach 0000:01:00.1"), "%s", text);
	cr_assert_eq(check("0000:02:00.0", text), -EBUSY);
	cr_assert(strstr(text, "bound to no driver"), "%s", text);
	cr_assert_eq(check("0000:03:00.0", text), -ENOTSUP);
	cr_assert(strstr(text, "IOMMU"), "%s", text);
	cr_assert_eq(check("0000:04:00.0", text), -ENOTSUP);
	cr_assert(strstr(text, "not an NVMe controller but"), "%s", text);
	cr_assert(strstr(text, "class 020000"), "%s", text);
	cr_assert_eq(strncmp(text, "pci:x: ", 7), 0, "%s", text);
}

Test(nvme_vfio, neighbours_that_hold_a_group_are_named_and_bridges_are_not, .init = make_tree,
     .fini = remove_tree)
{
	struct nvme_pci pci;
	char text[160], tiny[10];

	cr_assert_eq(nvme__pci_read(&pci, root, "0000:01:00.0"), 0);
	nvme__pci_neighbours(&pci, root, text, sizeof(text));
	cr_assert(strstr(text, "0000:01:00.1 ("), "%s", text);
	cr_assert(strstr(text, "driver nvme"), "%s", text);
	cr_assert_not(strstr(text, "0000:00:01.0"), "%s", text);
	cr_assert_not(strstr(text, "0000:01:00.0"), "%s", text);
	nvme__pci_neighbours(&pci, root, tiny, sizeof(tiny));
	cr_assert_eq(strlen(tiny), sizeof(tiny) - 1);
	pci.group = 99;
	nvme__pci_neighbours(&pci, root, text, sizeof(text));
	cr_assert_str_eq(text, "");
}

/* ---- the kernel's answers -------------------------------------------------------------- */

static char answer[512]; /* as unaligned as the kernel's may be */
static size_t answer_size;

static void add(const void *bytes, size_t size)
{
	cr_assert_leq(answer_size + size, sizeof(answer));
	memcpy(answer + answer_size, bytes, size);
	answer_size += size;
}

static void add_header(uint16_t id, uint32_t next)
{
	struct vfio_info_cap_header header = { .id = id, .version = 1, .next = next };

	add(&header, sizeof(header));
}

static void iommu_answer(uint32_t flags, uint32_t cap_offset)
{
	struct vfio_iommu_type1_info info = { .argsz = sizeof(answer),
					      .flags = flags,
					      .cap_offset = cap_offset };

	answer_size = 0;
	add(&info, sizeof(info));
}

static void add_ranges(uint32_t next, uint32_t count, uint32_t said, const uint64_t *ends)
{
	uint32_t counts[2] = { said, 0 };

	add_header(VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE, next);
	add(counts, sizeof(counts));
	add(ends, count * 16);
}

static int ranges_of(struct nvme_vfio_range out[4], uint32_t *count)
{
	char *copy = malloc(answer_size); /* its end is guarded under ASan */
	int err;

	cr_assert(copy);
	memcpy(copy, answer, answer_size);
	err = nvme__vfio_iova_ranges(copy, answer_size, out, 4, count);
	free(copy);
	return err;
}

#define CAPS_AT (sizeof(struct vfio_iommu_type1_info))

Test(nvme_vfio, iova_ranges_are_found_behind_other_capabilities_at_any_alignment)
{
	static const uint64_t ends[] = { 0, 0xfedfffff, 0xfef00000, (1ull << 39) - 1 };
	struct nvme_vfio_range out[4];
	uint32_t count, odd = 7;

	iommu_answer(VFIO_IOMMU_INFO_CAPS, CAPS_AT);
	add_header(77, CAPS_AT + 12);
	add(&odd, 4);
	add_ranges(0, 2, 2, ends);
	cr_assert_eq(ranges_of(out, &count), 0);
	cr_assert_eq(count, 2);
	cr_assert_eq(out[0].last, 0xfedfffff);
	cr_assert_eq(out[1].first, 0xfef00000);
	cr_assert_eq(out[1].last, (1ull << 39) - 1);
}

Test(nvme_vfio, answers_without_ranges_are_told_from_those_that_make_no_sense)
{
	static const uint64_t good[] = { 0, 10, 20, 30 }, back[] = { 20, 30, 0, 10 },
			      empty[] = { 20, 10 }, meet[] = { 0, 20, 20, 30 };
	static const struct {
		const uint64_t *ends;
		uint32_t count, said;
		int err;
	} rows[] = {
		{ good, 2, 2, 0 },       { good, 2, 3, -EPROTO }, { good, 2, UINT32_MAX, -EPROTO },
		{ good, 0, 0, -EPROTO }, { back, 2, 2, -EPROTO }, { empty, 1, 1, -EPROTO },
		{ meet, 2, 2, -EPROTO },
	};
	struct nvme_vfio_range out[4];
	uint32_t count;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		iommu_answer(VFIO_IOMMU_INFO_CAPS, CAPS_AT);
		add_ranges(0, rows[i].count, rows[i].said, rows[i].ends);
		cr_assert_eq(ranges_of(out, &count), rows[i].err, "row %zu", i);
	}
	iommu_answer(0, CAPS_AT);
	add_ranges(0, 2, 2, good);
	cr_assert_eq(ranges_of(out, &count), -ENOENT, "no capabilities, says the flag");
	iommu_answer(VFIO_IOMMU_INFO_CAPS, CAPS_AT);
	add_header(77, CAPS_AT);
	cr_assert_eq(ranges_of(out, &count), -ENOENT, "a chain that bites its tail");
	iommu_answer(VFIO_IOMMU_INFO_CAPS, 0xfffffff0);
	cr_assert_eq(ranges_of(out, &count), -ENOENT, "a chain that begins outside");
	answer_size = 5;
	cr_assert_eq(ranges_of(out, &count), -ENOENT);
}

static void region_answer(uint32_t flags, uint64_t size)
{
	struct vfio_region_info info = {
		.argsz = sizeof(answer), .flags = flags, .cap_offset = sizeof(info), .size = size
	};

	answer_size = 0;
	add(&info, sizeof(info));
}

static void add_areas(uint32_t count, uint32_t said, const uint64_t *areas)
{
	uint32_t counts[2] = { said, 0 };

	add_header(VFIO_REGION_INFO_CAP_SPARSE_MMAP, 0);
	add(counts, sizeof(counts));
	add(areas, count * 16);
}

static uint64_t mappable(uint64_t first)
{
	char *copy = malloc(answer_size);
	uint64_t bytes;

	cr_assert(copy);
	memcpy(copy, answer, answer_size);
	bytes = nvme__vfio_mappable(copy, answer_size, first);
	free(copy);
	return bytes;
}

/* Calls nvme__vfio_reserve() for an IOMMU with these ranges.  Returns its result; its line is in
 * `text`. */
static int reserve(struct nvme_dma *dma, uint32_t count, const uint64_t *ends, char *text)
{
	struct nvme_why why = { "pci:0000:01:00.0", text, NVME_ERR_TEXT };

	text[0] = 0;
	iommu_answer(VFIO_IOMMU_INFO_CAPS, CAPS_AT);
	add_ranges(0, count, count, ends);
	return nvme__vfio_reserve(dma, answer, answer_size, &why);
}

Test(nvme_vfio, iommu_that_is_too_narrow_is_refused_by_name_and_width)
{
	static const uint64_t width[][4] = {
		{ 0, 0xfedfffff, 0xfef00000, (1ull << 39) - 1 }, /* what is needed */
		{ 0, 0xfedfffff, 0xfef00000, UINT64_MAX },
		{ 0, 0xfedfffff, 0xfef00000, (1ull << 39) - 2 },
		{ 0, 0xfedfffff, 0xfef00000, (1ull << 36) - 1 },
		{ 0, 0xfedfffff, 0xfef00000, 0xffffffff },
	};
	char text[NVME_ERR_TEXT];
	struct nvme_dma *dma;

	cr_assert_eq(nvme_dma_create(&dma), 0);
	cr_assert_eq(reserve(dma, 2, width[2], text), -ENOTSUP);
	cr_assert_eq(reserve(dma, 2, width[3], text), -ENOTSUP);
	cr_assert_str_eq(text, "pci:0000:01:00.0: its IOMMU has addresses up to fffffffff only; "
			       "39 bits are needed");
	cr_assert_eq(reserve(dma, 2, width[4], text), -ENOTSUP);
	cr_assert_eq(reserve(dma, 2, width[0], text), 0, "%s", text);
	cr_assert_eq(reserve(dma, 2, width[1], text), 0, "%s", text);
	nvme_dma_destroy(dma);
}

Test(nvme_vfio, nothing_is_mapped_where_the_iommu_has_a_gap)
{
	/* 4 GiB to 6 GiB are the platform's. */
	static const uint64_t gap[] = { 0, (4ull << 30) - 1, 6ull << 30, (1ull << 39) - 1 };
	static const uint64_t other[] = { 0, (6ull << 30) - 1, 7ull << 30, (1ull << 39) - 1 };
	char text[NVME_ERR_TEXT];
	struct nvme_dma *dma;
	uint64_t iova;
	void *page = aligned_alloc(4096, 4096);

	cr_assert_eq(nvme_dma_create(&dma), 0);
	cr_assert_eq(reserve(dma, 2, gap, text), 0);
	cr_assert_eq(nvme_dma_map(dma, page, 4096, &iova), 0);
	cr_assert_eq(iova, 6ull << 30);
	/* A second group's IOMMU has its gap just there. */
	cr_assert_eq(reserve(dma, 2, other, text), -EBUSY);
	cr_assert_str_eq(text, "pci:0000:01:00.0: memory is mapped where its IOMMU cannot map any");
	nvme_dma_unmap(dma, iova, 4096);
	nvme_dma_destroy(dma);
	free(page);
}

Test(nvme_vfio, region_is_mapped_as_far_as_the_kernel_allows)
{
	static const uint64_t areas[] = { 0, 0x2000, 0x3000, 0x1000 }, wild[] = { 0, UINT64_MAX };

	region_answer(VFIO_REGION_INFO_FLAG_MMAP, 0x4000);
	cr_assert_eq(mappable(0), 0x4000);
	cr_assert_eq(mappable(0x1000), 0x3000);
	cr_assert_eq(mappable(0x4000), 0);
	region_answer(0, 0x4000);
	cr_assert_eq(mappable(0), 0, "not at all");

	region_answer(VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_CAPS, 0x4000);
	add_header(VFIO_REGION_INFO_CAP_MSIX_MAPPABLE, 0);
	cr_assert_eq(mappable(0), 0x4000, "the interrupts' table too");

	region_answer(VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_CAPS, 0x4000);
	add_areas(2, 2, areas);
	cr_assert_eq(mappable(0), 0x2000, "all but the page of the interrupts' table");
	cr_assert_eq(mappable(0x2000), 0);
	cr_assert_eq(mappable(0x3800), 0x800);

	region_answer(VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_CAPS, 0x4000);
	add_areas(1, 9, areas + 2);
	cr_assert_eq(mappable(0), 0, "an answer that is shorter than it says");
	region_answer(VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_CAPS, 0x4000);
	add_areas(1, 1, wild);
	cr_assert_eq(mappable(0), 0, "an area beyond the region");
}

/* ---- locked memory --------------------------------------------------------------------- */

Test(nvme_vfio, limit_of_locked_memory_is_explained_with_what_to_type)
{
	struct nvme_memlock lock = { .limit_bytes = 8u << 20, .locked_bytes = 5u << 20 };
	char text[160] = "";

	cr_assert(nvme__memlock_allows(&lock, 3u << 20, text, sizeof(text)));
	cr_assert_str_eq(text, "");
	cr_assert_not(nvme__memlock_allows(&lock, (3u << 20) + 4096, text, sizeof(text)));
	cr_assert(strstr(text, "8196 KiB of memory must be locked"), "%s", text);
	cr_assert(strstr(text, "the limit is 8192 KiB"), "%s", text);
	cr_assert(strstr(text, "ulimit -l 9216 "), "%s", text);
	cr_assert(strstr(text, "LimitMEMLOCK=9M"), "%s", text);
	cr_assert_not(nvme__memlock_allows(&lock, UINT64_MAX, text, sizeof(text)));
	lock.unlimited = true;
	cr_assert(nvme__memlock_allows(&lock, UINT64_MAX, text, sizeof(text)));
}

Test(nvme_vfio, locked_memory_is_read_from_the_kernel, .init = make_tree, .fini = remove_tree)
{
	struct nvme_memlock lock;

	put("self/status", "Name:\tx\nVmLck:\t    2052 kB\nCapEff:\t0000000000000000\n");
	nvme__memlock_read(&lock, root);
	cr_assert_eq(lock.locked_bytes, 2052u << 10);
	put("self/status", "VmLck:\t    0 kB\nCapEff:\t0000000000004000\n");
	nvme__memlock_read(&lock, root);
	cr_assert(lock.unlimited, "CAP_IPC_LOCK");
	nvme__memlock_read(&lock, "/nonexistent");
	cr_assert_eq(lock.locked_bytes, 0);
}

/* ---- a BAR whose device is gone -------------------------------------------------------- */

/* A file stands for the device: cut short, its mapping is SIGBUS. */
static volatile uint32_t *bar(int *fd, uint32_t pages)
{
	void *p;

	*fd = memfd_create("bar", 0);
	cr_assert_eq(ftruncate(*fd, pages * 4096), 0);
	p = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	cr_assert_neq(p, MAP_FAILED);
	return p;
}

Test(nvme_vfio, registers_of_a_device_that_is_gone_are_ones)
{
	uint32_t guard, other_guard;
	uint64_t told = 0;
	int fd, other_fd, tell_fd = eventfd(0, EFD_NONBLOCK);
	volatile uint32_t *gone = bar(&fd, 2), *there = bar(&other_fd, 1);

	gone[0] = 1;
	there[0] = 2;
	cr_assert_eq(nvme__guard_add((void *)gone, 8192, tell_fd, &guard), 0);
	cr_assert_eq(nvme__guard_add((void *)there, 4096, -1, &other_guard), 0);
	cr_assert_eq(gone[0], 1);
	cr_assert_eq(read(tell_fd, &told, sizeof(told)), -1);
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert_eq(gone[2047], 0xffffffff, "its last register");
	cr_assert_eq(gone[0], 0xffffffff);
	gone[1] = 5; /* a doorbell that nobody hears */
	cr_assert_eq(read(tell_fd, &told, sizeof(told)), sizeof(told));
	cr_assert_eq(told, 1, "once");
	cr_assert_eq(there[0], 2);
	nvme__guard_trip(other_guard);
	cr_assert_eq(there[0], 0xffffffff);
	nvme__guard_remove(guard);
	nvme__guard_remove(other_guard);
}

/* The interrupted thread may hold any lock of the process, malloc's above all. */
Test(nvme_vfio, access_after_the_device_has_gone_allocates_nothing)
{
	uint32_t guard, first, last;
	int fd;
	volatile uint32_t *gone = bar(&fd, 1);

	cr_assert_eq(nvme__guard_add((void *)gone, 4096, -1, &guard), 0);
	cr_assert_eq(ftruncate(fd, 0), 0);
	seal_thread();
	first = gone[0];
	last = gone[1023];
	seal_thread_open();
	cr_assert_eq(first & last, 0xffffffff);
	nvme__guard_remove(guard);
}

Test(nvme_vfio, other_accesses_that_fail_end_the_process_as_ever, .signal = SIGBUS)
{
	uint32_t guard;
	int fd, other_fd;
	volatile uint32_t *guarded = bar(&fd, 1), *other = bar(&other_fd, 1);

	cr_assert_neq(signal(SIGBUS, SIG_DFL), SIG_ERR); /* a sanitizer has its own */
	cr_assert_eq(nvme__guard_add((void *)guarded, 4096, -1, &guard), 0);
	cr_assert_eq(ftruncate(other_fd, 0), 0);
	other[0] = 1;
}

Test(nvme_vfio, access_after_the_guard_has_gone_ends_the_process, .signal = SIGBUS)
{
	uint32_t guard;
	int fd;
	volatile uint32_t *p = bar(&fd, 1);

	cr_assert_neq(signal(SIGBUS, SIG_DFL), SIG_ERR); /* a sanitizer has its own */
	cr_assert_eq(nvme__guard_add((void *)p, 4096, -1, &guard), 0);
	nvme__guard_remove(guard);
	cr_assert_eq(ftruncate(fd, 0), 0);
	p[0] = 1;
}

/* ---- without a machine that has vfio --------------------------------------------------- */

Test(nvme_vfio, device_that_is_not_there_is_one_clear_line)
{
	char text[NVME_ERR_TEXT];
	struct nvme_drive *drive;
	struct nvme_dma *dma;

	cr_assert_eq(nvme_dma_create(&dma), 0);
	cr_assert_eq(nvme_open(&drive, "pci:abcd:01:00.0", dma, NULL, text, sizeof(text)), -ENODEV);
	cr_assert_str_eq(text, "pci:abcd:01:00.0: there is no PCI device at this address");
	nvme_dma_destroy(dma);
}
