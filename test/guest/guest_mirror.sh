#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A store of two copies on four controllers behind hot-plug ports: one is removed under load, a new one
# is taken, a second is removed, and the appliance is killed while it copies.
: "${GUEST_SECONDS:=550}"
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

case ${TEST_LENGTH:-} in
short) echo "skip: drives that a mirrored store loses in a guest: in the longer tests"; exit ;;
esac
make_tree "$OUT/src" 40
describe "$OUT/src" >"$OUT/tree.src"
drives() { # behind ports, empty
	QEMU_NVME=
	for d in 0 1 2 3 4; do
		rm -f "$DIR/d$d.img"
		QEMU_NVME="$QEMU_NVME -device pcie-root-port,id=rp$d,addr=$((4 + d)),chassis=$((d + 1)),slot=$((d + 1))"
		nvme d$d 192M bus=rp$d
	done
}
mkfifo "$DIR/qmp.in" "$DIR/qmp.out"
QEMU_MORE="-chardev pipe,id=qmp,path=$DIR/qmp -mon chardev=qmp,mode=control"

removed() { grep -c "\"DEVICE_DELETED\".*\"nvme-$1\"\|\"nvme-$1\".*\"DEVICE_DELETED\"" "$DIR/qmp.log"; }
# Each of them when the guest asks for it.
remove() { # DRIVE...
	exec 5<>"$DIR/qmp.in"
	echo '{"execute": "qmp_capabilities"}' >&5
	for d; do
		until [ -e "$OUT/remove.$d" ]; do sleep 0.1; done
		echo "{\"execute\": \"device_del\", \"arguments\": {\"id\": \"nvme-$d\"}}" >&5
	done
}
# QEMU 7.2 itself may crash when a process that is killed leaves commands in flight on a controller that
# is reset: then all begins anew, twice at most.
crashed() { [ ! -e "$OUT/status" ] && grep -q "Segmentation fault" "$GUEST/qemu.log"; }
run() {
	drives
	prepare mirror.sh
	rm -f "$OUT"/remove.*
	cat "$DIR/qmp.out" >"$DIR/qmp.log" &
	reader=$!
	remove d3 d1 &
	remover=$!
	qemu "$GUEST_SECONDS"
	code=$?
	kill $reader $remover 2>/dev/null
}
GUEST_CONF="export APP_CORES=${APP_CORES:-2}"
payload=mirror.sh
boots=1
run
for again in 1 2; do
	crashed || break
	echo "# QEMU crashed: run $again more"
	run
done
status=$(cat "$OUT/status" 2>/dev/null)
told "${status:-$([ $code = 124 ] || [ $code = 137 ] && echo 124 || echo 125)}"
is "QEMU has removed both" "1 1" "$(removed d3) $(removed d1)"
finish
