#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Runs tests, all of them even when one fails.  usage: run.sh STAGE PROGRAM...
#
# One line a program: result, seconds, name, what was counted; of one that failed its output
# too.  Non-zero when anything failed, or when nothing ran.  With RESULTS=FILE one line
# "stage passed failed seconds" is added to it, and the first lines of each failure to
# FILE.failed.
#
# A program is a Criterion suite (its synthesis is counted), or prints "ok ..." and
# "not ok ..." lines (they are), or is one test.  Anything but exit 0 is a failure; so is a
# sanitizer's report: a Criterion test that leaks under ASan passes, so reports go to files.
#
# With PASSED=DIR and TREE_ID=ID (test.sh) a program that has passed on this tree, in this stage and with
# as many cores, is not run again: what takes hours or days may be stopped and called again.
set -u
: "${TEST_TIMEOUT:=$((1800 + ${FUZZ_SECONDS:-0}))}" # of one program, in seconds: for what hangs, not for what is slow

one() {
	program=$1 name=${1##*/} dir=$OUT/${1##*/}
	kept=${PASSED:+$PASSED/$STAGE.${APP_CORES:-}.${TEST_LENGTH:-}.$name}
	rm -rf "$dir"; mkdir -p "$dir"
	if passed_before "$kept" "$dir"; then
		cat "$dir/line"
		return
	fi
	export ASAN_OPTIONS="log_path=$dir/report:detect_leaks=1:detect_stack_use_after_return=1"
	export UBSAN_OPTIONS="log_path=$dir/report:print_stacktrace=1"
	export TSAN_OPTIONS="log_path=$dir/report:halt_on_error=1"
	poison
	start=$(date +%s.%N)
	# shellcheck disable=SC2046 # words are meant to be split
	timeout -k 5 "$TEST_TIMEOUT" $(prefix) "$program" $(arguments "$dir") >"$dir/out" 2>&1
	code=$?
	seconds=$(echo "$start $(date +%s.%N)" | awk '{ printf "%.1f", $2 - $1 }')

	sum=$(sed 's/\x1b\[[0-9;]*m//g' "$dir/out" | awk '
		/Synthesis: Tested:/ { gsub(/[|:]/, " "); for (i = 1; i < NF; i++) {
			if ($i == "Passing") pass += $(i + 1)
			if ($i == "Failing" || $i == "Crashing") fail += $(i + 1) } }
		/^ok /     { pass++ }
		/^not ok / { fail++ }
		END { print pass + 0, fail + 0 }')
	passed=${sum% *} failed=${sum#* }
	told=$(wc -c <"$dir/out")
	if ls "$dir"/report.* >/dev/null 2>&1; then
		cat "$dir"/report.* >>"$dir/out"
		[ "$failed" -gt 0 ] || failed=1
	fi
	[ $code = 0 ] || [ "$failed" -gt 0 ] || failed=1
	# "skip: why", where something is not installed: no failure, and no pass either.
	skipped=$(grep -m 1 '^skip: ' "$dir/out")
	[ $code = 0 ] && [ "$passed" = 0 ] && [ "$failed" = 0 ] && [ -z "$skipped" ] && passed=1
	[ $code != 124 ] || echo "(stopped after $TEST_TIMEOUT s)" >>"$dir/out"
	echo "$passed $failed" >"$dir/count"

	{
		if [ "$failed" = 0 ] && [ -n "$skipped" ]; then
			printf '  skip  %6s s  %-32s %s\n' "$seconds" "$name" "$passed passed, $skipped"
		elif [ "$failed" = 0 ]; then
			printf '  ok    %6s s  %-32s %s\n' "$seconds" "$name" "$passed passed"
		else
			printf '  FAIL  %6s s  %-32s %s\n' "$seconds" "$name" \
				"$passed passed, $failed failed (exit $code)"
			tell "$dir" "$told" | sed 's/^/        | /'
		fi
		[ -z "${SEED:-}" ] || ! grep -qa '^# ' "$dir/out" || echo "        what happened: $dir/out"
	} >"$dir/line"
	cat "$dir/line" # in one write, so that lines of programs at once do not mix
	[ -z "$kept" ] || [ "$failed" != 0 ] || [ -n "$skipped" ] ||
		echo "$TREE_ID $passed $(date +%F)" >"$kept"
}

passed_before() { # FILE DIR
	[ -n "$1" ] && read -r tree count day 2>/dev/null <"$1" && [ "$tree" = "$TREE_ID" ] || return 1
	echo "$count 0" >"$2/count"
	printf '  ok     on %s  %-32s %s\n' "${day#*-}" "$name" "$count passed" >"$2/line"
}

# Prints all that is needed to find out why a program failed, the most telling first: when somebody
# reads it, the machine may be gone.
tell() { # DIR BYTES: so many of its output are the program's own
	for file in "$1"/report.*; do
		[ ! -f "$file" ] || head -n 60 "$file"
	done
	# Of checks that passed only the one before a failure: it says how far the program had come.
	head -c "$2" "$1/out" | grep -avE '^#[0-9]+[[:space:]]+(REDUCE|NEW|RELOAD|pulse|INITED)' |
		awk '/^ok / { before = $0; next } before != "" { print before; before = "" } { print }' | tail -n 60
	tail -c +$(($2 + 1)) "$1/out" | grep -a '^(stopped after '
	for file in "$1"/crash-* "$1"/leak-* "$1"/timeout-* "$1"/oom-*; do
		[ -f "$file" ] || continue
		bytes=$(wc -c <"$file")
		echo "$file: $bytes bytes"
		[ "$bytes" -gt 2048 ] || base64 "$file"
	done
}

# Prints which program failed, and the first lines of its output, or of a script its failed checks.
shortly() { # FILE
	sed -n 1p "$1"
	checks=$(grep -a '| not ok ' "$1")
	{ [ -n "$checks" ] && echo "$checks" || sed 1d "$1"; } | head -n 6 | cut -c 1-160
}

# TSan needs the old, narrower address randomisation.
prefix() {
	[ "$VARIANT" = tsan ] && setarch -R true 2>/dev/null && echo "setarch -R"
}

# Here a read that brought nothing must not find what an earlier one left (nvme/soft/nvme_poison.c), nor
# may memory be written that a client has given back (client-lib/client_poison.c); scripts ask for
# it themselves.
poison() {
	case "$STAGE" in
	unit-asan | sim) export WEKA_POISON_READS=1 WEKA_POISON_WINDOWS=1 ;;
	esac
}

# Prints the arguments for a program of this stage.
arguments() {
	case "$STAGE" in
	fuzz)
		mkdir -p "$OUT/corpus/$name"
		# Luck finds bugs, in the longer runs; the short one says the same of the same tree.
		[ "${TEST_LENGTH:-long}" != short ] || { rm -rf "$OUT/corpus/$name"/*; echo "-seed=1"; }
		echo "-max_total_time=$FUZZ_SECONDS -timeout=60 -rss_limit_mb=2048 -print_final_stats=0" \
			"-artifact_prefix=$1/ $OUT/corpus/$name test/fuzz/corpus/${name#fuzz_}" ;;
	sim) [ -z "${SEED:-}" ] || echo "--seed $SEED" ;;
	torture-tsan) [ "$name-${TEST_LENGTH:-long}" != torture_app_cores-short ] || echo 12 ;; # rounds
	esac
}

if [ "$1" = --one ]; then
	one "$2"
	exit 0
fi

export STAGE=$1
shift
export OUT=$BUILD/out/$STAGE
: "${JOBS:=2}" "${VARIANT:=release}" "${FUZZ_SECONDS:=5}"
export BUILD VARIANT FUZZ_SECONDS SEED MAKE CC
rm -rf "$OUT"/*/count
mkdir -p "$OUT"
case "$STAGE" in
torture-tsan) JOBS=1 ;; # these use all cores themselves
guest) [ "${TEST_LENGTH:-}" = short ] || JOBS=1 ;; # and so do these; some of the longer ones measure
unit-* | image) JOBS=$((JOBS + JOBS / 2)) ;; # some wait more than they work
e2e) JOBS=$((3 * JOBS)) ;; # most wait more than half of their time: for restarts, back-off, lost links
esac
begin=$(date +%s)
[ $# = 0 ] || printf '%s\n' "$@" | xargs -P "$JOBS" --process-slot-var=WEKA_SLOT -I '{}' "$0" --one '{}'

passed=0 failed=0
for p in "$@"; do
	read -r ok bad <"$OUT/${p##*/}/count" || { ok=0; bad=1; }
	passed=$((passed + ok)) failed=$((failed + bad))
	[ "$bad" = 0 ] || [ -z "${RESULTS:-}" ] || shortly "$OUT/${p##*/}/line" >>"$RESULTS.failed"
done
seconds=$(($(date +%s) - begin))
echo "$STAGE: $# programs, $passed passed, $failed failed, $seconds s"
[ -z "${RESULTS:-}" ] || echo "$STAGE $passed $failed $seconds" >>"$RESULTS"
[ $failed = 0 ] && [ $passed -gt 0 ]
