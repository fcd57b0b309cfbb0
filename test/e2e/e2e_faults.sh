#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A writer appends numbered records, eight at once, while the appliance is killed and started again, or
# its clients are, or what looks like a peer falls silent: it goes on by itself; no acknowledged record is
# lost and none stands there twice; sessions are as many as before.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

rounds=2
[ "${TEST_LENGTH:-short}" = short ] || rounds=20
WRITER=$(dirname "$BIN")/test/tools/fault_writer
D0=file:$DIR/d0?size=512M D1=file:$DIR/d1?size=512M
: "${APP_CORES:=2}"
write_conf "$D0" "$D1"
check "format" "$BIN/wekactl" format "$D0" "$D1"
check "start" start

# What only a session or a running request holds: the same after as before.
held() {
	ctl --json status | tr ',{' '\n\n' |
		sed -n 's/^ *"\(sessions_open\|staging_used_bytes\|ops_free\)": *\([0-9]*\).*/\1 \2/p' | tr '\n' ' '
}
writer_start() { # NAME
	: >"$DIR/$1.said"
	"$WRITER" "$address" "$DIR/key" "/$1" >"$DIR/$1.said" 2>"$DIR/$1.err" &
	writer=$!
}
verified() { "$WRITER" "$SHM" "$DIR/key" "/$1" verify "$DIR/$1.said"; }
acknowledged() { grep -c ' 0$' "$DIR/$1.said"; }
goes_on() { # NAME: more is acknowledged than was
	was=$(acknowledged "$1") n=0
	until [ "$(acknowledged "$1")" -gt $((was + 50)) ]; do
		n=$((n + 1))
		[ $n -lt 300 ] || return 1
		sleep 0.1
	done
}

for address in "$SHM" "$TCP"; do
	way=${address%%:*}

	writer_start "appliance-$way"
	bad=
	for round in $(seq $rounds); do
		goes_on "appliance-$way" || bad="before kill $round"
		crash
		start || bad="start after kill $round"
	done
	goes_on "appliance-$way" || bad="after the last"
	kill $writer
	wait $writer || bad="the writer failed: $(cat "$DIR/appliance-$way.err")"
	[ -z "$bad" ] && ok "$way: the appliance was killed $rounds times, and the writer went on" ||
		not_ok "$way: the writer goes on: $bad"
	check "$way: each acknowledged record is there, and none twice" verified "appliance-$way"
	not_known=$(grep -c -v ' 0$' "$DIR/appliance-$way.said")
	[ "$not_known" -le $((rounds * 2)) ] && ok "$way: and hardly one is of unknown outcome" ||
		not_ok "$way: $not_known records are of unknown outcome"

	before=$(held) bad=
	for round in $(seq $rounds); do
		writer_start "client-$way-$round"
		goes_on "client-$way-$round" || bad="client $round"
		kill -9 $writer
		wait $writer 2>/dev/null
		verified "client-$way-$round" >"$DIR/check.out" 2>&1 || bad="$(cat "$DIR/check.out")"
	done
	[ -z "$bad" ] && ok "$way: $rounds clients were killed, and what they had been told is so" ||
		not_ok "$way: clients are killed: $bad"
	n=0
	until [ "$(held)" = "$before" ] || [ $n -gt 50 ]; do n=$((n + 1)); sleep 0.1; done
	[ "$(held)" = "$before" ] && ok "$way: sessions, staging and operations are as before" ||
		not_ok "$way: $(held)" "$before before"
done
check "a clean stop" stop
check "check finds nothing wrong" "$BIN/wekactl" check "$D0" "$D1"
finish
