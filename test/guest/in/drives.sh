# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# Drives of every kind, listed, attached, refused, detached, and attached again after a "restart".
. test/e2e/lib.sh

PCI=/sys/bus/pci/devices
mkdir -p /run/mnt
driver() { # PCI: who has it, "" nobody
	d=$(readlink $PCI/"$1"/driver) && echo "${d##*/}"
}
is() { # NAME WANTED GOT
	if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "not '$2' but '$3'"; fi
}
says() { # NAME TEXT: of the list that was made last
	if grep -q "$2" "$DIR/list"; then ok "$1"; else not_ok "$1" "$(cat "$DIR/list")"; fi
}
show() { sed 's/^/  | /' "$DIR/list"; }
group() { d=$(readlink $PCI/"$1"/iommu_group) && echo "${d##*/}"; }

modprobe -a crc32c_generic ext4 # which busybox does not know of each other
n=0
until [ -b /dev/nvme6n1 ] || [ $n -gt 50 ]; do n=$((n + 1)) && sleep 0.1; done
FS=0000:00:04.0 PART=0000:00:05.0 EMPTY=0000:00:06.0 STORE=0000:00:06.1 MIXED=0000:00:07.0 MANY=0000:00:08.0
WAYS=0000:00:09.0
node() { for d in $PCI/"$1"/nvme/nvme*/nvme*n1; do d=${d##*/} && echo /dev/"${d%%c*}n1" | sed 's/n1n1$/n1/'; done; }
dev_fs=$(node $FS) dev_part=$(node $PART) dev_store=$(node $STORE)
wekactl -q format "file:$dev_store" >/dev/null || not_ok "a store is made"
echo "cache = 16M
staging = 16M
pools_max = 16M
drive = pci:$STORE
drive = file:$dev_fs
listen = shm:/run/x
key_file = /run/key" >/etc/weka-appliance.conf

wekactl drives >"$DIR/list"
show
is "every drive is in the list" 8 "$(wc -l <"$DIR/list")"
says "a file system is named" "$FS .* holds ext4"
says "a table of partitions is named" "$PART .* holds dos"
says "a store is named" "$STORE .* store [0-9a-f]*-"
says "health, temperature and wear are shown" "$EMPTY .* ok  *[0-9]* C  *[0-9]* %"
says "serial and model are shown" "$EMPTY .* d2  *QEMU NVMe"
says "devices that share a group are counted" "$EMPTY .* [0-9]*+1 "
says "several namespaces are counted" "$MANY .* in 2"
says "a namespace behind a subsystem is seen" "$WAYS .* 67.1 MB"
wekactl --json drives >"$DIR/list"
says "the same for programs" "\"drive\":\"pci:$FS\",\"driver\":\"nvme\",\"controller\":\"nvme0\""

# ---- what is refused -----------------------------------------------------------------------------
refuses "vfio-pci is not there" "type: modprobe vfio-pci" wekactl drives attach $STORE
wekactl doctor >"$DIR/list"
is "the doctor finds something" 1 $?
show
says "vfio is not loaded, and what to type" "type: modprobe -a vfio_iommu_type1 vfio-pci"
says "the IOMMU is on" "ok *iommu *on, "
says "interrupts are remapped" "ok *interrupts *remapped"
modprobe -a vfio_iommu_type1 vfio-pci

refuses "not an NVMe device" "not an NVMe device" wekactl drives attach 0000:00:01.0
refuses "no device" "no such device" wekactl drives attach pci:0000:7f:00.0
refuses "no address" "not a PCI address" wekactl drives attach nonsense
refuses "a file system's signature" "holds ext4 (--force" wekactl drives attach pci:$FS
refuses "partitions" "holds dos (--force" wekactl drives attach $PART
refuses "a group with another drive" "type: wekactl drives attach pci:$EMPTY pci:$STORE" wekactl drives attach $EMPTY
refuses "a group with a device of the host's" "virtio-pci has; give that up first" wekactl drives attach $MIXED
mount -t ext4 "$dev_fs" /run/mnt
refuses "a mounted file system" "${dev_fs#/dev/}: ext4 mounted on /run/mnt" wekactl drives attach $FS
refuses "a mounted file system, with force too" "mounted on /run/mnt" wekactl --force drives attach $FS
refuses "one of two is mounted" "mounted on /run/mnt" wekactl --force drives attach $MANY $FS
is "and the other was not touched" nvme "$(driver $MANY)"
umount /run/mnt
unshare -m sh -c "mount -t ext4 $dev_fs /run/mnt && : >/run/mounted && exec sleep 100" &
hidden=$!
n=0
until [ -e /run/mounted ] || [ $n -gt 50 ]; do n=$((n + 1)) && sleep 0.1; done
refuses "mounted where nobody sees it" "in use" wekactl --force drives attach $FS
kill $hidden
wait $hidden 2>/dev/null
mkswap "${dev_part}p1" >/dev/null
swapon "${dev_part}p1"
refuses "a partition that is swap" "p1: swap" wekactl --force drives attach $PART
swapoff "${dev_part}p1"
exec 9<"${dev_part}p1"
refuses "a partition that a process has open" "p1: open in " wekactl --force drives attach $PART
exec 9<&-
is "nothing of all this was remembered" "" "$(ls /etc/weka 2>/dev/null)"
is "nor moved" "nvme nvme nvme nvme" "$(echo $(driver $FS; driver $PART; driver $EMPTY; driver $MIXED))"
setpriv --reuid 1000 --regid 1000 --clear-groups wekactl drives attach $MANY 2>"$DIR/list" 
says "only root moves drives" "ermission denied"

# ---- attach, detach ---------------------------------------------------------------------------------
check "two of one group go together" wekactl --group weka drives attach $EMPTY pci:$STORE
is "vfio-pci has both" "vfio-pci vfio-pci" "$(echo $(driver $EMPTY; driver $STORE))"
is "the group may use them" "660 root weka" "$(stat -c '%a %U %G' /dev/vfio/"$(group $STORE)")"
wekactl drives >"$DIR/list"
says "the list says so, and knows the serial" "$STORE .*vfio-pci .* d3 "
refuses "format: a store that the kernel does not see" "pci:$STORE: holds a store" wekactl format pci:$STORE
check "attach again is nothing new" wekactl --group weka drives attach $EMPTY $STORE
check "force takes a foreign signature" wekactl --force --user weka drives attach pci:$FS
refuses "format: a file system that the kernel does not see" "pci:$FS: holds ext4" wekactl format pci:$FS
is "the user may use it" "600 weka root" "$(stat -c '%a %U %G' /dev/vfio/"$(group $FS)")"
check "once is not remembered" wekactl --once drives attach $MANY
is "vfio-pci has it" vfio-pci "$(driver $MANY)"
is "three are remembered" "pci:$FS serial=d0 user=weka forced
pci:$EMPTY serial=d2 group=weka
pci:$STORE serial=d3 group=weka" "$(grep -v '^#' /etc/weka/drives | sort)"
check "back to the kernel" wekactl drives detach $MANY
is "nvme has it" nvme "$(driver $MANY)"
exec 9<>/dev/vfio/"$(group $FS)"
refuses "a drive that a process has" "in use by .*(process" wekactl drives detach $FS
wekactl drives >"$DIR/list"
says "which the list names" "$FS .*vfio-pci .*(process [0-9]*)"
exec 9<&-

# ---- after a "restart" ---------------------------------------------------------------------------------
back() { # as the kernel does at its start
	for p; do
		echo >$PCI/"$p"/driver_override
		echo "$p" >$PCI/"$p"/driver/unbind
		echo "$p" >/sys/bus/pci/drivers_probe
	done
}
back $FS $EMPTY $STORE
is "nvme has them" "nvme nvme nvme" "$(echo $(driver $FS; driver $EMPTY; driver $STORE))"
wekactl drives >"$DIR/list"
says "the list says that they are to be restored" "$EMPTY .*to be restored"
check "restore" wekactl drives restore
is "vfio-pci has them" "vfio-pci vfio-pci vfio-pci" "$(echo $(driver $FS; driver $EMPTY; driver $STORE))"
is "with their owners" "660 root weka" "$(stat -c '%a %U %G' /dev/vfio/"$(group $STORE)")"
back $FS $EMPTY $STORE
mount -t ext4 "$(node $FS)" /run/mnt
sed -i 's/serial=d2/serial=other/' /etc/weka/drives
wekactl drives restore 2>"$DIR/list"
is "restore says what does not go" 1 $?
says "one is mounted" "$FS: .*mounted on /run/mnt"
says "one is another" "$EMPTY: another drive has this address now (serial d2, it was other)"
umount /run/mnt
check "detach forgets what nvme has already" wekactl drives detach $EMPTY $FS
is "one is left" 1 "$(grep -c '^pci' /etc/weka/drives)"
check "the rest can go" wekactl drives attach $EMPTY $STORE
check "a file system is whole after all this" mount -t ext4 "$(node $FS)" /run/mnt

# ---- under an appliance -------------------------------------------------------------------------------------
write_conf pci:$STORE
check "the appliance serves from it" start
echo "put before the restart" >"$DIR/f"
check "put" ctl put "$DIR/f" /before
refuses "not from under an appliance" "in use by weka-appliance (process" wekactl drives detach $STORE
check "but when it is asked to give it back" timeout 20 wekactl --force --once drives detach $STORE
is "nvme has it" nvme "$(driver $STORE)"
crash
check "attach it again" wekactl --group weka drives attach $EMPTY $STORE
check "its store is whole" wekactl check pci:$STORE

# ---- doctor ------------------------------------------------------------------------------------------------
wekactl doctor >"$DIR/list"
show
says "doctor: the drive" "ok *drive *pci:$STORE: attached, IOMMU group"
says "doctor: huge pages" "WRONG *hugepages *.*the configuration wants"
says "doctor: the unit of the restart" "type: systemctl enable weka-drives.service"
line=$(sed -n "s/.*type: echo 'w \(.*\) - - - - \([0-9]*\)' >.*/echo \2 >\1/p" "$DIR/list")
sh -c "$line"
mkdir -p /etc/systemd/system/multi-user.target.wants
: >/etc/systemd/system/multi-user.target.wants/weka-drives.service
wekactl doctor >"$DIR/list"
is "doctor: what it says mends it" 0 $?
show
cp /etc/weka/drives /out/drives # for drives_again.sh
finish
