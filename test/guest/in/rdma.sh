# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# The end-to-end test on $DRIVES over rdma://, then faults of networks and processes, under load:
# $FAULTS, $FAULT_COUNT times each.
. test/e2e/lib.sh
. test/guest/in/verbs.sh

HOST=10.0.0.1
RDMA=rdma://$HOST:7010
network $HOST
without=$(resources)

# counts_are NAME: they come back to $before, soon.
counts_are() {
	n=0
	until after=$(counts) && [ "$after" = "$before" ] || [ $n -gt 300 ]; do n=$((n + 1)); sleep 0.1; done
	is "$1: sessions, buffers and queue pairs are as before" "$before" "$after"
}

# ---- load ----------------------------------------------------------------------------------------

# Two clients change files and compare what they read (test/guest/witness.c).
BREAK=$DIR/break # $BREAK.NAME appears: that program's queue pairs are forced to error
preloaded() { echo "env LD_PRELOAD=/weka/test/guest/preload_break_qp.so BREAK_QP=$BREAK.$1"; }
witness_begins() {
	$(preloaded client) test/guest/witness outlive "$RDMA" "$DIR/key" 0 "$DIR/journal.0" >>"$DIR/witness" 2>&1 &
	witness=$!
}
load_begins() {
	witness_begins
	test/guest/witness outlive "$RDMA" "$DIR/key" 1 "$DIR/journal.1" >>"$DIR/witness" 2>&1 &
	other=$!
	goes_on "there is load"
}
progress() { # NUMBER: $changes, so many has it done
	changes=
	[ ! -e "$DIR/journal.$1" ] || read -r changes rest <"$DIR/journal.$1"
	: "${changes:=0}"
}
# goes_on NAME: both clients work.
goes_on() {
	for w in 0 1; do
		progress $w
		goal=$((changes + 5)) n=0
		while [ "$changes" -lt $goal ] && [ $n -lt 900 ] && kill -0 $witness 2>/dev/null && kill -0 $other 2>/dev/null; do
			n=$((n + 1))
			sleep 0.2
			progress $w
		done
		[ "$changes" -ge $goal ] || { not_ok "$1: client $w goes on" "$(cat "$DIR/witness")"; return; }
	done
	ok "$1: the clients go on"
}
# Both have given reads up, and looked at free windows all the time.
looked() {
	for w in 0 1; do
		read -r changes reads unknown given_up looks <"$DIR/journal.$w"
		[ "${given_up:-0}" -gt 0 ] && [ "${looks:-0}" -ge 10 ] || return 1
	done
}
load_ends() {
	n=0 # the one that was started again has begun to count again
	until looked || [ $n -gt 300 ]; do n=$((n + 1)); sleep 0.2; done
	check "both gave reads up, and looked at free windows all the time" looked
	kill -TERM $witness $other
	wait $witness
	is "every acknowledged change is there, once" 0 $?
	wait $other
	is "every acknowledged change of the other client is there, once" 0 $?
	sed 's/^witness: \([0-9 ]*\)$/# changes done, files compared, outcomes unknown, reads given up, looks: \1/; s/^witness:/#/' "$DIR/witness"
}
loaded_as_before() {
	n=0
	until after=$(loaded) && [ "$after" = "$loaded" ] || [ $n -gt 120 ]; do n=$((n + 1)); sleep 0.5; done
	is "$1: sessions, queue pairs and registrations are as before" "$loaded" "$after"
	[ "$loaded" = "$after" ] || rdma resource show qp
}

# ---- faults --------------------------------------------------------------------------------------

fault_client() {
	open=$(number_of sessions_open) # ours that asks, and as many lanes of each of the two
	kill -9 $witness
	wait $witness
	n=0 # what it had asked for last may still be done until its session is gone
	until [ "$(number_of sessions_open)" = $(((open + 1) / 2)) ] || [ $n -gt 600 ]; do n=$((n + 1)); sleep 0.1; done
	witness_begins
}
fault_link() {
	downs=$(said_down)
	ip link set eth0 down
	sleep 5
	[ "$(said_down)" -gt "$downs" ] || not_ok "the log says that the port is down" "$(tail -n 3 "$DIR/daemon.log")"
	ip link set eth0 up
}
said_down() { grep -c 'rdma: rxe0, port 1: port error: ' "$DIR/daemon.log"; }
# An address more harms nobody; without its own a connection ends, and says no goodbye.
fault_address() {
	ended=$(said_ended)
	ip addr add 10.0.0.9/24 dev eth0
	sleep 1
	ip addr del 10.0.0.9/24 dev eth0
	sleep 1
	is "who has another address ends nobody" "$ended" "$(said_ended)"
	ip addr del $HOST/24 dev eth0
	sleep 2
	ip addr add $HOST/24 dev eth0
}
said_ended() { grep -c 'rdma: rxe0, port 1: .*: [1-9][0-9]* connections* ended' "$DIR/daemon.log"; }
fault_appliance() {
	crash
	serve
}
break_qps() {
	: >"$BREAK.$1"
	n=0
	while [ -e "$BREAK.$1" ] && [ $n -lt 600 ]; do n=$((n + 1)); sleep 0.1; done
	[ $n -lt 600 ] || not_ok "the $1's queue pairs are forced to error"
}
fault_qp_client() { break_qps client; }
fault_qp_appliance() { break_qps appliance; }

write_conf $DRIVES
echo "listen = $RDMA" >>"$CONF"
check "format" wekactl --force format --protect none $DRIVES
serve() { # as start(), with what breaks its queue pairs
	export LD_PRELOAD=/weka/test/guest/preload_break_qp.so BREAK_QP=$BREAK.appliance
	start
	code=$?
	unset LD_PRELOAD BREAK_QP
	return $code
}
check "the appliance starts" serve
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
before=$(settled_counts)

time_is "faults begin"
load_begins
loaded=$(loaded)
for fault in $FAULTS; do
	for i in $(seq "$FAULT_COUNT"); do
		fault_$fault
		goes_on "$fault ($i)"
		loaded_as_before "$fault ($i)"
		time_is "$fault ($i)"
		[ $failures = 0 ] || break 2
	done
done
# Is it the host that has none any more, the appliance, or a client?
anybody() {
	timeout 20 wekactl --connect "$RDMA" --key "$DIR/key" status 2>&1 | head -n 3
	rdma link show
	rdma resource show cm_id
	ip address show dev eth0
	ip route get $HOST
	grep -H . /sys/class/infiniband/rxe0/ports/1/hw_counters/*err* /sys/class/infiniband/rxe0/ports/1/hw_counters/send*
}
if [ $failures != 0 ]; then
	anybody 2>&1 | sed 's/^/# /'
	tail -n 20 "$DIR/daemon.log"
	kill -9 $witness $other
	kill -9 "$DAEMON"
	finish
fi
load_ends
counts_are "the load is gone"
time_is "the end"
check "SIGTERM stops it cleanly" stop
check "check finds nothing wrong" wekactl check $DRIVES
n=0
until left=$(resources) && [ "$left" = "$without" ] || [ $n -gt 300 ]; do n=$((n + 1)); sleep 0.1; done
is "nothing of the appliance is left" "$without" "$left"
[ $failures = 0 ] || tail -n 20 "$DIR/daemon.log"
finish
