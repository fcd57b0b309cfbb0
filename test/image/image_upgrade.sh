#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A machine that is installed and set up unattended, as a medium says.  Then an upgrade to a newer image,
# and what happens when a byte of its root is not what it was.
cd "$(dirname "$0")/../.." && . test/image/lib.sh

check "a newer image" image_of next "$V.1"
truncate -s 4G "$DIR/disk"
empty_drives 1G
cp /usr/share/OVMF/OVMF_VARS_4M.fd "$DIR/vars"
: >"$DIR/cd"
label "install = vda" "format = empty" "hostname = rack-7"
check "power on, with the CD" power_on
check "an empty disk gets the image" expect "Installed on vda" 300
check "the machine switches itself off" switched_off
check "the disk has the image, byte for byte" is_the_image
is "and no other disk has anything" "0 0" "$(written "$DIR/d0" "$DIR/d1")"
rm "$DIR/cd"
check "power on, without the CD" power_on
serve_a_tree rack-7

# ---- to a newer image ------------------------------------------------------------------------------
check "an upgrade is put there" ctl put "$DIR/next/weka_$V.1.upgrade" /next
say "upgrade /tree/size-4096"
check "a file that is none is refused" expect "is not there, or no upgrade" 60
say "upgrade /next"
check "it is written and read back" expect "$V.1 is booted next" 300
say reboot
check "it is booted" expect "weka-appliance $V.1 on " 300
check "and serves" expect "Serving at tls://" 180
check "with the same files" still_there

# ---- a byte that is not what it was ----------------------------------------------------------------------
check "power off" power_off
start=$(sfdisk -lq -o Start,Name "$DIR/disk" | awk '$2 == "weka-root-b" { print $1 * 512 }')
byte=$(od -An -tu1 -j$((start + 1100)) -N1 "$DIR/disk")
printf "\\$(printf %o $((byte ^ 1)))" | dd of="$DIR/disk" bs=1 seek=$((start + 1100)) conv=notrunc status=none
check "power on" power_on
check "the byte is noticed" expect "verity.*corrupt" 300
check "and the image before is booted, when three tries are over" expect "weka-appliance $V on " 600
is "nothing of the other one came up" 0 "$(grep -acF "$V.1 on" "$DIR/console")"
check "it serves" expect "Serving at tls://" 180
check "the same files" still_there

check "power off" power_off
finish
