# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# The end-to-end test on $DRIVES over rdma://, then what goes wrong with networks and processes, under
# load: $FAULTS times each.
. test/e2e/lib.sh

HOST=10.0.0.1
RDMA=rdma://$HOST:7010
ip link set lo up
ip addr add $HOST/24 dev eth0
ip link set eth0 up
rdma link add rxe0 type rxe netdev eth0
resources() { rdma resource show | sed 's/ cm_id [0-9]*//'; } # a closed connection's id stays for a while
without=$(resources)

# What only a running request, a session or a connection holds; asked over shared memory, so that
# asking changes nothing.
number_of() { "$BIN/wekactl" --connect "$SHM" --key "$DIR/key" --json status | tr '{,' '\n\n' | sed -n "s/^ *\"$1\": *\([0-9]*\).*/\1/p" | head -n 1; }
counts() {
	echo "sessions $(number_of sessions_open) staging $(number_of staging_used_bytes)" \
		"busy $(($(number_of ops_max) - $(number_of ops_free)))"
	resources
}
# counts_are NAME: they come back to $before, soon.
counts_are() {
	n=0
	until after=$(counts) && [ "$after" = "$before" ] || [ $n -gt 50 ]; do n=$((n + 1)); sleep 0.1; done
	is "$1: sessions, buffers and queue pairs are as before" "$before" "$after"
}
is() { # NAME WANTED GOT
	if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "$3, not $2"; fi
}
# An export in the background, begun: its reads are asked again when a session breaks.
load() {
	read_then=$(number_of drive_read)
	rm -rf "$DIR/exported"
	ctl -q export /tree "$DIR/exported" >"$DIR/load" 2>&1 &
	load=$!
	n=0
	until [ "$(number_of drive_read)" -gt $((read_then + 1000000)) ] || [ $n -gt 100 ]; do n=$((n + 1)); sleep 0.1; done
}
load_ends() { # NAME
	if ! wait $load; then
		not_ok "$1" "$(tail -n 3 "$DIR/load")"
		return
	fi
	describe "$DIR/exported" >"$DIR/tree.exported"
	if cmp -s /out/tree.src "$DIR/tree.exported"; then ok "$1"; else not_ok "$1" "other bytes came out"; fi
}

write_conf $DRIVES
echo "listen = $RDMA" >>"$CONF"
check "format" wekactl --force format $DRIVES
check "the appliance starts" start
ADDRESS=$RDMA
time_is() { read -r up rest </proc/uptime; echo "# $up s: $1"; }
time_is "it serves"
check "import takes the tree" ctl -q import /out/src /tree
check "two epochs of random batches: every byte compared" \
	weka-bench epoch --connect "$RDMA" --key "$DIR/key" --tree /out/src --prefix /tree --epochs 2 --verify
cp "$DIR/check.out" "$DIR/epochs"
check "over rdma, the client says" grep "^ *1  rdma " "$DIR/epochs"
check "export" ctl -q export /tree "$DIR/exported"
describe "$DIR/exported" >/out/tree.exported
check "what came out is what went in" cmp /out/tree.src /out/tree.exported
is "no byte of payload was copied by the CPU" 0 "$(number_of payload_copied)"
check "but the drives moved many" [ "$(number_of drive_read)" -gt 10000000 ]
before=$(counts)

time_is "faults begin"
for i in $(seq "$FAULTS"); do
	load
	kill -9 $load
	wait $load
	counts_are "a client is killed ($i)"
done
for i in $(seq "$FAULTS"); do
	load
	ip link set eth0 down
	sleep 5
	ip link set eth0 up
	time_is "the link is up again"
	load_ends "the link is down for 5 s: the client goes on ($i)"
	counts_are "the link was down ($i)"
done
for i in $(seq "$FAULTS"); do
	load
	crash
	start
	time_is "the appliance is up again"
	load_ends "the appliance is killed and restarted: the client goes on ($i)"
	counts_are "the appliance was killed ($i)"
done
time_is "the end"
check "SIGTERM stops it cleanly" stop
check "check finds nothing wrong" wekactl check $DRIVES
is "nothing of the appliance is left" "$without" "$(resources)"
[ $failures = 0 ] || tail -n 20 "$DIR/daemon.log"
finish
