#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Somebody installs at the console, from a CD, and nothing is written to a disk that he did not name.  The
# machine boots from that disk, with two empty NVMe drives: it formats nothing until it is told to, then
# serves; what a client has stored is there after a power cut.
cd "$(dirname "$0")/../.." && . test/image/lib.sh

# The disk has an appliance already, one that is damaged: in its root, and where an image has zeros.
disk "$IMAGES/weka.raw" 4G
for place in 400 1000; do
	dd if=/dev/urandom of="$DIR/disk" bs=1M count=1 seek=$place conv=notrunc status=none
done
is "the disk is not the image" 1 "$(is_the_image >/dev/null; echo $?)"
truncate -s 4G "$DIR/d0"
as_it_was=$(stat -c %y "$DIR/disk")
: >"$DIR/cd"
label "install = vda"
check "power on, with the CD" power_on
check "it asks which disk" expect "Type its name: $" 300
is "a disk with an appliance is none that the medium may name" 1 \
	"$(grep -c "vda has an appliance, .* nothing is written" "$DIR/expected")"
is "of those that are large enough" "nvme0n1 vda" "$(awk '/ GB / { print $1 }' "$DIR/expected" | xargs)"
say nvme9
check "a disk that is not there" expect "There is no disk nvme9" 30
say nvme0n1
check "it asks" expect "ERASE nvme0n1.  Type yes: $" 30
say no
check "and does nothing without a yes" expect "name: $" 30
is "nothing was written" "$as_it_was 0 0" "$(stat -c %y "$DIR/disk") $(written "$DIR/d0" "$DIR/d1")"
say vda
check "it asks, and says what will be lost" expect "ERASE vda, which has an appliance, .*  Type yes: $" 30
say yes
check "it installs" expect "Installed on vda" 300
check "the disk has the image, byte for byte" is_the_image
is "and no other disk has anything" "0 0" "$(written "$DIR/d0" "$DIR/d1")"
check "off" power_cut
rm "$DIR/cd" "$DIR/medium"
truncate -s 1G "$DIR/d0"

# ---- set up at the console --------------------------------------------------------------------------
check "power on, without the CD" power_on
check "it comes up, and shows the drives that it found" expect "Not configured.*0000:00:03.0 0000:00:04.0" 300
check "it is this image" grep -qa "weka-appliance $V on weka-" "$DIR/expected"
say nonsense
check "there is no shell" expect "nonsense: no such command" 30
is "no drive was written to" "0 0" "$(written "$DIR/d0" "$DIR/d1")"
say setup
check "setup asks" expect "Type yes: $" 30
say no
check "and does nothing without a yes" expect "Not configured" 60
say setup
check "setup" expect "Type yes: $" 30
say yes
check "it serves" expect "Serving at tls://" 180
say key
check "it shows the key that it has made" expect "weka:[0-9a-f]{64}" 30
(umask 077 && grep -aoE "weka:[0-9a-f]{64}" "$DIR/expected" >"$KEY")
say key
check "once" expect "was shown on 20" 30
is "which is in no log of its own" 0 "$(say log; expect 'weka-setup' 30; grep -acF "$(cut -d: -f2 "$KEY")" "$DIR/expected")"

make_tree "$DIR/tree" 50
check "a client reaches it" answers
check "a client stores a tree" ctl import "$DIR/tree" /tree
check "and reads it" ctl export /tree "$DIR/back"
check "it is the same" same_trees "$DIR/tree" "$DIR/back"
check "a client stores a real tree" ctl -q import /usr/include/linux /linux
check "and reads an epoch of it, every byte compared" "$BIN/weka-bench" epoch --verify --epochs 1 \
	--connect "$ADDRESS" --key "$KEY" --tree /usr/include/linux --prefix /linux
: >"$DIR/none"
is "without a key nobody is served" 1 "$(ctl --key "$DIR/none" ls / >/dev/null 2>&1; echo $(($? != 0)))"

check "a power cut" power_cut
check "power on" power_on
check "it serves, and asks for nothing" expect "Serving at tls://" 300
check "a client reads the same tree" still_there
say key
check "the key was shown" expect "was shown on 20" 30
check "power off" power_off
is "the state has the rest of the disk" yes \
	"$(sfdisk -lq -o Size,Name "$DIR/disk" | awk '$2 == "weka-state" { print $1 ~ /G$/ ? "yes" : $1 }')"

finish
