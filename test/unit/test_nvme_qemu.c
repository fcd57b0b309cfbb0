/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The driver against QEMU's model of an NVMe controller, which nobody of us wrote.  What the
 * drive is said to hold is compared with the image file, byte by byte.
 */
#define _GNU_SOURCE
#include "test/lib/qtest_nvme.h"
#include "base/clock.h"
#include "base/rand.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUF_BYTES   (4u << 20)
#define IMAGE_BYTES (32u << 20)
#define IMAGES_MAX  3u

struct rig {
	char image[IMAGES_MAX][64];
	struct nvme_dma *dma;
	uint8_t *buf;
	uint64_t iova;
	struct nvme_drive *drive;
	struct nvme_qpair *qp;
	struct nvme_info info;
	uint64_t io_timeout_ns; /* of drives that are opened from now on; 0: the usual */
	char err_text[NVME_ERR_TEXT];
};

static struct rig rig;

static void make_image(uint32_t i, uint64_t size_bytes)
{
	int fd;

	snprintf(rig.image[i], sizeof(rig.image[i]), "/tmp/weka-qemu.XXXXXX");
	fd = mkstemp(rig.image[i]);
	cr_assert(fd >= 0 && ftruncate(fd, (off_t)size_bytes) == 0);
	close(fd);
}

static void rig_up(void)
{
	if (!qtest_nvme_there()) {
		fprintf(stderr, "skip: no qemu-system-x86_64 here (package qemu-system-x86)\n");
		cr_skip_test("no qemu-system-x86_64");
	}
	for (uint32_t i = 0; i < IMAGES_MAX; i++)
		make_image(i, IMAGE_BYTES + i * (1u << 20));
	cr_assert_eq(nvme_dma_create(&rig.dma), 0);
	rig.buf = mmap(NULL, BUF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(rig.buf != MAP_FAILED);
	cr_assert_eq(nvme_dma_map(rig.dma, rig.buf, BUF_BYTES, &rig.iova), 0);
}

/* A drive over QEMU with these arguments; "%0" to "%2" in one are the images. */
static int open_drive(const char *const *args, uint32_t nsid)
{
	static char text[QTEST_ARGS_MAX][512];
	const char *argv[QTEST_ARGS_MAX] = { 0 };
	struct nvme_options options = { .qpair_count_max = 4, .io_timeout_ns = rig.io_timeout_ns };
	char name[64];

	for (size_t i = 0; args[i]; i++) {
		const char *at = strchr(args[i], '%');

		cr_assert(i + 1 < QTEST_ARGS_MAX);
		snprintf(text[i], sizeof(text[i]), "%.*s%s%s",
			 (int)(at ? (size_t)(at - args[i]) : strlen(args[i])), args[i],
			 at ? rig.image[at[1] - '0'] : "", at ? at + 2 : "");
		argv[i] = text[i];
	}
	/* The seam's kinds of names do not know QEMU; of this one only the namespace is read. */
	snprintf(name, sizeof(name), nsid ? "vfio-user:qemu?nsid=%u" : "vfio-user:qemu", nsid);
	return nvme__drive_up(&rig.drive, &qtest_nvme_ops, qtest_nvme_start(rig.dma, argv), name,
			      rig.dma, &options, rig.err_text, sizeof(rig.err_text));
}

static void queues_up(uint32_t depth)
{
	nvme_drive_info(rig.drive, &rig.info);
	cr_assert_eq(nvme_qpair_create(rig.drive, depth, &rig.qp), 0);
}

static void drive_up(const char *const *args, uint32_t nsid, uint32_t depth)
{
	int err = open_drive(args, nsid);

	cr_assert_eq(err, 0, "%s", rig.err_text);
	queues_up(depth);
}

static void drive_down(void)
{
	nvme_qpair_destroy(rig.qp);
	nvme_close(rig.drive);
	rig.qp = NULL;
	rig.drive = NULL;
}

static void rig_down(void)
{
	drive_down();
	nvme_dma_unmap(rig.dma, rig.iova, BUF_BYTES);
	nvme_dma_destroy(rig.dma);
	munmap(rig.buf, BUF_BYTES);
	for (uint32_t i = 0; i < IMAGES_MAX; i++)
		cr_assert_eq(unlink(rig.image[i]), 0);
}

/* ---- I/O, and the witness ------------------------------------------------------------------ */

static int finish(struct nvme_io *io)
{
	uint64_t deadline_ns = clock_now_ns() + 20 * NS_PER_S;
	struct nvme_io *done[1];

	nvme_ring(rig.qp);
	while (nvme_poll(rig.qp, done, 1) == 0) {
		cr_assert(clock_now_ns() < deadline_ns, "no answer to an I/O");
		sched_yield(); /* QEMU needs the processor, too */
	}
	cr_assert_eq(done[0], io);
	return io->status;
}

static int run_io(enum nvme_op op, uint64_t block, uint32_t nblocks, uint64_t at, bool fua)
{
	struct nvme_io io = {
		.op = op, .fua = fua, .block = block, .nblocks = nblocks, .iova = rig.iova + at
	};

	cr_assert_eq(nvme_submit(rig.qp, &io), 0);
	return finish(&io);
}

static void fill(uint8_t *bytes, uint64_t size, uint64_t seed)
{
	struct rand_state r;

	rand_seed(&r, seed);
	for (uint64_t i = 0; i < size; i += 8) {
		uint64_t v = rand_u64(&r);

		memcpy(bytes + i, &v, 8);
	}
}

/* Returns true if image `i`, as the host sees it, has these bytes. */
static bool image_holds(uint32_t i, uint64_t block, const uint8_t *bytes, uint32_t nblocks)
{
	uint64_t size = (uint64_t)nblocks * NVME_BLOCK_SIZE;
	uint8_t *there = malloc(size);
	int fd = open(rig.image[i], O_RDONLY | O_CLOEXEC);
	bool same;

	cr_assert(there && fd >= 0);
	cr_assert_eq(pread(fd, there, size, (off_t)(block * NVME_BLOCK_SIZE)), (ssize_t)size);
	same = memcmp(there, bytes, size) == 0;
	free(there);
	close(fd);
	return same;
}

static void write_and_read(uint32_t image, uint64_t block, uint32_t nblocks, uint64_t seed)
{
	uint64_t size = (uint64_t)nblocks * NVME_BLOCK_SIZE;
	uint8_t *to = rig.buf + BUF_BYTES / 2;

	ASSERT(size <= BUF_BYTES / 2);
	fill(rig.buf, size, seed);
	memset(to, 0xa5, size);
	cr_assert_eq(run_io(NVME_WRITE, block, nblocks, 0, false), 0);
	cr_assert_eq(run_io(NVME_READ, block, nblocks, BUF_BYTES / 2, false), 0);
	cr_assert_eq(memcmp(rig.buf, to, size), 0, "%u blocks read", nblocks);
	cr_assert(image_holds(image, block, rig.buf, nblocks), "%u blocks in the image", nblocks);
}

/* Each length up to twice MDTS, from everywhere in a page's worth of blocks. */
static void every_length(uint32_t image)
{
	uint32_t most = 2 * rig.info.transfer_max_bytes / NVME_BLOCK_SIZE;

	for (uint32_t n = 1; n <= most; n++)
		write_and_read(image, n * 3, n, n);
}

/* ---- drives -------------------------------------------------------------------------------- */

#define BLOCKDEV(node, image)                                                                      \
	"-blockdev", "driver=file,cache.direct=off,node-name=" node ",filename=%" image
#define NVME(more)     "-device", "nvme,id=nv,serial=QEMU1,addr=4" more
#define NS(node, more) "-device", "nvme-ns,bus=nv,drive=" node more
#define LBA_4K         ",logical_block_size=4096,physical_block_size=4096"

static const char *const drive_4k[] = { BLOCKDEV("d0", "0"), NVME(",mdts=5"), NS("d0", LBA_4K),
					NULL };
static const char *const drive_512[] = { BLOCKDEV("d0", "0"), NVME(",mdts=5"), NS("d0", ""), NULL };
static const char *const drive_three[] = { BLOCKDEV("d0", "0"),          BLOCKDEV("d1", "1"),
					   BLOCKDEV("d2", "2"),          NVME(""),
					   NS("d0", ",nsid=3" LBA_4K),   NS("d1", ",nsid=7"),
					   NS("d2", ",nsid=200" LBA_4K), NULL };

Test(nvme_qemu, a_controller_of_others_comes_up_and_says_what_it_is, .timeout = 60)
{
	rig_up();
	drive_up(drive_4k, 0, 32);
	cr_assert_eq(rig.info.nblocks, IMAGE_BYTES / NVME_BLOCK_SIZE);
	cr_assert_eq(rig.info.transfer_max_bytes, 128u << 10);
	cr_assert_eq(rig.info.lba_bytes, 4096);
	cr_assert_eq(rig.info.nsid, 1);
	cr_assert(rig.info.volatile_cache);
	cr_assert_str_eq(rig.info.serial, "QEMU1");
	cr_assert_str_eq(rig.info.model, "QEMU NVMe Ctrl");
	cr_assert_eq(rig.info.qpair_count_max, 4);
	rig_down();
}

Test(nvme_qemu, every_length_in_blocks_of_4096, .timeout = 60)
{
	rig_up();
	drive_up(drive_4k, 0, 32);
	every_length(0);
	rig_down();
}

Test(nvme_qemu, every_length_in_blocks_of_512, .timeout = 60)
{
	rig_up();
	drive_up(drive_512, 0, 32);
	cr_assert_eq(rig.info.lba_bytes, 512);
	cr_assert_eq(rig.info.nblocks, IMAGE_BYTES / NVME_BLOCK_SIZE);
	every_length(0);
	rig_down();
}

Test(nvme_qemu, every_length_by_lists_of_pages, .timeout = 60)
{
	rig_up();
	cr_assert_eq(open_drive(drive_4k, 0), 0);
	cr_assert(rig.drive->sgl, "QEMU has SGLs: the other tests use them");
	rig.drive->sgl = false;
	queues_up(32);
	every_length(0);
	rig_down();
}

Test(nvme_qemu, a_controller_without_a_limit_takes_a_large_transfer, .timeout = 60)
{
	static const char *const args[] = { BLOCKDEV("d0", "0"), NVME(",mdts=0"), NS("d0", LBA_4K),
					    NULL };

	rig_up();
	drive_up(args, 0, 8);
	cr_assert_geq(rig.info.transfer_max_bytes, 1u << 20);
	write_and_read(0, 5, 512, 1);
	write_and_read(0, 1000, 257, 2);
	rig_down();
}

Test(nvme_qemu, each_namespace_is_its_own_drive, .timeout = 60)
{
	static const uint32_t nsids[] = { 3, 7, 200, 0 };

	rig_up();
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t image = i % 3;

		drive_up(drive_three, nsids[i], 8);
		cr_assert_eq(rig.info.nsid, nsids[image]);
		cr_assert_eq(rig.info.lba_bytes, image == 1 ? 512 : 4096);
		cr_assert_eq(rig.info.nblocks,
			     (IMAGE_BYTES + image * (1u << 20)) / NVME_BLOCK_SIZE);
		write_and_read(image, 9, 40, 77 + i);
		drive_down();
	}
	rig_down();
}

static void refuses(const char *const *args, uint32_t nsid, int want, const char *text)
{
	int err;

	rig_up();
	err = open_drive(args, nsid);
	cr_assert_eq(err, want, "%d: %s", err, rig.err_text);
	cr_assert(strstr(rig.err_text, text), "no '%s' in: %s", text, rig.err_text);
	cr_assert(!strchr(rig.err_text, '\n'));
	rig.drive = NULL;
	rig_down();
}

Test(nvme_qemu, a_namespace_that_is_not_there_is_refused, .timeout = 60)
{
	refuses(drive_three, 5, -ENODEV, "5");
}

Test(nvme_qemu, a_controller_without_namespaces_is_refused, .timeout = 60)
{
	static const char *const args[] = { NVME(""), NULL };

	refuses(args, 0, -ENOTSUP, "namespace");
}

Test(nvme_qemu, blocks_with_metadata_are_refused, .timeout = 60)
{
	static const char *const args[] = { BLOCKDEV("d0", "0"), NVME(""),
					    NS("d0", LBA_4K ",ms=64,mset=1"), NULL };

	refuses(args, 0, -ENOTSUP, "metadata");
}

/* ---- commands ------------------------------------------------------------------------------- */

Test(nvme_qemu, flushes_and_forced_writes_are_taken, .timeout = 60)
{
	rig_up();
	drive_up(drive_4k, 0, 8);
	for (uint32_t i = 0; i < 20; i++) {
		fill(rig.buf, NVME_BLOCK_SIZE, i);
		cr_assert_eq(run_io(NVME_WRITE, i, 1, 0, i % 2), 0);
		cr_assert_eq(run_io(NVME_FLUSH, 0, 0, 0, false), 0);
		cr_assert(image_holds(0, i, rig.buf, 1));
	}
	rig_down();
}

Test(nvme_qemu, blocks_beyond_the_end_are_refused_and_the_last_one_is_not, .timeout = 60)
{
	rig_up();
	drive_up(drive_512, 0, 8);
	write_and_read(0, rig.info.nblocks - 1, 1, 5);
	cr_assert_eq(run_io(NVME_READ, rig.info.nblocks, 1, 0, false), -ERANGE);
	cr_assert_eq(run_io(NVME_WRITE, rig.info.nblocks - 1, 2, 0, false), -ERANGE);
	cr_assert_eq(run_io(NVME_READ, rig.info.nblocks + (1ull << 33), 1, 0, false), -ERANGE);
	write_and_read(0, 3, 1, 6);
	rig_down();
}

/* Exactly the blocks named: those on both sides keep what they hold. */
static void zero_and_deallocate(const char *const *args)
{
	static uint8_t want[100 * NVME_BLOCK_SIZE];

	rig_up();
	drive_up(args, 0, 8);
	cr_assert_geq(rig.info.zero_max_blocks, 30);
	cr_assert_geq(rig.info.deallocate_max_blocks, 10);
	write_and_read(0, 10, 100, 3);
	memcpy(want, rig.buf, sizeof(want));
	cr_assert_eq(run_io(NVME_ZERO, 20, 30, 0, false), 0);
	memset(want + 10 * NVME_BLOCK_SIZE, 0, 30 * NVME_BLOCK_SIZE);
	cr_assert(image_holds(0, 10, want, 100));
	cr_assert_eq(run_io(NVME_DEALLOCATE, 60, 10, 0, false), 0);
	cr_assert(image_holds(0, 10, want, 50));
	cr_assert(image_holds(0, 70, want + 60 * NVME_BLOCK_SIZE, 40));
	rig_down();
}

Test(nvme_qemu, zeroes_and_deallocation_hit_exactly_their_blocks_of_4096, .timeout = 60)
{
	zero_and_deallocate(drive_4k);
}

Test(nvme_qemu, zeroes_and_deallocation_hit_exactly_their_blocks_of_512, .timeout = 60)
{
	zero_and_deallocate(drive_512);
}

/* An image in which one sector of 512 cannot be read, and another not be written. */
static const char *const drive_bad[] = {
	"-blockdev",
	"{\"driver\":\"raw\",\"node-name\":\"d0\",\"file\":{\"driver\":\"blkdebug\","
	"\"inject-error\":["
	"{\"event\":\"none\",\"iotype\":\"read\",\"errno\":5,\"sector\":85,\"once\":false},"
	"{\"event\":\"none\",\"iotype\":\"write\",\"errno\":5,\"sector\":160,\"once\":false}],"
	"\"image\":{\"driver\":\"file\",\"filename\":\"%0\"}}}",
	NVME(",mdts=5"),
	NS("d0", LBA_4K),
	NULL,
};

Test(nvme_qemu, errors_of_the_medium_hit_exactly_their_blocks, .timeout = 60)
{
	struct nvme_stats stats;

	rig_up();
	drive_up(drive_bad, 0, 32);
	for (uint64_t block = 0; block < 32; block++) {
		cr_assert_eq(run_io(NVME_READ, block, 1, 0, false), block == 85 / 8 ? -ENODATA : 0,
			     "block %lu", block);
		cr_assert_eq(run_io(NVME_WRITE, block, 1, 0, false), block == 160 / 8 ? -EIO : 0,
			     "block %lu", block);
	}
	/* A long I/O of several commands fails as a whole, once. */
	cr_assert_eq(run_io(NVME_READ, 0, 100, 0, false), -ENODATA);
	cr_assert_eq(run_io(NVME_READ, 11, 100, 0, false), 0);
	nvme_qpair_stats(rig.qp, &stats);
	cr_assert_eq(stats.error_count, 3);
	rig_down();
}

/* ---- many at once --------------------------------------------------------------------------- */

#define SLOTS 24u

/* Each slot owns its blocks and a part of the buffer; the queue wraps many times. */
static void crowd(uint32_t rounds)
{
	static struct nvme_io io[SLOTS];
	static uint64_t holds[SLOTS]; /* the seed of what its blocks hold; 0: not written */
	struct nvme_io *done[8];
	uint64_t deadline_ns = clock_now_ns() + 40 * NS_PER_S;
	uint32_t started = 0, ended = 0;
	struct rand_state r;

	rand_seed(&r, 1);
	for (uint32_t i = 0; i < SLOTS; i++)
		io[i] = (struct nvme_io){ .owner = &holds[i], .status = -EINPROGRESS };
	while (ended < rounds) {
		for (uint32_t i = 0; i < SLOTS && started < rounds; i++) {
			uint8_t *part = rig.buf + (size_t)i * 16 * NVME_BLOCK_SIZE;
			bool read = holds[i] && rand_u64(&r) % 2;

			if (io[i].nblocks)
				continue;
			io[i].op = read ? NVME_READ : NVME_WRITE;
			io[i].nblocks = 16;
			io[i].block = 100 + 16 * i;
			io[i].iova = rig.iova + (uint64_t)(part - rig.buf);
			if (read) {
				memset(part, 0xa5, 16 * NVME_BLOCK_SIZE);
			} else {
				holds[i] = started + 1;
				fill(part, 16 * NVME_BLOCK_SIZE, holds[i]);
			}
			if (nvme_submit(rig.qp, &io[i]) == -EAGAIN) {
				io[i].nblocks = 0;
				if (!read)
					holds[i] = 0; /* not written, and what was is not known */
				break;
			}
			started++;
		}
		nvme_ring(rig.qp);
		for (uint32_t n = nvme_poll(rig.qp, done, ARRAY_LEN(done)); n > 0; n--) {
			struct nvme_io *d = done[n - 1];
			size_t i = (size_t)(d - io);
			static uint8_t want[16 * NVME_BLOCK_SIZE];

			cr_assert_eq(d->status, 0);
			fill(want, sizeof(want), holds[i]);
			cr_assert_eq(memcmp(want, rig.buf + i * sizeof(want), sizeof(want)), 0);
			d->nblocks = 0;
			ended++;
		}
		cr_assert(clock_now_ns() < deadline_ns);
		sched_yield();
	}
	cr_assert_eq(nvme_qpair_in_flight(rig.qp), 0);
}

Test(nvme_qemu, a_crowd_of_reads_and_writes_over_a_small_queue, .timeout = 60)
{
	rig_up();
	drive_up(drive_512, 0, 7);
	crowd(1500);
	rig_down();
}

Test(nvme_qemu, several_queue_pairs_and_their_ends, .timeout = 60)
{
	struct nvme_qpair *first, *other[3];

	rig_up();
	drive_up(drive_4k, 0, 16);
	first = rig.qp;
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(nvme_qpair_create(rig.drive, 4 + i, &other[i]), 0);
	for (uint32_t i = 0; i < 12; i++) {
		rig.qp = i % 4 ? other[i % 4 - 1] : first;
		write_and_read(0, 50 * i, 40, i);
	}
	nvme_qpair_destroy(other[1]);
	cr_assert_eq(nvme_qpair_create(rig.drive, 8, &other[1]), 0);
	rig.qp = other[1];
	write_and_read(0, 3000, 20, 99);
	for (uint32_t i = 0; i < 3; i++)
		nvme_qpair_destroy(other[i]);
	rig.qp = first;
	write_and_read(0, 3100, 20, 100);
	rig_down();
}

Test(nvme_qemu, a_queue_pair_is_stopped_with_reads_in_flight, .timeout = 60)
{
	struct nvme_io io[10], *done[10];
	uint32_t back = 0;

	rig_up();
	drive_up(drive_4k, 0, 16);
	for (uint32_t i = 0; i < 10; i++) {
		io[i] = (struct nvme_io){ .op = NVME_READ, .nblocks = 16, .block = i * 16 };
		io[i].iova = rig.iova + i * 65536;
		cr_assert_eq(nvme_submit(rig.qp, &io[i]), 0);
	}
	nvme_ring(rig.qp);
	nvme_qpair_stop(rig.qp);
	for (uint32_t n; (n = nvme_poll(rig.qp, done, 3)) > 0; back += n) {
		for (uint32_t i = 0; i < n; i++)
			cr_assert(done[i]->status == 0 || done[i]->status == -ECANCELED);
	}
	cr_assert_eq(back, 10);
	cr_assert_eq(nvme_qpair_in_flight(rig.qp), 0);
	rig_down();
}

/* ---- when it goes wrong --------------------------------------------------------------------- */

#define IN_FLIGHT 10u

static struct nvme_io flying[IN_FLIGHT];

/* Writes are in flight when the controller stops listening, and the driver is not told. */
static void strike(void)
{
	for (uint32_t i = 0; i < IN_FLIGHT; i++) {
		flying[i] = (struct nvme_io){ .op = NVME_WRITE, .nblocks = 16, .block = i * 16 };
		flying[i].iova = rig.iova + 65536ull * i;
	}
	fill(rig.buf, IN_FLIGHT * 65536, 4);
	(void)nvme_drive_step(rig.drive, clock_now_ns());
	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		cr_assert_eq(nvme_submit(rig.qp, &flying[i]), 0);
}

/* Polls and steps until the drive is `health` again, or `ms` are over; *back: I/Os returned. */
static bool recover(enum nvme_health health, uint32_t ms, uint32_t *back)
{
	uint64_t deadline_ns = clock_now_ns() + ms * NS_PER_MS;
	struct nvme_io *done[4];
	bool troubled = false;

	while (clock_now_ns() < deadline_ns) {
		enum nvme_health now = nvme_drive_health(rig.drive);

		*back += nvme_poll(rig.qp, done, ARRAY_LEN(done));
		(void)nvme_drive_step(rig.drive, clock_now_ns());
		troubled |= now == NVME_HEALTH_RESETTING;
		if (now == health && troubled && *back == IN_FLIGHT)
			return true;
		sched_yield();
	}
	return false;
}

Test(nvme_qemu, a_controller_that_stops_hearing_is_reset_and_each_write_comes_back_once,
     .timeout = 60)
{
	uint32_t back = 0;

	rig.io_timeout_ns = 200 * NS_PER_MS;
	rig_up();
	drive_up(drive_4k, 0, 16);
	rig.drive->timeout_ns = 500 * NS_PER_MS;
	strike();
	qtest_nvme_ops.write32(rig.drive->ctrl, NVME_REG_CC, 0);
	nvme_ring(rig.qp);
	cr_assert(recover(NVME_HEALTH_GOOD, 20000, &back), "%u came back, health %d", back,
		  nvme_drive_health(rig.drive));
	for (uint32_t i = 0; i < IN_FLIGHT; i++) {
		cr_assert_eq(flying[i].status, -ECANCELED);
		cr_assert(flying[i].retry);
		cr_assert_eq(nvme_submit(rig.qp, &flying[i]), 0);
		cr_assert_eq(finish(&flying[i]), 0);
	}
	cr_assert(image_holds(0, 0, rig.buf, IN_FLIGHT * 16));
	write_and_read(0, 500, 64, 9);
	rig_down();
}

Test(nvme_qemu, a_controller_that_vanishes_is_given_up_and_each_write_comes_back_once,
     .timeout = 60)
{
	uint32_t back = 0;

	rig_up();
	drive_up(drive_4k, 0, 16);
	strike();
	(void)kill(((struct qtest_nvme *)rig.drive->ctrl)->pid, SIGKILL);
	nvme_ring(rig.qp);
	cr_assert(recover(NVME_HEALTH_DEAD, 20000, &back), "%u came back, health %d", back,
		  nvme_drive_health(rig.drive));
	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		cr_assert(flying[i].status == -ENODEV || flying[i].status == 0, "%d",
			  flying[i].status);
	cr_assert_eq(nvme_submit(rig.qp, &flying[0]), -ENODEV);
	rig_down();
}
