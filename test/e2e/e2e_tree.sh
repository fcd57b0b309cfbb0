#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A tree goes in, survives a restart, comes out the same; two clients see each other's changes.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"

D0=file:$DIR/d0?size=256M D1=file:$DIR/d1?size=512M
write_conf "$D0" "$D1"
make_tree "$DIR/src" 600
mkdir "$DIR/src/links" && echo one >"$DIR/src/links/a" && ln "$DIR/src/links/a" "$DIR/src/links/b" && ln "$DIR/src/links/a" "$DIR/src/c"
dd if=/dev/urandom of="$DIR/src/links/large" bs=1M count=3 2>/dev/null && ln "$DIR/src/links/large" "$DIR/src/links/larger"

attrs() { python3 - "$@" <<'PY'
import os, sys
what, top = sys.argv[1:3]
paths = sorted(os.path.join(d, n) for d, ds, fs in os.walk(top) for n in ["."] + fs)
if what == "set":
    for i, p in enumerate(paths):
        if i % 3 == 0 and not os.path.islink(p):
            os.setxattr(p, "user.number", str(i).encode())
            os.setxattr(p, "user.bytes", bytes(range(256)) * (i % 5))
else:
    for p in paths:
        for n in sorted(os.listxattr(p, follow_symlinks=False)):
            print(os.path.relpath(p, top), n, os.getxattr(p, n).hex())
PY
}
attrs set "$DIR/src" && chmod 444 "$DIR/src/links/a"
same_attrs() { attrs get "$1" >"$DIR/attrs1" && attrs get "$2" | cmp - "$DIR/attrs1" && [ -s "$DIR/attrs1" ]; }

check "format takes two drives of different size" "$BIN/wekactl" format --protect none "$D0" "$D1"
check "the appliance starts" start
check "read buffers are poisoned" grep -q "WEKA_POISON_READS" "$DIR/daemon.log"
check "import takes the tree" ctl import "$DIR/src" /tree
check "export runs" ctl export /tree "$DIR/out"
check "what came out is what went in" same_trees "$DIR/src" "$DIR/out"

check "with its extended attributes" same_attrs "$DIR/src" "$DIR/out"
one_file() { [ "$(for f; do stat -c %i "$f"; done | sort -u | wc -l)" = 1 ]; }
check "names of one file are names of one file again" one_file "$DIR/out/links/a" "$DIR/out/links/b" "$DIR/out/c"
check "large ones, too" one_file "$DIR/out/links/large" "$DIR/out/links/larger"
check "and no more than that" [ "$(stat -c %h "$DIR/out/links/a" "$DIR/out/links/large" | tr '\n' ' ')" = "3 2 " ]
check "nothing is left beside them" [ -z "$(find "$DIR/out" -name '.wk-part-*')" ]

again=$(ctl --json import "$DIR/src" /tree)
case $again in
*'"files":0,'*'"symlinks":0,"links":0,'*'"bytes":0,"errors":0,'*) ok "a second import copies nothing" ;;
*) not_ok "a second import copies nothing" "$again" ;;
esac

python3 -c "import os, sys; os.setxattr(sys.argv[1], 'user.number', b'other'); os.removexattr(sys.argv[1], 'user.bytes')" "$DIR/src"
case $(ctl --json import "$DIR/src" /tree) in
*'"files":0,'*'"attributes_left":0,'*'"errors":0,'*) ok "a third one only what attributes have become" ;;
*) not_ok "a third one only what attributes have become" ;;
esac
check "SIGTERM stops it cleanly" stop
check "check finds nothing wrong" "$BIN/wekactl" check "$D0" "$D1"
check "it starts again" start
ADDRESS=$TCP
check "export over TCP" ctl export /tree "$DIR/out2"
ADDRESS=$SHM
check "the same after a restart, over TCP" same_trees "$DIR/src" "$DIR/out2"
check "and its attributes" same_attrs "$DIR/src" "$DIR/out2"

# Two clients: one over shm, one over TCP.
sees() { [ "$(ADDRESS=$TCP ctl cat "$1")" = "$2" ]; }
echo one >"$DIR/f"
check "put" ctl put "$DIR/f" /shared
check "the other client reads it at once" sees /shared one
echo two >"$DIR/f"
check "replace" ctl put "$DIR/f" /shared
check "the other client reads the new bytes" sees /shared two
check "rename" ctl mv /shared /renamed
check "the other client reads it under its new name" sees /renamed two
refuses "and not under the old one" "no such file" env sh -c "'$BIN/wekactl' -c '$TCP' -k '$DIR/key' cat /shared"
check "mkdir -r makes parents" ctl -r mkdir /a/b/c
check "mv into another directory" ctl mv /renamed /a/b/c/moved
check "the other client reads it there" sees /a/b/c/moved two
check "a directory moves to another, and back" sh -c "'$BIN/wekactl' -c '$TCP' -k '$DIR/key' mv /a/b/c /c &&
	'$BIN/wekactl' -c '$TCP' -k '$DIR/key' mv /c /a/b/c"
CTL="$BIN/wekactl -c $TCP -k $DIR/key"
# shellcheck disable=SC2086
refuses "but not below itself" "cannot move below itself" $CTL mv /a /a/b/c/a
check "ln" ctl ln /a/b/c/moved /linked
check "the other client reads it by its second name" sees /linked two
check "stat says that it has two" sh -c "'$BIN/wekactl' -c '$TCP' -k '$DIR/key' --json stat /linked | grep -q '\"nlink\":2'"
echo three >"$DIR/f"
check "replace it at one" ctl put "$DIR/f" /linked
check "the other one has what it had" sees /a/b/c/moved two
# shellcheck disable=SC2086
refuses "no second name for a directory" "one name only" $CTL ln /a /aa
# shellcheck disable=SC2086
refuses "nor one that is there" "/linked: file exists" $CTL ln /a/b/c/moved /linked
check "the second name goes" ctl rm /linked
# Its memory is within the limit that it states; the tables (the heap) were not known before.
account() { "$BIN/wekactl" --connect "$SHM" --key "$DIR/key" --json status | sed -n "s/\"clients\":\[[^]]*\]//; s/.*\"$1\":\([0-9]*\).*/\1/p"; }
resident=$(awk '/^VmRSS/ { print $2 * 1024 }' "/proc/$DAEMON/status")
check "its memory is within its account" [ "$resident" -gt 0 -a "$resident" -le "$(account at_most_bytes)" ]
check "the account knows its tables" [ "$(account tables_bytes)" -gt 1000000 ]
# A reader that is slow: what it has open is replaced meanwhile, and removed.
dd if=/dev/urandom of="$DIR/long" bs=1M count=20 2>/dev/null
ctl put "$DIR/long" /long
mkfifo "$DIR/pipe"
ctl cat /long >"$DIR/pipe" &
CAT=$!
exec 7<"$DIR/pipe"
dd bs=1 count=1 <&7 >"$DIR/long.got" 2>/dev/null
check "a file is replaced while somebody reads it" ctl put "$DIR/f" /long
check "and removed" ctl rm /long
# Those of the commands before may end a moment after them.
opens_are() { [ "$(account opens)" = "$1" ]; }
check "it is open" eventually opens_are 1
cat <&7 >>"$DIR/long.got"
exec 7<&-
check "who read it ends well" wait $CAT
check "with all of what it had opened" cmp "$DIR/long" "$DIR/long.got"
check "rm -r removes a tree" ctl -r rm /a /tree
freed() { [ "$(account orphans)" = 0 ]; }
check "what was in it is freed by and by" eventually freed
check "entry by entry" [ "$(account tree_entries)" -ge 4 ]
check "nothing is left" sh -c "[ -z \"\$('$BIN/wekactl' -c '$SHM' -k '$DIR/key' ls /)\" ]"
check "stop" stop
check "check after all that" "$BIN/wekactl" check "$D0" "$D1"
finish
