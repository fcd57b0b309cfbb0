# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# A store of the files /out/files/1 to $FILES - 1, on drives with errors: the put of $PUT_FAILS, the
# last, hits a write error, and $READ_FAILS lies where nothing can be read.  No other may fail.
. test/e2e/lib.sh

write_conf $DRIVES
check "the appliance starts" start
for n in 1 $PUT_FAILS; do
	echo "$n $(ctl put "/out/files/$n" "/$n" 2>&1 && echo put)"
done >"$DIR/puts"
read_all() {
	for n in $(seq "$FILES"); do
		[ "$n" = "$PUT_FAILS" ] && continue
		ctl cat "/$n" >"$DIR/got" 2>"$DIR/why"
		code=$?
		if [ $code = 0 ]; then cmp -s "$DIR/got" "/out/files/$n" && echo "$n same" || echo "$n other bytes"
		else echo "$n failed: $(cat "$DIR/why")"; fi
	done
}
others_all() { # FILE NUMBER WORD: all lines but that of NUMBER are "N WORD"
	grep -v "^$2 " "$1" >"$DIR/others"
	[ "$(grep -cx "[0-9]* $3" "$DIR/others")" = "$(wc -l <"$DIR/others")" ] || { grep -vx "[0-9]* $3" "$DIR/others"; return 1; }
}

check "a write error fails the put that it hits" grep -qi "^$PUT_FAILS .*input/output error" "$DIR/puts"
check "and no other" others_all "$DIR/puts" "$PUT_FAILS" put
refuses "of that put there is nothing" "no such file" "$BIN/wekactl" -c "$SHM" -k "$DIR/key" cat "/$PUT_FAILS"
read_all >"$DIR/reads"
check "a read error fails the file that it hits" grep -qi "^$READ_FAILS failed: .*input/output error" "$DIR/reads"
check "and no other: they are the same bytes" others_all "$DIR/reads" "$READ_FAILS" same
check "stop" stop
check "it starts again" start
read_all >"$DIR/reads"
check "after a restart the same file fails" grep -qi "^$READ_FAILS failed: .*input/output error" "$DIR/reads"
check "and no other, after a restart" others_all "$DIR/reads" "$READ_FAILS" same
check "a file that is replaced can be read again" ctl put "/out/files/1" "/$READ_FAILS"
ctl cat "/$READ_FAILS" >"$DIR/got"
check "with its new bytes" cmp "$DIR/got" "/out/files/1"
check "stop after errors" stop
finish
