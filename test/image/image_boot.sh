#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The disk image, booted on a machine with two empty NVMe drives: it formats nothing until it is told
# to, then serves; what a client has stored is there after a power cut.  Then its kernel comes over
# the network.
cd "$(dirname "$0")/../.." && . test/image/lib.sh

disk "$IMAGES/weka.raw" 4G
check "power on" power_on
check "it comes up, and shows the drives that it found" expect "Not configured.*0000:00:03.0 0000:00:04.0" 300
say nonsense
check "there is no shell" expect "nonsense: no such command" 30
is "no drive was written to" 0 "$(cat "$DIR/d0" "$DIR/d1" | tr -d '\000' | wc -c)"
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
rm -rf "$DIR/back"
check "a client reads the tree" ctl export /tree "$DIR/back"
check "it is the same" same_trees "$DIR/tree" "$DIR/back"
say key
check "the key was shown" expect "was shown on 20" 30
check "power off" power_off
is "the state has the rest of the disk" yes \
	"$(sfdisk -lq -o Size,Name "$DIR/disk" | awk '$2 == "weka-state" { print $1 ~ /G$/ ? "yes" : $1 }')"

# ---- over the network ---------------------------------------------------------------------------
mkdir "$DIR/tftp" && cp "$IMAGES/weka.efi" "$DIR/tftp/"
check "the disk has no boot loader" mdel -i "$(esp)" ::EFI/BOOT/BOOTX64.EFI
check "power on" power_on
check "the kernel comes over the network" expect "NBP filename is weka.efi" 120
check "it serves" expect "Serving at tls://" 300
rm -rf "$DIR/back"
check "a client reads the tree" ctl export /tree "$DIR/back"
check "it is the same" same_trees "$DIR/tree" "$DIR/back"
check "power off" power_off
finish
