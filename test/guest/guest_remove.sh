#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A drive behind a hot-plug port is removed while it is read: the kernel asks for it, it is given
# back, and the appliance goes on with the other.
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

case ${TEST_LENGTH:-} in
short) echo "skip: a drive that is pulled in a guest: in the longer tests"; exit ;;
esac
make_tree "$OUT/src" 60
nvme d0 128M addr=4
QEMU_NVME="$QEMU_NVME -device pcie-root-port,id=rp,addr=5,chassis=1,slot=1"
nvme d1 128M bus=rp
mkfifo "$DIR/qmp.in" "$DIR/qmp.out"
QEMU_MORE="-chardev pipe,id=qmp,path=$DIR/qmp -mon chardev=qmp,mode=control"

# Says nothing until the guest's load is on.
remove() {
	exec 5<>"$DIR/qmp.in"
	n=0
	until [ -e "$OUT/running" ] || [ $n -gt 1000 ]; do n=$((n + 1)); sleep 0.1; done
	echo '{"execute": "qmp_capabilities"} {"execute": "device_del", "arguments": {"id": "nvme-d1"}}' >&5
}
cat "$DIR/qmp.out" >"$DIR/qmp.log" &
reader=$!
remove &
boot remove.sh
kill $reader $! 2>/dev/null
check "DEVICE_DELETED" grep -q '"DEVICE_DELETED".*"nvme-d1"\|"nvme-d1".*"DEVICE_DELETED"' "$DIR/qmp.log"
finish
