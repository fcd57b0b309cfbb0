#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# wekactl-status(5) has every key of the status, and no other.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"

PAGE=appliance/ctl/wekactl-status.5
D0=file:$DIR/d0?size=128M
write_conf "$D0"
check "format" "$BIN/wekactl" format "$D0"
check "start" start
ctl --json status >"$DIR/status"
check "stop" stop

cat >"$DIR/keys.py" <<'PY'
import json, re, sys
page, status, *sources = sys.argv[1:]
documented = [line[7:].strip() for line in open(page) if line.startswith(".It Li ")]
def flat(at, v):
    if isinstance(v, dict):
        for key, each in v.items():
            yield from flat(at + "." + key if at else key, each)
    elif isinstance(v, list):
        for each in v:
            yield from flat(at + "[]", each)
    else:
        yield at
sent = set(flat("", json.load(open(status))))
# Keys that an appliance sends on other drives or in trouble, from the text in its sources.
source = set()
for name in sources:
    text = open(name).read()
    source |= set(re.findall(r'\\"([a-z0-9_]+)\\":', text)) | set(re.findall(r'put_text\(t, "([a-z0-9_]+)"', text))
def says(what, keys):
    print(what + ":", " ".join(sorted(keys)) or "none")
says("twice", {k for k in documented if documented.count(k) > 1})
documented = set(documented)
leaf = lambda k: k.replace("[]", "").split(".")[-1]
objects = {part for k in documented for part in k.replace("[]", "").split(".")[:-1]}
says("sent but not documented", sent - documented)
says("printed but not documented", source - {leaf(k) for k in documented} - objects)
says("documented but never printed", {k for k in documented - sent if leaf(k) not in source})
PY
# These print the lists of other requests: wekactl damaged, wekactl log.
sources=$(ls appliance/*/app_*.c | grep -v -e /app_damaged.c -e /app_log.c)
# shellcheck disable=SC2086 # a list
python3 "$DIR/keys.py" "$PAGE" "$DIR/status" $sources >"$DIR/found"
while read -r line; do is "keys: ${line%%:*}" "${line%%:*}: none" "$line"; done <"$DIR/found"
check "all four were asked" [ "$(wc -l <"$DIR/found")" = 4 ]
finish
