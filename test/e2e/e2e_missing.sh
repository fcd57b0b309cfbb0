#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# One drive of four is gone, each of the four in turn.  The start is refused and names allow_missing;
# with it the store is served read only: a file is what it was, or is answered with EIO and named.
# When the drive is back, everything is there.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"
CACHE=16M
APP=$BIN/weka-appliance
D0=file:$DIR/d0?size=64M D1=file:$DIR/d1?size=64M D2=file:$DIR/d2?size=64M D3=file:$DIR/d3?size=64M
write_conf "$D0" "$D1" "$D2" "$D3"
cp "$CONF" "$DIR/whole.conf"
make_tree "$DIR/src" 400
# A file has its blocks on one drive or several: some are small enough for the index alone.
i=0
while [ $i -lt 150 ]; do
	head -c $((i % 500)) /dev/urandom >"$DIR/src/tiny $i"
	i=$((i + 1))
done
allow() { { cat "$DIR/whole.conf"; echo "allow_missing = $1"; } >"$CONF"; }
with() { allow "$1"; shift; refuses "$@" "$APP" --config "$CONF"; } # DRIVE NAME TEXT

check "format" "$BIN/wekactl" format --protect none "$D0" "$D1" "$D2" "$D3"
check "format says that there is no redundancy" sh -c "'$BIN/wekactl' --force format --protect none '$D0' '$D1' '$D2' '$D3' | grep 'each block is on one drive'"
check "start" start
check "import" ctl -q import "$DIR/src" /tree
# So the log counts as well: what it has is in no checkpoint.
mkdir "$DIR/more"
i=0
while [ $i -lt 40 ]; do
	head -c $((i * 997)) /dev/urandom >"$DIR/more/late $i"
	i=$((i + 1))
done
check "import more" ctl -q import "$DIR/more" /more
crash

# ---- what an operator gets wrong -------------------------------------------------------------------

with 1 "a drive that is there" "allow_missing = 1: drive 1 is present: remove the line"
with "$D1" "a drive that is there, by its name" "drive 1 is present: remove the line"
with 4 "a drive that the store does not have" "allow_missing = 4: the store has no such drive"
with d1 "no drive at all" "weka.conf:[0-9]*: allow_missing: allowed are a drive's number"
mv "$DIR/d1" "$DIR/away"
with 0 "another is missing" "drive 0 is present; the missing one is drive 1, .*d1"
mv "$DIR/d3" "$DIR/away.3"
with 1 "a second one is missing" "d3.*: there is no such file; another drive is missing as well, and allow_missing permits only one"
sed -i "\|$D3|d" "$DIR/whole.conf"
with 1 "a second one is missing, and its line" "drive 3, .*d3.*, is missing as well"
write_conf "$D0" "$D1" "$D2" "$D3" && cp "$CONF" "$DIR/whole.conf"
mv "$DIR/away.3" "$DIR/d3"
write_conf "$D1"
echo "allow_missing = 0" >>"$CONF"
refuses "a store without any drive" "d1.*: there is no such file" "$APP" --config "$CONF"
allow 1
check "--check-config knows the key" "$APP" --check-config --config "$CONF"
check "and says that a drive is left out" sh -c "'$APP' --check-config --config '$CONF' | grep 'd1.*: the start leaves it out (allow_missing = 1)'"
allow 99
refuses "--check-config: no such number" "allow_missing: allowed are" "$APP" --check-config --config "$CONF"
mv "$DIR/away" "$DIR/d1"

# ---- one drive after the other -----------------------------------------------------------------------

# A tree was exported with errors: each file that came out is what it was, and the others are named.
is_sound() { # SRC OUT ERRORS
	LC_ALL=C diff -rq --no-dereference "$1" "$2" >"$DIR/differs"
	if grep -a " differ$" "$DIR/differs"; then return 1; fi
	(cd "$1" && find . -type f ! -name "with*") | LC_ALL=C sort >"$DIR/files.in" # a newline is no line
	(cd "$2" && find . -type f ! -name "with*") | LC_ALL=C sort >"$DIR/files.out"
	LC_ALL=C comm -23 "$DIR/files.in" "$DIR/files.out" >"$DIR/files.lost"
	while read -r f; do
		names "$f" "$3" || { echo "$f is lost without a word"; return 1; }
	done <"$DIR/files.lost"
	wc -l <"$DIR/files.out" >>"$DIR/whole.count"
}
# It, or a directory that it is in, since names are lost with pages of the index.
names() { # FILE ERRORS
	part=${1#./}
	while :; do
		grep -aqF "/$part: Input/output error" "$2" && return 0
		case $part in */*) part=${part%/*} ;; *) break ;; esac
	done
	grep -q "^wekactl: /[a-z]*: Input/output error" "$2"
}
# Files of which every block is on the drives that are there, by what is stored: `damaged` lists the others.
reads_rest() { # OUT PLACE
	ctl --json damaged >"$DIR/damaged" || return 1
	for f in "$DIR"/src/tiny*; do # no block: only the index
		tiny=${f##*/}
		[ -e "$1/$tiny" ] || names "$tiny" "$DIR/errors" || { echo "$tiny"; return 1; }
	done
	[ -z "$(grep -o '"drive":[0-9]*' "$DIR/damaged" | grep -v ":$2\$")" ] || { echo "damage elsewhere"; return 1; }
}
is_refused() { # WHAT: with "Read-only file system", by the appliance
	! out=$(ctl "$@" 2>&1) && echo "$out" | grep -q "Read-only file system" || { echo "$out"; return 1; }
}

written_at() { stat -c '%n %y' "$DIR"/d?; }
written=$(written_at)
for place in 0 1 2 3; do
	cp "$DIR/whole.conf" "$CONF"
	eval "drive=\$D$place"
	others=$(written_at | grep -v "d$place ")
	mv "$DIR/d$place" "$DIR/away"
	refuses "drive $place is gone: the start names the way out" \
		"d$place.*: there is no such file; if it is lost: allow_missing = $drive serves .*salvage" "$APP" --config "$CONF"
	grep -v "^drive = $drive\$" "$DIR/whole.conf" >"$CONF"
	refuses "and so without its line" "drive $place, .*d$place.* is missing; allow_missing = $place serves .*salvage" \
		"$APP" --config "$CONF"
	[ $place = 2 ] && allow "$drive" || allow $place
	: >"$DIR/daemon.log"
	check "drive $place: with allow_missing it starts" start
	check "drive $place: the log says what is missing" said "read only, drive $place missing: [0-9]* pages of the index and [0-9]* changes of the log cannot"
	check "drive $place: so does status" sh -c "'$BIN/wekactl' --connect '$SHM' --key '$DIR/key' status | grep '^! read only, drive $place missing'"
	check "drive $place: so does its JSON" sh -c "'$BIN/wekactl' --connect '$SHM' --key '$DIR/key' --json status | grep '\"missing_drive\":$place,.*\"number\":$place,.*\"state\":\"missing\"'"
	rm -rf "$DIR/out" && mkdir "$DIR/out"
	ctl -q export /tree "$DIR/out/tree" >"$DIR/errors" 2>&1
	is "drive $place: export says that not all is there" 1 $?
	ctl -q export /more "$DIR/out/more" >"$DIR/errors.more" 2>&1
	check "drive $place: what came out is what went in, and the rest is named" is_sound "$DIR/src" "$DIR/out/tree" "$DIR/errors"
	check "drive $place: and what the log has" is_sound "$DIR/more" "$DIR/out/more" "$DIR/errors.more"
	check "drive $place: what lies on others is whole" reads_rest "$DIR/out/tree" $place
	check "drive $place: nothing is taken" is_refused mkdir /new
	check "drive $place: nor moved" is_refused mv /more /less
	check "drive $place: a clean stop" stop
	is "drive $place: nothing was written to the others" "$others" "$(written_at)"
	mv "$DIR/away" "$DIR/d$place"
done
# In a store as small as this the whole index may be on one drive, or two.
is "of the files in four exports many came out" yes \
	"$(awk '{ n += $1 } END { print (n > 700) ? "yes" : n }' "$DIR/whole.count")"

# ---- and back --------------------------------------------------------------------------------------

refuses "the drive is back, and the key still there" "drive 3 is present: remove the line" "$APP" --config "$CONF"
cp "$DIR/whole.conf" "$CONF"
check "without the key it starts" start
[ "$written" != "$(written_at)" ] && ok "which does write" || not_ok "a start that writes is not seen"
rm -rf "$DIR/out"
check "export" ctl -q export /tree "$DIR/out"
check "everything is whole" same_trees "$DIR/src" "$DIR/out"
check "export" ctl -q export /more "$DIR/out.more"
check "and what the log had" same_trees "$DIR/more" "$DIR/out.more"
check "changes are taken again" ctl mkdir /new
check "a clean stop" stop
check "check finds nothing" sh -c "'$BIN/wekactl' check '$D0' '$D1' '$D2' '$D3' | grep ': 0 problems'"
finish
