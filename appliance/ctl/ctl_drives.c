/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl drives: lists, attaches, detaches, adds, replaces, drains; arguments, output. */
#include "appliance/ctl/ctl_drives.h"
#include "appliance/ctl/ctl.h"

#include <stdlib.h>
#include <string.h>

#define THIS_MACHINE "" /* the root of everything: ctl_sysfs.h */

static int list_drives(const struct ctl *c)
{
	struct ctl_drive_list list;
	int err = ctl_drives_scan(&list, THIS_MACHINE, true);

	if (err)
		return ctl_fail("/sys/bus/pci/devices: %s", strerror(-err));
	if (c->json)
		ctl_drives_print_json(stdout, &list);
	else if (list.count)
		ctl_drives_print(stdout, &list);
	else
		printf("this machine has no NVMe device\n");
	ctl_drives_free(&list);
	return 0;
}

static int parse_names(const struct ctl *c, struct ctl_saved_list *out)
{
	*out = (struct ctl_saved_list){ 0 };
	for (int i = 1; i < c->argc; i++) {
		struct ctl_saved s = { 0 };

		if (ctl_pci_parse(c->argv[i], s.pci))
			return ctl_fail(
				"%s: not a PCI address, such as pci:0000:01:00.0; wekactl drives "
				"lists them",
				c->argv[i]);
		ctl_saved_put(out, &s);
	}
	return 0;
}

static void print_moved(const struct ctl *c, const char *what, const struct ctl_saved_list *names)
{
	for (uint32_t i = 0; i < names->count; i++)
		if (c->json)
			printf("{\"command\":\"drives %s\",\"drive\":\"pci:%s\"}\n", what,
			       names->drive[i].pci);
		else
			printf("pci:%s: %sed\n", names->drive[i].pci, what);
}

static int move_drives(const struct ctl *c, bool attach)
{
	struct ctl_bind how = {
		.root = THIS_MACHINE,
		.force = c->force,
		.once = c->once,
		.user = c->user,
		.group = c->group,
	};
	char why[CTL_WHY_SIZE];
	struct ctl_saved_list names;
	int status = parse_names(c, &names), err;

	if (!status) {
		err = attach ? ctl_drives_attach(&how, &names, why)
			     : ctl_drives_detach(&how, &names, why);
		if (err)
			status = ctl_fail("%s", why);
		else
			print_moved(c, attach ? "attach" : "detach", &names);
	}
	free(names.drive);
	return status;
}

static void complain(const char *line)
{
	ctl_fail("%s", line);
}

int ctl_cmd_drives(struct ctl *c)
{
	const char *what = c->argc ? c->argv[0] : "";

	if (c->argc == 0)
		return list_drives(c);
	if (strcmp(what, "restore") == 0 && c->argc == 1)
		return ctl_drives_restore(THIS_MACHINE, complain) ? 1 : 0;
	if ((strcmp(what, "attach") == 0 || strcmp(what, "detach") == 0) && c->argc > 1)
		return move_drives(c, *what == 'a');
	if (strcmp(what, "replace") == 0 && c->argc == 3)
		return ctl_drives_replace(c);
	if (strcmp(what, "add") == 0 && c->argc > 1) {
		c->argc--;
		c->argv++;
		return ctl_drives_add(c, NULL);
	}
	if ((strcmp(what, "drain") == 0 || strcmp(what, "undrain") == 0) && c->argc == 2)
		return ctl_drives_drain(c, *what == 'u');
	return ctl_fail("usage: wekactl drives [attach DRIVE... | detach DRIVE... | restore | "
			"add DRIVE... | replace OLD NEW | drain DRIVE | undrain DRIVE]") +
	       1;
}
