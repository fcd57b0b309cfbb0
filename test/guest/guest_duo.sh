#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The appliance on NVMe controllers in one guest, its client in another, soft-RoCE between them over two
# wires (test/guest/wire.c).  First the whole way of the data, then, under load, what only machines do:
# the power of either is cut, one of two links says nothing for a while.
#
# DUO="client appliance link": which of these; DUO_COUNT=20: how often each.
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

case ${TEST_LENGTH:-short} in
short) : "${DUO=}" "${DUO_COUNT:=1}" "${FILES:=0}" ;;
long) : "${DUO=client appliance link}" "${DUO_COUNT:=1}" ;;
*) : "${DUO=client appliance link}" "${DUO_COUNT:=20}" ;;
esac
: "${FILES:=900}" # 25 MB with them; 0: 2 MB in 240
GUEST_SECONDS=3000 # a boot lasts as long as the test
GUEST_CONF="huge=160
modules='9p 9pnet_virtio virtio_pci virtio_net crc32_generic rdma_rxe ib_uverbs rdma_ucm'"
LINK0=rdma://10.0.0.1:7010 LINK1=rdma://10.0.1.1:7010

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
# What the client must know, and how it connects: to one address or a list.
client_has() {
	at client eval "cp /out/key \"\$DIR/key\"; ADDRESS=$1"
}

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

time_is() { echo "# $(cut -d' ' -f1 /proc/uptime) s: $1"; }
time_is "two guests"
at appliance eval "write_conf pci:0000:00:04.0 pci:0000:00:05.0
	printf 'listen = %s\n' $LINK0 $LINK1 >>\"\$CONF\""
check "format" at appliance wekactl --force format pci:0000:00:04.0 pci:0000:00:05.0
check "the appliance starts" at appliance start
at appliance eval 'cp "$DIR/key" /out/key'
cp "$DIR/appliance/out/key" "$DIR/client/out/key"
client_has $LINK0
before=$(at appliance counts)
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

# ---- the end -------------------------------------------------------------------------------------

check "SIGTERM stops it cleanly" at appliance stop
check "check finds nothing wrong" at appliance wekactl check pci:0000:00:04.0 pci:0000:00:05.0
power_off client
power_off appliance
finish
