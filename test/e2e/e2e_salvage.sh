#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A store is looked at with dump, damaged on purpose, refused, and salvaged.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

D0=file:$DIR/d0?size=128M D1=file:$DIR/d1?size=128M
write_conf "$D0" "$D1"
make_tree "$DIR/src" 120
echo one >"$DIR/src/a" && ln "$DIR/src/a" "$DIR/src/b" && ln -s /nowhere/at/all "$DIR/src/s"
dd if=/dev/urandom of="$DIR/src/large" bs=4096 count=50 2>/dev/null
truncate -s 300000 "$DIR/src/large"

dump() { "$BIN/wekactl" dump "$@" "$D1" "$D0"; } # in any order
salvage() { to=$1; shift; rm -rf "$DIR/$to"; "$BIN/wekactl" check --salvage "$DIR/$to" "$@" "$D0" "$D1"; }
# place FILE BLOCK: "drive block" of a file's block
place() { dump file "$1" | awk -v b="$2" '$1 == b && $2 ~ /:/ { sub(/:/, " ", $2); print $2; exit }'; }
# spoil DRIVE BLOCK: one byte of it; the same again mends it
spoil() {
	at=$(($2 * 4096 + 1234)) f=$DIR/d$1
	byte=$(od -An -tu1 -j$at -N1 "$f" | tr -d ' ')
	# shellcheck disable=SC2059
	printf "\\$(printf %o $((byte ^ 16)))" | dd of="$f" bs=1 seek=$at conv=notrunc 2>/dev/null
}

check "format" "$BIN/wekactl" --shards 4 format --protect none "$D0" "$D1"
check "the appliance starts" start
refuses "dump of drives that are in use is refused" "in use" "$BIN/wekactl" dump super "$D0" "$D1"
check "import takes the tree" ctl import "$DIR/src" /tree
check "SIGTERM stops it" stop
was=$(cat "$DIR/d0" "$DIR/d1" | cksum)

check "dump shows superblocks" dump super
check "roots" dump roots
check "zones" dump zones
check "the log" dump log
check "the way of a path" dump path /tree/large
check "a file, whole" dump file /tree/large
# The end of it is a hole, and stays one.
is "each of its blocks" 50 "$(dump file /tree/large | grep -c 'whole$')"
refuses "what is not there" "nothing is at" "$BIN/wekactl" dump file /tree/nobody "$D0" "$D1"
refuses "a page where none is" "nothing is at" "$BIN/wekactl" dump page 0:0 "$D0" "$D1"
check "a structure that there is none of: those that there are" sh -c "'$BIN/wekactl' dump nonsense 2>&1 | grep -q 'path *PATH'"

check "salvage of a whole store is complete" salvage whole
check "and has the tree" same_trees "$DIR/src" "$DIR/whole/tree/tree"
is "its names of one file are one file" 2 "$(stat -c %h "$DIR/whole/tree/tree/a")"
is "nothing is uncertain, or unnamed" "" "$(find "$DIR/whole/uncertain" "$DIR/whole/unnamed" -type f)"
is "its report is empty" 0 "$(stat -c %s "$DIR/whole/report")"
refuses "a directory that is there is left alone" "needs a new directory" \
	"$BIN/wekactl" check --salvage "$DIR/whole" "$D0" "$D1"
is "none of all that has written to the drives" "$was" "$(cat "$DIR/d0" "$DIR/d1" | cksum)"

# A block of a file.
# shellcheck disable=SC2046
set -- $(place /tree/large 7)
spoil "$1" "$2"
says=$(dump file /tree/large 2>/dev/null | grep "^ *7 ")
case $says in
*"$1:$2 "*"does not match its checksum") ok "dump names the damaged block" ;;
*) not_ok "dump names the damaged block" "$says" ;;
esac
salvage block >"$DIR/said" 2>&1
is "salvage says that something is not complete" "1: 1 damaged" "$?: $(grep -o '1 damaged' "$DIR/said")"
check "the report names the file and the block" grep -q "^damaged /tree/large: 1 of its blocks.* first is 7$" "$DIR/block/report"
is "the file is in uncertain, and not in the tree" "uncertain" "$(cd "$DIR/block" && ls -d tree/tree/large uncertain/tree/large 2>/dev/null | cut -d/ -f1)"
cp "$DIR/src/large" "$DIR/holed" && dd if=/dev/zero of="$DIR/holed" bs=4096 seek=7 count=1 conv=notrunc 2>/dev/null
check "with zeros in its place" cmp "$DIR/holed" "$DIR/block/uncertain/tree/large"
cp -a "$DIR/src" "$DIR/but" && rm "$DIR/but/large"
touch -r "$DIR/src" "$DIR/but"
check "all else is in the tree" same_trees "$DIR/but" "$DIR/block/tree/tree"
spoil "$1" "$2"

# The log, of an appliance that was killed.
check "it starts again" start
for i in 1 2 3 4 5 6; do ctl put "$DIR/src/large" "/new$i"; done
kill -9 "$DAEMON" && wait "$DAEMON" 2>/dev/null
DAEMON=
# Both places of a block, and its number.
# shellcheck disable=SC2046
set -- $(dump log | awk '$NF == "replayed" && $8 > 0 && (!seq || $1 == seq) { seq = $1; sub(/:/, " ", $2); print $2 }
	END { print seq }')
spoil "$1" "$2"
spoil "$3" "$4"
refuses "the mount is refused, and names the block of the log" "log block $5 is damaged" "$BIN/wekactl" check "$D0" "$D1"
salvage log >/dev/null 2>&1
check "the report names it, too" grep -q "^log: block $5 is lost" "$DIR/log/report"
check "the tree, which the log did not change, is there" same_trees "$DIR/src" "$DIR/log/tree/tree"
spoil "$3" "$4"
check "what one drive has lost of it is on the other" "$BIN/wekactl" check "$D0" "$D1" # and the log begins anew

# Both copies of all roots of a shard.
cp "$DIR/d0" "$DIR/keep0" && cp "$DIR/d1" "$DIR/keep1"
for block in 1 2 3 4 5 6 7 8; do spoil 0 $block; spoil 1 $block; done
refuses "a store without roots is refused" "no root is whole" "$BIN/wekactl" check "$D0" "$D1"
salvage roots >/dev/null 2>&1
check "its leaves are found without them" same_trees "$DIR/src" "$DIR/roots/tree/tree"
cp "$DIR/keep0" "$DIR/d0" && cp "$DIR/keep1" "$DIR/d1"
check "the store itself is as it was" "$BIN/wekactl" check "$D0" "$D1"

# Two copies: without a drive, whichever it is, and without the roots.
for d in 0 1 2; do eval "M$d=file:$DIR/m$d?size=128M"; done
write_conf "$M0" "$M1" "$M2"
check "format with two copies" "$BIN/wekactl" --shards 4 format --protect mirror "$M0" "$M1" "$M2"
check "start" start
check "import" ctl import "$DIR/src" /tree
check "stop" stop
mirror() { to=$1; rm -rf "$DIR/$to"; "$BIN/wekactl" -f "$CONF" check --salvage "$DIR/$to" 2>&1; }
mirror pair >"$DIR/said"
is "a whole store takes nothing from second copies" "0 0" "$? $(stat -c %s "$DIR/pair/report")"
check "and has the tree" same_trees "$DIR/src" "$DIR/pair/tree/tree"
for d in 0 1 2; do
	mv "$DIR/m$d" "$DIR/away"
	mirror without >"$DIR/said"
	is "without drive $d nothing is missing" 0 $?
	check "every byte is there" same_trees "$DIR/src" "$DIR/without/tree/tree"
	check "the report says what came from where" grep -q "^other copies: [0-9]* blocks of files were taken from drive [^$d], the first in place of drive $d block [0-9]*: its drive is missing" "$DIR/without/report"
	check "so does the summary" grep -q "^salvage: other copies replaced" "$DIR/said"
	mv "$DIR/away" "$DIR/m$d"
done
# All of drive 0, and the roots on drive 1, of 4 shards; zones begin behind them.
mv "$DIR/m0" "$DIR/away"
dd if=/dev/zero of="$DIR/m1" bs=4096 seek=1 count=8 conv=notrunc 2>/dev/null
mirror roots2 >"$DIR/said"
check "no root and no drive 0: every byte is there" same_trees "$DIR/src" "$DIR/roots2/tree/tree"
check "the report says that roots are lost" grep -q "^index: 4 shards have no root" "$DIR/roots2/report"
mv "$DIR/away" "$DIR/m0"
refuses "one copy of each block: every drive that is named must be there" "there is no such file" "$BIN/wekactl" check --salvage "$DIR/none" "$D0" "$D1" "file:$DIR/nowhere"
finish
