/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Metrics over HTTP: who is let in, and the text.  e2e_metrics.sh has the rest. */
#include "appliance/http/app_http_internal.h"
#include "base/num.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN "0123456789abcdef"

Test(app_http, the_host_is_a_number_or_localhost)
{
	static const char *const ours[] = { "127.0.0.1",  "127.0.0.1:9620", "10.1.2.3:80", "[::1]",
					    "[::1]:9620", "localhost",      "LocalHost:1" };
	static const char *const others[] = {
		"",
		":",
		":80",
		"evil.example",
		"localhost.evil.example",
		"127.0.0.1.evil.example",
		"[::1",
		"[::1]x",
		"[]",
		"[::1].evil.example",
		"1",
		"0x7f.1",
		"localhost evil.example",
		"[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0001]",
	};

	cr_assert(http__host_is_ours(NULL));
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		cr_assert(http__host_is_ours(ours[i]), "%s", ours[i]);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		cr_assert_not(http__host_is_ours(others[i]), "%s", others[i]);
}

/* In base64: "me:" TOKEN, ":" TOKEN, TOKEN, "me:" TOKEN "0", "". */
Test(app_http, the_token_is_a_bearer_or_a_password)
{
	static const char *const good[] = {
		"Bearer " TOKEN,
		"bearer " TOKEN,
		"Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==",
		"basic OjAxMjM0NTY3ODlhYmNkZWY=",
	};
	static const char *const bad[] = {
		"",
		TOKEN,
		"Bearer",
		"Bearer ",
		"Bearer 0123456789abcde",
		"Bearer " TOKEN "0",
		"Bearer  " TOKEN,
		"Basic",
		"Basic ",
		"Basic MDEyMzQ1Njc4OWFiY2RlZg==",
		"Basic bWU6MDEyMzQ1Njc4OWFiY2RlZjA=",
		"Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg=",
		"Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg",
		"Basic ====",
		"Basic a===",
		"Basic \x80\x80\x80\x80",
		"Digest bWU6MDEyMzQ1Njc4OWFiY2RlZg==",
	};
	char huge[4096];

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		cr_assert(http__has_token(good[i], TOKEN), "%s", good[i]);
	cr_assert_not(http__has_token(NULL, TOKEN));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		cr_assert_not(http__has_token(bad[i], TOKEN), "%s", bad[i]);
	memset(huge, 'A', sizeof(huge));
	memcpy(huge, "Basic ", 6);
	huge[sizeof(huge) - 1] = '\0';
	cr_assert_not(http__has_token(huge, TOKEN));
}

Test(app_http, text_grows_to_its_bound_and_fails_then)
{
	static char line[1001];
	struct http__text t = { 0 };
	size_t lines = 0;

	memset(line, 'x', sizeof(line) - 1);
	while (!t.failed && lines < HTTP__TEXT_MAX) {
		http__put(&t, "%s", line);
		lines += !t.failed;
	}
	cr_assert(t.failed);
	cr_assert_gt(lines * 1000, HTTP__TEXT_MAX / 2);
	cr_assert_leq(lines * 1000, HTTP__TEXT_MAX);
	cr_assert_eq(strlen(t.bytes), lines * 1000);
	http__text_free(&t);
}

/* ---- the text ---------------------------------------------------------------------------- */

static struct app_snapshot snapshot;
static const struct http__limits limits = { 64, 32, "1.2", "abc", "release" };

static char *metrics(void)
{
	struct http__text t = { 0 };

	http__metrics(&t, &snapshot, &limits);
	cr_assert_not(t.failed);
	return t.bytes;
}

static void expect_line(const char *text, const char *line)
{
	char whole[512];

	snprintf(whole, sizeof(whole), "\n%s\n", line);
	cr_assert(strstr(text, whole), "no line: %s", line);
}

Test(app_http, a_drive_says_what_it_likes)
{
	struct app_drive_snapshot *d = &snapshot.drive[1];
	char *text;

	snapshot.ndrives = 2;
	d->is_there = true;
	d->failed = true;
	(void)snprintf(d->name, sizeof(d->name), "%s", "file:/a \"b\"\\");
	(void)snprintf(d->info.model, sizeof(d->info.model), "%s", "x\"} 1\nweka_evil 2");
	(void)snprintf(d->info.serial, sizeof(d->info.serial), "%s", "\x01\xff");
	d->has_smart = true;
	d->smart =
		(struct nvme_smart){ .has_temperature = true, .celsius = -5, .used_percent = 101 };
	text = metrics();
	expect_line(text,
		    "weka_drive_info{drive=\"1\",name=\"file:/a \\\"b\\\"\\\\\",model=\"x\\\"} "
		    "1?weka_evil 2\",serial=\"??\"} 1");
	expect_line(text, "weka_drive_health{drive=\"1\",health=\"failed\"} 1");
	expect_line(text, "weka_drive_health{drive=\"1\",health=\"good\"} 0");
	expect_line(text, "weka_drive_temperature_celsius{drive=\"1\"} -5");
	expect_line(text, "weka_drive_wear_ratio{drive=\"1\"} 1.01");
	cr_assert_null(strstr(text, "drive=\"0\""), "there is none");
	free(text);
}

Test(app_http, what_is_not_known_is_not_0)
{
	struct app_drive_snapshot *d = &snapshot.drive[0];
	char *text;

	snapshot.ndrives = 1;
	d->is_missing = true;
	d->store.missing = true;
	d->info.nblocks = 10;
	text = metrics();
	expect_line(text, "weka_drive_size_bytes{drive=\"0\"} 40960");
	expect_line(text, "weka_drive_state{drive=\"0\",state=\"missing\"} 1");
	cr_assert_null(strstr(text, "weka_drive_temperature_celsius{"));
	cr_assert_null(strstr(text, "weka_drive_errors_total{"));
	free(text);
}

Test(app_http, buckets_add_up)
{
	struct app_latency *l = &snapshot.latency[APP_RDMA][FAB_READ_BATCH];
	char *text;

	app_latency_add(l, 15999);
	app_latency_add(l, 16000);
	app_latency_add(l, 3000000);
	app_latency_add(l, 1000ull << 34);
	text = metrics();
#define OF "request=\"read_batch\",transport=\"rdma\""
	expect_line(text, "weka_request_duration_seconds_bucket{" OF ",le=\"0.000016\"} 1");
	expect_line(text, "weka_request_duration_seconds_bucket{" OF ",le=\"0.000032\"} 2");
	expect_line(text, "weka_request_duration_seconds_bucket{" OF ",le=\"0.002048\"} 2");
	expect_line(text, "weka_request_duration_seconds_bucket{" OF ",le=\"0.004096\"} 3");
	expect_line(text, "weka_request_duration_seconds_bucket{" OF ",le=\"16.777216\"} 3");
	expect_line(text, "weka_request_duration_seconds_bucket{" OF ",le=\"+Inf\"} 4");
	expect_line(text, "weka_request_duration_seconds_count{" OF "} 4");
	free(text);
}

Test(app_http, the_largest_text_fits)
{
	char *text;

	snapshot.ndrives = META_DRIVES_MAX;
	snapshot.cores = APP_CORES_MAX;
	for (uint32_t i = 0; i < META_DRIVES_MAX; i++) {
		snapshot.drive[i].is_there = snapshot.drive[i].has_smart = true;
		snapshot.drive[i].smart.has_temperature = true;
		memset(snapshot.drive[i].name, '"', sizeof(snapshot.drive[i].name) - 1);
		memset(snapshot.drive[i].info.model, '"', sizeof(snapshot.drive[i].info.model) - 1);
		memset(&snapshot.drive[i].counts, 0xff, sizeof(snapshot.drive[i].counts));
	}
	memset(snapshot.latency, 0x7f, sizeof(snapshot.latency));
	text = metrics();
	cr_assert_gt(strlen(text), 250000);
	free(text);
	/* And as JSON, into what FAB_STATUS has for it. */
	text = malloc(APP_SNAPSHOT_JSON_BYTES);
	for (uint32_t i = 0; i < META_DRIVES_MAX; i++)
		memset(snapshot.drive[i].name, 'x', sizeof(snapshot.drive[i].name) - 1);
	memset(snapshot.client, 'x', sizeof(snapshot.client));
	snapshot.clients = APP_CLIENTS_MAX;
	for (uint32_t i = 0; i < APP_CLIENTS_MAX; i++) {
		snapshot.client[i].over = APP_RDMA;
		snapshot.client[i].key[FAB_KEY_ID_MAX] = '\0';
		snapshot.client[i].peer[sizeof(snapshot.client[i].peer) - 1] = '\0';
		snapshot.client[i].report.dataset[FAB_REPORT_DATASET - 1] = '\0';
		snapshot.client[i].report.verdict[FAB_REPORT_VERDICT - 1] = '\0';
	}
	cr_assert_lt(app_snapshot_json(&snapshot, APP_SHOW_DRIVES | APP_SHOW_CLIENTS, text,
				       APP_SNAPSHOT_JSON_BYTES),
		     APP_SNAPSHOT_JSON_BYTES - 1);
	free(text);
}
