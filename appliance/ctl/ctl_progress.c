/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A progress bar: on a terminal only, ten times a second, on stderr. */
#include "appliance/ctl/ctl.h"
#include "base/clock.h"
#include "base/num.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REDRAW_NS (100 * NS_PER_MS)
#define BAR_CELLS 28

void ctl_progress_begin(struct ctl_progress *p, const char *what, bool wanted)
{
	*p = (struct ctl_progress){
		.what = what,
		.on = wanted && isatty(STDERR_FILENO),
		.start_ns = clock_now_ns(),
	};
}

static void draw(const struct ctl_progress *p, uint64_t now)
{
	double seconds = (double)(now - p->start_ns) / 1e9;
	double share = p->bytes_total   ? (double)p->bytes / (double)p->bytes_total
		       : p->files_total ? (double)p->files / (double)p->files_total
					: 0;
	uint32_t cells = (uint32_t)(share * BAR_CELLS + 0.5);
	char bar[BAR_CELLS + 1];

	memset(bar, ' ', BAR_CELLS);
	memset(bar, '#', min_u32(cells, BAR_CELLS));
	bar[BAR_CELLS] = 0;
	fprintf(stderr, "\r%s [%s] %3.0f %%  %llu of %llu files  %.0f MB  %.0f MB/s\033[K", p->what,
		bar, share > 1 ? 100.0 : share * 100, (unsigned long long)p->files,
		(unsigned long long)p->files_total, (double)p->bytes / 1e6,
		seconds > 0 ? (double)p->bytes / 1e6 / seconds : 0.0);
	fflush(stderr);
}

void ctl_progress_step(struct ctl_progress *p)
{
	uint64_t now;

	if (!p->on)
		return;
	now = clock_now_ns();
	if (now - p->drawn_ns < REDRAW_NS)
		return;
	p->drawn_ns = now;
	draw(p, now);
}

double ctl_progress_end(struct ctl_progress *p)
{
	uint64_t now = clock_now_ns();

	if (p->on) {
		draw(p, now);
		fputc('\n', stderr);
		p->on = false;
	}
	return (double)(now - p->start_ns) / 1e9;
}
