#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Three namespaces of one controller, which a vfio-user server plays, are the drives of a store.  The
# server is killed under an import and starts again; the drive that was opened first is drained, and
# the two others go on.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"

SERVER=$(realpath "$BUILD/release/test/tools/vfu_server")
S=
at() { echo "vfio-user:$DIR/sock?nsid=$1"; }
D1=$(at 1) D2=$(at 2) D3=$(at 3)
serve() { # [OPTION...]
	: >"$DIR/server.out"
	"$SERVER" --namespaces 3 --write-through "$@" "$DIR/sock" "file:$DIR/drive?size=768M" \
		>"$DIR/server.out" 2>>"$DIR/server.log" &
	S=$!
	n=0
	until grep -q ready "$DIR/server.out" || [ $n -gt 100 ]; do n=$((n + 1)); sleep 0.05; done
	[ $n -le 100 ]
}
kill_server() {
	kill -9 "$S" 2>/dev/null
	wait "$S" 2>/dev/null
}
trap 'kill -9 $S 2>/dev/null; cleanup' EXIT
lines_of() { grep -c "$1" "$DIR/daemon.log"; }
await() { # TEXT COUNT: so many lines of it, within 60 s
	n=0
	until [ "$(lines_of "$1")" -ge "$2" ] || [ $n -gt 600 ]; do n=$((n + 1)); sleep 0.1; done
	[ $n -le 600 ] || { tail -5 "$DIR/daemon.log"; return 1; }
}
drives_that_are() { ctl --json status | grep -o "\"health\":\"$1\"" | wc -l; }

make_tree "$DIR/src" 400
check "a server with three namespaces" serve
refuses "a namespace twice" "namespace 2 of its controller is already a drive" \
	"$BIN/wekactl" format --protect none "$D1" "$D2" "vfio-user:$DIR/../${DIR##*/}/sock?nsid=2"
refuses "a namespace that is not there" "no namespace 4, but 1, 2, 3" "$BIN/wekactl" format "$D1" "$(at 4)"
check "format" "$BIN/wekactl" format --protect none "$D1" "$D2" "$D3"
write_conf "$D3" "$D1" "$D2"
check "the appliance starts, with the names in another order" start
is "three drives are well" 3 "$(drives_that_are good)"
: >"$DIR/daemon.log"
ctl -q import "$DIR/src" /tree >"$DIR/import.out" 2>&1 &
importer=$!
for kill in 1 2; do
	sleep 0.3
	kill_server
	serve || not_ok "the server comes back ($kill)"
	check "one reset for all: they are back ($kill)" await "sock: back after a reset" $kill
done
wait $importer
check "the import goes through both kills" test $? = 0
is "the three are well again" 3 "$(drives_that_are good)"
check "export" ctl -q export /tree "$DIR/out"
check "what came out is what went in" same_trees "$DIR/src" "$DIR/out"
check "stop" stop
check "check finds nothing wrong" "$BIN/wekactl" check "$D1" "$D2" "$D3"

# ---- the drive that is opened first has the controller, also when it is no drive any more

write_conf "$D1" "$D2" "$D3"
check "start" start
: >"$DIR/daemon.log"
check "drain the first" ctl drives drain "$D1"
check "it is taken out" await "empty and removed from the store" 1
kill_server
serve || not_ok "the server comes back"
check "the other two are back after a reset" await "back after a reset" 1
echo again >"$DIR/w"
check "and take writes" ctl put "$DIR/w" /again
check "export" ctl -q export /tree "$DIR/out2"
check "what came out is what went in" same_trees "$DIR/src" "$DIR/out2"
check "stop" stop
check "check" "$BIN/wekactl" check "$D2" "$D3"

# ---- one that is emptied keeps all away, by name: they come back as a whole

write_conf "$D2" "$D3"
echo "drive_timeout = 1s" >>"$CONF"
check "start on two" start
: >"$DIR/daemon.log"
kill_server
cp --sparse=always "$DIR/drive" "$DIR/kept"
dd if=/dev/zero of="$DIR/drive" bs=1M seek=512 count=256 conv=notrunc status=none
serve || not_ok "a server of the emptied namespace starts"
check "the emptied one is named" await "namespace 3: its content has changed" 1
is "nothing is used" 0 "$(lines_of "back after a reset")"
both_are_away() { # or resetting, whenever it tries again
	n=0
	until [ "$(drives_that_are away)" = 2 ]; do
		n=$((n + 1))
		[ $n -lt 300 ] || { ctl status; return 1; }
		sleep 0.1
	done
}
check "both are away" both_are_away
kill_server
cat "$DIR/kept" >"$DIR/drive"
serve || not_ok "a server of what was there before starts"
check "with what was there before they are back" await "back after a reset" 1
check "export" ctl -q export /tree "$DIR/out3"
check "what came out is what went in" same_trees "$DIR/src" "$DIR/out3"
check "stop" stop
check "check" "$BIN/wekactl" check "$D2" "$D3"
finish
