#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Drives in other processes, behind vfio-user sockets: a tree goes in, survives restarts of the
# appliance and of a server, and comes out the same.  A server that is killed in the middle costs a
# clear line and a delay, and nothing that was acknowledged.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

SERVER=$(realpath "$BUILD/release/test/tools/vfu_server")
D0=vfio-user:$DIR/s0 D1=vfio-user:$DIR/s1
S0= S1=

# serve N [OPTION...]: server N begins, in place of one that was killed; S0 or S1 is its process.
serve() {
	n=$1
	shift
	: >"$DIR/server$n.out"
	"$SERVER" "$@" "$DIR/s$n" "file:$DIR/d$n?size=256M" >"$DIR/server$n.out" 2>>"$DIR/server.log" &
	eval "S$n=$!"
	i=0
	until grep -q ready "$DIR/server$n.out"; do
		i=$((i + 1))
		[ $i -lt 200 ] || { echo "server $n does not start"; cat "$DIR/server.log"; return 1; }
		sleep 0.05
	done
}
kill_server() { # N
	eval "pid=\$S$1"
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
}
trap 'kill -9 $S0 $S1 2>/dev/null; cleanup' EXIT

write_conf "$D0" "$D1"
make_tree "$DIR/src" 400

# ---- refusals: one line each, before there is anything to lose

refuses "format: a socket that is not there" "no such socket" "$BIN/wekactl" format "vfio-user:$DIR/none"
check "a server that speaks something else" serve 0 --nonsense
refuses "format: it speaks something else" "does not speak vfio-user" "$BIN/wekactl" format "$D0"
kill_server 0
refuses "format: a socket without a server" "no server listens" "$BIN/wekactl" format "$D0"
check "a server of a device that is no drive" serve 0 --not-nvme
refuses "format: no NVMe controller" "no NVMe controller" "$BIN/wekactl" format "$D0"
kill_server 0
check "a server that takes little memory" serve 0 --dma-maps 1
refuses "format: the server takes too little memory" "too few pieces of memory" "$BIN/wekactl" format "$D0"
kill_server 0
check "a server that never answers" serve 0 --mute-after 4
refuses "format: it does not answer" "does not answer" "$BIN/wekactl" format "$D0"
kill_server 0
check "a server for each drive" serve 0
check "another, without doorbells to map" serve 1 --no-mmap
refuses "format: a namespace that is not there" "namespace" "$BIN/wekactl" format "$D0?nsid=7"

# ---- the whole of it

check "format" "$BIN/wekactl" format "$D0" "$D1?nsid=1"
check "the appliance starts" start
check "import" ctl import "$DIR/src" /tree
check "export" ctl export /tree "$DIR/out"
check "what came out is what went in" same_trees "$DIR/src" "$DIR/out"
refuses "daemon: a server has one user" "does not answer\|connections" "$BIN/weka-appliance" --config "$CONF"
check "SIGTERM stops it" stop
check "check finds nothing wrong" "$BIN/wekactl" check "$D0" "$D1"
kill_server 0
kill_server 1
check "servers of the other kind for the same drives" serve 0 --no-mmap
check "and without interrupts" serve 1 --no-irqs
check "the appliance starts again" start
ADDRESS=$TCP
check "export over TCP" ctl export /tree "$DIR/out2"
ADDRESS=$SHM
check "the same after a restart of all, over TCP" same_trees "$DIR/src" "$DIR/out2"
check "stop" stop
kill_server 0
kill_server 1
finish
