#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Runs as root on a clean Debian 12 (e2e_deb.sh), whose systemd started it: our packages' life.
cd / && BUILD=/t && mkdir -p /t/release && ln -s /usr/bin /t/release/bin && . /test/e2e/lib.sh
export DEBIAN_FRONTEND=noninteractive WEKA_ADDRESS=shm:/run/weka/sock WEKA_KEY_FILE=/etc/weka-appliance.key
NAMES="libweka-client-dev libweka-client0 python3-weka weka-appliance weka-bench weka-mount wekactl"
apt() { apt-get -y -q --no-install-recommends "$@"; }
active() { systemctl is-active -q weka-appliance; }
pid() { systemctl show -P MainPID weka-appliance; }
state() { sha256sum /etc/weka-appliance.conf /etc/weka-appliance.key /var/lib/weka/d0; }

# ---- an older version, before it is configured ----------------------------------------------------
check "install" apt install /debs/old/*.deb
is "the user weka is there, and owns its directory" "weka 700" "$(stat -c '%U %a' /var/lib/weka)"
is "nothing is started without a configuration" "inactive" "$(systemctl is-active weka-appliance)"
is "nor will be at the next boot" "disabled" "$(systemctl is-enabled weka-appliance)"
uid=$(id -u weka)
is "and nothing has failed" "" "$(systemctl --failed --plain --no-legend | grep weka)"
systemctl start weka-appliance 2>/dev/null
check "who starts it all the same is told why not" sh -c \
	"journalctl -u weka-appliance --no-pager | grep -q '/etc/weka-appliance.conf: No such file'"
systemctl stop weka-appliance
systemctl reset-failed weka-appliance

# ---- configured -------------------------------------------------------------------------------------
cat >/etc/weka-appliance.conf <<END
drive = file:/var/lib/weka/d0?size=256M
listen = shm:/run/weka/sock
key_file = /etc/weka-appliance.key
cache = 32M
core = none
END
check "the first key" wekactl keys init --user weka
check "format" runuser -u weka -- wekactl format
check "start" systemctl enable -q --now weka-appliance
check "the exposure of its sandbox is at most 2.5" systemd-analyze security --threshold=25 --no-pager weka-appliance.service
is "its units are valid" "" "$(systemd-analyze verify --man=no /lib/systemd/system/weka-*.service 2>&1 | grep weka)"
head -c 1000000 /dev/urandom >/tmp/data
check "a client writes" wekactl put /tmp/data /data
check "and reads" sh -c "wekactl cat /data | cmp - /tmp/data"
check "Python, too" /usr/bin/python3 -c "import weka; assert weka.Client().read('/data') == open('/tmp/data', 'rb').read()"
check "benchmarks run" weka-bench --version

# ---- mounted -------------------------------------------------------------------------------------------
if [ -c /dev/fuse ]; then
	mkdir -p /etc/weka/mount
	printf 'WEKA_ADDRESS=shm:/run/weka/sock\nOPTIONS=cache=1,allow_other\n' >/etc/weka/mount/srv-weka.conf
	check "the unit of a mount is started" systemctl enable -q --now weka-mount@srv-weka
	check "files are there" cmp /tmp/data /srv/weka/data
	mount_pid() { systemctl show -P MainPID weka-mount@srv-weka; }
	again() { # it is mounted again after a while
		n=0
		until cmp -s /tmp/data /srv/weka/data || [ $n -gt 200 ]; do n=$((n + 1)); sleep 0.1; done
		cmp /tmp/data /srv/weka/data
	}
	kill -9 "$(mount_pid)"
	check "killed, it is mounted again" again
	is "once" 1 "$(grep -c ' /srv/weka ' /proc/mounts)"
	check "it is stopped" systemctl disable -q --now weka-mount@srv-weka
	is "and unmounted" "" "$(grep ' /srv/weka ' /proc/mounts)"
	echo 'shm:/run/weka/sock /mnt weka allow_other,_netdev 0 0' >>/etc/fstab
	check "a line of fstab becomes a unit" systemctl daemon-reload
	check "which mounts" systemctl start mnt.mount
	check "the files" cmp /tmp/data /mnt/data
	check "umount ends it" umount /mnt
	check "mount reads the line, too" mount /mnt
	check "the files, again" cmp /tmp/data /mnt/data
	check "the unit unmounts" systemctl stop mnt.mount
	is "all" "" "$(grep ' /mnt ' /proc/mounts)"
	rm -r /etc/weka /srv/weka
else
	echo "no /dev/fuse in this container: nothing is mounted"
fi

# ---- upgraded while a client works ---------------------------------------------------------------------
before=$(pid)
/usr/bin/python3 /test/e2e/deb_hammer.py /tmp/enough >/tmp/hammered 2>&1 &
hammer=$!
sleep 1
check "upgrade" apt install /debs/*.deb
is "to the new version" 7 "$(dpkg-query -W -f '${Version}\n' $NAMES | grep -vc '^0\.0\.9-1$')"
check "the new daemon serves" active
check "instead of the old one" [ "$(pid)" != "$before" ]
: >/tmp/enough
wait $hammer
is "a client that worked all the time saw no error" 0 $?
check "and lost nothing" grep -qE '^[1-9][0-9]*$' /tmp/hammered
cat /tmp/hammered
check "files are as they were" sh -c "wekactl cat /data | cmp - /tmp/data"

# ---- removed, and installed again ------------------------------------------------------------------------
systemctl stop weka-appliance
state >/tmp/state
systemctl start weka-appliance
check "remove" apt remove $NAMES
is "the daemon has stopped" "" "$(pidof weka-appliance)"
check "no program is left" [ ! -e /usr/bin/wekactl ]
check "configuration and keys are" sh -c "grep -v /d0 /tmp/state | sha256sum --quiet -c"
check "drives are" [ -s /var/lib/weka/d0 ]
check "install again" apt install /debs/*.deb
check "it serves again" active
check "the same files" sh -c "wekactl cat /data | cmp - /tmp/data"

# ---- purged ----------------------------------------------------------------------------------------------
systemctl stop weka-appliance
state >/tmp/state
check "purge" apt purge $NAMES
check "drives are untouched" sh -c "grep /d0 /tmp/state | sha256sum --quiet -c"
is "and their owner is there" weka "$(stat -c %U /var/lib/weka/d0)"
is "keys are not" "" "$(ls -d /etc/*weka* 2>/dev/null)"
rm /var/lib/weka/d0
check "install without drives" apt install /debs/*.deb
check "purge" apt purge $NAMES
is "nothing is left" "" "$(find / -xdev \( -path /test -o -path /t -o -path /debs -o -path /proc -o -path /tmp \
	-o -path /var/cache -o -path /var/log \) -prune -o \( -name '*weka*' -o -user "$uid" \) -print)"
is "nor the user" "" "$(getent passwd weka; getent group weka)"
ok "the last"
finish
