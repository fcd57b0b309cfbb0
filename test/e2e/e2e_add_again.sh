#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A new drive is too small for the live data of the drive that it replaces, so it cannot be added.  When
# files have been removed, SIGHUP adds it, without a restart.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

CACHE=16M
: "${APP_CORES:=1}"
D0=file:$DIR/d0?size=32M
D1=file:$DIR/d1?size=64M
TIGHT=file:$DIR/tight?size=20M
write_conf "$D0" "$D1"
make_tree "$DIR/src" 40
admin="$BIN/wekactl --connect $SHM --key $DIR/key -f $CONF"

is_all_there() {
	rm -rf "$DIR/out"
	ctl -q export /tree "$DIR/out" && same_trees "$DIR/src" "$DIR/out"
}

check "format" "$BIN/wekactl" format --protect none "$D0" "$D1"
check "start" start
check "import" ctl -q import "$DIR/src" /tree
check "a drive is offered for drive 1" sh -c "$admin drives replace '$D1' '$TIGHT' >'$DIR/line' 2>'$DIR/then'"
head -c 20000000 /dev/urandom >"$DIR/fill"
check "files come" sh -c "for i in 1 2; do $admin put '$DIR/fill' /big-\$i || exit 1; done"
sed -i "1r $DIR/line" "$CONF"
refused() { # COUNT: so many lines say that it was not added
	n=0
	until [ "$(grep -c "WEKA-213: .*too small for what lives on the drive that it replaces" "$DIR/daemon.log")" = "$1" ]; do
		n=$((n + 1))
		[ $n -lt 2400 ] || return 1
		sleep 0.05
	done
}
for try in 1 2; do
	kill -HUP "$DAEMON"
	check "it is not added, try $try" refused $try
	is "drive 1 stays" serving "$(state 1)"
done
check "files go" ctl rm /big-1 /big-2
added() { # with the first SIGHUP after which what the files had is free
	n=0
	until grep -q "is drive 2 of the store now" "$DIR/daemon.log"; do
		n=$((n + 1))
		[ $n -lt 60 ] || return 1
		kill -HUP "$DAEMON"
		sleep 1
	done
}
check "it is added" added
check "the old one leaves" until_state 1 gone
check "all is there" is_all_there
check "a clean stop" stop
sed -i "\\|^drive = file:$DIR/d1?|d" "$CONF"
check "check finds nothing" "$BIN/wekactl" -f "$CONF" check
finish
