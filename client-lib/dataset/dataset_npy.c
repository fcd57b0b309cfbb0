/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Rows of an array in NumPy's format (numpy.lib.format, versions 1.0 to 3.0):
 *
 *    | \x93NUMPY, version 2 | length of the header 2 or 4 | header, text | data, C order |
 *      {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
 *
 * A sample is an index of the first dimension.  The size of an element comes from the length of the
 * data, so descriptions of structures need not be understood; a simple one must agree with it.
 */
#include "client-lib/dataset/dataset_internal.h"

#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX (1u << 20)

struct array {
	uint64_t rows;
	uint64_t row_items;  /* product of the other dimensions */
	uint64_t item_bytes; /* 0: the description is no simple one */
};

static const char *value_of(const char *header, const char *key)
{
	const char *at = strstr(header, key);

	if (!at)
		return NULL;
	at += strlen(key);
	return at + strspn(at, " ");
}

/* "'<f4'" is 4 bytes, "'<U3'" three characters of 4.  Other descriptions are 0. */
static uint64_t item_bytes_of(const char *descr)
{
	char *end;
	unsigned long bytes;

	if (*descr != '\'' && *descr != '"')
		return 0;
	descr++;
	descr += strspn(descr, "<>|=");
	if (!strchr("biufcmMSUV?", *descr) || *descr == 0)
		return 0;
	bytes = strtoul(descr + 1, &end, 10);
	if (end == descr + 1 || bytes > 1 << 20)
		return 0;
	return *descr == 'U' ? bytes * 4 : bytes;
}

/* "(3, 4, 5)".  False: it is no shape, or has no dimension. */
static bool shape_of(const char *text, struct array *out)
{
	uint64_t count = 0;

	if (*text++ != '(')
		return false;
	out->row_items = 1;
	for (;;) {
		char *end;
		unsigned long long n;

		text += strspn(text, " ");
		if (*text == ')')
			return count > 0;
		if (*text < '0' || *text > '9')
			return false;
		n = strtoull(text, &end, 10);
		if (n > DATASET__SAMPLES_MAX)
			return false;
		if (count++ == 0)
			out->rows = n;
		else if (n && out->row_items > (uint64_t)INT64_MAX / n)
			return false;
		else
			out->row_items *= n;
		text = end + strspn(end, " ");
		if (*text == ',')
			text++;
		else if (*text != ')')
			return false;
	}
}

static int header_parse(struct dataset__source *source, const char *header, struct array *out)
{
	const char *descr = value_of(header, "'descr':");
	const char *fortran = value_of(header, "'fortran_order':");
	const char *shape = value_of(header, "'shape':");

	if (!descr || !fortran || !shape || !shape_of(shape, out))
		return dataset__bad(source, "its header is not that of an array with rows: %.60s",
				    header);
	if (strncmp(fortran, "False", 5) != 0 && out->row_items != 1)
		return dataset__bad(source, "the array is in Fortran order, so it has no rows");
	if (strncmp(descr, "'|O", 3) == 0)
		return dataset__bad(source, "the array has Python objects");
	out->item_bytes = item_bytes_of(descr);
	return 0;
}

/* Reads the header, and moves *at and *bytes to the data. */
static int header_read(struct dataset__source *source, uint64_t *at, uint64_t *bytes,
		       struct array *out)
{
	uint8_t head[12];
	uint32_t length, head_bytes;
	char *header;
	int err;

	if (*bytes < sizeof(head))
		return dataset__bad(source, "it is too short for an array");
	err = dataset__get(source, *at, sizeof(head), head);
	if (err)
		return err;
	if (memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 || head[6] > 3)
		return dataset__bad(source, "it is no array of NumPy's");
	head_bytes = head[6] == 1 ? 10 : 12;
	length = head[8] | (uint32_t)head[9] << 8;
	if (head[6] > 1)
		length |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24;
	if (length > HEADER_MAX || length > *bytes - head_bytes)
		return dataset__bad(source, "its header is longer than the file");
	header = calloc(1, (size_t)length + 1);
	if (!header)
		return -ENOMEM;
	err = dataset__get(source, *at + head_bytes, length, header);
	if (!err)
		err = header_parse(source, header, out);
	free(header);
	*at += head_bytes + length;
	*bytes -= head_bytes + length;
	return err;
}

int dataset__npy_at(struct dataset__source *source, uint64_t at, uint64_t bytes)
{
	struct array a = { 0 };
	uint64_t row_bytes;
	int err = header_read(source, &at, &bytes, &a);

	if (err || a.rows == 0)
		return err;
	row_bytes = bytes / a.rows;
	if (row_bytes * a.rows != bytes || (a.row_items && row_bytes % a.row_items) ||
	    (!a.row_items && bytes) || (a.item_bytes && row_bytes != a.row_items * a.item_bytes))
		return dataset__bad(source,
				    "%llu bytes of data do not make the %llu rows of its header: "
				    "it was cut",
				    (unsigned long long)bytes, (unsigned long long)a.rows);
	if (row_bytes == 0) /* no length of the file limits how many there are */
		return dataset__bad(source, "the rows of the array have no bytes");
	ASSERT(row_bytes <= bytes && at + a.rows * row_bytes <= source->file_bytes);
	for (uint64_t i = 0; i < a.rows && !err; i++) {
		char member[24];

		snprintf(member, sizeof(member), "%llu", (unsigned long long)i);
		err = source->found(source->found_arg, at + i * row_bytes, row_bytes, member,
				    strlen(member));
	}
	return err;
}

int dataset__npy(struct dataset__source *source)
{
	return dataset__npy_at(source, 0, source->file_bytes);
}
