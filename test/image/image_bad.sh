#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# An upgrade to an image that boots but does not serve.
cd "$(dirname "$0")/../.." && . test/image/lib.sh

mkdir -p "$DIR/extra/etc/systemd/system/weka-appliance.service.d"
printf '[Service]\nExecStartPre=/bin/false\n' >"$DIR/extra/etc/systemd/system/weka-appliance.service.d/bad.conf"
export EXTRA="$DIR/extra"
check "one that does not serve" image_of bad "$V.2"
unset EXTRA

serve_a_tree

check "a bad upgrade is put there" ctl put "$DIR/bad/weka_$V.2.upgrade" /bad
say "upgrade /bad"
check "it is written" expect "$V.2 is booted next" 300
say reboot
check "it is booted" expect "weka-appliance $V.2 on " 300
check "and the one before again, by itself" expect "weka-appliance $V on " 300
check "which serves" expect "Serving at tls://" 180
check "the same files" still_there
check "power off" power_off
finish
