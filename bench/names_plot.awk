#!/usr/bin/awk -f
# SPDX-License-Identifier: BSD-2-Clause-Patent
# `weka-bench names --json` into an SVG: above, operations a second; below, pages of the index that the
# drives read for one; both against how many names the directory has, a power of ten a step.
#
#   weka-bench names --json --files 1000000 --cache 16M --vs /mnt/xfs | awk -f bench/names_plot.awk >names.svg

function field(key,    at, rest) {
	at = index($0, "\"" key "\":")
	if (!at) return ""
	rest = substr($0, at + length(key) + 3)
	sub(/[,}].*/, "", rest)
	gsub(/"/, "", rest)
	return rest
}

function log10(v) { return log(v) / log(10) }

function at_x(n) { return left + (log10(n) - x_low) / (x_high - x_low) * width }

# Rates by powers of ten, from y_low on; pages from 0 on.
function at_y(row, graph) {
	if (graph == 0) return top + height - (log10(rate[row]) - y_low) / (y_high - y_low) * height
	return 2 * top + 2 * height - pages[row] / pages_most * height
}

function text(x, y, anchor, what) {
	printf "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, what
}

function line(x1, y1, x2, y2) {
	printf "<line x1=\"%.0f\" y1=\"%.0f\" x2=\"%.0f\" y2=\"%.0f\" stroke=\"#ccc\"/>\n", x1, y1, x2, y2
}

function curve(phase, colour, graph, place, dash,    i, points) {
	for (i = 1; i <= rows; i++)
		if (of[i] == phase && at[i] == place)
			points = points sprintf("%.1f,%.1f ", at_x(names[i]), at_y(i, graph))
	if (points == "") return
	printf "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n", points, colour, dash
}

/"workload":"names"/ {
	if (field("ops") + 0 == 0 || field("ops_per_s") + 0 == 0) next
	rows++
	at[rows] = field("transport")
	if (!(at[rows] in seen)) {
		seen[at[rows]] = 1
		place[++places] = at[rows]
	}
	names[rows] = field("files") + 0
	of[rows] = field("phase")
	rate[rows] = field("ops_per_s") + 0
	pages[rows] = field("pages_per_op") + 0
}

END {
	if (rows == 0) { print "names_plot: no line of weka-bench names --json" >"/dev/stderr"; exit 1 }
	left = 80; top = 40; width = 560; height = 240
	count = split("create stat read list rename unlink", phases, " ")
	split("#d62728 #1f77b4 #2ca02c #9467bd #ff7f0e #8c564b", colours, " ")
	x_low = y_low = 99; pages_most = 1
	for (i = 1; i <= rows; i++) {
		if (log10(names[i]) < x_low) x_low = log10(names[i])
		if (log10(names[i]) > x_high) x_high = log10(names[i])
		if (int(log10(rate[i])) < y_low) y_low = int(log10(rate[i]))
		if (int(log10(rate[i])) + 1 > y_high) y_high = int(log10(rate[i])) + 1
		if (pages[i] > pages_most) pages_most = int(pages[i]) + 1
	}
	if (x_high == x_low) x_high = x_low + 1
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" ", left + width + 100, 3 * top + 2 * height
	print "font-family=\"sans-serif\" font-size=\"12\">"
	print "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
	text(left, top - 12, "start", "operations a second")
	text(left, 2 * top + height - 12, "start", "pages of the index read for one")
	text(left + width, 3 * top + 2 * height - 8, "end", "names in the directory")
	for (y = y_low; y <= y_high; y++) {
		line(left, top + height - (y - y_low) / (y_high - y_low) * height, left + width, top + height - (y - y_low) / (y_high - y_low) * height)
		text(left - 8, top + height - (y - y_low) / (y_high - y_low) * height + 4, "end", "10^" y)
	}
	for (y = 0; y <= pages_most; y += pages_most > 5 ? int(pages_most / 5) + 1 : 1) {
		line(left, 2 * top + 2 * height - y / pages_most * height, left + width, 2 * top + 2 * height - y / pages_most * height)
		text(left - 8, 2 * top + 2 * height - y / pages_most * height + 4, "end", y)
	}
	for (x = int(x_low + 0.999); x <= x_high; x++) {
		line(at_x(10 ^ x), top, at_x(10 ^ x), top + height)
		line(at_x(10 ^ x), 2 * top + height, at_x(10 ^ x), 2 * top + 2 * height)
		text(at_x(10 ^ x), 2 * top + 2 * height + 16, "middle", "10^" x)
	}
	split("none|7,4|2,3|10,3,2,3", dashes, "|")
	for (k = 1; k <= places && places > 1; k++)
		printf "<text x=\"%d\" y=\"%d\">%s</text><line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"black\" stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n", left + width + 52, top + 16 * (k + count + 1), place[k], left + width + 12, top + 16 * (k + count + 1) - 4, left + width + 46, top + 16 * (k + count + 1) - 4, dashes[(k - 1) % 4 + 1]
	for (p = 1; p <= count; p++) {
		for (k = 1; k <= places; k++) {
			curve(phases[p], colours[p], 0, place[k], dashes[(k - 1) % 4 + 1])
			if (place[k] ~ /^(shm|tcp|rdma)$/) # of a local file system nobody counts them
				curve(phases[p], colours[p], 1, place[k], dashes[(k - 1) % 4 + 1])
		}
		printf "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", left + width + 12, top + 16 * p, colours[p], phases[p]
	}
	print "</svg>"
}
