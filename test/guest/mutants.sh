#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Takes out one flush at a time: the power cuts of guest_power.sh must find it, or they prove nothing.
# usage: test/guest/mutants.sh [NAME...]        the results stand in test/PROOF.md
cd "$(dirname "$0")/../.." || exit 1
: "${BUILD:=build}" "${JOBS:=2}" "${GUEST_CACHE:=$(realpath "$BUILD")/guest}"
TREE=$(mktemp -d "${TMPDIR:-/tmp}/weka-mutant.XXXXXX")
trap 'rm -rf "$TREE"' EXIT
trap 'exit 130' INT TERM
export GUEST_CACHE
wanted="$*"
survivors=0

# mutant NAME FILE OLD NEW: OLD stands in FILE once.
mutant() {
	case " $wanted " in "  " | *" $1 "*) ;; *) return ;; esac
	rm -rf "$TREE/src"
	mkdir -p "$TREE/src"
	git ls-files -z | xargs -0 cp -p --parents -t "$TREE/src"
	OLD=$3 NEW=$4 perl -0pi -e '
		my ($o, $n) = ($ENV{OLD}, $ENV{NEW});
		my $count = () = /\Q$o\E/g;
		exit 1 if $count != 1;
		s/\Q$o\E/$n/' "$TREE/src/$2" || { echo "not ok $1: $2 does not have this once: $3"; survivors=1; return; }
	make -s -j"$JOBS" -C "$TREE/src" BUILD="$TREE/build" EXTRA_CFLAGS=-w \
		all "$TREE"/build/release/test/guest/cut "$TREE"/build/release/test/guest/witness \
		"$TREE"/build/release/test/guest/tsc_khz >"$TREE/log" 2>&1 ||
		{ echo "not ok $1: does not build"; tail -n 3 "$TREE/log"; survivors=1; return; }
	if (cd "$TREE/src" && BUILD="$TREE/build" CUTS=${CUTS:-1} BOUNDARIES=${BOUNDARIES:-20} test/guest/guest_power.sh) >"$TREE/log" 2>&1; then
		echo "not ok $1: survives: $(tail -n 1 "$TREE/log")"
		survivors=1
	else
		echo "ok $1: found: $(grep -m 1 '^not ok' "$TREE/log" | cut -c 8-)"
		grep -m 1 -A 5 '^not ok' "$TREE/log" | sed 1d
	fi
}

mutant qemu-fua nvme/driver/nvme_qpair.c '	if (io->status) /* it comes back as it is */' '	if (true)'
mutant data-flush meta/engine/meta_log.c \
	'if (!(b->drives_mask >> (d % 64) & 1) || !m->conf.drive[d].volatile_cache)' 'if (d < 64)'
[ $survivors = 0 ]
