#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The installer: from a CD, by somebody at the console, onto a disk that was empty; and unattended, as a
# medium says.  Nothing is written to a disk that nobody named, nor over an appliance unattended.
cd "$(dirname "$0")/../.." && . test/image/lib.sh

ISO=$IMAGES/weka-install.iso
cd_drive() { [ ! -e "$DIR/cd" ] || echo "-drive if=none,id=cd,format=raw,readonly=on,media=cdrom,file=$ISO -device ide-cd,drive=cd,bus=ide.0,bootindex=0"; }
blank() { rm -f "$DIR/disk"; truncate -s 4G "$DIR/disk"; cp /usr/share/OVMF/OVMF_VARS_4M.fd "$DIR/vars"; }
written() { tr -d '\000' <"$1" | head -c 1 | wc -c; }
is_the_image() { cmp -n "$(stat -c %s "$IMAGES/weka.raw")" "$DIR/disk" "$IMAGES/weka.raw"; }
label() { # LINE...: a medium with these in weka-setup.conf
	rm -f "$DIR/medium"
	mkfs.vfat -n WEKA-SETUP -C "$DIR/medium" 4096 >/dev/null
	printf '%s\n' "$@" >"$DIR/weka-setup.conf"
	mcopy -i "$DIR/medium" "$DIR/weka-setup.conf" ::
}

blank
truncate -s 4G "$DIR/d0"
truncate -s 1G "$DIR/d1"
: >"$DIR/cd"
check "power on, with the CD" power_on
check "it asks which disk" expect "Type its name: $" 300
is "of those that are large enough" "nvme0n1 vda" "$(awk '/ GB / { print $1 }' "$DIR/expected" | xargs)"
say nvme9
check "a disk that is not there" expect "There is no disk nvme9" 30
say nvme0n1
check "it asks" expect "ERASE nvme0n1.  Type yes: $" 30
say no
check "and does nothing without a yes" expect "name: $" 30
is "nothing was written" "0 0" "$(written "$DIR/disk") $(written "$DIR/d0")"
say vda
check "it asks" expect "ERASE vda.  Type yes: $" 30
say yes
check "it installs" expect "Installed on vda" 300
check "the disk has the image, byte for byte" is_the_image
is "and no other disk has anything" "0 0" "$(written "$DIR/d0") $(written "$DIR/d1")"
check "off" power_cut
rm "$DIR/cd"
check "power on, without the CD" power_on
check "the appliance comes up, and has formatted nothing" expect "Not configured" 300
check "it is this image" grep -qa "weka-appliance $V on weka-" "$DIR/expected"
check "off" power_cut

# ---- unattended: the medium says what to do, with the installer and with the appliance --------------
: >"$DIR/cd"
label "install = vda" "format = empty" "hostname = rack-7"
check "power on" power_on
check "a disk with an appliance stays as it is" expect "vda has an appliance, .* nothing is written" 300
check "off" power_cut
blank
label "install = vda" "format = empty" "hostname = rack-7"
check "power on" power_on
check "an empty disk gets the image" expect "Installed on vda" 300
n=0
while kill -0 "$(cat "$DIR/qemu.pid" 2>/dev/null)" 2>/dev/null && [ $n -lt 60 ]; do n=$((n + 1)); rm -f "$DIR/on"; sleep 0.5; done
[ $n -lt 60 ] && ok "the machine switches itself off" || not_ok "the machine switches itself off"
is_off
rm "$DIR/cd"
check "power on, without the CD" power_on
check "it has the name" expect "weka-appliance $V on rack-7" 300
check "and serves" expect "Serving at tls://" 180
check "power off" power_off
finish
