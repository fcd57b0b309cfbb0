#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The examples of weka_client(3) compile without a warning.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

# Each example is a function of its own.
{
	printf '#include <stdio.h>\n#include <weka_client.h>\n'
	awk '/^\.EX/ { head = "void example_" ++n "(struct weka_client *client, const char *const names[256])"
			print head ";\n" head "\n{\n(void)names;"; inside = 1; next }
		/^\.EE/ { print "}"; inside = 0 }
		inside { gsub(/\\e/, "\\"); print }' client-lib/weka_client.3
} >"$DIR/example.c"
check "there are two" [ "$(grep -c "^{" "$DIR/example.c")" = 2 ]
check "they compile" "${CC:-cc}" -std=c17 -Wall -Wextra -Wshadow -Wconversion -Werror -fsyntax-only -Iclient-lib "$DIR/example.c"
finish
