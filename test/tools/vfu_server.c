/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * An NVMe drive in a process of its own, behind a vfio-user socket: for tests of vfio-user:
 * drives.  Ends at SIGTERM.
 *
 *	vfu_server [OPTION...] SOCKET DRIVE		DRIVE: file:PATH?size=8G or mem:4G
 */
#include "test/lib/vfu_server.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static volatile bool stop;

static void on_term(int signal_number)
{
	(void)signal_number;
	stop = true;
}

enum { OPT_DROP = 256, OPT_HANG, OPT_DIE, OPT_UNFLUSHED, OPT_MUTE, OPT_MAPS, OPT_NS, OPT_MDTS };

static const struct option longs[] = {
	{ "no-mmap", no_argument, NULL, 'm' },
	{ "no-irqs", no_argument, NULL, 'i' },
	{ "no-reset", no_argument, NULL, 'r' },
	{ "ask-memory", no_argument, NULL, 'a' },
	{ "nonsense", no_argument, NULL, 'n' },
	{ "write-through", no_argument, NULL, 'w' },
	{ "not-nvme", no_argument, NULL, 'c' },
	{ "drop-after", required_argument, NULL, OPT_DROP },
	{ "hang-after", required_argument, NULL, OPT_HANG },
	{ "die-after", required_argument, NULL, OPT_DIE },
	{ "die-unflushed-after", required_argument, NULL, OPT_UNFLUSHED },
	{ "mute-after", required_argument, NULL, OPT_MUTE },
	{ "dma-maps", required_argument, NULL, OPT_MAPS },
	{ "namespaces", required_argument, NULL, OPT_NS },
	{ "mdts", required_argument, NULL, OPT_MDTS },
	{ 0 },
};

static int parse(int argc, char **argv, struct vfu_server_options *o)
{
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		uint64_t n = optarg ? strtoull(optarg, NULL, 10) : 0;

		o->no_mmap |= c == 'm';
		o->no_irqs |= c == 'i';
		o->no_reset |= c == 'r';
		o->ask_memory |= c == 'a';
		o->nonsense |= c == 'n';
		o->not_nvme |= c == 'c';
		o->write_through |= c == 'w';
		if (c == OPT_DROP)
			o->drop_after = n;
		else if (c == OPT_HANG)
			o->hang_after = n;
		else if (c == OPT_DIE)
			o->die_after = n;
		else if (c == OPT_UNFLUSHED)
			o->die_unflushed_after = n;
		else if (c == OPT_MUTE)
			o->mute_after = n;
		else if (c == OPT_MAPS)
			o->dma_maps_max = (uint32_t)n;
		else if (c == OPT_NS)
			o->namespaces = (uint32_t)n;
		else if (c == OPT_MDTS)
			o->mdts = (uint32_t)n;
		else if (c == '?')
			return -1;
	}
	if (argc - optind != 2)
		return -1;
	o->path = argv[optind];
	o->drive = argv[optind + 1];
	o->hang_ms = 5000;
	return 0;
}

int main(int argc, char **argv)
{
	static struct vfu_server server;
	struct vfu_server_options options = { 0 };
	char err_text[NVME_ERR_TEXT];

	if (parse(argc, argv, &options)) {
		fprintf(stderr,
			"usage: vfu_server [--no-mmap] [--no-irqs] [--no-reset] "
			"[--ask-memory] [--write-through] [--nonsense] [--not-nvme] [--dma-maps N] "
			"[--namespaces N] [--drop-after N] [--hang-after N] [--die-after N] "
			"[--die-unflushed-after N] [--mute-after N] SOCKET DRIVE\n");
		return 2;
	}
	signal(SIGTERM, on_term);
	signal(SIGINT, on_term);
	if (vfu_server_up(&server, &options, err_text, sizeof(err_text))) {
		fprintf(stderr, "vfu_server: %s\n", err_text);
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	vfu_server_run(&server, &stop);
	vfu_server_down(&server);
	return 0;
}
