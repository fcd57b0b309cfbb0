/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Reads a directory of classes as a loader of images does, without what Python costs:
 *
 *     read_folder DIR PROCESSES SECONDS    prints files a second, and a sum of the first epoch
 *
 * Each process lists the tree and reads its share of the files, shuffled, epoch after epoch:
 * open(), fstat(), read() to the end, close().
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES_MAX 200000u

static char *paths[FILES_MAX];
static uint32_t count;
static char bytes[1 << 20];

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "read_folder: %s: %s\n", what, strerror(errno));
		_exit(1);
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_class(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	must(d, dir);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && count < FILES_MAX)
			must(asprintf(&paths[count++], "%s/%s", dir, e->d_name) > 0, dir);
	closedir(d);
}

static void list_tree(const char *root)
{
	DIR *d = opendir(root);
	struct dirent *e;
	char *dir;

	must(d, root);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.') {
			must(asprintf(&dir, "%s/%s", root, e->d_name) > 0, root);
			list_class(dir);
			free(dir);
		}
	closedir(d);
	qsort(paths, count, sizeof(paths[0]), by_name);
}

static uint64_t read_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t sum = 0;
	struct stat st;
	ssize_t n;

	must(fd >= 0 && fstat(fd, &st) == 0, path);
	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		for (ssize_t i = 0; i < n; i += 64)
			sum += (uint64_t)(uint8_t)bytes[i] * (uint64_t)(i + 1);
	must(n == 0, path);
	close(fd);
	return sum;
}

/* One process: done[0] is its number of files, done[1] their sum in the first epoch. */
static void work(const char *root, uint32_t me, uint32_t processes, double seconds, uint64_t *done)
{
	struct rand_state r = { me + 1 };
	uint64_t until_ns;

	list_tree(root);
	must(count > 0, root);
	until_ns = clock_now_ns() + (uint64_t)(seconds * (double)NS_PER_S);
	for (uint32_t epoch = 0; epoch == 0 || clock_now_ns() < until_ns; epoch++)
		for (uint32_t i = me; i < count; i += processes) {
			const uint32_t share = (count - me + processes - 1) / processes;
			const uint32_t pick = me + (uint32_t)rand_below(&r, share) * processes;
			const uint64_t sum = read_file(paths[epoch ? pick : i]);

			done[0]++;
			done[1] += epoch ? 0 : sum;
			if (epoch && clock_now_ns() >= until_ns)
				break;
		}
}

int main(int argc, char **argv)
{
	uint64_t(*done)[2] =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t files = 0, sum = 0, start_ns;
	uint32_t processes;
	int status;

	if (argc != 4) {
		fprintf(stderr, "usage: read_folder DIR PROCESSES SECONDS\n");
		return 2;
	}
	processes = min_u32((uint32_t)strtoul(argv[2], NULL, 10), 64);
	must(done != MAP_FAILED && processes > 0, "processes");
	start_ns = clock_now_ns();
	for (uint32_t i = 0; i < processes; i++) {
		const pid_t pid = fork();

		must(pid >= 0, "fork");
		if (pid == 0) {
			work(argv[1], i, processes, strtod(argv[3], NULL), done[i]);
			_exit(0);
		}
	}
	for (uint32_t i = 0; i < processes; i++)
		must(wait(&status) > 0 && status == 0, "a process");
	for (uint32_t i = 0; i < processes; i++) {
		files += done[i][0];
		sum += done[i][1];
	}
	printf("%.0f %llx\n",
	       (double)files * (double)NS_PER_S / (double)(clock_now_ns() - start_ns),
	       (unsigned long long)sum);
	return 0;
}
