#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The daemon as a service: its log, its unit, its start and reload, the first key.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=1}"

CTL=$BIN/wekactl
APP=$BIN/weka-appliance
D0=file:$DIR/d0?size=128M
write_conf "$D0"
check "format" "$CTL" format "$D0"

"$APP" --list-keys >"$DIR/keys.txt"

# ---- the log ---------------------------------------------------------------------------------
bad_lines() { grep -Evc "$1" "$DIR/daemon.log"; }
check "start" start
check "stop" stop
is "the log has the time in UTC before each line" 0 \
	"$(bad_lines '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z weka-appliance: (info|warning|error): ')"
: >"$DIR/daemon.log"
JOURNAL_STREAM=$(stat -c %d:%i "$DIR/daemon.log")
export JOURNAL_STREAM
check "start with the journal on stderr" start
check "stop" stop
unset JOURNAL_STREAM
is "the journal gets a priority before each line" 0 "$(bad_lines '^<[346]>[A-Za-z]')"

# ---- an address that comes later --------------------------------------------------------------
# As at boot, when the daemon is started before the network has its addresses: in a network
# namespace of its own, where this script gives loopback another address.
ADDR=fd00:77::1
cp "$CONF" "$DIR/conf.saved"
echo "listen = tcp://[$ADDR]:$PORT" >>"$CONF"
if unshare -n true 2>/dev/null && command -v ip >/dev/null; then
	RUN_AS="unshare -n"
	: >"$DIR/daemon.log"
	check "start before an address is there" start
	RUN_AS=
	check "which the log says, with what is done about it" \
		grep -q "warning: WEKA-111: listen = .*$ADDR.*: Cannot assign requested address; trying again every second" "$DIR/daemon.log"
	check "clients of the other addresses are served" ctl ls /
	nsenter -t "$DAEMON" -n sh -c "ip link set lo up && ip addr add $ADDR/128 dev lo nodad"
	check "it is served once it is there" said "serving tcp://\[$ADDR\]:$PORT"
	check "to clients" nsenter -t "$DAEMON" -n "$CTL" -c "tcp://[$ADDR]:$PORT" -k "$DIR/key" ls /
	check "stop" stop
	is "with one line for each" 2 "$(grep -c "$ADDR" "$DIR/daemon.log")"
else
	echo "no network namespace here: addresses that come later are not tried"
fi
cp "$DIR/conf.saved" "$CONF"

# ---- reload ------------------------------------------------------------------------------------
: >"$DIR/daemon.log"
check "start" start
{ sed "s|^cache.*|cache = 32M|; s|^listen = tcp.*|listen = tcp://127.0.0.1:$((PORT + 1))|" "$DIR/conf.saved"; } >"$CONF"
kill -HUP "$DAEMON"
check "a reload says that it was done" said "info: .*weka.conf was read again"
check "it serves an address that is new" "$CTL" -c "tcp://127.0.0.1:$((PORT + 1))" -k "$DIR/key" ls /
check "and one that is gone, until the next start" "$CTL" -c "$TCP" -k "$DIR/key" ls /
check "which the log says" grep -q "warning: WEKA-113: listen = $TCP is no longer configured" "$DIR/daemon.log"
check "a key that needs a start is named" grep -q "warning: .*weka.conf:[0-9]*: cache: has changed; that takes effect at the next start" "$DIR/daemon.log"
is "and no other" 2 "$(grep -c ' warning: ' "$DIR/daemon.log")"
echo "cahce = 1M" >>"$CONF"
kill -HUP "$DAEMON"
check "a mistake is named" said "error: .*weka.conf:[0-9]*: cahce: no such key"
check "and changes nothing" ctl ls /
cp "$DIR/conf.saved" "$CONF"
check "stop" stop

# ---- the service manager ------------------------------------------------------------------------
# A socket such as systemd gives a service of Type=notify.
python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
while True:
    print(s.recv(4096).decode().strip().split("\n")[0], flush=True)
' "$DIR/notify.sock" >"$DIR/notified" &
manager=$!
until [ -S "$DIR/notify.sock" ]; do sleep 0.05; done
notified() { # TEXT COUNT
	n=0
	until [ "$(grep -c "^$1\$" "$DIR/notified")" -ge "$2" ]; do
		n=$((n + 1))
		[ $n -lt 1200 ] || return 1
		sleep 0.05
	done
}
all_read() { # what the daemon has sent until now is in the file
	python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"END", sys.argv[1])' "$DIR/notify.sock" && notified END 1
}
# Not more often: a socket holds 10 messages, and one that finds no room is lost.
export NOTIFY_SOCKET="$DIR/notify.sock" WATCHDOG_USEC=1000000
check "start with a service manager" start
check "it is told when clients are served" notified READY=1 1
check "and that the daemon is alive, again and again" notified WATCHDOG=1 5
check "also while clients work" ctl ls /
check "stop" stop
check "it is told of the stop" notified STOPPING=1 1
check "all that it was told is there" all_read
is "each of them once" 2 "$(grep -cE '^(READY|STOPPING)=1$' "$DIR/notified")"
: >"$DIR/notified"
WATCHDOG_PID=1
export WATCHDOG_PID
check "start with another process's watchdog" start
check "readiness" notified READY=1 1
sleep 1.2
is "that watchdog is not fed" 0 "$(grep -c WATCHDOG "$DIR/notified")"
check "stop" stop
unset NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID
kill $manager

# ---- wekactl config -------------------------------------------------------------------------------
check "wekactl config check" "$CTL" --config "$CONF" config check
check "wekactl config check FILE" "$CTL" config check "$CONF"
echo "cores = 17" >"$DIR/wrong.conf"
refuses "a mistake is named with file, line, key and range" "wrong.conf:1: cores = 17: allowed is 1 to 16" "$CTL" config check "$DIR/wrong.conf"
check "wekactl config keys" sh -c "'$CTL' config keys | cmp - '$DIR/keys.txt'"
refuses "another word" "neither check nor keys" "$CTL" config chekc

# ---- wekactl completion ---------------------------------------------------------------------------
completes() { # WORDS...: what the last of them may become
	PATH=$BIN:$PATH bash -c '
		source <(wekactl completion bash) || exit 1
		COMP_WORDS=(wekactl "$@") COMP_CWORD=$#
		_wekactl
		echo "${COMPREPLY[*]}"' _ "$@"
}
if command -v bash >/dev/null; then
	is "completion of a command" "status stat" "$(completes sta)"
	is "of an option" "--connect --config" "$(completes --con)"
	is "of a command's word" "drain" "$(completes drives dr)"
	is "behind an option" "check" "$(completes -f "$CONF" config ch)"
	is "a file is the shell's" "" "$(completes import /et)"
	is "and so is an option's" "" "$(completes --key sta)"
	is "every command is known" "$("$CTL" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p' | LC_ALL=C sort | xargs)" \
		"$(completes '' | tr ' ' '\n' | LC_ALL=C sort | xargs)"
fi
if command -v zsh >/dev/null; then
	check "zsh takes its script" zsh -fc "'$CTL' completion zsh >'$DIR/zsh' && source '$DIR/zsh'"
fi
refuses "completion for another shell" "neither bash nor zsh" "$CTL" completion fish

# ---- descriptors -------------------------------------------------------------------------------
# A shell's soft limit is mostly 1,024: the daemon raises it to what sessions_max clients need.
soft_limit() { sed -n 's/^Max open files  *\([0-9]*\) .*/\1/p' "/proc/$DAEMON/limits"; }
if command -v prlimit >/dev/null; then
	: >"$DIR/daemon.log"
	RUN_AS="prlimit --nofile=100:4096"
	check "start with few descriptors, and leave to have more" start
	check "the daemon has taken four for each of 64 clients" [ "$(soft_limit)" -ge 256 ]
	check "and says nothing of it" sh -c "! grep -q warning '$DIR/daemon.log'"
	check "stop" stop
	RUN_AS="prlimit --nofile=100:100"
	check "start with few descriptors, and no leave" start
	check "which the log says, with what to do" grep -q "warning: WEKA-101: 100 descriptors are too few for sessions_max = 64 clients: up to [0-9]* are needed; raise LimitNOFILE=" "$DIR/daemon.log"
	check "stop" stop
	RUN_AS=
fi

# ---- the first key -----------------------------------------------------------------------------
cat >"$DIR/init.sh" <<EOF
#!/bin/sh
exec "$CTL" --config "$DIR/init.conf" keys init "\$@"
EOF
chmod +x "$DIR/init.sh"
sed "s|^key_file.*|key_file = $DIR/first.key|; s|^drive.*|drive = mem:64M|" "$DIR/conf.saved" >"$DIR/init.conf"
"$DIR/init.sh" >"$DIR/init.said" 2>&1
is "keys init makes the configured file" 0 $?
check "for its owner only" [ "$(stat -c %a "$DIR/first.key")" = 600 ]
check "says where, and what it may do" grep -q "first.key: has the key \"weka\", .*mode 600 and owner .*; it may do everything" "$DIR/init.said"
check "and what comes next" grep -q "wekactl --config .* format" "$DIR/init.said"
check "the daemon takes it" "$APP" --config "$DIR/init.conf" --check-config
sum=$(cat "$DIR/first.key")
refuses "a second time is refused" "exists already and was not changed" "$DIR/init.sh"
is "and the key is as it was" "$sum" "$(cat "$DIR/first.key")"
check "keys init FILE needs no configuration" sh -c "cd '$DIR' && '$CTL' --config /nothing keys init here.key"
is "two keys are not the same" 2 "$(cat "$DIR/first.key" "$DIR/here.key" | sort -u | wc -l)"
refuses "keys init: no directory" "no such file" "$DIR/init.sh" "$DIR/no/such.key"
refuses "keys init: no such user" "no such user" "$DIR/init.sh" --user nobody-of-this-name "$DIR/other.key"
if [ "$(id -u)" = 0 ]; then
	check "keys init for a user" "$DIR/init.sh" --user nobody "$DIR/nobody.key"
	is "whose it is" "nobody 600" "$(stat -c '%U %a' "$DIR/nobody.key")"
	echo "key_dir = $DIR/keys" >>"$DIR/init.conf"
	refuses "keys add: no such user" "no such user" "$CTL" --config "$DIR/init.conf" --user nobody-of-this-name keys add loader "$DIR/loader"
	check "and no directory is made" [ ! -e "$DIR/keys" ]
	check "keys add --user makes the directory" "$CTL" --config "$DIR/init.conf" --user nobody keys add loader "$DIR/loader"
	is "for that user, with the key in it" "nobody nobody" "$(stat -c %U "$DIR/keys" "$DIR/keys/loader.key" | xargs)"
	chmod 711 "$DIR"
	is "root's keys list finds no fault with it" 1 \
		"$("$CTL" --config "$DIR/init.conf" keys list 2>&1 | grep -c '^loader  *read')"
	sed "s|^key_file.*|key_file = $DIR/nobody.key|" "$DIR/init.conf" >"$DIR/theirs.conf"
	install -d -o nobody "$DIR/run" # where nobody may make a socket
	sed -i "s|^listen = shm.*|listen = shm:$DIR/run/sock|" "$DIR/init.conf"
	check "root's --check-config sees a service's keys as the service does" "$APP" --check-config --config "$DIR/theirs.conf"
	chmod 644 "$DIR/init.conf"
	cat >"$DIR/as_nobody.sh" <<EOF
#!/bin/sh
exec setpriv --reuid nobody --regid nogroup --clear-groups "$APP" --check-config --config "$DIR/init.conf"
EOF
	chmod 755 "$DIR/as_nobody.sh"
	if setpriv --reuid nobody --regid nogroup --clear-groups test -x "$APP"; then
		refuses "a key of root's: an ordinary user is told what to type" \
			"first.key: the daemon's user may not read it; type: chown $(id -u nobody) $DIR/first.key" "$DIR/as_nobody.sh"
		chown nobody "$DIR/first.key"
		check "and reads it then" "$DIR/as_nobody.sh"
		sed -i "s|^drive = .*|drive = file:$DIR/d0|" "$DIR/init.conf"
		refuses "a drive of root's, likewise" "d0: the daemon's user may not open it; type: chown $(id -u nobody) $DIR/d0" "$DIR/as_nobody.sh"
	fi
fi

# ---- what make install brings --------------------------------------------------------------------
# As if PREFIX were this directory: the unit names programs that are there.
check "install" env -u MAKEFLAGS -u MAKELEVEL make -s install BUILD="$BUILD" PREFIX="$DIR/inst"
UNIT=$DIR/inst/lib/systemd/system/weka-appliance.service
check "an example of the configuration" cmp appliance/host/weka-appliance.conf.example "$DIR/inst/share/weka/weka-appliance.conf.example"
check "the unit runs as a user" grep -q '^User=weka$' "$UNIT"
check "which is in sysusers.d" grep -q '^u weka ' "$DIR/inst/lib/sysusers.d/weka.conf"
# Four descriptors for each of as many clients as there may be.
most=$("$APP" --list-keys | grep -B2 '^sessions_max' | sed -n 's/^# 1 to //p')
check "and has descriptors for all clients" [ "$(sed -n 's/^LimitNOFILE=//p' "$UNIT")" -ge $((4 * most)) ]
check "starts when the network is there" grep -q '^After=.*network-online.target' "$UNIT"
check "which it asks for" grep -q '^Wants=.*network-online.target' "$UNIT"
check "no core is dumped, since keys are in memory" grep -q '^LimitCORE=0$' "$UNIT"
check "readiness and watchdog" [ "$(grep -cE '^(Type=notify|WatchdogSec=60)$' "$UNIT")" = 2 ]
if command -v systemd-analyze >/dev/null; then
	check "its exposure is at most 2.5" systemd-analyze security --offline=true --threshold=25 --no-pager "$UNIT"
	check "its unit is valid" systemd-analyze verify --man=no "$UNIT"
fi
check "and can be reloaded" grep -q '^ExecReload=/bin/kill -HUP' "$UNIT"
if command -v systemd-analyze >/dev/null; then
	check "systemd finds nothing wrong with it" systemd-analyze verify --man=no "$UNIT"
	systemd-analyze verify --man=no "$UNIT" >"$DIR/verify" 2>&1
	is "and says nothing" "" "$(cat "$DIR/verify")"
	check "and little that it might do without (at most 2.5 of 10)" systemd-analyze security --offline=true --threshold=25 "$UNIT"
fi
MOUNT_UNIT=$DIR/inst/lib/systemd/system/weka-mount@.service
check "a unit of mounts names the program that is there" [ -x "$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$MOUNT_UNIT")" ]
if command -v systemd-analyze >/dev/null; then
	is "systemd finds nothing wrong with it" "" "$(systemd-analyze verify --man=no "$MOUNT_UNIT" 2>&1)"
	# A mount that others see leaves no room for settings that need a mount namespace.
	check "nor much that it might do without (at most 4.5)" systemd-analyze security --offline=true --threshold=45 "$MOUNT_UNIT"
fi
if command -v systemd-sysusers >/dev/null; then
	check "nor with its user" systemd-sysusers --dry-run "$DIR/inst/lib/sysusers.d/weka.conf"
fi

finish
