/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Attributes that the local side of import and export refuses are counted, and reported once. */
#include "appliance/ctl/ctl_attrs.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

static char path[] = "/tmp/weka-attrs-XXXXXX";

static int begin(void)
{
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	return fd;
}

static const struct ctl_attr *named(const struct ctl_attrs *a, const char *name)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (!strcmp(a->attr[i].name, name))
			return &a->attr[i];
	return NULL;
}

Test(ctl_attrs, what_is_stored_is_loaded)
{
	struct ctl_attr some[] = { { (char *)"user.a", (char *)"\0one", 4 },
				   { (char *)"user.b", (char *)"", 0 } };
	struct ctl_attrs a = { .attr = some, .count = 2 }, b;
	int fd = begin();

	ctl_attrs_load(&b, path);
	cr_assert_eq(b.count + b.left, 0);
	ctl_attrs_store(&a, fd);
	cr_assert_eq(a.left, 0, "%s: %s: this test wants a file system with attributes", a.refused,
		     strerror(a.why));
	ctl_attrs_load(&b, path);
	cr_assert_eq(b.count, 2);
	cr_assert_eq(named(&b, "user.a")->size_bytes, 4);
	cr_assert_eq(memcmp(named(&b, "user.a")->value, "\0one", 4), 0);
	cr_assert_eq(named(&b, "user.b")->size_bytes, 0);
	ctl_attrs_clear(&b);
	close(fd);
	unlink(path);
}

/* A device has no such attributes; whose kernel could have them may have more than we may name. */
Test(ctl_attrs, what_is_refused_is_told_once, .init = cr_redirect_stderr)
{
	struct ctl_attr some[] = { { (char *)"user.a", (char *)"1", 1 },
				   { (char *)"user.b", (char *)"2", 1 },
				   { (char *)"other.c", (char *)"3", 1 } };
	struct ctl_attrs a = { .attr = some, .count = 3 };
	struct ctl_tally t = { 0 };
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	ctl_attrs_store(&a, fd);
	cr_assert_eq(a.left, 3);
	cr_assert_eq(a.why, EPERM);
	cr_assert_str_eq(a.refused, "user.a");
	ctl_attrs_tell(&a, &t, NULL, "/x", true);
	ctl_attrs_tell(&a, &t, NULL, "/y", true);
	cr_assert_eq(t.errors, 1);
	cr_assert_eq(t.attrs_left, 6);
	cr_assert_eq(t.attrs, 0);
	free(a.refused);
	close(fd);
	cr_assert_stderr_eq_str(
		"wekactl: /x: attribute user.a: Operation not permitted (others like "
		"it are counted, and not named)\n");
}

/* Attributes of kinds that the appliance does not keep stay here: no error, but a line. */
Test(ctl_attrs, other_namespaces_are_a_note, .init = cr_redirect_stderr)
{
	struct ctl_attrs a = { .count = 2, .left = 1, .refused = (char *)"security.x" };
	struct ctl_tally t = { 0 };

	ctl_attrs_tell(&a, &t, NULL, "/x", false);
	ctl_attrs_tell(&a, &t, NULL, "/y", false);
	cr_assert_eq(t.errors, 0);
	cr_assert_eq(t.attrs_left, 2);
	cr_assert_eq(t.attrs, 4);
	cr_assert_stderr_eq_str(
		"wekactl: /x: attribute security.x stays here: the appliance has those "
		"of \"user.\" (others like it are counted, and not named)\n");
}
