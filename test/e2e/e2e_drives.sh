#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# wekactl drives and doctor on the machine that the test runs on, whatever it has: nothing of it is
# changed.  (Moving drives is test/guest/guest_drives.sh's.)
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

CTL=$BIN/wekactl
# Without times: sysfs makes them up whenever the kernel makes an inode anew.
state() {
	for d in /sys/bus/pci/devices/*; do echo "$d $(readlink "$d/driver")"; done
	find /etc/weka /dev/vfio -printf '%p %M %u %s\n' 2>/dev/null | LC_ALL=C sort
}
before=$(state)

if [ -d /sys/bus/pci/devices ]; then
	check "drives: the list" "$CTL" drives
	check "drives: for programs" "$CTL" --json drives
	bad=$("$CTL" --json drives | grep -cv '^{"drive":"pci:[0-9a-f:.]*",.*}$')
	if [ "$bad" = 0 ]; then ok "one object a line"; else not_ok "one object a line"; fi
	refuses "drives attach: no such device" "no such device\|denied" "$CTL" drives attach pci:ffff:fe:1f.7
	refuses "drives detach: no such device" "no such device\|denied" "$CTL" drives detach ffff:fe:1f.7
	for d in /sys/bus/pci/devices/*; do
		case $(cat "$d/class" 2>/dev/null) in
		0x0108* | "") continue ;;
		esac
		refuses "drives attach: what is no drive" "not an NVMe device\|denied" "$CTL" --force drives attach "${d##*/}"
		break
	done
else
	refuses "drives: a machine without PCI" "/sys/bus/pci" "$CTL" drives
fi
refuses "drives attach: no address" "not a PCI address" "$CTL" drives attach /dev/nvme0n1
refuses "drives attach: a namespace is not moved" "not a PCI address" "$CTL" drives attach 'pci:0000:01:00.0?nsid=2'
refuses "drives attach: nothing named" "usage" "$CTL" drives attach
refuses "drives: no such action" "usage" "$CTL" drives eject pci:0000:01:00.0

echo "drive = mem:64M
listen = shm:$DIR/x
key_file = $DIR/key" >"$CONF"
"$CTL" --config "$CONF" doctor >"$DIR/doctor"
code=$?
wrong=$(grep -c '^WRONG ' "$DIR/doctor")
fixes=$(grep -c '^ *type: .' "$DIR/doctor")
if [ "$wrong" = "$fixes" ]; then ok "doctor: each wrong thing has a line to type"; else
	not_ok "doctor: each wrong thing has a line to type" "$(cat "$DIR/doctor")"; fi
if [ $((wrong > 0)) = $code ]; then ok "doctor: its exit status says whether all is fine"; else
	not_ok "doctor: its exit status says whether all is fine" "$code with $wrong wrong"; fi
if grep -q "^ok *config *$CONF: 1 drive$" "$DIR/doctor"; then ok "doctor: it read the configuration"; else
	not_ok "doctor: it read the configuration" "$(cat "$DIR/doctor")"; fi
echo "drive = floppy:" >"$CONF"
"$CTL" --config "$CONF" --json doctor >"$DIR/doctor"
if [ $? = 1 ] && grep -q '^{"check":"config","ok":false,"text":".*weka.conf:1: .*","type":".' "$DIR/doctor"; then
	ok "doctor: a wrong configuration, for programs"; else
	not_ok "doctor: a wrong configuration, for programs" "$(cat "$DIR/doctor")"; fi

if [ "$(state)" = "$before" ]; then ok "nothing was changed"; else not_ok "nothing was changed" "$(state)"; fi
finish
