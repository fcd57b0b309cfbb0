# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# A store on $FIRST gets $SECOND while it serves, is used, is killed, and started in the other order.
. test/e2e/lib.sh

write_conf "$FIRST"
said() { # TEXT: the daemon says so within a while
	n=0
	until grep -q "$1" "$DIR/daemon.log"; do
		n=$((n + 1))
		[ $n -lt 100 ] || return 1
		sleep 0.2
	done
}

check "format" wekactl --force format "$FIRST"
check "the appliance starts" start
check "import takes the tree" ctl -q import /out/src /tree
check "drives add" wekactl -q --force drives add "$SECOND"
echo "drive = $SECOND" >>"$CONF"
kill -HUP "$DAEMON"
check "it is added" said "$SECOND: is drive 1 of the store now"
check "import takes the tree again" ctl -q import /out/src /again
crash
write_conf "$SECOND" "$FIRST"
check "it starts again, in whatever order" start
for tree in tree again; do
	check "export of $tree" ctl -q export /$tree "$DIR/$tree"
	describe "$DIR/$tree" >/out/tree.exported
	check "what came out is what went in" cmp /out/tree.src /out/tree.exported
done
check "stop" stop
check "check finds nothing wrong" wekactl check "$FIRST" "$SECOND"
refuses "without the second one it does not start" "$SECOND is missing" wekactl check "$FIRST"
[ $failures = 0 ] || tail -n 8 "$DIR/daemon.log"
finish
