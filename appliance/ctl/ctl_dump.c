/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl dump: prints a structure of a store in words, from drives that are not in use.
 *
 *	wekactl dump WHAT [ARGUMENT] [DRIVE...]
 *
 * A drive's name begins with its kind (file:, pci:, vfio-user:): anything else is an argument.
 */
#include "appliance/ctl/ctl.h"
#include "meta/offline/meta_raw.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_drive(const char *arg)
{
	return strncmp(arg, "file:", 5) == 0 || strncmp(arg, "pci:", 4) == 0 ||
	       strncmp(arg, "vfio-user:", 10) == 0 || strncmp(arg, "mem:", 4) == 0;
}

/* Takes WHAT and its argument from the command's; 0, or 2: not so. */
static int arguments(struct ctl *c, const char **what, const char **arg)
{
	const char *name = NULL, *wants, *text;
	uint32_t i = 0;

	*what = c->argc ? c->argv[0] : "";
	*arg = NULL;
	while (meta_dump_what(i, &name, &wants, &text) && strcmp(name, *what) != 0)
		i++;
	if (!meta_dump_what(i, &name, &wants, &text)) {
		fprintf(stderr, "wekactl: dump prints one of these:\n");
		for (i = 0; meta_dump_what(i, &name, &wants, &text); i++)
			fprintf(stderr, "  %-5s %-11s %s\n", name, wants, text);
		return 2;
	}
	c->argc--;
	c->argv++;
	if (wants[0] && c->argc && !is_drive(c->argv[0])) {
		*arg = c->argv[0];
		c->argc--;
		c->argv++;
	}
	if (wants[0] && wants[0] != '[' && !*arg)
		return ctl_fail("usage: wekactl dump %s %s [DRIVE...]", *what, wants) + 1;
	return 0;
}

int ctl_cmd_dump(struct ctl *c)
{
	const char *what, *arg;
	struct ctl_raw *raw;
	int status = arguments(c, &what, &arg), err;

	if (!status)
		status = ctl_raw_open(c, &raw);
	if (status)
		return status;
	err = meta_dump(ctl_raw_store(raw), what, arg, stdout, c->json);
	if (err == -ENODATA)
		status = ctl_fail("dump: %s", meta_raw_problem(ctl_raw_store(raw)));
	else if (err == -EUCLEAN)
		status = ctl_fail("dump: parts of this are damaged");
	else if (err == -EINVAL)
		status =
			ctl_fail("dump %s: '%s' is not a valid argument", what, arg ? arg : "") + 1;
	else if (err == -ENOENT || err == -ENOTDIR)
		status = ctl_fail("dump %s: nothing is at '%s'", what, arg ? arg : "");
	else if (err)
		status = ctl_fail("dump %s: %s", what, strerror(-err));
	ctl_raw_close(raw);
	return status;
}
