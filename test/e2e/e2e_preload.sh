#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# libweka-preload.so call by call: each call in a served directory and in a local one, with the same
# results (test/tools/preload_calls.c); over a mount, and without one.  Then what it does when the
# appliance, the key or the configuration is not as it should be.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh && . test/e2e/mount_lib.sh && . test/e2e/preload_lib.sh
: "${APP_CORES:=2}"
# calls WHAT DIR [mount]: each case is a line.
calls() {
	what=$1
	rm -rf "$DIR/reference" && mkdir "$DIR/reference" && "$CALLS" make "$DIR/reference/calls"
	served timeout 500 "$CALLS" run "$2/calls" "$DIR/reference/calls" ${3:-} >"$DIR/calls.out" 2>"$DIR/calls.err"
	status=$?
	grep -q '^ok' "$DIR/calls.out" || not_ok "$what: it runs" "$(tail -3 "$DIR/calls.err")"
	while read -r line; do
		case $line in
		"ok "*) ok "$what: ${line#ok }" ;;
		"not ok "*) not_ok "$what: ${line#not ok }" "$(grep -A2 "^$line" "$DIR/calls.out" | tail -2)" ;;
		esac
	done <"$DIR/calls.out"
	is "$what: all went well" "0 " "$status $(cat "$DIR/calls.err")"
}

write_conf "file:$DIR/d0?size=1G"
ctl --config "$CONF" format >/dev/null || not_ok "format"
check "the appliance starts" start

# ---- without a mount ----
"$CALLS" make "$DIR/calls" && mkdir "$DIR/tree" && mv "$DIR/calls" "$DIR/tree/calls"
check "a tree is imported" ctl import "$DIR/tree" /
calls "no mount" "$NONE"
is "a file" "$(sha256sum <"$DIR/tree/calls/large")" "$(served cat "$NONE/calls/large" | sha256sum)"
PRELOAD_ADDRESS=$TCP
is "over TCP, too" "$(sha256sum <"$DIR/tree/calls/large")" "$(served cat "$NONE/calls/large" | sha256sum)"
PRELOAD_ADDRESS=
is "root= is another directory" "$(ls "$DIR/tree/calls/dir")" "$(OPTIONS=root=/calls/dir served ls "$NONE")"
fails "nothing can be written" "No such file" served cp "$DIR/key" "$NONE/new"
fails "what is not there is not there" "No such file" served cat "$NONE/calls/nothing"
is "another directory is left alone" "$(sha256sum <"$DIR/key")" "$(served cat "$DIR/key" | sha256sum)"
refuses "a mistake gets a line" "WEKA_PRELOAD: DIR must be" env WEKA_PRELOAD="$SHM weka" LD_PRELOAD="$SO" sh -c 'exit 1'

# ---- mode bits and keys ----
if [ "$(id -u)" = 0 ]; then
	mkdir -p "$DIR/jail$NONE/calls" && echo jail >"$DIR/jail$NONE/calls/small"
	is "after chroot() the path is another one" "5000 jail" "$(served python3 -c "import os
print(os.stat('$NONE/calls/small').st_size, end=' ')
os.chroot('$DIR/jail')
print(open('$NONE/calls/small').read())")"
fi
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	user() { served setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
	chmod 755 "$DIR" && chmod 711 "$DIR/weka.sock" 2>/dev/null
	cp "$DIR/key" "$DIR/user.key" && chown 65534 "$DIR/user.key"
	OPTIONS=key=$DIR/user.key
	chmod 777 "$DIR/weka.sock"
	is "an ordinary user reads" "$(sha256sum <"$DIR/tree/calls/small")" "$(user cat "$NONE/calls/small" | sha256sum)"
	fails "not a file that is another's" "Permission denied" user cat "$NONE/calls/secret"
	fails "not through a directory without x" "Permission denied" user cat "$NONE/calls/closed/in"
	fails "and not its names" "Permission denied" user ls "$NONE/calls/closed"
	is "test -r says so" "no" "$(user sh -c "[ -r '$NONE/calls/secret' ] || echo no")"
	OPTIONS=
fi

# ---- an appliance that is away ----
crash
is "without appliance and mount it is EIO" "1 Input/output error" \
	"$(OPTIONS=timeout=1 served cat "$NONE/calls/small" >/dev/null 2>"$DIR/err"; echo "$? $(sed 's/.*: //' "$DIR/err")")"
served sh -c "cat '$NONE/calls/small' | sha256sum" >"$DIR/later" 2>&1 &
waiting=$!
check "the appliance starts again" start
wait $waiting
is "a call that waited got the bytes" "$(sha256sum <"$DIR/tree/calls/small")" "$(cat "$DIR/later")"
(umask 077 && tr 0-9a-f 1-9a-f0 <"$DIR/key" >"$DIR/wrong")
OPTIONS=key=$DIR/wrong
served cat "$NONE/calls/small" >/dev/null 2>"$DIR/err"
is "a wrong key: a line of the library's, and an error" "1 1" \
	"$(grep -c '^libweka-preload: .*key' "$DIR/err") $(grep -c 'Input/output error' "$DIR/err")"
OPTIONS=

# ---- over a mount ----
need_fuse
check "it is mounted" mount_at "$MNT"
AT=$MNT
"$CALLS" make "$MNT/calls2" 2>/dev/null && rm -rf "$MNT/calls" && mv "$MNT/calls2" "$MNT/calls"
calls "over a mount" "$MNT" mount
check "it is unmounted" umount "$MNT"
check "and its program ends" gone
check "the appliance stops" stop
finish
