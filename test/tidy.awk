# SPDX-License-Identifier: BSD-2-Clause-Patent
# One pass over all .c and .h files for test/tidy.sh; prints "file:line: what".
# -v uses="folder=folders;file=folders;..." as make print-uses says them.

# The room of a file: its folder if make print-uses names it, else the folder at the top.
function room_of(path,  dir) {
	dir = path; sub(/\/[^\/]*$/, "", dir)
	if (!(dir in may)) sub(/\/.*/, "", dir)
	return dir
}
function out(what) { printf "%s:%d: %s\n", FILENAME, FNR, what }
function out_at(line, what) { printf "%s:%d: %s\n", FILENAME, line, what }

BEGIN {
	n = split(uses, entry, ";")
	for (i = 1; i <= n; i++) {
		at = index(entry[i], "=")
		may[substr(entry[i], 1, at - 1)] = " " substr(entry[i], at + 1) " "
	}
	split("sprintf vsprintf strcpy strcat strtok gets alloca rand srand random setjmp longjmp", b, " ")
	for (i in b) banned[b[i]] = 1
	split("clock_gettime gettimeofday time times ftime", b, " ")
	for (i in b) clock[b[i]] = 1
}

FNR == 1 {
	room = room_of(FILENAME)
	folder = FILENAME; sub(/\/.*/, "", folder)
	in_comment = start = signature = 0
	covered = 0
	header = FILENAME ~ /\.h$/
	public = FILENAME ~ /^base\/.*\.h$/ || FILENAME == "nvme/nvme.h" || FILENAME == "meta/meta.h" ||
		FILENAME == "fabric/fab.h" || FILENAME == "client-lib/weka_client.h"
	if ($0 != "/* SPDX-License-Identifier: BSD-2-Clause-Patent */") out("first line is not the SPDX line")
}
FNR == 801 { out("file of more than 800 lines: two jobs in one file") }

{
	line = $0
	width = 0
	if (length(line) > 25) { # tabs count to the next multiple of eight
		for (i = 1; i <= length(line); i++) {
			c = substr(line, i, 1)
			if (c == "\t") width += 8 - width % 8; else width++
		}
		if (width > 100) out("line of " width " columns, 100 at most")
	}
	if (line ~ /[ \t\r]$/) out("space at end of line")
	if (line ~ /FIXME|(^|[^X])XXX([^X]|$)|TODO/) out("leftover marker")
	if (line ~ /\/work\/|\.\.\/shared|DESIGN\.md/) out("names a path of one machine, or a paper outside the tree")

	# Code without comments and strings.
	code = line
	gsub(/\\./, "", code)
	gsub(/"[^"]*"/, "\"\"", code)
	gsub(/'[^']*'/, "0", code)
	if (in_comment) {
		if (match(code, /\*\//)) { code = substr(code, RSTART + 2); in_comment = 0 } else code = ""
		was_comment = 1
	} else was_comment = 0
	gsub(/\/\*[^*]*\*+([^\/*][^*]*\*+)*\//, "", code)
	if (match(code, /\/\*/)) { code = substr(code, 1, RSTART - 1); in_comment = 1 }
	sub(/\/\/.*/, "", code)
}

# ---- layers

line ~ /^#include "/ {
	to = line; sub(/^#include "/, "", to); sub(/".*/, "", to)
	to_room = room_of(to)
	allowed = FILENAME in may ? may[FILENAME] : may[room]
	example = FILENAME ~ /^client-lib\/examples\//
	if (to !~ /\//) {
		if (!example && to != "weka_client.h" && to != "weka_sync.h" && to != "weka_dataset.h" && to != "weka_pool.h") # they are installed side by side
			out("#include \"" to "\": write its folder")
	} else if (to_room != room && index(allowed, " " to_room " ") == 0)
		out(room " may not include " to_room "/ (see its .mk)")
	else if (to ~ /_internal\.h$/ && substr(to, 1, length(folder) + 1) != folder "/" && folder != "test")
		out(to " is private to the folder at its top")
}
folder != "test" && match(code, /[^a-z0-9_][a-z][a-z0-9]*__[a-z][a-z0-9_]*\(/) {
	name = substr(code, RSTART + 1, RLENGTH - 2)
	prefix = name; sub(/__.*/, "", prefix)
	home = prefix == "fab" ? "fabric" : prefix == "app" ? "appliance" : prefix == "weka" || prefix == "client" ? "client-lib" : prefix
	if (home ~ /^(base|nvme|meta|fabric|client-lib|appliance|bench)$/ && home != folder)
		out(name "() is private to " home "/")
}

# ---- bans

code ~ /atomic_thread_fence|__sync_|atomic_signal_fence/ { out("bare fence: order the access itself, TSan sees that") }
code ~ /[^a-z_](volatile)[^a-z_]/ && FILENAME !~ /^nvme\/(mmio\.h|soft\/.*|driver\/nvme_qpair\.c)$/ && folder != "test" && line !~ /\/\*.*\*\// {
	out("volatile is for MMIO and DMA only (or say why on this line)")
}
code ~ /^typedef / && FILENAME != "base/le.h" { out("typedef: structs and enums keep their tags") }
code ~ /(^|[^a-z_])assert\(/ { out("assert(): ASSERT is on in every build") }
{
	rest = code
	while (match(rest, /(^|[^A-Za-z0-9_>.])[a-z_0-9]+\(/)) {
		name = substr(rest, RSTART, RLENGTH - 1); sub(/^[^A-Za-z0-9_]/, "", name)
		rest = substr(rest, RSTART + RLENGTH)
		if (name in banned) out(name "() is banned")
		if (name in clock && FILENAME != "base/clock.c") out(name "(): only base/clock.c reads the time")
		if (start && name == function_name) out(name "() calls itself: no recursion")
	}
}

# ---- functions

# A definition's first line names it; its body stands between { and } in the first column.
code ~ /^[a-z_A-Z].*\(/ && code !~ /;[ \t]*$/ && !start {
	signature = FNR
	function_name = code
	sub(/\(.*/, "", function_name)
	sub(/.*[ *]/, "", function_name)
}
code ~ /^\{/ && signature && !start { start = FNR; split("", label) }
start && code ~ /^[a-z_][a-z_0-9]*:$/ { l = code; sub(/:.*/, "", l); label[l] = FNR }
start && code ~ /[ \t]goto [a-z_]/ {
	l = code; sub(/.*goto /, "", l); sub(/;.*/, "", l)
	if (l in label) out("goto " l " goes back")
}
code ~ /^\}/ {
	if (start && FNR - start - 1 > 70) out_at(start, "function of " FNR - start - 1 " lines, 70 at most")
	start = signature = 0
}

# ---- public headers: a declaration stands under its comment, or under its like

public {
	declares = code ~ /^[a-z_].*\(/ && code !~ /^(static|#|typedef|enum [a-z_]+ \{|struct [a-z_]+ \{)/ && !start &&
		code !~ /__attribute__.*=/
	if (declares && !covered) out("public declaration without a comment")
	if (was_comment || line ~ /\*\/[ \t]*$/) covered = 1
	else if (line ~ /^[ \t]*$/ || line ~ /^[}#]/) covered = 0
}

