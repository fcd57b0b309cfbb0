# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# The end-to-end test on $DRIVES: format, import of the host's tree /out/src, epochs with every byte
# compared, restart, export compared, check; and what the appliance takes when nobody asks it.
# USER_MEMLOCK=BYTES: all is done by an ordinary user who may lock so much memory.
. test/e2e/lib.sh

write_conf $DRIVES
if [ -n "${USER_MEMLOCK:-}" ]; then
	# As `wekactl drives attach --user` and a udev rule would have it.
	chown weka:weka /dev/vfio/[0-9]* "$DIR" "$DIR/key"
	chown -R weka:weka /out/src
	RUN_AS="prlimit --memlock=$USER_MEMLOCK setpriv --reuid=weka --regid=weka --clear-groups"
fi

# Clock ticks of CPU time that the appliance has taken.
ticks() {
	read -r stat <"/proc/$DAEMON/stat"
	set -- ${stat##*) }
	echo $(($12 + $13))
}
sleeps() { # under 1 % of a CPU, of 100 ticks a second
	before=$(ticks)
	sleep 8
	after=$(ticks)
	echo "$((after - before)) of 800 ticks"
	[ $((after - before)) -lt 8 ]
}

check "format" ${RUN_AS:-} wekactl --force format --protect none $DRIVES
check "the appliance starts" start
check "read buffers are poisoned" grep -q "WEKA_POISON_READS" "$DIR/daemon.log"
check "import takes the tree" ctl -q import /out/src /tree
check "two epochs of random batches: every byte compared" \
	${RUN_AS:-} weka-bench epoch --connect "$SHM" --key "$DIR/key" --tree /out/src --prefix /tree --epochs 2 --verify
check "SIGTERM stops it cleanly" stop
check "check finds nothing wrong" ${RUN_AS:-} wekactl check $DRIVES
check "it starts again" start
check "export after the restart" ctl -q export /tree "$DIR/exported"
describe "$DIR/exported" >/out/tree.exported
check "what came out is what went in" cmp /out/tree.src /out/tree.exported
check "an idle appliance takes less than 1 % of a CPU" sleeps
ctl cat /tree/size-65536 >"$DIR/woken"
check "and wakes for the first request" cmp "$DIR/woken" /out/src/size-65536
check "stop" stop
[ $failures = 0 ] || tail -n 8 "$DIR/daemon.log"
finish
