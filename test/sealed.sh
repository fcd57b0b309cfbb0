#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Nothing that a polling thread may call allocates memory: test/sealed.py on the appliance's code.
set -u
: "${BUILD:=build}" "${CC:=gcc}"
libs=$BUILD/${VARIANT:-release} work=$BUILD/out/sealed.d
mkdir -p "$work"
if ! "$CC" -dumpmachine | grep -q '^x86_64' || ! command -v python3 >/dev/null; then
	echo "ok # not looked at here: it reads x86-64 code, with python3"
	exit 0
fi

# It finds a call in an error path, by a pointer, in a table, and across files.
cat >"$work/sample.c" <<'SAMPLE'
#include <errno.h>
#include <stdlib.h>
#include <string.h>
struct ops { void (*go)(void *); };
void serve(const struct ops *ops, void *p, int err);
const char *words(int err);
static void by_pointer(void *p) { free(p); }
static void in_table(void *p) { *(void **)p = malloc(8); }
const struct ops sample_ops = { in_table };
void (*sample_hook(void))(void *) { return by_pointer; }
const char *words(int err) { return err ? strerror(err) : ""; }
__attribute__((cold)) static int cold(const char *s) { return words(EIO)[0] == s[0]; }
void serve(const struct ops *ops, void *p, int err)
{
	if (err && cold(p))
		ops->go(p);
}
SAMPLE
printf 'safe strlen\nroot serve # the sample\n' >"$work/sample.list"
$CC -O2 -fPIC -c "$work/sample.c" -o "$work/sample.o" && rm -f "$work/sample.a" && ar rcs "$work/sample.a" "$work/sample.o"
python3 test/sealed.py "$work/sample.list" "$work/sample.a" >"$work/sample.out"
for call in 'free: sample:by_pointer' 'malloc: sample:in_table' 'strerror: words <- '; do
	if grep -q "may call $call" "$work/sample.out"; then
		echo "ok finds $call"
	else
		echo "not ok finds $call"
		cat "$work/sample.out"
	fi
done

if python3 test/sealed.py test/sealed.list "$libs/libbase.a" "$libs"/libnvme-*.a \
	"$libs"/libmeta-*.a "$libs"/libfabric-*.a "$libs"/libappliance-*.a >"$work/out" 2>&1; then
	echo "ok no polling thread allocates $(tail -n 1 "$work/out")"
else
	echo "not ok no polling thread allocates: test/sealed.list says what to do"
	cat "$work/out"
	exit 1
fi
