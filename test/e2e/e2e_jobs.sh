#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# wekactl jobs: what epoch streams tell of themselves, over each transport; who tells nothing.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"
PYTHONPATH=$(realpath "$BUILD/release/python")
export PYTHONPATH

write_conf mem:256M
check "start" start
mkdir "$DIR/src" && for i in $(seq 200); do seq "$i" >"$DIR/src/$i"; done
check "files" ctl -q import "$DIR/src" /src
check "a dataset" ctl dataset create numbers /src
is "no job, at first" "no client reports a job" "$(ctl jobs)"

# Reads slowly, until the file "enough" is there.
cat >"$DIR/job.py" <<'PY'
import os, sys, time
import weka
address, key, enough, rank = sys.argv[1:]
with weka.Client(address, key_file=key) as client:
    data = client.dataset("numbers")
    while not os.path.exists(enough):
        for batch in data.stream(batch=1, rank=int(rank), world=2):
            with batch:
                time.sleep(0.05)
            if os.path.exists(enough):
                break
PY
/usr/bin/python3 "$DIR/job.py" "$SHM" "$DIR/key" "$DIR/enough" 0 &
ONE=$!
/usr/bin/python3 "$DIR/job.py" "$TCP" "$DIR/key" "$DIR/enough" 1 &
TWO=$!
n=0
until [ "$(ctl --json jobs | wc -l)" -ge 2 ]; do n=$((n + 1)); [ $n -lt 800 ] || break; sleep 0.1; done
ctl --json jobs >"$DIR/jobs"
is "both ranks are there" "numbers@1 0/2 numbers@1 1/2" "$(/usr/bin/python3 -c '
import json, sys
jobs = sorted((job["dataset"], job["rank"], job["world"]) for job in map(json.loads, open(sys.argv[1])))
print(*("%s %d/%d" % job for job in jobs))' "$DIR/jobs")"
check "with what they have read" /usr/bin/python3 -c '
import json, sys
for job in map(json.loads, open(sys.argv[1])):
    assert 0 < job["samples"] <= job["samples_total"] == 100, job
    assert 0 < job["bytes"] and 0 <= job["waited_ns"] <= job["open_ns"] and job["key"] == "weka", job' "$DIR/jobs"
ctl jobs >"$DIR/text"
is "the verdict is in words" 2 "$(grep -cE '^    (not starved: it waited|starved [0-9]+ % of)' "$DIR/text")"
check "below its job" grep -qE '^numbers@1 +[01]/2 ' "$DIR/text"
: >"$DIR/enough"
wait $ONE
is "a job ends well" 0 $?
wait $TWO
is "so does the other" 0 $?
# wekactl has the place of one of them by now, and not its report.
gone() { for _ in 1 2 3 4 5 6 7 8; do [ "$(ctl jobs)" = "no client reports a job" ] || return 1; done; }
n=0
until gone; do n=$((n + 1)); [ $n -lt 120 ] || break; sleep 0.5; done
check "and are gone then" gone
check "stop" stop
finish
