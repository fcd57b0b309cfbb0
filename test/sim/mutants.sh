#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Removes one rule at a time - of flush, FUA and order, of promises over a network, of shares - and runs the simulations as
# they run by hand: one of them must fail.  If none fails, the rule is not tested or not needed.
# usage: test/sim/mutants.sh [-l | -n] [NAME...]   -l: list them; the results are in test/PROOF.md
# -n: only checks that each can be removed from the present code: make tidy calls this.
# TREE=DIR: where it builds; kept, so that calls for one mutant each build only that one.
cd "$(dirname "$0")/../.." || exit 1
if [ -z "${TREE:-}" ]; then
	TREE=$(mktemp -d "${TMPDIR:-/tmp}/weka-mutant.XXXXXX")
	trap 'rm -rf "$TREE"' EXIT
fi
trap 'exit 130' INT TERM
SIMS="reuse slowlog crowd chop press order flip rot sim loss losses"
JOBS=${JOBS:-2} RUN=${RUN-} # RUN=nice, for one
export SIM_SHRINK=no # whether, not why
survivors=0 list= first= more= prepared= only_edit=
[ "${1-}" != -l ] || { list=1; shift; }
[ "${1-}" != -n ] || { only_edit=1; shift; }
wanted="$*"

# A unit test may be named, too: for what takes two crashes, each at one moment.
program() { # NAME
	case $1 in test_*) echo "$TREE/build/sim/test/unit/$1" ;; *) echo "$TREE/build/sim/test/sim/$1" ;; esac
}

build() { # NAME
	$RUN make -s -j"$JOBS" -C "$TREE/src" BUILD="$TREE/build" VARIANT=sim EXTRA_CFLAGS="-Wno-error -w" \
		"$(program "$1")" >"$TREE/log" 2>&1
}

# A copy of what is committed or changed here; built once, so that a mutant builds what it changes.
prepare() {
	mkdir -p "$TREE/src" "$TREE/was"
	restore # what a call that was stopped has left
	git ls-files -z | xargs -0 cp -p --update --parents -t "$TREE/src"
	prepared=1
	[ -n "$only_edit" ] || build reuse || { tail -5 "$TREE/log"; echo "not ok: does not build"; exit 1; }
}

edit() { # FILE OLD NEW: OLD stands there once
	[ -f "$TREE/was/$1" ] || (cd "$TREE/src" && cp -p --parents "$1" "$TREE/was")
	OLD=$2 NEW=$3 perl -0pi -e '
		my ($o, $n) = ($ENV{OLD}, $ENV{NEW});
		my $count = () = /\Q$o\E/g;
		exit 1 if $count != 1;
		s/\Q$o\E/$n/' "$TREE/src/$1"
}

restore() {
	(cd "$TREE/was" && find . -type f) | while read -r file; do
		cp "$TREE/was/$file" "$TREE/src/$file" # of now, so that it is built again
	done
	rm -rf "$TREE/was"
	mkdir "$TREE/was"
}

survives() { # nobody notices
	echo "not ok $1: $2"
	survivors=$((survivors + 1))
}

# The first simulation that fails, after how many cuts, and what it says.
look() {
	arguments=$more
	for sim in $first $SIMS; do
		if ! build "$sim"; then
			survives "$1" "does not build: $(grep -m1 error "$TREE/log")"
			return
		fi
		# shellcheck disable=SC2086 # several words
		$RUN timeout --foreground 900 "$(program "$sim")" $arguments >"$TREE/log" 2>&1
		status=$? arguments=
		case $status in
		0) continue ;;
		124 | 130 | 137 | 143) survives "$1" "$sim was stopped"; return ;;
		esac
		said=$(grep -a -m1 -hE '^not ok|assert|Assert|ASSERT|FAIL' "$TREE/log" | cut -c1-150)
		after=$(grep -a -hE '^not ok|after [0-9]+ cuts' "$TREE/log" | grep -m1 -oE '[0-9]+ cuts|flip [0-9]+|^not ok seed [0-9]+' | sed 's/not ok //')
		echo "ok $1: found by $sim${after:+, $after}: ${said#not ok }"
		return
	done
	survives "$1" survived
}

# mutant NAME RULE [FILE OLD NEW]...     before it: first=NAME, most likely that one notices; more=ARGUMENTS for it
mutant() {
	name=$1 rule=$2
	shift 2
	case " $wanted " in "  " | *" $name "*) ;; *) first= more=; return ;; esac
	[ -z "$list" ] || { echo "$name: $rule"; first= more=; return; }
	[ -n "$prepared" ] || prepare
	while [ $# -gt 0 ]; do
		edit "$1" "$2" "$3" || {
			survives "$name" "$1 does not have this once: $2"
			restore
			return
		}
		shift 3
	done
	[ -n "$only_edit" ] || look "$name"
	restore
	first= more=
}

. test/sim/mutants.list
SIMS=wire
. test/sim/wire_mutants.list
SIMS=fair
. test/sim/fair_mutants.list
[ $survivors = 0 ]
