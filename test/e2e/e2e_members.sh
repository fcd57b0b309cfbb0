#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Drives of a store that are not what they were: wiped, an older copy, or with headers of zones gone.
# The store says which, nobody is told to add it, and nothing is written to it.  All drives of a failure
# domain that are missing are one loss.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

A_LONG_WAY=$DIR/a-directory-of-a-long-name/and-another
mkdir -p "$A_LONG_WAY"
D0=file:$A_LONG_WAY/d0?size=64M D1=file:$A_LONG_WAY/d1?size=64M D2=file:$A_LONG_WAY/d2?size=64M
F0=$A_LONG_WAY/d0 F1=$A_LONG_WAY/d1 F2=$A_LONG_WAY/d2
CACHE=16M
starts="$BIN/weka-appliance --config $CONF"
# The last refusal does not say that.
lacks() { case $err in *"$2"*) not_ok "$1" "$err" ;; *) ok "$1" ;; esac }
write_conf "$D0" "$D1" "$D2"
make_tree "$DIR/src" 200
check "format" "$BIN/wekactl" format --protect none "$D0" "$D1" "$D2"
check "start" start
check "import" ctl -q import "$DIR/src" /tree
check "a clean stop" stop

# ---- a member that was wiped --------------------------------------------------------------------

cp --sparse=always "$F1" "$DIR/d1.good"
truncate -s 0 "$F1" && truncate -s 64M "$F1"
refuses "a start with a wiped member names its place" "drive 1 of the store.*is missing" $starts
lacks "and tells nobody to add it" "drives add"
lacks "its name is no half of one" ", ile:"
refuses "it cannot be added" "misses its drive 1" \
	"$BIN/wekactl" --config "$CONF" drives add "$D1"
refuses "nor by force" "misses its drive 1" \
	"$BIN/wekactl" --config "$CONF" --force drives add "$D1"
is "nothing was written to it" "$(head -c 64M /dev/zero | sha256sum)" "$(sha256sum <"$F1")"
refuses "check names it as well" "drive 1 of the store.*is missing" "$BIN/wekactl" check "$D0" "$D1" "$D2"
cp --sparse=always "$DIR/d1.good" "$F1"

# ---- only its ends were wiped ---------------------------------------------------------------------

dd if=/dev/zero of="$F2" bs=4096 count=1 conv=notrunc status=none
dd if=/dev/zero of="$F2" bs=4096 seek=$((64 * 256 - 1)) count=1 conv=notrunc status=none
refuses "the remains of a store are not formatted" "remains of a store" \
	"$BIN/wekactl" format --protect none "$D2"
refuses "nor offered" "misses its drive 2" "$BIN/wekactl" --config "$CONF" drives add "$D2"

# ---- a copy of a member from before -----------------------------------------------------------------

"$BIN/wekactl" -q --force format --protect none "$D0" "$D1" "$D2"
check "start" start
check "import" ctl -q import "$DIR/src" /tree
check "a clean stop" stop
cp --sparse=always "$F2" "$DIR/d2.old"
check "start" start
check "import more" ctl -q import "$DIR/src" /more
check "a clean stop" stop
cp --sparse=always "$F2" "$DIR/d2.good"
cp --sparse=always "$DIR/d2.old" "$F2"
refuses "an older copy is named by the start" "drive 2, .*d2.* is behind the others" $starts
refuses "and by check" "drive 2, .*d2.* is behind the others" "$BIN/wekactl" check "$D0" "$D1" "$D2"
cp --sparse=always "$DIR/d2.good" "$F2"
check "the right one is taken" start
check "export" ctl -q export /more "$DIR/out"
check "what came out is what went in" same_trees "$DIR/src" "$DIR/out"
check "a clean stop" stop

# ---- headers of zones ---------------------------------------------------------------------------------

# Of 64 KiB each, behind a superblock and the roots of 64 shards: all headers of 30 zones.
zone=0
while [ $zone -lt 30 ]; do
	for block in $((129 + zone * 16)) $((129 + zone * 16 + 15)); do
		dd if=/dev/zero of="$F1" bs=4096 seek=$block count=1 conv=notrunc status=none
	done
	zone=$((zone + 1))
done
check "a store whose zones lost their headers starts" start
check "and says so" said "both copies of the header of zone .* are damaged; written again"
rm -rf "$DIR/out"
check "export" ctl -q export /tree "$DIR/out"
check "what came out is what went in" same_trees "$DIR/src" "$DIR/out"
check "a clean stop" stop
check "check finds nothing" "$BIN/wekactl" check "$D0" "$D1" "$D2"
check "and has nothing to say" sh -c "! '$BIN/wekactl' check '$D0' '$D1' '$D2' 2>&1 | grep damaged"

# ---- a failure domain ---------------------------------------------------------------------------------

for d in 3 4 5; do eval "D$d=file:$A_LONG_WAY/d$d?size=64M"; done
write_conf "$D0" "$D1" "$D2" "$D3" "$D4" "$D5"
sed -i "s|^drive = $D0\$|domain = shelf-a\n&|" "$CONF"
refuses "copies need as many domains" "1 failure domain, and 2 copies of each block need 2" \
	"$BIN/wekactl" --force -f "$CONF" format --protect mirror
sed -i "s|^drive = $D2\$|domain = shelf-b\n&|; s|^drive = $D4\$|domain = shelf-c\n&|" "$CONF"
refuses "a fold, too" "a fold needs a failure domain" "$BIN/wekactl" --force -f "$CONF" format --protect 3+1
check "format" "$BIN/wekactl" -q --force -f "$CONF" format --protect 2+1
check "start" start
check "import" ctl -q import "$DIR/src" /tree
is "the store knows them" 3 "$(number store domains)"
check "the status names them" sh -c "'$BIN/wekactl' -c '$SHM' -k '$DIR/key' status | grep -c '(shelf-[abc])\$' | grep -qx 6"
check "protect says what counts" sh -c "'$BIN/wekactl' -c '$SHM' -k '$DIR/key' protect | grep -q 'in 3 failure domains'"
check "a clean stop" stop
mv "$F2" "$DIR/away2" && mv "$A_LONG_WAY/d3" "$DIR/away3"
sed -i "/^domain = /d" "$CONF"
refuses "two drives are more than it can do without" "drive 2.*missing.*drive 3 too\|d[23].*No such file" $starts
sed -i "s|^drive = $D2\$|domain = shelf-b\n&|; s|^drive = $D4\$|domain = none\n&|" "$CONF"
check "unless they are of one domain" start
is "both are lost" "lost lost" "$(state 2) $(state 3)"
rm -rf "$DIR/out"
check "export" ctl -q export /tree "$DIR/out"
check "what came out is what went in" same_trees "$DIR/src" "$DIR/out"
check "the first one goes" until_state 2 gone
check "the other one, too" until_state 3 gone
check "a clean stop" stop
sed -i "\|^drive = $D2\$|d; \|^drive = $D3\$|d" "$CONF"
check "check finds nothing" "$BIN/wekactl" -f "$CONF" check
finish
