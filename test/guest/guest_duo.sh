#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The appliance on NVMe controllers in one guest, its client in another, soft-RoCE between them over two
# wires (test/guest/wire.c).  First the whole way of the data, then, under load, what only machines
# do.  DUO_COUNT times each of $DUO:
#
#   client      its power is cut          another client is served, what was its own comes back
#   appliance   its power is cut          clients find it again when it is there again
#   link        one of two links goes down, for 5 s, which the client is told
#   wire        one of two wires is cut, for 5 s, which nobody is told
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

case ${TEST_LENGTH:-} in
short) echo "skip: two machines are in the longer tests"; exit ;;
'') : "${DUO=}" "${DUO_COUNT:=1}" "${FILES:=0}" ;; # by hand: the way of the data
long) : "${DUO=client appliance link wire}" "${DUO_COUNT:=1}" ;;
*) : "${DUO=client appliance link wire}" "${DUO_COUNT:=20}" ;;
esac
: "${FILES:=900}" # 25 MB with them; 0: 2 MB in 240
GUEST_SECONDS=3000 # a boot lasts as long as the test
GUEST_CONF="huge=160
modules='9p 9pnet_virtio virtio_pci virtio_net crc32_generic rdma_rxe ib_uverbs rdma_ucm'"
LINK0=rdma://10.0.0.1:7010 LINK1=rdma://10.0.1.1:7010
DRIVES="pci:0000:00:04.0 pci:0000:00:05.0"

# ---- two machines --------------------------------------------------------------------------------

for link in 0 1; do
	"$BIN/../test/guest/wire" "$DIR/wire$link.1" "$DIR/wire$link.2" &
	eval "WIRE$link=$!"
done
trap 'kill $WIRE0 $WIRE1; guests_cleanup' EXIT

# cards END: this guest's network cards, at that end of each wire; packets of soft-RoCE's 4096 bytes.
cards() {
	for link in 0 1; do
		QEMU_MORE="$QEMU_MORE -netdev stream,id=n$link,server=off,addr.type=unix,addr.path=$DIR/wire$link.$1
			-device virtio-net-pci,netdev=n$link,addr=$((16 + link)),host_mtu=4500,mac=52:54:00:00:0$link:0$1"
	done
}
appliance_on() {
	guest appliance
	nvme d0 256M addr=4,mdts=5 logical_block_size=4096,physical_block_size=4096
	nvme d1 192M addr=5 logical_block_size=4096,physical_block_size=4096
	cards 1
	power_on && at appliance network 10.0.0.1 10.0.1.1
}
client_on() {
	guest client
	cards 2
	power_on && at client network 10.0.0.2 10.0.1.2
}
# serve [COMMAND]: the appliance starts on its drives, after COMMAND; the key is what it was.
serve() {
	at appliance eval "[ ! -e /out/key ] || cp /out/key \"\$DIR/key\"
		write_conf $DRIVES
		printf 'listen = %s\n' $LINK0 $LINK1 >>\"\$CONF\"
		cp \"\$DIR/key\" /out/key
		${1:-:}
		start"
}
# client_has ADDRESSES: the key, and where the appliance is.
client_has() {
	cp "$DIR/appliance/out/key" "$DIR/client/out/key"
	at client eval "cp /out/key \"\$DIR/key\"; ADDRESS=$1"
}
time_is() { echo "# $(cut -d' ' -f1 /proc/uptime) s: $1"; }

prepare agent.sh
guest client
if [ "$FILES" != 0 ]; then make_tree "$OUT/src" "$FILES"; else
	mkdir "$OUT/src"
	cp -r appliance fabric meta "$OUT/src/"
	head -c 1048577 /dev/urandom >"$OUT/src/long"
fi
describe "$OUT/src" >"$OUT/tree.src"
appliance_on || finish
client_on || finish

# ---- the way of the data -------------------------------------------------------------------------

time_is "two guests"
check "the appliance starts" serve "wekactl --force format --protect none $DRIVES"
client_has $LINK0
check "import takes the tree" at client ctl -q import /out/src /tree
check "two epochs of random batches: every byte compared" at client eval \
	'weka-bench epoch --connect "$ADDRESS" --key "$DIR/key" --tree /out/src --prefix /tree --epochs 2 --verify'
cp "$DIR/check.out" "$DIR/epochs"
check "over rdma, the client says" grep "^ *1  rdma " "$DIR/epochs"
check "export" at client eval 'ctl -q export /tree "$DIR/exported" && describe "$DIR/exported" >/out/tree.exported'
check "what came out is what went in" cmp "$DIR/client/out/tree.src" "$DIR/client/out/tree.exported"
is "no byte of payload was copied by the appliance's CPU" 0 "$(at appliance number_of payload_copied)"
check "but the drives moved many" [ "$(at appliance number_of drive_read)" -gt 4000000 ]
time_is "the way of the data was gone"

# ---- what machines do, under load ----------------------------------------------------------------

# Clients that change files and compare what they read (test/guest/witness.c): number 0 in the client's
# guest, over both links; number 1 in the appliance's.  Their journals are on the host.
witness_begins() { # GUEST NUMBER ADDRESSES
	at "$1" eval "test/guest/witness outlive $3 \"\$DIR/key\" $2 /out/journal >>/out/witness 2>&1 & witness=\$!"
}
changes() { # GUEST: so many has its witness done
	{ read -r done rest <"$DIR/$1/out/journal"; } 2>/dev/null
	echo "${done:-0}"
}
goes_on() { # GUEST: its witness works, soon
	goal=$(($(changes "$1") + 5)) n=0
	until [ "$(changes "$1")" -ge $goal ]; do
		n=$((n + 1))
		[ $n -lt 600 ] || { cat "$DIR/$1/out/witness"; return 1; }
		sleep 0.2
	done
}
# soon TEXT GUEST COMMAND...: that is what it says in the end.
soon() {
	wanted=$1 n=0
	shift
	until said=$(at "$@") && [ "$said" = "$wanted" ] || [ $n -gt 120 ]; do n=$((n + 1)); sleep 0.5; done
	[ "$said" = "$wanted" ] || { printf 'it is: %s\nnot: %s\n' "$said" "$wanted"; return 1; }
}
# How much has come to the client over its second link.
carried() { at client cat /sys/class/infiniband/rxe1/ports/1/hw_counters/rcvd_pkts; }
is_used() {
	from=$(carried) n=0
	until [ "$(carried)" -gt $((from + 200)) ]; do
		n=$((n + 1))
		[ $n -lt 300 ] || { echo "$(($(carried) - from)) packets in all that time"; return 1; }
		sleep 0.2
	done
}

fault_client() {
	power_cut client
	check "$1: another client is served meanwhile" goes_on appliance
	# That one, and who asks.
	check "$1: the appliance ends its session" soon 2 appliance number_of sessions_open
	client_on && client_has $LINK0,$LINK1
	witness_begins client 0 $LINK0,$LINK1
}
fault_appliance() {
	power_cut appliance
	appliance_on
	check "$1: the appliance starts" serve
	witness_begins appliance 1 $LINK0
}
fault_link() {
	at client ip link set eth1 down
	check "$1: while it is down the other link does" goes_on client
	sleep 5
	at client ip link set eth1 up
	check "$1: it is used again" is_used
}
fault_wire() {
	kill -USR1 $WIRE1
	check "$1: while it is cut the other link does" goes_on client
	sleep 5
	kill -USR2 $WIRE1
	check "$1: it is used again" is_used
}

if [ -n "$DUO" ]; then
	witness_begins appliance 1 $LINK0
	witness_begins client 0 $LINK0,$LINK1
	check "there is load" goes_on client
	check "over both links" is_used
	# Until the tool that asks, which a busy machine may keep from its answer, has one.
	until loaded=$(at appliance loaded) && case $loaded in "sessions "[1-9]*) ;; *) false ;; esac; do sleep 1; done
fi
for fault in $DUO; do
	for i in $(seq "$DUO_COUNT"); do
		fault_$fault "$fault ($i)"
		check "$fault ($i): the client goes on" goes_on client
		check "$fault ($i): the other goes on" goes_on appliance
		check "$fault ($i): sessions, queue pairs and registrations are as before" soon "$loaded" appliance loaded
		time_is "$fault ($i)"
		[ $failures = 0 ] || break 2
	done
done
if [ -n "$DUO" ]; then
	check "every acknowledged change is there, once" at client eval 'kill -TERM $witness; wait $witness'
	check "and of the other client" at appliance eval 'kill -TERM $witness; wait $witness'
	sed 's/^witness:/# changes done, files compared, outcomes unknown, reads given up, looks:/' "$DIR"/*/out/witness
fi
[ $failures = 0 ] || at appliance eval 'tail -n 20 "$DIR/daemon.log"'

# ---- the end -------------------------------------------------------------------------------------

check "SIGTERM stops it cleanly" at appliance stop
# shellcheck disable=SC2086 # drives are words
check "check finds nothing wrong" at appliance wekactl check $DRIVES
power_off client
power_off appliance
finish
