/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "appliance/ctl/ctl_fold.h"
#include "base/num.h"

#include <stdbool.h>
#include <string.h>

/* Indentation of a folded line: below the text of "store     ...", or of "! ...". */
static uint32_t indent_of(const char *line)
{
	return line[0] == '!' ? 2 : 10;
}

/* Returns how many of `left` bytes fit into `room` columns, up to a blank if there is one. */
static size_t piece_of(const char *line, size_t left, size_t room)
{
	size_t at = room;

	if (left <= room)
		return left;
	while (at > 0 && line[at] != ' ')
		at--;
	while (at > 0 && line[at - 1] == ' ')
		at--;
	return at ? at : room;
}

/* Prints one line, without its newline, or only counts.  Returns the lines that it takes. */
static uint32_t fold_line(FILE *to, const char *line, size_t bytes, uint32_t columns,
			  uint32_t rows_left)
{
	const uint32_t indent = indent_of(line);
	uint32_t rows = 0;

	do {
		const size_t room = columns - (rows ? indent : 0);
		const size_t piece = piece_of(line, bytes, room);

		if (rows < rows_left)
			fprintf(to, "%*s%.*s\n", rows ? (int)indent : 0, "", (int)piece, line);
		rows++;
		line += piece;
		bytes -= piece;
		while (bytes && *line == ' ') {
			line++;
			bytes--;
		}
	} while (bytes);
	return rows;
}

static uint32_t fold(FILE *to, const char *text, uint32_t columns, uint32_t rows_max)
{
	uint32_t rows = 0;

	while (*text) {
		const size_t bytes = strcspn(text, "\n");

		rows += fold_line(to, text, bytes, columns, rows < rows_max ? rows_max - rows : 0);
		text += bytes + (text[bytes] == '\n');
	}
	return rows;
}

void ctl_fold(FILE *to, const char *text, uint32_t columns, uint32_t rows_max)
{
	uint32_t rows;

	columns = max_u32(columns, CTL_FOLD_COLUMNS_LEAST);
	if (rows_max == 0) {
		(void)fold(to, text, columns, UINT32_MAX);
		return;
	}
	rows = fold(to, text, columns, 0);
	if (rows <= rows_max) {
		(void)fold(to, text, columns, UINT32_MAX);
		return;
	}
	(void)fold(to, text, columns, rows_max - 1);
	fprintf(to, "(%u more lines: a taller window shows them)\n", rows - rows_max + 1);
}
