#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A machine set up by a medium for cloud-init, and an upgrade to an image that boots but does not
# serve.
cd "$(dirname "$0")/../.." && . test/image/lib.sh

mkdir -p "$DIR/extra/etc/systemd/system/weka-appliance.service.d"
printf '[Service]\nExecStartPre=/bin/false\n' >"$DIR/extra/etc/systemd/system/weka-appliance.service.d/bad.conf"
export EXTRA="$DIR/extra"
check "one that does not serve" image_of bad "$V.2"
unset EXTRA

rate() { number scrub bytes_per_second; }
disk "$IMAGES/weka.raw" 4G
check "a medium for cloud-init" cloud_medium flash7 32M
check "power on" power_on
serve_a_tree flash7
is "the scrub is as fast as the medium says" $((32 << 20)) "$(rate)"
check "another medium" cloud_medium flash8 48M

check "a bad upgrade is put there" ctl put "$DIR/bad/weka_$V.2.upgrade" /bad
say "upgrade /bad"
check "it is written" expect "$V.2 is booted next" 300
say reboot
check "it is booted" expect "weka-appliance $V.2 on flash8, " 300
check "and the one before again, by itself" expect "weka-appliance $V on flash8, " 300
check "which serves" expect "Serving at tls://" 180
check "the same files" still_there
is "the other medium changed that" $((48 << 20)) "$(rate)"
check "power off" power_off
finish
