#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A machine set up by a medium for cloud-init, and an upgrade to an image that boots but does not
# serve.
cd "$(dirname "$0")/../.." && . test/image/lib.sh
CPUS=2

mkdir -p "$DIR/extra/etc/systemd/system/weka-appliance.service.d"
printf '[Service]\nExecStartPre=/bin/false\n' >"$DIR/extra/etc/systemd/system/weka-appliance.service.d/bad.conf"
export EXTRA="$DIR/extra"
check "one that does not serve" image_of bad "$V.2"
unset EXTRA

cores() { ctl --json status | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["cores"]))'; }
disk "$IMAGES/weka.raw" 4G
check "a medium for cloud-init" cloud_medium flash7 2
check "power on" power_on
serve_a_tree flash7
is "it has as many cores as the medium says" 2 "$(cores)"
check "another medium" cloud_medium flash8 1

check "a bad upgrade is put there" ctl put "$DIR/bad/weka_$V.2.upgrade" /bad
say "upgrade /bad"
check "it is written" expect "$V.2 is booted next" 300
say reboot
check "it is booted" expect "weka-appliance $V.2 on flash8, " 300
check "and the one before again, by itself" expect "weka-appliance $V on flash8, " 300
check "which serves" expect "Serving at tls://" 180
check "the same files" still_there
is "the other medium changed the number of cores" 1 "$(cores)"
check "power off" power_off
finish
