# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# 64 clients in one thread, each with a session of its own over soft-RoCE: alone, beside one that
# floods, and beside one that never reaps.  Then 50 clients beside 20 that never reap.
. test/e2e/lib.sh
. test/guest/in/verbs.sh

SESSIONS=64
HOST=10.0.0.1
RDMA=rdma://$HOST:7010
network $HOST
resident_mib() { echo $(($(sed -n "s/^$1:[[:space:]]*\([0-9]*\) kB/\1/p" "/proc/$DAEMON/status") / 1024)); }
field() { grep "\"run\":\"$1\"" "$DIR/fair" | tr '{,' '\n\n' | sed -n "s/^\"$2\":\([0-9.]*\).*/\1/p"; }
at_most() { awk -v is="$1" -v bar="$2" 'BEGIN { exit !(is != "" && is + 0 <= bar + 0) }'; }
at_least() { awk -v is="$1" -v bar="$2" 'BEGIN { exit !(is != "" && is + 0 >= bar + 0) }'; }
# fair SESSIONS DEAF [OPTION...]: what weka-bench said is in $DIR/fair.
fair() {
	sessions=$1 deaf=$2
	shift 2
	check "$sessions sessions over rdma, and $deaf that never reap" weka-bench fair --connect $RDMA --key "$DIR/key" \
		--sessions "$sessions" --deaf "$deaf" --file-bytes 16M --seconds "$FAIR_SECONDS" --json "$@"
	cp "$DIR/check.out" "$DIR/fair"
	sed 's/^/# /' "$DIR/fair"
}

write_conf $DRIVES
# 16 more than there are, for the flooder and its like.  Limits that are near what is used here, so
# that the account says something: a client that never reaps has a pool of 129 MiB.
printf 'listen = %s\nsessions_max = %s\nlong_bodies = 2\npools_max = 130M\nsession_pools_max = 130M\n' \
	$RDMA $((SESSIONS + 16)) >>"$CONF"
check "format" wekactl --force format --protect none $DRIVES
check "the appliance starts" start
# The first makes the appliance's card known, and all of its memory to that.
check "one session over rdma" "$BIN/wekactl" --connect $RDMA --key "$DIR/key" status
n=0
until [ "$(number_of sessions_open)" = 1 ] || [ $n -gt 50 ]; do n=$((n + 1)); sleep 0.2; done
sleep 1 # its queue pair goes after its session
before=$(settled_counts)
fair $SESSIONS 1
# Not beside the flooder: what soft-RoCE does for it is done with the processors of all.
for run in alone deaf; do
	share=$(field $run share_worst)
	check "$run: each has its share, within 20 % of the mean (the worst: $share)" at_most "$share" 0.20
done
# While soft-RoCE moves the 2.5 GiB that the 20 have asked for it takes the processors of all, as beside
# the flooder: that is let pass.
fair 50 20 --settle $((FAIR_SECONDS * 3))
rate=$(field deaf ops_of_alone) p99=$(field deaf p99_of_alone) share=$(field deaf share_worst)
check "beside 20 that never reap, 50 keep at least 80 % of their rate (it is $rate of it)" at_least "$rate" 0.80
check "... and their 99th percentile at most doubles (it is $p99 of it)" at_most "$p99" 2
check "... and each has its share (the worst: $share)" at_most "$share" 0.20
most=$(resident_mib VmHWM) bound=$(($(number_of at_most_bytes) >> 20))
check "memory: $most MiB at most, within its account of $bound" at_most "$most" "$bound"
n=0
until after=$(counts) && [ "$after" = "$before" ] || [ $n -gt 50 ]; do n=$((n + 1)); sleep 0.2; done
is "sessions, buffers and queue pairs are as before" "$before" "$after"
check "stop" stop
finish
