/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Records in files: finds where each begins and ends, so that a sample can be a piece of a file.
 *
 *    walk's list:  a.tar, b.tar        ---index--->        list:  a.tar [0, 5000), "001"
 *                                                                 a.tar [5000, 9000), "002", ...
 *
 * The parsers of the formats read through a window of the file and know nothing of clients, so
 * tests and fuzzers feed them from memory.
 */
#include "client-lib/dataset/dataset_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_BYTES (256u << 10)

static const struct {
	const char *name; /* up to a ':' */
	int (*index)(struct dataset__source *source);
} formats[] = {
	{ "tar", dataset__tar },
	{ "tfrecord", dataset__tfrecord },
	{ "npy", dataset__npy },
	{ "npz:", dataset__npz },
};

/* Returns its number, or the count of all: there is no such format. */
static uint32_t format_of(const char *format)
{
	uint32_t i;

	for (i = 0; i < ARRAY_LEN(formats); i++) {
		const size_t length = strlen(formats[i].name);

		if (formats[i].name[length - 1] == ':'
			    ? strncmp(format, formats[i].name, length) == 0 && format[length]
			    : strcmp(format, formats[i].name) == 0)
			break;
	}
	return i;
}

const char *dataset__records_wrong(const char *format)
{
	return format_of(format) < ARRAY_LEN(formats)
		       ? NULL
		       : "records are one of: tar, tfrecord, npy, npz:NAME";
}

int dataset__bad(struct dataset__source *source, const char *format, ...)
{
	va_list args;

	ASSERT(source->found);
	va_start(args, format);
	vsnprintf(source->why, sizeof(source->why), format, args);
	va_end(args);
	return -EPROTO;
}

int dataset__get(struct dataset__source *source, uint64_t at, uint32_t bytes, void *to)
{
	if (at > source->file_bytes || bytes > source->file_bytes - at)
		return dataset__bad(source, "it ends at byte %llu, in the middle of a record",
				    (unsigned long long)source->file_bytes);
	return source->read(source->arg, at, bytes, to);
}

/* ---- a file of the appliance ------------------------------------------------------------- */

struct file {
	struct weka_client *client;
	const struct dataset__file *from;
	uint8_t *window;
	uint64_t at; /* of the window in the file */
	uint32_t bytes;
	struct dataset__files *out;
	const char *path;
};

static int file_read(void *arg, uint64_t at, uint32_t bytes, void *to)
{
	struct file *f = arg;

	ASSERT(at + bytes <= f->from->size_bytes);
	while (bytes > 0) {
		uint32_t here;

		if (at < f->at || at >= f->at + f->bytes) {
			int64_t got = weka_pread(f->client, &f->from->handle, f->window,
						 WINDOW_BYTES, at);

			if (got <= 0)
				return got < 0 ? (int)got : -ESTALE; /* it became shorter */
			f->at = at;
			f->bytes = (uint32_t)got;
		}
		here = min_u32(bytes, (uint32_t)(f->at + f->bytes - at));
		memcpy(to, f->window + (at - f->at), here);
		to = (char *)to + here;
		at += here;
		bytes -= here;
	}
	return 0;
}

static int record_found(void *arg, uint64_t offset_bytes, uint64_t length_bytes, const char *member,
			size_t member_bytes)
{
	const struct file *f = arg;
	struct dataset__file record = *f->from;

	ASSERT(offset_bytes + length_bytes <= f->from->size_bytes);
	ASSERT(member_bytes > 0 && member_bytes <= WEKA_MEMBER_MAX);
	record.offset_bytes = offset_bytes;
	record.size_bytes = length_bytes;
	record.member_at = dataset__text_add(f->out, member, member_bytes);
	if (record.member_at == DATASET__WHOLE)
		return -ENOMEM;
	return dataset__files_add(f->out, &record);
}

/* The file must be the one that the walk saw, from the first byte to the last. */
static int same_still(const struct file *f)
{
	struct weka_stat_item item = { .ref = weka_ref_handle(&f->from->handle) };
	struct weka_req req = { 0 };
	int err = weka_submit_stat(f->client, &req, &item, 1, NULL);

	err = client__run(f->client, &req, err, "stat", f->path);
	if (!err)
		err = item.status;
	return !err && item.attr.ctime_ns != f->from->ctime_ns ? -ESTALE : err;
}

static int file_index(struct file *f, uint32_t format, const char *member, bool is_thorough)
{
	struct dataset__source source = { .read = file_read,
					  .arg = f,
					  .file_bytes = f->from->size_bytes,
					  .is_thorough = is_thorough,
					  .found = record_found,
					  .found_arg = f,
					  .member = member };
	int err = formats[format].index(&source), still = 0;

	if (!err || err == -EPROTO) /* a file that changed meanwhile looks damaged */
		still = same_still(f);
	err = still ? still : err;
	if (err == -EPROTO)
		return client__say(f->client, err, "%.200s: %s", f->path, source.why);
	if (err)
		return client__say(f->client, err, "%.200s: %s", f->path,
				   err == -ESTALE
					   ? "changed while the dataset was made: begin again"
					   : strerror(-err));
	return 0;
}

int dataset__records(struct weka_client *c, const char *format, bool is_thorough,
		     struct dataset__files *files)
{
	const struct dataset__files was = *files;
	const uint32_t which = format_of(format);
	struct file f = { .client = c, .out = files, .window = malloc(WINDOW_BYTES) };
	int err = f.window ? 0 : client__say(c, -ENOMEM, "no memory to index records");

	ASSERT(which < ARRAY_LEN(formats));
	files->file = NULL; /* the text goes on: paths are still in it */
	files->count = files->room = 0;
	for (uint64_t i = 0; i < was.count && !err; i++) {
		char *path = strdup(files->text + was.file[i].path_at); /* the text moves */

		f.from = &was.file[i];
		f.path = path ? path : "";
		f.at = f.bytes = 0;
		err = file_index(&f, which, format + strlen(formats[which].name), is_thorough);
		free(path);
	}
	free(f.window);
	free(was.file);
	return err;
}
