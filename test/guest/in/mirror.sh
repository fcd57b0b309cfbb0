# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# A store of two copies under load loses drives, which the host takes away when /out/remove.DRIVE is
# there: no operation fails, every byte stays, and the store makes itself whole on the others.
. test/e2e/lib.sh

WITNESS=/weka/test/guest/witness
at() { echo "pci:0000:0$1:00.0"; } # PORT
is() { # NAME WANTED GOT
	if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "not '$2' but '$3'"; fi
}
state() { # DRIVE: its state; "" when the store has it no more
	ctl --json status | grep -o "\"number\":$1,[^}]*\"state\":\"[a-z]*\"" | sed 's/.*"state":"\([a-z]*\)"/\1/'
}
until_state() { # DRIVE STATE...: one of them
	drive=$1
	shift
	n=0
	while [ $n -lt 600 ]; do
		now=$(state "$drive")
		for wanted; do [ "$now" != "$wanted" ] || return 0; done
		n=$((n + 1))
		usleep 200000
	done
	ctl status
	return 1
}
remove() { # PORT DRIVE-OF-THE-HOST
	touch "/out/remove.$2"
	n=0
	while [ -e "/sys/bus/pci/devices/0000:0$1:00.0" ] && [ $n -lt 600 ]; do n=$((n + 1)) && usleep 50000; done
	[ ! -e "/sys/bus/pci/devices/0000:0$1:00.0" ]
}
witnesses= # their processes
witness() { # MODE: two of them begin
	witnesses=
	for w in 1 2; do
		"$WITNESS" "$1" "$SHM" "$DIR/key" $w "$DIR/journal.$w" >>"$DIR/witness.$w" 2>&1 &
		witnesses="$witnesses $!"
	done
}
# Each has done so many changes more, and lives.
goes_on() { # CHANGES
	for w in 1 2; do
		read -r from rest <"$DIR/journal.$w" || from=0
		n=0
		until read -r now rest <"$DIR/journal.$w" && [ "${now:-0}" -ge $((from + $1)) ]; do
			n=$((n + 1))
			[ $n -lt 1200 ] || { cat "$DIR/witness.$w"; return 1; }
			usleep 100000
		done
	done
	for w in $witnesses; do kill -0 "$w" || { cat "$DIR"/witness.*; return 1; }; done
}
ends() { # every one of its files is as it left it
	bad=0
	for w in $witnesses; do kill -TERM "$w" && wait "$w" || bad=1; done
	[ $bad = 0 ] || cat "$DIR"/witness.*
	[ $bad = 0 ]
}
is_all_there() {
	rm -rf "$DIR/out"
	ctl -q export /tree "$DIR/out" && describe "$DIR/out" >/out/tree.exported && cmp /out/tree.src /out/tree.exported
}

write_conf "$(at 1)" "$(at 2)" "$(at 3)" "$(at 4)"
check "format" wekactl format --protect mirror "$(at 1)" "$(at 2)" "$(at 3)" "$(at 4)"
check "the appliance starts" start
check "import" ctl -q import /out/src /tree

# ---- nothing fails ------------------------------------------------------------------------------
echo 0 | tee "$DIR/journal.1" >"$DIR/journal.2"
witness steady
check "two clients change and read" goes_on 20
check "drive 3 is taken away" remove 4 d3
check "it is lost" until_state 3 lost ""
check "no operation has failed" goes_on 20
check "all is there" is_all_there
check "a new drive is offered" wekactl drives add "$(at 5)"
echo "drive = $(at 5)" >>"$CONF"
kill -HUP "$DAEMON"
check "it serves" until_state 4 serving
check "the lost one has left: its content is on the others" until_state 3 ""
sed -i "\\|^drive = $(at 4)\$|d" "$CONF" # as the manual says
check "no operation has failed" goes_on 10
check "their files are whole" ends
check "all is there" is_all_there

# ---- a second one, and the appliance is killed while it copies ------------------------------------
witness outlive
check "they go on" goes_on 10
check "drive 1 is taken away" remove 2 d1
check "it is lost" until_state 1 lost ""
is "the store copies what it had" lost "$(state 1)"
crash
check "it starts again without it" start
check "the clients find it" goes_on 10
check "all is there" is_all_there
check "the second one has left" until_state 1 ""
check "their files are whole" ends
check "all is there at the end" is_all_there
is "three serve" "serving serving serving" "$(state 0) $(state 2) $(state 4)"
check "a clean stop" stop
check "check finds nothing" wekactl check "$(at 1)" "$(at 3)" "$(at 5)"
[ $failures = 0 ] || tail -n 20 "$DIR/daemon.log"
finish
