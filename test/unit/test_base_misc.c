/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The small ones: clock, rand, hash, le, log. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/log.h"
#include "base/rand.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

Test(base_clock, never_goes_back)
{
	uint64_t last = clock_now_ns();

	for (int i = 0; i < 1000; i++) {
		uint64_t now = clock_now_ns();

		cr_assert_geq(now, last);
		last = now;
	}
}

Test(base_clock, a_time_is_printed_as_the_calendar_has_it)
{
	char text[CLOCK_TEXT], wanted[CLOCK_TEXT];

	for (uint64_t s = 0; s < UINT64_MAX / NS_PER_S; s += 86400 * 7 + 12345) {
		time_t at = (time_t)s;

		strftime(wanted, sizeof(wanted), "%Y-%m-%dT%H:%M:%S.007Z", gmtime(&at));
		clock_print_utc(text, s * NS_PER_S + 7 * NS_PER_MS);
		cr_assert_str_eq(text, wanted);
	}
}

Test(base_clock, wall_time_is_after_this_was_written)
{
	cr_assert_gt(clock_wall_ns(), 1700000000 * NS_PER_S);
}

Test(base_rand, same_seed_same_run_and_another_seed_another)
{
	struct rand_state a, b, c;
	int same = 0;

	rand_seed(&a, 7);
	rand_seed(&b, 7);
	rand_seed(&c, 8);
	for (int i = 0; i < 1000; i++) {
		uint64_t v = rand_u64(&a);

		cr_assert_eq(v, rand_u64(&b));
		same += v == rand_u64(&c);
	}
	cr_assert_eq(same, 0);
}

/* Published outputs of splitmix64 for seed 1234567: seeds in old reports keep their meaning. */
Test(base_rand, is_splitmix64_to_the_bit)
{
	struct rand_state r;

	rand_seed(&r, 1234567);
	cr_assert_eq(rand_u64(&r), 6457827717110365317u);
	cr_assert_eq(rand_u64(&r), 3203168211198807973u);
	cr_assert_eq(rand_u64(&r), 9817491932198370423u);
}

Test(base_rand, below_a_bound_and_reaching_all_of_it)
{
	struct rand_state r;
	uint32_t seen = 0;

	rand_seed(&r, 1);
	for (int i = 0; i < 1000; i++) {
		uint64_t v = rand_below(&r, 10);

		cr_assert_lt(v, 10);
		seen |= 1u << v;
	}
	cr_assert_eq(seen, 0x3ffu);
}

/* Frozen: these values decide where names lie on flash. */
Test(base_hash, is_xxh3_with_seed_to_the_bit)
{
	cr_assert_eq(hash_bytes(0, "", 0), 0x2d06800538d394c2u);
	cr_assert_neq(hash_bytes(0, "a", 1), hash_bytes(1, "a", 1));
	cr_assert_neq(hash_bytes(0, "a", 1), hash_bytes(0, "a", 2));
	cr_assert_eq(hash_u64(3, 4), hash_bytes(3, "\4\0\0\0\0\0\0\0", 8));
	for (uint64_t v = 1, seed = 0; seed < 1000; v = v * 0x9e3779b97f4a7c15 + 1, seed++)
		cr_assert_eq(hash_u64(seed * v, v), hash_bytes(seed * v, &v, sizeof(v)));
}

Test(base_le, first_byte_is_the_lowest)
{
	le32 v = le32_of(0x04030201);

	cr_assert_eq(memcmp(&v, "\1\2\3\4", 4), 0);
	cr_assert_eq(le32_get(v), 0x04030201);
	cr_assert_eq(le16_get(le16_of(0xfffe)), 0xfffe);
	cr_assert_eq(le64_get(le64_of(UINT64_MAX)), UINT64_MAX);
}

static ssize_t logged(char *into, size_t size, enum log_level level, const char *text)
{
	int fd[2], stderr_was = dup(STDERR_FILENO);
	ssize_t got;

	cr_assert_eq(pipe(fd), 0);
	cr_assert_geq(dup2(fd[1], STDERR_FILENO), 0);
	log_line(level, "%s", text);
	cr_assert_geq(dup2(stderr_was, STDERR_FILENO), 0);
	close(fd[1]);
	close(stderr_was);
	got = read(fd[0], into, size - 1);
	close(fd[0]);
	into[got > 0 ? got : 0] = 0;
	return got;
}

Test(base_log, a_line_has_program_and_level)
{
	char line[200];

	cr_assert_gt(logged(line, sizeof(line), LOG_WARN, "it rains"), 0);
	cr_assert_eq(
		strncmp(line, program_invocation_short_name, strlen(program_invocation_short_name)),
		0);
	cr_assert_str_eq(strchr(line, ':'), ": warning: it rains\n");
}

Test(base_log, a_line_for_the_journal_begins_with_its_priority)
{
	static const char *const wanted[] = {
		[LOG_ERROR] = "<3>it rains\n",
		[LOG_WARN] = "<4>it rains\n",
		[LOG_INFO] = "<6>it rains\n",
		[LOG_DEBUG] = "<7>it rains\n",
	};
	char line[200];

	log_level_set(LOG_DEBUG);
	log_style_set(LOG_STYLE_JOURNAL);
	for (int level = LOG_ERROR; level <= LOG_DEBUG; level++) {
		cr_assert_gt(logged(line, sizeof(line), (enum log_level)level, "it rains"), 0);
		cr_expect_str_eq(line, wanted[level]);
	}
}

/* A file's name may have any byte but 0 and /. */
Test(base_log, a_line_stays_one_line_whatever_it_quotes)
{
	char line[200];

	log_style_set(LOG_STYLE_JOURNAL);
	cr_assert_gt(logged(line, sizeof(line), LOG_WARN, "/a\n<3>b\x1b[2J\x7f\t\xc3\xa9"), 0);
	cr_expect_str_eq(line, "<4>/a?<3>b?[2J??\xc3\xa9\n");
}

Test(base_log, elsewhere_a_line_begins_with_its_time)
{
	char line[200], date[20];
	time_t before = (time_t)(clock_wall_ns() / NS_PER_S), at;
	struct tm tm = { 0 };

	log_style_set(LOG_STYLE_TIME);
	cr_assert_gt(logged(line, sizeof(line), LOG_WARN, "it rains"), 0);
	cr_assert_not_null(strptime(line, "%Y-%m-%dT%H:%M:%S", &tm), "%s", line);
	at = timegm(&tm);
	cr_expect(at >= before && at <= (time_t)(clock_wall_ns() / NS_PER_S), "%s", line);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", gmtime(&at));
	cr_expect_eq(strncmp(line, date, 19), 0, "%s", line);
	cr_expect(line[19] == '.' && line[23] == 'Z' && line[24] == ' ', "%s", line);
	cr_expect_eq(strncmp(line + 25, program_invocation_short_name,
			     strlen(program_invocation_short_name)),
		     0, "%s", line);
	cr_expect_not_null(strstr(line, ": warning: it rains\n"), "%s", line);
}

Test(base_log, only_the_stream_that_JOURNAL_STREAM_names_is_the_journal)
{
	char text[64];
	struct stat st;

	unsetenv("JOURNAL_STREAM");
	cr_expect_eq(log_style_of_stderr(), LOG_STYLE_TIME);
	cr_assert_eq(fstat(STDERR_FILENO, &st), 0);
	snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", text, 1);
	cr_expect_eq(log_style_of_stderr(), LOG_STYLE_JOURNAL);
	snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino + 1);
	setenv("JOURNAL_STREAM", text, 1);
	cr_expect_eq(log_style_of_stderr(), LOG_STYLE_TIME);
	setenv("JOURNAL_STREAM", "no numbers", 1);
	cr_expect_eq(log_style_of_stderr(), LOG_STYLE_TIME);
}

Test(base_log, what_is_above_the_level_is_counted_but_not_written)
{
	char line[200];
	uint64_t before = log_thread_count();

	cr_assert_eq(logged(line, sizeof(line), LOG_DEBUG, "chatter"), 0);
	log_level_set(LOG_DEBUG);
	cr_assert_gt(logged(line, sizeof(line), LOG_DEBUG, "chatter"), 0);
	cr_assert_eq(log_thread_count(), before + 2);
}

Test(base_log, a_long_line_is_cut_and_still_ends)
{
	static char text[5000], line[6000];
	ssize_t got;

	memset(text, 'x', sizeof(text) - 1);
	got = logged(line, sizeof(line), LOG_ERROR, text);
	cr_assert_gt(got, 900);
	cr_assert_leq(got, 1024);
	cr_assert_eq(line[got - 1], '\n');
}
