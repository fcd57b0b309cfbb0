#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# wekactl support-bundle: what a bug report needs is there; keys, tokens, names and bytes of files
# are not, though the log and the status name a damaged file.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=1}"

D0=file:$DIR/d0?size=64M
HTTP=$((PORT + 2))
write_conf "$D0"
(umask 077 && head -c 24 /dev/urandom | base64 | tr -d '/+=\n' >"$DIR/token")
cat >>"$CONF" <<END
# remark-of-ours
key_dir = $DIR/keys ; remark-of-theirs
metrics = 127.0.0.1:$HTTP
metrics_token_file = $DIR/token
scrub_bytes_per_second = 1G
anonymous = read:/hidden-corner
END
check "format" "$BIN/wekactl" format "$D0"
check "a key with a path" "$BIN/wekactl" --config "$CONF" --path /hidden-corner keys add guest "$DIR/guest"
check "start" start
TEXT="bytes of a secret file, "
mkdir -p "$DIR/tree/hidden-corner"
yes "$TEXT" | head -c 40000 >"$DIR/tree/hidden-corner/salaries of
everybody.txt"
check "import" ctl -q import "$DIR/tree" /
check "stop" stop
# Damage: the scrub will name the file.
check "a byte is changed" python3 - "$DIR/d0" "$TEXT" <<'PY'
import mmap, sys
with open(sys.argv[1], "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
    at = m.find((sys.argv[2] + "\n").encode() * 3)
    m[at + 5] ^= 1
PY
check "start again" start
check "the log names the damaged file" said 'WEKA-303: scrub: /hidden-corner/salaries of.everybody.txt: block'
check "so does the status" sh -c "'$BIN/wekactl' --connect $SHM --key $DIR/key --json status | grep -q salaries"

bundle() { # ARGUMENTS...: into $DIR/b
	rm -rf "$DIR/b" "$DIR/b.tar"
	"$BIN/wekactl" --config "$CONF" --log "$DIR/daemon.log" "$@" support-bundle "$DIR/b.tar" >"$DIR/said" 2>&1 || return 1
	mkdir "$DIR/b" && tar -xf "$DIR/b.tar" -C "$DIR/b" --strip-components=1
}
holds() { # NAME FILE PATTERN
	check "$1" grep -q -- "$3" "$DIR/b/$2"
}
lacks() { # NAME TEXT: no part of the archive has it, as it is or in another case
	check "$1" [ -n "$2" ]
	check "... nowhere" sh -c "! grep -riqaF -- '$2' '$DIR/b' && ! grep -qaF -- '$2' '$DIR/b.tar'"
}
check "support-bundle" bundle
is "nobody else may read it" 600 "$(stat -c %a "$DIR/b.tar")"
is "its parts" "README.txt configuration.txt doctor.txt drives.json log.txt machine.txt metrics.txt status.json" \
	"$(cd "$DIR/b" && echo *)"
holds "the version" README.txt "wekactl $("$BIN/wekactl" --version | cut -d' ' -f2)"
holds "the configuration" configuration.txt "^drive = $D0"
holds "the log" log.txt 'WEKA-303: scrub: (left out)$'
holds "metrics" metrics.txt '^weka_'
holds "findings of the doctor" doctor.txt 'kernel'
holds "facts of the machine" machine.txt '^MemTotal'
check "the status is JSON" python3 -c "import json; s = json.load(open('$DIR/b/status.json')); assert s['store']['files'] == 1, s"
lacks "the key's text" "$(cat "$DIR/key")"
lacks "the other key's" "$(cut -d: -f2 "$DIR/guest")"
lacks "the token" "$(cat "$DIR/token")"
lacks "a name of a file" "salaries"
lacks "the second line of that name" "everybody"
lacks "a directory" "hidden-corner"
lacks "bytes of a file" "$TEXT"
lacks "a comment of the configuration" "remark-of"
check "nor a key's bytes" python3 - "$DIR/b.tar" "$DIR/key" "$DIR/guest" <<'PY'
import sys
tar = open(sys.argv[1], "rb").read()
for name in sys.argv[2:]:
    secret = bytes.fromhex(open(name).read().strip().split(":")[-1])
    assert len(secret) == 32 and secret not in tar, name
PY
check "support-bundle --names" bundle --names
holds "names if they are asked for: in the log" log.txt salaries
holds "in the status" status.json salaries
holds "in the configuration" configuration.txt '^anonymous = read:/hidden-corner'
lacks "but no key" "$(cat "$DIR/key")"
refuses "an archive is not replaced" "b.tar: File exists" "$BIN/wekactl" --config "$CONF" support-bundle "$DIR/b.tar"

# When something does not work:
check "stop" stop
check "support-bundle without an appliance" bundle
holds "the status has the reason" status.json '"error"'
holds "metrics have it, too" metrics.txt 'Connection refused'
sed -i 's/^cores = .*/cores = many/' "$CONF"
check "support-bundle with a wrong configuration" bundle
holds "which is named" configuration.txt "It is wrong: .*cores"
lacks "and no name is there either" "salaries"
finish
