# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# What the programs of the image share.
. /run/weka-image/boot # disk, esp, state, root
STATE=/var/lib/weka-image
CONF=/etc/weka-appliance.conf
KEY=$STATE/weka.key

# The NVMe controllers of this machine, but for the one that it was booted from.
nvme_drives() {
	booted=$(readlink -f "/sys/class/block/$disk")
	for d in /sys/bus/pci/devices/*; do
		read -r class <"$d/class"
		[ "$class" = 0x010802 ] || continue
		case $booted in *"/${d##*/}/"*) ;; *) echo "${d##*/}" ;; esac
	done
}
mounted_esp() { # COMMAND...: in the ESP's top directory, which can be written
	mkdir -p /run/weka-image/esp
	mount -t vfat -o umask=077 "$esp" /run/weka-image/esp || return 1
	(cd /run/weka-image/esp && "$@")
	result=$?
	umount /run/weka-image/esp
	return $result
}
# Without logind, whom "systemctl reboot" would ask.
leave() { # reboot|poweroff
	systemctl start --no-block --job-mode=replace-irreversibly "$1.target"
}
