#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Drives with a volatile cache behind servers that end amid writes: acknowledged writes that no
# flush had covered may be lost, so the drive takes no writes until it is opened anew.  The daemon
# does that by itself, and nothing that clients were told is lost.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"
TRIES=5

SERVER=$(realpath "$BUILD/release/test/tools/vfu_server")
D0=vfio-user:$DIR/s0 D1=vfio-user:$DIR/s1
S0= S1=
serve() { # N [OPTION...]
	server=$1
	shift
	: >"$DIR/server$server.out"
	"$SERVER" "$@" "$DIR/s$server" "file:$DIR/d$server?size=512M" >"$DIR/server$server.out" 2>>"$DIR/server.log" &
	eval "S$server=$!"
	n=0
	until grep -q ready "$DIR/server$server.out" || [ $n -gt 2400 ]; do n=$((n + 1)); sleep 0.05; done
	[ $n -le 2400 ]
}
ends_itself() { # N
	eval "pid=\$S$1" n=0
	until grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null || [ ! -e "/proc/$pid" ] || [ $n -gt 2400 ]; do
		n=$((n + 1))
		sleep 0.05
	done
	[ $n -le 2400 ]
}
kill_server() { # N
	eval "pid=\$S$1"
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
}
trap 'kill -9 $S0 $S1 2>/dev/null; cleanup' EXIT
lines_of() { grep -c "$1" "$DIR/daemon.log"; }
starts() { lines_of 'info: weka-appliance .* drives, '; } # the first, and each time that the daemon began anew
has_begun_anew() { [ "$(starts)" -gt 1 ]; }
# The daemon has drive 1 again.  It may have begun anew meanwhile, and then says nothing of a reset.
is_back() { [ "$(lines_of "$D1.*back after a reset")" -gt "$back" ] || has_begun_anew; }

# Files of 1 MiB by several clients.  One that is alone on its core is written through the cache, so
# on a busy host, where each process takes long to begin, hardly any would lie in it: imports write
# many at once.
head -c 1048576 /dev/urandom >"$DIR/w"
again() { # COMMAND...: until it succeeds
	late=0
	while ! "$@" 2>"$DIR/err.$one"; do
		# A program that starts while nobody listens yet, or while the drives are being opened,
		# starts again, and so does one that could not connect in its time; all else is an error.
		# wekactl waits 30 s for an answer, which a busy machine may take for servers and daemon to be
		# back: it may try once more, and an answer that never comes is missed then.
		{ ! grep -qv "Connection timed out" "$DIR/err.$one" && [ $((late += 1)) = 1 ]; } ||
			grep -q "weka.sock: \(Connection refused\|No such file\|no answer\|.*(tried for\)" "$DIR/err.$one" ||
			{ cat "$DIR/err.$one" >>"$DIR/witness.err"; return 1; }
		sleep 0.1
	done
}
witness() { # a name is written down only after the answer
	i=0
	while [ ! -e "$DIR/enough" ]; do
		i=$((i + 1))
		again ctl put "$DIR/w" "/w/$one-$((i % 20))" || return
		echo "$one-$((i % 20))" >>"$DIR/acknowledged"
	done
}
witness_many() { # so are those of a tree
	mkdir "$DIR/tree.$one"
	for i in $(seq 16); do cp "$DIR/w" "$DIR/tree.$one/$one-$i"; done
	while [ ! -e "$DIR/enough" ]; do
		touch "$DIR/tree.$one"/*
		again ctl -q import "$DIR/tree.$one" /w || return
		ls "$DIR/tree.$one" >>"$DIR/acknowledged"
	done
}
all_there() {
	rm -rf "$DIR/w.out"
	ctl -q export /w "$DIR/w.out" || return 1
	for file in $(sort -u "$DIR/acknowledged"); do
		cmp "$DIR/w" "$DIR/w.out/$file" || return 1
	done
	[ -s "$DIR/acknowledged" ]
}

check "a server with a cache" serve 0
check "another" serve 1
check "format" "$BIN/wekactl" format --protect none "$D0" "$D1"
write_conf "$D0" "$D1"
echo "drive_timeout = 180s" >>"$CONF" # longer than a busy machine needs for another server
check "start" start
check "a directory" ctl mkdir /w
daemon=$DAEMON
: >"$DIR/acknowledged"
: >"$DIR/witness.err"
for one in a b c d e f; do witness & putters="${putters:-} $!"; done
for one in g h; do witness_many >"$DIR/import.$one" 2>&1 & putters="$putters $!"; done
until [ "$(wc -l <"$DIR/acknowledged")" -ge 20 ]; do sleep 0.05; done
# The server ends itself in the middle of what clients write, each time a little later, and at last
# when its cache does hold something: how often that is so by itself depends on how busy the machine is.
tries=0
until [ "$(lines_of 'may be lost: read-only')" != 0 ] || [ $tries -ge $TRIES ]; do
	tries=$((tries + 1))
	kill_server 1
	after=$([ $tries -gt 3 ] && echo --die-unflushed-after || echo --die-after)
	serve 1 "$after" $((200 + tries * 7)) || not_ok "the server comes back"
	ends_itself 1 || not_ok "and ends itself"
	back=$(lines_of "$D1.*back after a reset")
	serve 1 || not_ok "and comes back"
	eventually is_back >/dev/null || not_ok "the drive is back"
done
check "a server ended when its cache held what no flush had covered (after $tries)" \
	test "$(lines_of 'may be lost: read-only')" != 0
check "the daemon begins anew by itself" eventually has_begun_anew
is "in the same process" "$daemon" "$(cat "/proc/$daemon/stat" 2>/dev/null | cut -d' ' -f1)"
healths() { echo $(ctl --json status 2>/dev/null | grep -o '"health":"[a-z-]*"' | cut -d'"' -f4); }
both_well() { [ "$(healths)" = "good good" ]; }
eventually both_well >/dev/null # when the server that came last has been found
is "both drives are well, and none is read-only" "good good" "$(healths)"
count=$(wc -l <"$DIR/acknowledged")
goes_on() { # puts are acknowledged
	n=0
	until [ "$(wc -l <"$DIR/acknowledged")" -gt $((count + 20)) ]; do
		n=$((n + 1))
		[ $n -lt 1800 ] || { tail -n 3 "$DIR/daemon.log"; tail -n 3 "$DIR/witness.err"; return 1; }
		sleep 0.1
	done
}
check "clients go on by themselves" goes_on
touch "$DIR/enough"
wait $putters
is "and none was told of an error" "" "$(head -3 "$DIR/witness.err")"
check "all that was acknowledged is there" all_there
check "stop" stop
check "check finds nothing wrong" "$BIN/wekactl" check "$D0" "$D1"
finish
