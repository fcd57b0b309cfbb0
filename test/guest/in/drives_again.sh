# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# The machine of drives.sh after a restart: the kernel's driver has every drive.  /etc/weka is as it
# was left, and the unit that an installation enables is run, line by line as systemd does.
. test/e2e/lib.sh

UNIT=/out/weka-drives.service
EMPTY=0000:00:06.0 STORE=0000:00:06.1
mkdir -p /etc/weka /sbin /usr/local
cp /out/drives /etc/weka/drives
ln -s "$BIN" /usr/local/bin
[ -e /sbin/modprobe ] || ln -s /bin/modprobe /sbin/modprobe

drivers() { # DEVICE...: who has them
	for p; do
		d=$(readlink "/sys/bus/pci/devices/$p/driver")
		echo "${d##*/}"
	done | sort | uniq -c | tr -s ' \n' ' '
}
unit() { # its lines; a "-" before a command: it may fail
	[ -e "$(sed -n 's/^ConditionPathExists=//p' $UNIT)" ] || return 1
	sed -n 's/^ExecStart\(Pre\)\{0,1\}=//p' $UNIT >"$DIR/lines"
	while read -r line; do
		case $line in
		-*) ${line#-} || : ;;
		*) $line || return 1 ;;
		esac
	done <"$DIR/lines"
	grep -q . "$DIR/lines"
}

check "after a restart nvme has all of them" [ "$(drivers $NVME)" = " 7 nvme " ]
check "the unit runs" unit
check "vfio-pci has the two that were attached" [ "$(drivers $EMPTY $STORE)" = " 2 vfio-pci " ]
check "nvme has the others" [ "$(drivers $NVME)" = " 5 nvme 2 vfio-pci " ]
group=$(readlink /sys/bus/pci/devices/$STORE/iommu_group)
check "their group may use them" [ "$(stat -c '%a %U %G' "/dev/vfio/${group##*/}")" = "660 root weka" ]
check "the unit may run again" unit
write_conf pci:$STORE
check "the appliance starts" start
ctl cat /before >"$DIR/got"
check "what was put before the restart is there" grep -qx "put before the restart" "$DIR/got"
check "stop" stop
finish
