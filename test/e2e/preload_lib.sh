# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# For scripts that run programs with libweka-preload.so; after lib.sh and mount_lib.sh.
SO=$(realpath "$BUILD/release/lib/libweka-preload.so")
CALLS=$BUILD/release/test/tools/preload_calls
NONE=$DIR/none/weka # nothing is mounted there, and nothing exists
AT=$NONE
# served COMMAND...: with the library, over $AT.  A busy machine may be silent for longer than programs
# wait that nobody told otherwise.
served() { WEKA_PRELOAD="-o timeout=120,key=$DIR/key${OPTIONS:+,$OPTIONS} ${PRELOAD_ADDRESS:-$SHM} $AT" LD_PRELOAD=$SO "$@"; }
# fails NAME TEXT COMMAND...: as refuses, for functions of a script.
fails() {
	name=$1 text=$2
	shift 2
	if err=$("$@" 2>&1 >/dev/null </dev/null); then
		not_ok "$name" "it succeeded"
	elif [ "$(printf '%s\n' "$err" | wc -l)" != 1 ] || ! printf '%s' "$err" | grep -q -- "$text"; then
		not_ok "$name" "not '$text' in one line, but: $err"
	else
		ok "$name"
	fi
}
