# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# What an operator does wrong with devices that are really there:
#
#   00:04.0  a drive, bound to vfio-pci      00:06.0  a drive with one namespace, the kernel's
#   00:05.0  a drive, bound to vfio-pci      01:01.0, 01:02.0  drives that share an IOMMU group
. test/e2e/lib.sh

A=pci:0000:00:04.0 B=pci:0000:00:05.0 KERNELS=0000:00:06.0
APP=$BIN/weka-appliance
modprobe nvme

driver() {
	d=$(readlink "/sys/bus/pci/devices/$1/driver")
	echo "${d##*/}"
}
bind() { # DEVICE DRIVER
	echo "$1" >"/sys/bus/pci/devices/$1/driver/unbind"
	echo "$2" >"/sys/bus/pci/devices/$1/driver_override"
	echo "$1" >/sys/bus/pci/drivers_probe
}
until_there() { # FILE
	n=0
	until [ -e "$1" ] || [ $n -gt 50 ]; do n=$((n + 1)); sleep 0.1; done
	[ -e "$1" ]
}

bind $KERNELS nvme
bind 0000:01:02.0 nvme
check "the kernel has a drive" until_there "/sys/bus/pci/devices/$KERNELS/nvme"

# ---- names that are no drive, or not one for us ------------------------------------------------------

for what in "wekactl --force format" "$APP --config"; do
	on() { # what $what works on
		case $what in
		wekactl*) echo "$1" ;;
		*) write_conf "$1"; echo "$CONF" ;;
		esac
	}
	who=${what%% *} who=${who##*/}
	refuses "$who: a device that is not NVMe" "not an NVMe" $what "$(on pci:0000:00:02.0)"
	refuses "$who: a device that is not there" "no PCI device" $what "$(on pci:0000:00:1e.0)"
	refuses "$who: a drive that the kernel has" "vfio-pci" $what "$(on pci:$KERNELS)"
	refuses "$who: a namespace that does not exist" "namespace" $what "$(on $A?nsid=7)"
	refuses "$who: a drive in a group with others" "group" $what "$(on pci:0000:01:01.0)"
done
check "the drives are still whose they were" [ "$(driver 0000:00:04.0) $(driver $KERNELS) $(driver 0000:01:01.0)" = "vfio-pci nvme vfio-pci" ]

# ---- a group with two drives, and one controller for one process -------------------------------------

G=pci:0000:01:01.0 H=pci:0000:01:02.0
second() { # a configuration like $CONF, of another appliance: DRIVE...
	for d in "$@"; do echo "drive = $d"; done >"$DIR/second.conf"
	printf 'listen = shm:%s\nkey_file = %s\n' "$DIR/second.sock" "$DIR/key" >>"$DIR/second.conf"
}
bind 0000:01:02.0 vfio-pci
check "both drives of a group are format's" wekactl format --protect none $G $H
write_conf $G $H
check "and an appliance's" start
head -c 3000000 /dev/urandom >"$DIR/long"
check "a file on both" ctl put "$DIR/long" /long
ctl cat /long >"$DIR/got"
check "is what it was" cmp "$DIR/long" "$DIR/got"
refuses "wekactl check: a drive that an appliance has" "$G: in use by another process" wekactl check $G $H
refuses "wekactl format: the other drive of that group" "$H: in use by another process" wekactl --force format $H
second $H
refuses "weka-appliance: the same" "$H: in use by another process" $APP --config "$DIR/second.conf"
refuses "weka-bench: the same" "$G: in use by another process" weka-bench nvme --drive $G
check "the first one did not notice" ctl status
check "stop" stop
refuses "the same controller twice" "$G?nsid=1: its controller is already a drive" wekactl --force format $G "$G?nsid=1"
check "the store of both is whole" wekactl check $G $H

# ---- a device that must be reset ----------------------------------------------------------------------

test/guest/flr $B 3 || not_ok "function-level resets" "flr left with $?"

# ---- a drive in use ------------------------------------------------------------------------------------

write_conf $A
check "format" wekactl format $A
check "the appliance starts" start
refuses "format: a drive in use" "in use" wekactl --force format $A
echo hello >"$DIR/f"
check "and it was not touched" ctl put "$DIR/f" /f

# ---- locked memory ---------------------------------------------------------------------------------------

check "stop" stop
chown weka:weka /dev/vfio/[0-9]* "$DIR" "$DIR/key"
refuses_user() { refuses "$1" "$2" prlimit --memlock="$3" setpriv --reuid=weka --regid=weka --clear-groups "$APP" --config "$CONF"; }
refuses_user "an ordinary user with 8 MiB of locked memory" "memlock\|locked" 8388608
chown root:root /dev/vfio/[0-9]*
refuses_user "an ordinary user who may not open the group" "permission" 1073741824

finish
