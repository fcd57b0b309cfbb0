/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The parts of a support bundle: lines without names of files, and a tar archive. */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_redact.h"
#include "appliance/ctl/ctl_tar.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(ctl_bundle, .timeout = 30);

static struct app_conf conf;

static void expect_redacted(const char *line, const char *wanted)
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	cr_assert_not_null(f);
	ctl_redact(f, line, &conf);
	fclose(f);
	cr_expect_str_eq(text, wanted);
	free(text);
}

Test(ctl_bundle, lines_have_no_names_of_files)
{
	conf.ndrives = 2;
	snprintf(conf.drive[0], sizeof(conf.drive[0]), "%s",
		 "file:/var/lib/weka/d1"); /* its name begins the other one's */
	snprintf(conf.drive[1], sizeof(conf.drive[1]), "%s", "file:/var/lib/weka/d10?size=2G");
	conf.nlisten = 1;
	snprintf(conf.listen[0], sizeof(conf.listen[0]), "%s", "shm:/run/weka/sock");
	snprintf(conf.file, sizeof(conf.file), "%s", "/home/ann/w.conf");
	expect_redacted("WEKA-303: scrub: /private/my diary.txt: block 3 of the file: drive 1\n",
			"WEKA-303: scrub: (left out)\n");
	expect_redacted("drive 1 (file:/var/lib/weka/d10?size=2G): has failed\nserving "
			"shm:/run/weka/sock\n/home/ann/w.conf was read again\n",
			"drive 1 (file:/var/lib/weka/d10?size=2G): has failed\nserving "
			"shm:/run/weka/sock\n/home/ann/w.conf was read again\n");
	expect_redacted("key ann: may read /data as user 7, and \"/x\"\nnext",
			"key ann: may read (left out)\nnext\n");
	expect_redacted("/at/the/start\n", "(left out)\n");
	expect_redacted("read 3 B/s and/or more from tcp://10.0.0.1:7010, at /a b",
			"read 3 B/s and/or more from tcp://10.0.0.1:7010, at (left out)\n");
	expect_redacted("", "");
}

Test(ctl_bundle, an_archive_that_tar_reads)
{
	char command[256], *text;
	size_t size;
	FILE *tar = open_memstream(&text, &size), *out;
	static char big[1000];

	memset(big, 'b', sizeof(big));
	ctl_tar_add(tar, "dir/empty", "", 0, 1000000000);
	ctl_tar_add(tar, "dir/big", big, sizeof(big), 1000000000);
	ctl_tar_add(tar, "dir/block", big, 512, 1000000000);
	ctl_tar_end(tar);
	fclose(tar);
	cr_assert_eq(size, 512 * (1 + 1 + 2 + 1 + 1 + 2));
	snprintf(command, sizeof(command),
		 "TZ=UTC tar --full-time -tvf - | tr -s ' ' | "
		 "diff - <(printf '%%s\\n' '-rw------- 0/0 0 2001-09-09 01:46:40 dir/empty' "
		 "'-rw------- 0/0 1000 2001-09-09 01:46:40 dir/big' "
		 "'-rw------- 0/0 512 2001-09-09 01:46:40 dir/block')");
	cr_assert_eq(setenv("COMMAND", command, 1), 0);
	out = popen("bash -c \"$COMMAND\"", "w");
	cr_assert_not_null(out);
	cr_assert_eq(fwrite(text, 1, size, out), size);
	cr_assert_eq(pclose(out), 0);
	free(text);
}
