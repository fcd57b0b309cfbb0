/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl drives drain, undrain: removes a drive from the store of an appliance, or keeps it. */
#include "appliance/ctl/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *why_not(int err, bool back)
{
	switch (err) {
	case -ENODEV:
		return "no drive of the store has this name or serial number: wekactl status "
		       "lists the drives";
	case -EINVAL:
		return "several drives have this serial number: give the name of one";
	case -EALREADY:
		return back ? "it is not being drained" : "it is being drained already";
	case -EPERM:
		return "it is the last drive in use, or the others are fewer than the copies that "
		       "the store is getting, or in fewer failure domains than it needs: add "
		       "another one first";
	case -ENOSPC:
		return "the live data does not fit on the other drives: add one, or remove files";
	case -EFBIG:
		return "the drive holds the roots of the store, and the zones of the other "
		       "drives are too small for them";
	case -EACCES:
		return "the key may not: a key is needed that may write everywhere, without a uid";
	case -EBUSY:
		return "the drives of the store are being changed: try again";
	default:
		return strerror(-err);
	}
}

int ctl_drives_drain(struct ctl *c, bool back)
{
	const char *drive = c->argv[1];
	int err;

	if (ctl_connect(c))
		return 1;
	err = back ? weka_undrain(c->client, drive) : weka_drain(c->client, drive);
	if (err)
		return ctl_fail("%s: %s", drive, why_not(err, back));
	if (c->json)
		printf("{\"command\":\"drives %s\",\"drive\":\"%s\"}\n", c->argv[0], drive);
	else if (back)
		printf("%s: stays in the store\n", drive);
	else
		printf("%s: is being drained; wekactl status reports what is left, and the "
		       "appliance's log reports the end\n",
		       drive);
	return 0;
}
