#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# What an application sees of libweka-client: names, headers, both libraries.
set -u
: "${BUILD:=build}" "${CC:=gcc}"
lib=$BUILD/${VARIANT:-release}/lib work=$BUILD/out/lib_check.d
rm -rf "$work"
mkdir -p "$work"

check() { # check SENTENCE COMMAND...
	sentence=$1
	shift
	if "$@" >"$work/log" 2>&1; then
		echo "ok $sentence"
	else
		echo "not ok $sentence"
		cat "$work/log"
	fi
}

# Nothing but weka_*, and at least one of it.
only_weka() {
	sort -u "$1" | grep -q '^weka_' && ! sort -u "$1" | grep -v '^weka_'
}

nm -D --defined-only "$lib/libweka-client.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' >"$work/so"
check "the .so exports weka_* only" only_weka "$work/so"
nm -g --defined-only "$lib/libweka-client.a" | awk 'NF == 3 { print $3 }' >"$work/a"
check "the .a exports weka_* only" only_weka "$work/a"

# Each function that the headers declare is exported, with a version, and the reverse.
sed -n 's/^[A-Za-z].*[ *]\(weka_[a-z0-9_]*\)(.*/\1/p' client-lib/weka_client.h client-lib/weka_sync.h client-lib/weka_dataset.h client-lib/weka_pool.h | sort -u >"$work/declared"
sort -u "$work/so" >"$work/exported"
check "what the headers declare is what the .so exports" diff "$work/declared" "$work/exported"
unversioned() { ! nm -D --defined-only "$lib/libweka-client.so" | awk '$2 == "T"' | grep -v '@@WEKA_'; }
check "every symbol has a version" unversioned

printf '#include "weka_client.h"\nint main(void) { return 0; }\n' >"$work/use.c"
for std in c99 c11 c2x; do
	check "the header is clean $std" $CC -std=$std -pedantic -Wall -Wextra -Werror -Iclient-lib -fsyntax-only "$work/use.c"
done
cxx=$(command -v g++ || command -v clang++)
for std in c++11 c++17; do
	check "the header is clean $std" "$cxx" -x c++ -std=$std -pedantic -Wall -Wextra -Werror -Iclient-lib \
		-fsyntax-only "$work/use.c"
done

# An application of one call to each declared function links against either library.
{
	echo '#include "weka_client.h"'
	echo 'typedef void (*any)(void);'
	echo 'any all[] = {'
	sed 's/.*/(any)&,/' "$work/declared"
	echo '}; int main(void) { return all[0] == 0; }'
} >"$work/all.c"
check "an application links with the .so" \
	$CC -Iclient-lib "$work/all.c" -o "$work/all-so" -L"$lib" -lweka-client
check "it starts" env LD_LIBRARY_PATH="$lib" "$work/all-so"
# shellcheck disable=SC2046
libs=$(sed -n 's/^Libs.private: //p' client-lib/weka-client.pc.in)
# shellcheck disable=SC2086
check "an application links with the .a and what the .pc file names" \
	$CC -Iclient-lib "$work/all.c" -o "$work/all-a" "$lib/libweka-client.a" $libs
check "it starts too" "$work/all-a"
