#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A machine that has no disk but the drives of the store: its firmware takes the kernel from an HTTP
# server (UEFI HTTP boot), and the kernel its root, which it verifies.  The files of clients are on the
# drives, and are there after the next boot.
cd "$(dirname "$0")/../.." && . test/image/lib.sh

# A network of its own, with a DHCP server that is configured as weka-image(7) says.
unshare -n sleep infinity &
NET=$!
INSIDE="nsenter -t $NET -n"
RUN_AS=$INSIDE
ADDRESS=tls://192.0.2.2:7010
leave_network() {
	machine_cleanup
	kill $NET ${WEB:-} ${DHCP:-} 2>/dev/null
}
trap leave_network EXIT
wired() { # until the network of $NET is not ours any more
	until [ "$(readlink /proc/$NET/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
	$INSIDE ip tuntap add boot0 mode tap &&
		$INSIDE ip address add 192.0.2.1/24 dev boot0 && $INSIDE ip link set boot0 up
}
card() { # without PXE, which the firmware would try first
	echo "-fw_cfg name=opt/org.tianocore/IPv4PXESupport,string=no -fw_cfg name=opt/org.tianocore/IPv6PXESupport,string=no"
	echo "-netdev tap,id=n,ifname=boot0,script=no,downscript=no"
	echo "-device virtio-net-pci,netdev=n,mac=52:54:00:77:65:6b,bootindex=0,romfile="
}
key_shown() {
	say key
	expect "weka:[0-9a-f]{64}" 60 && (umask 077 && grep -aoE "weka:[0-9a-f]{64}" "$DIR/expected" >"$KEY")
}

mkdir "$DIR/www"
cp "$IMAGES/weka.efi" "$IMAGES/weka_$V.upgrade" "$DIR/www/"
cat >"$DIR/dnsmasq.conf" <<END
port=0
interface=boot0
bind-dynamic
user=root
dhcp-leasefile=$DIR/leases
dhcp-range=192.0.2.2,192.0.2.99
dhcp-host=52:54:00:77:65:6b,id:*,192.0.2.2
dhcp-vendorclass=set:http,HTTPClient
dhcp-option-force=tag:http,60,HTTPClient
dhcp-boot=tag:http,http://192.0.2.1/weka.efi
END
check "a network" wired
$INSIDE dnsmasq --keep-in-foreground --conf-file="$DIR/dnsmasq.conf" >"$DIR/dhcp.log" 2>&1 &
DHCP=$!
$INSIDE python3 -m http.server --bind 192.0.2.1 --directory "$DIR/www" 80 >"$DIR/web.log" 2>&1 &
WEB=$!

cp /usr/share/OVMF/OVMF_VARS_4M.fd "$DIR/vars"
empty_drives 1G
check "power on" power_on
check "the firmware takes the kernel by HTTP" expect "starting Boot[0-9A-F]* .*HTTPv4" 600
check "the kernel takes its root" expect "root from http://192.0.2.1/weka_$V.upgrade" 300
check "it comes up, and has formatted nothing" expect "Not configured.*0000:00:0[0-9a-f].0 0000:00" 300
say setup
check "setup" expect "Type yes: $" 30
say yes
check "it serves" expect "Serving at tls://" 300
check "it shows its key" key_shown
make_tree "$DIR/tree" 20
check "a client reaches it" answers
check "a client stores a tree" ctl import "$DIR/tree" /tree
check "power off" power_off

check "power on" power_on
check "it comes up, and knows nothing" expect "Not configured" 900
say "setup keep"
check "it serves the store that the drives have" expect "Serving at tls://" 300
check "with another key" key_shown
check "the same files" still_there
say "upgrade /tree"
check "there is no slot to upgrade" expect "put the new image on that server" 30
check "off" power_cut

# The root begins behind the header of its file, and a file of one block.
printf '\377' | dd of="$DIR/www/weka_$V.upgrade" bs=1 seek=$((1536 + 1100)) conv=notrunc status=none
check "power on" power_on
check "a byte that is not what it was is noticed" expect "verity.*corrupt" 900
is "and nothing came up" 0 "$(grep -acF "weka-appliance $V on" "$DIR/console")"
check "off" power_cut
finish
