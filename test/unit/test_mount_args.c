/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The command line of weka-mount, by hand and as mount(8) calls it. */
#define _GNU_SOURCE /* strsep */
#include "client-lib/mount/mount.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static struct mount_args args;

/* Words with spaces between; the arguments refer to them. */
static int parse(const char *line)
{
	static char words[512];
	char *argv[32], *rest = words;
	int argc = 0;

	snprintf(words, sizeof(words), "%s", line);
	while ((argv[argc] = strsep(&rest, " ")))
		argc++;
	optind = 0; /* begin anew */
	unsetenv("WEKA_KEY_FILE");
	unsetenv("WEKA_ADDRESS");
	program_invocation_short_name = argv[0];
	return mount_args_parse(&args, argc, argv);
}

Test(mount_args, defaults)
{
	cr_assert_eq(parse("weka-mount -o key=k tcp://a:1 /mnt"), 0);
	cr_assert_str_eq(args.addresses, "tcp://a:1");
	cr_assert_str_eq(args.dir, "/mnt");
	cr_assert_str_eq(args.root, "/");
	cr_assert_eq(args.cache_ns, 0);
	cr_assert_eq(args.timeout_ns, 30 * NS_PER_S);
	cr_assert_eq(args.flags, MS_NOSUID | MS_NODEV);
	cr_assert(!args.allow_other && !args.foreground && !args.fake);
}

Test(mount_args, each_option)
{
	cr_assert_eq(parse("weka-mount -f -o key=k,key_id=i,root=/d,cache=1.5,timeout=7,threads=3 "
			   "-o ro,noexec,suid,allow_other,buffered,log=l shm:/s,tcp://a:1 /mnt"),
		     0);
	cr_assert_str_eq(args.key_id, "i");
	cr_assert_str_eq(args.root, "/d");
	cr_assert_str_eq(args.log_file, "l");
	cr_assert_eq(args.cache_ns, 1500 * NS_PER_MS);
	cr_assert_eq(args.timeout_ns, 7 * NS_PER_S);
	cr_assert_eq(args.threads, 3);
	cr_assert_eq(args.flags, MS_NODEV | MS_RDONLY | MS_NOEXEC);
	cr_assert(args.allow_other && args.buffered && args.foreground);
}

Test(mount_args, as_mount_calls_it)
{
	cr_assert_eq(parse("mount.weka tcp://a:1 /mnt -f -sv -t weka "
			   "-o rw,key=k,_netdev,nofail,x-systemd.automount,x-a=b,comment=c"),
		     0);
	cr_assert(args.fake && !args.foreground);
	cr_assert_eq(args.flags, MS_NOSUID | MS_NODEV);
}

Test(mount_args, mistakes_are_refused)
{
	cr_assert_eq(parse("weka-mount -o key=k tcp://a:1"), 2);
	cr_assert_eq(parse("weka-mount -o key=k,colour tcp://a:1 /mnt"), 2);
	cr_assert_eq(parse("weka-mount -o key=k,colour=red tcp://a:1 /mnt"), 2);
	cr_assert_eq(parse("weka-mount -o key=k,cache=-1 tcp://a:1 /mnt"), 2);
	cr_assert_eq(parse("weka-mount -o key=k,cache=x tcp://a:1 /mnt"), 2);
	cr_assert_eq(parse("weka-mount -o key=k,cache= tcp://a:1 /mnt"), 2);
	cr_assert_eq(parse("weka-mount -o key=k,timeout=0.5 tcp://a:1 /mnt"), 2);
	cr_assert_eq(parse("weka-mount -o key=k,threads=17 tcp://a:1 /mnt"), 2);
	cr_assert_eq(parse("weka-mount -o key=k,anonymous tcp://a:1 /mnt"), 2);
	cr_assert_eq(parse("weka-mount -x tcp://a:1 /mnt"), 2);
	cr_assert_eq(parse("weka-mount tcp://a:1 /mnt"), 2); /* no key */
}
