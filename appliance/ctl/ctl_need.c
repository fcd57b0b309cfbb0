/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "appliance/ctl/ctl.h"

#include <stdio.h>
#include <unistd.h>

/* Without exit(): other threads of the crew may run. */
static _Noreturn wk_cold void give_up(void)
{
	fflush(stdout);
	fputs("wekactl: out of memory; free some, or raise the limit (ulimit -v), and run it "
	      "again\n",
	      stderr);
	_exit(1);
}

void *ctl_need(void *memory)
{
	if (!memory)
		give_up();
	return memory;
}
