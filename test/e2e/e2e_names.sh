#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# `weka-bench names`: every phase at each size over each transport, continued where it was ended, and
# the plot of it.  The benchmark checks all answers itself; speed is not tested.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"

D0=file:$DIR/d0?size=256M
write_conf "$D0"
"$BIN/wekactl" format "$D0" >/dev/null || exit 1
check "the appliance starts" start

names() { # ADDRESS FILES OPTIONS...
	to=$1 files=$2
	shift 2
	"$BIN/weka-bench" names --json --connect "$to" --key "$DIR/key" --prefix /names --files "$files" \
		--seconds 0.2 --cores=-1,-1 "$@" >"$DIR/out" && cat "$DIR/out" >>"$DIR/rows"
}
count() { grep -c "$1" "$DIR/out"; }
check "2,500 names over shm" names "$SHM" 2500
is "six phases at 1,000 and at 2,500 names" 12 "$(count '"phase"')"
check "and 3,000 over tcp" names "$TCP" 3000
is "gone on with: only the 500 are made" 1 "$(grep '"phase":"create"' "$DIR/out" | grep -c '"ops":500,')"
check "a name of the last batch is removed, as if the run had been killed" ctl rm /names/f000000002990
check "and the run goes on" names "$SHM" 3100
is "its names from that one on are made again" 1 "$(grep '"phase":"create"' "$DIR/out" | grep -c '"ops":110,')"
mkdir "$DIR/local"
check "4,000 by three threads, beside a local directory" names "$TCP" 4000 --threads 3 --vs "$DIR/local"
is "six phases of the local directory too" 6 "$(grep -v '"transport":"tcp"' "$DIR/out" | grep -c '"phase"')"
is "which is empty again" "" "$(ls "$DIR/local")"
check "two of the phases" names "$SHM" 4000 --phases stat,list
is "and no other" 2 "$(count '"phase"')"
refuses "a phase that is none" "not one of create, stat" "$BIN/weka-bench" names --phases stat,walk
is "all are there, under their names" 4000 "$(ctl ls /names | grep -c '^f')"
check "a name that is missing" ctl rm /names/f000000000017
refuses "is noticed" "names/f000000000017: No such file" "$BIN/weka-bench" names --connect "$SHM" \
	--key "$DIR/key" --prefix /names --files 4000 --seconds 0.2 --cores=-1,-1
check "a plot" sh -c "awk -f bench/names_plot.awk '$DIR/rows' >'$DIR/svg' && python3 -c '
import sys, xml.dom.minidom as x
assert len(x.parse(sys.argv[1]).getElementsByTagName(\"polyline\")) == 30' '$DIR/svg'"
check "the appliance stops" stop
finish
