#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The example of weka_client(3) compiles without a warning.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

{
	printf '#include <stdio.h>\n#include <weka_client.h>\n'
	printf 'void example(struct weka_client *client, const char *const names[256]);\n'
	printf 'void example(struct weka_client *client, const char *const names[256])\n{\n'
	sed -n '/^\.EX/,/^\.EE/p' client-lib/weka_client.3 | grep -v '^\.E[XE]' | sed 's/\\e/\\/g'
	echo '}'
} >"$DIR/example.c"
check "there is one" grep -q weka_submit_read_batch "$DIR/example.c"
check "it compiles" "${CC:-cc}" -std=c17 -Wall -Wextra -Wshadow -Wconversion -Werror -fsyntax-only -Iclient-lib "$DIR/example.c"
finish
