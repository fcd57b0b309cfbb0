#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# What test/run.sh prints of a program that failed is all that is left when the machine is gone: a
# fuzzer's assertion, stack and input, whatever it printed besides.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
# A longer run sets these for its own programs.
unset APP_CORES PASSED TREE_ID

# fuzz_NAME, a shell script, as run.sh starts a fuzzer.
fuzzer() {
	printf '#!/bin/sh\nfor a; do case $a in -artifact_prefix=*) at=${a#*=};; esac; done\n' >"$DIR/fuzz_$1"
	cat >>"$DIR/fuzz_$1"
	chmod +x "$DIR/fuzz_$1"
}
run() { # NAME: what is printed goes to $DIR/said
	(unset RESULTS SEED; export BUILD="$DIR" FUZZ_SECONDS=1 JOBS=1
	exec test/run.sh fuzz "$DIR/fuzz_$1") >"$DIR/said" 2>&1
}
says() { # NAME TEXT
	if grep -q -- "$2" "$DIR/said"; then ok "$1"; else not_ok "$1" "no '$2' in: $(head -5 "$DIR/said")"; fi
}

# libFuzzer's way with an assertion, and then a hundred lines that tell nobody anything.
fuzzer assert <<'FUZZ'
printf 'ASSERT failed: a < b (some.c:1)\n==9== ERROR: libFuzzer: deadly signal\n    #0 0x1 in parse some.c:1\n'
i=0; while [ $i -lt 100 ]; do i=$((i + 1)); printf '#%d\tREDUCE cov: 5 ft: 6 corp: 7/8b lim: 9\n' $i; done
printf 'some input' >"${at}crash-1"
echo "artifact_prefix='$at'; Test unit written to ${at}crash-1"
exit 77
FUZZ
run assert && not_ok "an assertion is a failure" || ok "an assertion is a failure"
says "its text is printed" "ASSERT failed: a < b"
says "and the stack" "#0 0x1 in parse"
says "and where the input is" "Test unit written to"
says "and the input" "$(printf 'some input' | base64)"
check "but nothing that only counts" [ "$(grep -c REDUCE "$DIR/said")" = 0 ]

# A sanitizer's report is a file beside the output, and longer than the part of the output that is
# printed.
fuzzer report <<'FUZZ'
report=$(echo "$ASAN_OPTIONS" | sed 's/.*log_path=\([^:]*\).*/\1/')
echo '==9==ERROR: AddressSanitizer: heap-buffer-overflow' >$report.9
i=0; while [ $i -lt 100 ]; do i=$((i + 1)); echo "    #$i 0x1 in parse some.c:$i" >>$report.9; done
i=0; while [ $i -lt 100 ]; do i=$((i + 1)); printf '#%d\tNEW    cov: 5 ft: 6\n' $i; done
head -c 3000 /dev/zero >"${at}crash-2"
exit 1
FUZZ
run report
says "a report's first line" "heap-buffer-overflow"
says "and its first frames" "#1 0x1 in parse"
says "a large input's path" "crash-2: 3000 bytes"
says "and that something failed" "0 passed, 1 failed"

# For a script with many checks, run.sh prints the failed check, its reason, and the check before it.
fuzzer script <<'FUZZ'
i=0; while [ $i -lt 100 ]; do i=$((i + 1)); echo "ok number $i"; [ $i != 50 ] || printf 'not ok the port\n  it is: taken\n'; done
exit 1
FUZZ
run script
says "the check that failed is printed" "not ok the port"
says "and why" "it is: taken"
says "and how far the script had come" "ok number 50$"
check "and nothing else" [ "$(grep -c 'ok number' "$DIR/said")" = 1 ]

# A proof that was stopped goes on: what has passed on the same tree is not run again.
fuzzer once <<FUZZ
echo run >>"$DIR/runs"
[ ! -e "$DIR/broken" ] || exit 1
FUZZ
mkdir "$DIR/passed"
proof() { # TREE_ID: how often the program has run by now
	(export PASSED="$DIR/passed" TREE_ID="$1" TEST_LENGTH=proof; run once)
	wc -l <"$DIR/runs"
}
touch "$DIR/broken"
is "a program that fails" 1 "$(proof a)"
is "runs again" 2 "$(proof a)"
rm "$DIR/broken"
is "and when it passes" 3 "$(proof a)"
is "it does not" 3 "$(proof a)"
says "but is counted" "1 passed, 0 failed"
is "another tree is another proof" 4 "$(proof b)"
is "so are other numbers of cores" 5 "$(APP_CORES=2 && export APP_CORES && proof b)"
run once
is "and what is no proof always runs" 6 "$(wc -l <"$DIR/runs")"
finish
