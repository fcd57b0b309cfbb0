#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# make demo on a small tree: its table, and that one wrong byte makes it fail.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=1}"

make_tree "$DIR/src" 200
demo() { DEMO=$DIR/demo DATA=$DIR/src EPOCHS=1 PORT=$PORT test/demo.sh; }
demo >"$DIR/demo.out" 2>&1
is "the demo succeeds" 0 $?
row() { # TEXT: so many rows that begin with it, and have three figures above 0
	grep -c "^  $1  *[1-9][0-9,]*  *[0-9,]*  *[0-9.]*\$" "$DIR/demo.out"
}
is "local files from the page cache have a row" 1 "$(row 'local files, from the page cache (warm)')"
is "and from the disk, by how they were read" 1 "$(row 'local files, from the disk (\(caches dropped\|O_DIRECT\))')"
for drive in "drives on the disk" "drive in memory"; do
	for way in "shared memory" TCP; do
		is "so has the appliance, $drive, over $way" 1 "$(row "appliance, $drive, $way")"
	done
done
check "each epoch says what was compared" [ "$(grep -c 'epoch 1 of 1: .* all equal' "$DIR/demo.out")" = 1 ]
check "columns are explained" grep -q "^  files/s  *files read whole in a second" "$DIR/demo.out"
check "the store was proven" grep -q "0 problems" "$DIR/demo.out"
is "no line is wider than 100 columns, but for import's" 0 "$(grep -v '^import:\|^# \|^.\[1m' "$DIR/demo.out" | awk 'length > 100' | wc -l)"
check "nothing is left running" sh -c "! ls '$DIR/demo/'*.sock 2>/dev/null"
check "nor are its drives" [ ! -e "$DIR/demo/d0" ]

# One byte of a local file changes behind the appliance's back, as if the appliance had lied.
write_conf "file:$DIR/d0?size=256M"
check "format" "$BIN/wekactl" --config "$CONF" format
check "start" start
check "import" ctl import "$DIR/src" /data
epoch() { "$BIN/weka-bench" epoch --connect "$SHM" --key "$DIR/key" --tree "$DIR/src" --prefix /data --epochs 1 --summary --verify; }
check "all equal" epoch
python3 - "$DIR/src/size-65536" <<'END'
import sys
with open(sys.argv[1], 'r+b') as f: # its bytes are random: another one than it is
    f.seek(65535)
    byte = f.read(1)[0]
    f.seek(65535)
    f.write(bytes([byte ^ 1]))
END
epoch >"$DIR/lie" 2>&1
is "a byte that differs: exit status" 1 $?
check "and is named" grep -q "size-65536: MISMATCH: byte 65535 differs from the local file" "$DIR/lie"
check "stop" stop
finish
