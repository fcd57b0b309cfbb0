#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A directory far larger than the cache: 100,000 names, in long tests 1,000,000.  However
# many names there are, an operation reads one leaf from the drive, and memory stays within its
# configured size; after SIGKILL each name is there, once.  Speed is not tested.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=1}"
FILES=100000 CACHE=6M
[ "${TEST_LENGTH:-short}" = short ] || FILES=1000000 CACHE=12M
MIB=${CACHE%M}

D0=file:$DIR/d0?size=2G
write_conf "$D0"
# No scrub: its reads would be counted with the others.
printf 'staging = 16M\nops_max = 32\nscrub_bytes_per_second = 0\n' >>"$CONF"
"$BIN/wekactl" format "$D0" >/dev/null || exit 1
check "the appliance starts" start

names() { # PHASES
	"$BIN/weka-bench" names --json --connect "$SHM" --key "$DIR/key" --prefix /names --files $FILES \
		--size 100 --least 0 --seconds 3 --cores=-1,-1 --phases "$1" >>"$DIR/rows"
}
field() { # PHASE FIELD: of the newest row
	grep "\"files\":$FILES,\"phase\":\"$1\"" "$DIR/rows" | tail -1 | sed "s/.*\"$2\":\([0-9.]*\).*/\1/"
}
at_most() { # NAME LIMIT GOT
	awk "BEGIN { exit !(\"$3\" != \"\" && $3 + 0 <= $2) }" && ok "$1" || not_ok "$1" "${3:-nothing}, not at most $2"
}
resident() { awk '/^Rss(Anon|File)/ { kib += $2 } END { print kib / 1024 }' "/proc/$DAEMON/status"; }
page_reads() { ctl --json status | grep -o '"page_reads":[0-9]*' | grep -o '[0-9][0-9]*'; }
rest() { # what creating left to collection is done
	n=0 was=
	while is=$(page_reads) && [ "$is" != "$was" ]; do
		n=$((n + 1)) was=$is
		[ $n -lt 300 ] || return 1
		sleep 0.3
	done
}
files() { ctl --json status | grep -o '"files":[0-9]*,"dirs"' | grep -o '[0-9][0-9]*'; }

check "$FILES names are made" names create
at_most "a page is read for one, and some for the pages above" 1.5 "$(field create pages_per_op)"
at_most "resident: cache, staging and 64 MiB" $((MIB + 16 * APP_CORES + 64)) "$(resident)"
crash
check "it answers again after SIGKILL" start
is "all are counted" $FILES "$(files)"
check "it comes to rest" rest
check "read, told about, listed" names stat,read,list
at_most "open + read + close: one leaf" 1.05 "$(field read pages_per_op)"
at_most "lookup + stat: the same" 1.05 "$(field stat pages_per_op)"
at_most "a listed name: its share of a leaf" 0.05 "$(field list pages_per_op)"
at_most "resident, still" $((MIB + 16 * APP_CORES + 64)) "$(resident)"
is "each name is listed once" $FILES "$(ctl ls /names | sort -u | grep -c '^f[0-9]*$')"
is "and nothing else" $FILES "$(ctl ls /names | wc -l)"
check "the appliance stops" stop
check "every invariant holds" "$BIN/wekactl" check "$D0"
finish
