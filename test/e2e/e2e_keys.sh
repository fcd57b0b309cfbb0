#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Keys over the shipped programs: who gets in, who does not, who is thrown out, what a core dump of
# the daemon or of a client holds.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

CTL=$BIN/wekactl
D0=file:$DIR/d0?size=128M
KEYS=$DIR/keys
: "${APP_CORES:=4}"

write_conf "$D0"
echo "key_dir = $KEYS" >>"$CONF"
keys() { "$CTL" --config "$CONF" keys "$@"; }
with() { # KEY COMMAND...: as the client that holds it
	key=$1
	shift
	"$CTL" --connect "${ADDRESS:-$TCP}" --key "$DIR/$key" "$@"
}
# For refuses, which wants commands.
KEYSCTL="$DIR/keys.sh" WITH="$DIR/with.sh"
printf '#!/bin/sh\nexec "%s" --config "%s" keys "$@"\n' "$CTL" "$CONF" >"$KEYSCTL"
printf '#!/bin/sh\nkey=$1; shift\nexec "%s" --connect "%s" --key "%s/$key" "$@"\n' "$CTL" "$TCP" "$DIR" >"$WITH"
chmod +x "$KEYSCTL" "$WITH"
logged() { # TEXT: so many lines of the daemon's log hold it
	grep -c -- "$1" "$DIR/daemon.log"
}
# sparing TEXT SINCE: the daemon's log has it, once in ten seconds at most since then (date +%s).
sparing() {
	lines=$(logged "$1")
	[ "$lines" -ge 1 ] && [ "$lines" -le $((1 + ($(date +%s) + 1 - $2) / 10)) ] || { echo "$lines lines"; return 1; }
}
says() { # NAME TEXT FILE: within a while, for the daemon's log may come later than its answer
	n=0
	until grep -q -- "$2" "$3" || [ $n -ge 1200 ]; do
		n=$((n + 1))
		sleep 0.05
	done
	if grep -q -- "$2" "$3"; then ok "$1"; else not_ok "$1" "no '$2' in: $(tail -3 "$3")"; fi
}

# ---- files ---------------------------------------------------------------------------------
check "keys add" keys add alice "$DIR/alice"
check "keys add with a path" keys add --write --path /team/b bob "$DIR/bob"
check "the key's file is its owner's alone" [ "$(stat -c %a "$KEYS/alice.key")" = 600 ]
check "so is the client's" [ "$(stat -c %a "$DIR/alice")" = 600 ]
check "so is their directory" [ "$(stat -c %a "$KEYS")" = 700 ]
refuses "keys add: the id is taken" "exists" "$KEYSCTL" add alice "$DIR/other"
check "and no file is left behind" [ ! -e "$DIR/other" ]
refuses "keys add: the client's file is there already" "exists" "$KEYSCTL" add carol "$DIR/alice"
check "and no key is left behind" [ ! -e "$KEYS/carol.key" ]
refuses "keys add: an id that is no file's name" "not an id" "$KEYSCTL" add ../x "$DIR/x"
refuses "keys add: root's id" "@root.*not an id" "$KEYSCTL" add @root "$DIR/x"
refuses "keys add: a path that climbs" "path" "$KEYSCTL" add --path /a/../b x "$DIR/x"
refuses "keys add: a user without groups" "gids" "$KEYSCTL" add --uid 1000 x "$DIR/x"
refuses "keys add: a user by name" "uid" "$KEYSCTL" add --uid ann --gids 100 x "$DIR/x"
keys add --write --uid 1000 --gids 100,101 ann "$DIR/ann" >"$DIR/ann.said" 2>&1
says "keys add with a user" "as uid 1000; carry" "$DIR/ann.said"
keys add --write --uid 0 --gids 0 toor "$DIR/toor" >"$DIR/toor.said" 2>&1
says "keys add: what uid 0 may do is said" "as uid 0: modes and owners do not count" "$DIR/toor.said"
refuses "keys remove: none of that id" "no such file" "$KEYSCTL" remove nobody
keys list >"$DIR/list" 2>&1
says "keys list: rights" "alice  *read .* /$" "$DIR/list"
says "keys list: user" "ann  *write .* uid 1000 " "$DIR/list"
says "keys list: path" "bob  *write .*/team/b" "$DIR/list"
secret=$(cut -d: -f2 "$DIR/alice")
if grep -q "$secret" "$DIR/list"; then not_ok "keys list shows no secret"; else ok "keys list shows no secret"; fi
chmod 640 "$KEYS/bob.key"
refuses "daemon: a key that others can read" "bob.key: not private to its owner" "$BIN/weka-appliance" --config "$CONF" --check-config
chmod 600 "$KEYS/bob.key"
chmod 755 "$KEYS"
refuses "daemon: a directory that others can look into" "others may read" "$BIN/weka-appliance" --config "$CONF" --check-config
chmod 700 "$KEYS"
echo "secret = 12" >"$KEYS/short.key" && chmod 600 "$KEYS/short.key"
refuses "daemon: a key that is none" "short.key: line 1: secret" "$BIN/weka-appliance" --config "$CONF" --check-config
rm "$KEYS/short.key"

# ---- in and out --------------------------------------------------------------------------------
check "format" "$CTL" format "$D0"
check "start" start
check "alice gets in over tcp" with alice ls /
check "and over shm" sh -c "'$CTL' -c '$SHM' -k '$DIR/alice' ls /"
refuses "without a key nobody does" "does not hold our key" "$CTL" -c "$TCP" --anonymous ls /
(umask 077; echo "alice:$(printf '%064d' 1)" >"$DIR/wrong"; echo "eve:$(printf '%064d' 1)" >"$DIR/unknown")
since=$(date +%s)
refuses "a wrong secret" "does not hold our key \"alice\"" "$WITH" wrong ls /
refuses "an id that nobody has looks the same" "does not hold our key \"eve\"" "$WITH" unknown ls /
says "the log says what a user may" "key ann: may write /, as modes and owners allow its user$" "$DIR/daemon.log"
says "and uid 0" "key toor: may write /, as uid 0: modes and owners do not count$" "$DIR/daemon.log"
says "the log says from where, and which key" "refused: tcp 127.0.0.1:[0-9]*: key \"alice\": it left at our proof" "$DIR/daemon.log"
for i in 1 2 3 4 5; do with wrong ls / 2>/dev/null; done
check "and only once for so many" sparing 'key "alice": it left' "$since"

# A recorded handshake, sent again: its nonce is an old one.
cat >"$DIR/replay.py" <<'PY'
import socket, sys
listen, port, tape = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def take(s, n):
    out = b""
    while len(out) < n:
        more = s.recv(n - len(out))
        if not more:
            raise SystemExit("closed")
        out += more
    return out
if listen:  # between a client and the appliance: keep what the client says in the hello
    l = socket.create_server(("127.0.0.1", listen))
    print("ready", flush=True)
    c, s = l.accept()[0], socket.create_connection(("127.0.0.1", port))
    said = b""
    for up, down in ((64 + 128, 64 + 128), (64 + 32, 64)):
        said += (part := take(c, up))
        s.sendall(part)
        c.sendall(take(s, down))
    open(tape, "wb").write(said)
else:
    s = socket.create_connection(("127.0.0.1", port))
    said = open(tape, "rb").read()
    s.sendall(said[:192])
    take(s, 192)
    s.sendall(said[192:])
    print("type", take(s, 64)[5])
PY
python3 "$DIR/replay.py" $((PORT + 1)) "$PORT" "$DIR/tape" >"$DIR/ready" &
proxy=$!
n=0
until [ -s "$DIR/ready" ] || [ $n -gt 1200 ]; do n=$((n + 1)); sleep 0.05; done
"$CTL" -c "tcp://127.0.0.1:$((PORT + 1))" -k "$DIR/alice" ls / >/dev/null 2>&1
wait $proxy
check "a handshake was recorded" [ "$(stat -c %s "$DIR/tape")" = 288 ]
out=$(python3 "$DIR/replay.py" 0 "$PORT" "$DIR/tape" 2>&1)
if [ "$out" = "type 5" ]; then ok "and is refused when it is sent again"; else not_ok "and is refused when it is sent again" "$out"; fi
says "which the log says" "key \"alice\": the proof of the key is wrong" "$DIR/daemon.log"

# ---- rights ------------------------------------------------------------------------------------
mkdir -p "$DIR/tree/b/sub" "$DIR/tree/a"
echo "bob's" >"$DIR/tree/b/file"
echo "alice's" >"$DIR/tree/a/file"
ln -s ../../top "$DIR/tree/b/climbs"
ln -s ../../nothing "$DIR/tree/b/climbs-to-nothing"
ln -s /file "$DIR/tree/b/inside"
echo top >"$DIR/top"
check "an operator's tree" ctl import "$DIR/tree" /team
check "and a file above it" ctl put "$DIR/top" /top
ctl export / "$DIR/before" >/dev/null 2>&1
check "bob's root is his directory" sh -c "'$WITH' bob cat /file | grep -q bob"
check "an absolute symlink begins there" sh -c "'$WITH' bob cat /inside | grep -q bob"
since=$(date +%s)
refuses "what is above is not there" "no such file" "$WITH" bob cat /top
refuses "nor beside" "no such file" "$WITH" bob cat /team/a/file
refuses "no way up" "permission denied" "$WITH" bob cat /../a/file
refuses "nor to what is not there" "permission denied" "$WITH" bob cat /../a/nothing
refuses "nor by a symlink" "permission denied" "$WITH" bob cat /climbs
refuses "nor by one to what is not there" "permission denied" "$WITH" bob cat /climbs-to-nothing
refuses "nor a rename out" "permission denied" "$WITH" bob mv /file /../a/mine
refuses "nor a rename in" "permission denied" "$WITH" bob mv /../a/file /mine
refuses "nor a link to what is there" "permission denied" "$WITH" bob ln /../a/file /mine
refuses "nor a link from there" "permission denied" "$WITH" bob ln /file /../a/mine
refuses "nor a file made there" "permission denied" "$WITH" bob put "$DIR/top" /../new
says "the log says who tried" "refused: tcp 127.0.0.1:[0-9]*: key \"bob\": named what is outside its key's subtree" "$DIR/daemon.log"
check "once" sparing 'key "bob": named what is outside' "$since"
since=$(date +%s)
refuses "a read key does not write" "permission denied" "$WITH" alice put "$DIR/top" /new
refuses "nor replace" "permission denied" "$WITH" alice put "$DIR/top" /top
refuses "nor remove" "permission denied" "$WITH" alice rm /top
refuses "nor rename" "permission denied" "$WITH" alice mv /top /new
refuses "nor make a directory" "permission denied" "$WITH" alice mkdir /d
says "the log says that too" "key \"alice\": asked for a change, and its key may only read" "$DIR/daemon.log"
check "once" sparing 'key "alice": asked for a change' "$since"
refuses "the counters are not for the confined" "permission denied" "$WITH" bob status
ctl export / "$DIR/after" >/dev/null 2>&1
check "nothing has changed" same_trees "$DIR/before" "$DIR/after"

# A user's key: what it imports is the user's, whosever tree it is.
mkdir -p "$DIR/open" "$DIR/own/sub" && chmod 777 "$DIR/open"
echo text >"$DIR/own/sub/file" && ln -s file "$DIR/own/sub/link" && chmod 600 "$DIR/own/sub/file"
check "a directory that all may write to" ctl import "$DIR/open" /open
check "a user imports there" with ann import "$DIR/own" /open/own
ctl stat /open/own/sub /open/own/sub/file /open/own/sub/link >"$DIR/owners" 2>&1
check "and it is all the user's" [ "$(grep -c '\b1000\b' "$DIR/owners")" = 3 ]
check "who reads it" with ann cat /open/own/sub/file
refuses "nobody else's directory is changed" "/mine: permission denied" "$WITH" ann mkdir /mine

# Revoked in the middle of work: at once, and for good.
head -c 60000000 /dev/urandom >"$DIR/big"
check "keys add while it runs" keys add --write carol "$DIR/carol"
n=0
until with carol ls / >/dev/null 2>&1 || [ $n -gt 1200 ]; do n=$((n + 1)); sleep 0.05; done
head -c 20000000 "$DIR/big" >"$DIR/read"
ctl put "$DIR/read" /read
(while :; do with carol put "$DIR/big" /big || exit 0; done) 2>"$DIR/revoked" &
busy=$!
# And a reader that has begun and waits for its pipe, until the key is gone: a session that is there for sure.
{ with carol cat /read && : >"$DIR/read-all"; } 2>/dev/null | {
	head -c 1 >"$DIR/begun"
	until [ -e "$DIR/removed" ]; do sleep 0.05; done
	cat >/dev/null
} &
reader=$!
n=0
until [ -s "$DIR/begun" ] || [ $n -gt 1200 ]; do n=$((n + 1)); sleep 0.05; done
check "keys remove" keys remove carol
says "which the log says" "key carol: revoked" "$DIR/daemon.log"
: >"$DIR/removed"
wait $reader
check "who reads with a revoked key does not read on" [ ! -e "$DIR/read-all" ]
n=0
while kill -0 $busy 2>/dev/null && [ $n -lt 1600 ]; do n=$((n + 1)); sleep 0.05; done
if kill -0 $busy 2>/dev/null; then kill $busy; not_ok "who works with a revoked key is thrown out"; else ok "who works with a revoked key is thrown out"; fi
refuses "and stays out" "does not hold our key" "$WITH" carol ls /
# Two clients, each with a connection to each core, and perhaps one that has just ended.
ended=$(sed -n 's/.*key carol: revoked; \([0-9]*\) sessions end.*/\1/p' "$DIR/daemon.log")
[ "${ended:-0}" -ge 1 ] && [ "$ended" -le $((3 * APP_CORES)) ] && ok "the log counts the sessions" ||
	not_ok "the log counts the sessions" "$ended of at most $((3 * APP_CORES))"
check "others go on" with alice ls /

# ---- no secret anywhere ------------------------------------------------------------------------
# What a core dump would hold, as the kernel writes it: gcore leaves out what MADV_DONTDUMP says.
cat >"$DIR/holds.py" <<'PY'
import sys
text = open(sys.argv[1], "rb").read()
for name in sys.argv[2:]:
    digits = open(name).read().strip().split(":")[-1]
    if digits.encode() in text or bytes.fromhex(digits) in text:
        raise SystemExit(0)
raise SystemExit(1)
PY
holds() { # FILE: one of the secrets, as bytes or as digits
	python3 "$DIR/holds.py" "$1" "$DIR/alice" "$DIR/bob" "$DIR/key"
}
python3 -c "import sys; sys.stdout.buffer.write(b'before' + bytes.fromhex('$secret') + b'after')" >"$DIR/witness"
check "the search would find one" holds "$DIR/witness"
if [ "$(cat /proc/sys/kernel/core_pattern)" = core ] && [ "$(cat /proc/sys/kernel/core_uses_pid)" = 0 ]; then
	check "stop" stop
	(cd "$DIR" && ulimit -c unlimited && exec "$BIN/weka-appliance" --config "$CONF" >>"$DIR/daemon.log" 2>&1) &
	DAEMON=$!
	n=0
	until with alice ls / >/dev/null 2>&1 || [ $n -gt 1200 ]; do n=$((n + 1)); sleep 0.05; done
	with bob ls / >/dev/null 2>&1
	kill -SEGV "$DAEMON"
	wait "$DAEMON" 2>/dev/null
	DAEMON=
	core=$(ls "$DIR"/core* 2>/dev/null | head -1)
	if [ -z "$core" ]; then
		not_ok "the daemon left a core"
	else
		ok "the daemon left a core"
		if holds "$core"; then not_ok "which holds no key"; else ok "which holds no key"; fi
		rm -f "$core"
	fi
	check "start again" start
fi
if grep -q "$secret" "$DIR/daemon.log"; then not_ok "nor does its log"; else ok "nor does its log"; fi
check "stop at the end" stop

# ---- anonymous: only by name ---------------------------------------------------------------------
echo "anonymous = read" >>"$CONF"
check "start with anonymous = read" start
check "anybody reads" "$CTL" -c "$TCP" --anonymous ls /
says "which the log says" "anyone on this machine may read / without a key" "$DIR/daemon.log"
check "and that is over" stop
finish
