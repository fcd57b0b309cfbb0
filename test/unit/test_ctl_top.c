/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The figures between two statuses: clients, percentiles, cores; and the page. */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_space.h"
#include "appliance/ctl/ctl_top_text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(ctl_top, .timeout = 30);

static json_t *parse(const char *json)
{
	json_error_t why;
	json_t *o = json_loads(json, 0, &why);

	cr_assert_not_null(o, "%s", why.text);
	return o;
}

#define CLIENT(session, lane, key, requests, read)                                                 \
	"{\"session\":\"" session "\",\"lane\":" lane ",\"core\":0,\"transport\":\"tcp\","         \
	"\"key\":\"" key "\",\"peer\":\"10.0.0.7:" lane "\",\"connected_ns\":2000000000,"          \
	"\"requests\":" requests ",\"read_bytes\":" read ",\"written_bytes\":0,\"credits\":64,"    \
	"\"running\":1,\"queued\":2,\"opens\":3}"

Test(ctl_top, lanes_of_one_client_are_one_row)
{
	json_t *now = parse("{\"clients\":[" CLIENT("a", "1", "ann", "5", "50") "," CLIENT(
		"a", "0", "ann", "7", "70") "," CLIENT("b", "0", "bob", "1", "10") "]}");
	struct ctl_client *clients;

	cr_assert_eq(ctl_clients_of(now, NULL, &clients), 2);
	cr_assert_str_eq(clients[0].key.s, "ann");
	cr_assert_str_eq(clients[0].peer.s, "10.0.0.7:0", "of the first lane, whatever the order");
	cr_assert_eq(clients[0].connections, 2);
	cr_assert_eq(clients[0].requests, 12);
	cr_assert_eq(clients[0].read_bytes, 120);
	cr_assert_eq(clients[0].credits, 128);
	cr_assert_eq(clients[0].queued, 4);
	cr_assert_eq(clients[0].connected_s, 2);
	free(clients);
	json_decref(now);
}

Test(ctl_top, a_client_did_what_its_counters_grew_by)
{
	json_t *before = parse("{\"clients\":[" CLIENT("z", "0", "zoe", "9", "9") "," CLIENT(
		"a", "0", "ann", "100", "1000") "]}");
	json_t *now = parse("{\"clients\":[" CLIENT("a", "0", "ann", "130", "4000") "," CLIENT(
		"b", "0", "bob", "40", "10") "]}");
	struct ctl_client *clients;

	cr_assert_eq(ctl_clients_of(now, before, &clients), 2, "who has left is not there");
	ctl_clients_sort(clients, 2, CTL_BY_REQUESTS);
	cr_assert_str_eq(clients[0].key.s, "bob", "who has come did all that he did");
	cr_assert_eq(clients[0].requests, 40);
	cr_assert_eq(clients[1].requests, 30);
	ctl_clients_sort(clients, 2, CTL_BY_READ);
	cr_assert_str_eq(clients[0].key.s, "ann");
	cr_assert_eq(clients[0].read_bytes, 3000);
	ctl_clients_sort(clients, 2, CTL_BY_KEY);
	cr_assert_str_eq(clients[0].key.s, "ann");
	free(clients);
	json_decref(now);
	json_decref(before);
}

/* 100 requests: 98 of 4 or 5 us, 1 of 16 to 23 us, 1 of 64 to 95 us. */

Test(ctl_top, percentiles_are_of_what_came_between)
{
	json_t *now = parse("{\"latency\":[{\"transport\":\"tcp\",\"request\":\"read\",\"buckets\":"
			    "[0,0,0,0,98,0,0,0,1,0,0,0,4]},{\"transport\":\"shm\",\"request\":"
			    "\"ping\",\"buckets\":[7]}]}");
	json_t *before = parse("{\"latency\":[{\"transport\":\"tcp\",\"request\":\"read\","
			       "\"buckets\":[0,0,0,0,0,0,0,0,0,0,0,0,3]},{\"transport\":\"shm\","
			       "\"request\":\"ping\",\"buckets\":[7]}]}");
	struct ctl_kind kinds[CTL_KINDS_MAX];

	cr_assert_eq(ctl_kinds_of(now, before, kinds), 1, "no ping came");
	cr_assert_str_eq(kinds[0].request.s, "read");
	cr_assert_eq(kinds[0].count, 100);
	cr_assert_lt(fabs(kinds[0].p50_us - (4 + 2 * 50 / 98.0)), 0.001);
	cr_assert_lt(fabs(kinds[0].p99_us - 24), 0.001);
	cr_assert(kinds[0].p999_us > 64 && kinds[0].p999_us <= 96);
	json_decref(now);
	json_decref(before);
}

Test(ctl_top, kinds_over_two_transports_are_one)
{
	json_t *now =
		parse("{\"latency\":[{\"transport\":\"tcp\",\"request\":\"read\",\"buckets\":"
		      "[1]},{\"transport\":\"shm\",\"request\":\"read\",\"buckets\":[0,2]},"
		      "{\"transport\":\"shm\",\"request\":\"stat\",\"buckets\":[9,\"x\",-4]}]}");
	struct ctl_kind kinds[CTL_KINDS_MAX];

	cr_assert_eq(ctl_kinds_of(now, NULL, kinds), 2);
	cr_assert_str_eq(kinds[0].request.s, "stat", "the most frequent first");
	cr_assert_eq(kinds[0].count, 9);
	cr_assert_eq(kinds[1].count, 3);
	json_decref(now);
}

Test(ctl_top, parts_of_a_cores_time_are_all_of_it)
{
	json_t *before = parse("{\"cores\":[{\"slept_ns\":1000,\"spun_ns\":0},{}]}");
	json_t *now = parse("{\"cores\":[{\"slept_ns\":500001000,\"spun_ns\":250000000},"
			    "{\"slept_ns\":99000000000,\"spun_ns\":5}]}");
	struct ctl_core_time t = ctl_core_time(now, before, 0, 1);

	cr_assert(fabs(t.asleep - 50) < 0.01 && fabs(t.polling - 25) < 0.01 &&
		  fabs(t.busy - 25) < 0.01);
	t = ctl_core_time(now, before, 1, 1);
	cr_assert(t.asleep <= 100 && t.busy >= 0 && t.polling >= 0, "a long sleep has just ended");
	t = ctl_core_time(now, before, 7, 1);
	cr_assert(t.busy <= 100, "one that is not there");
	json_decref(now);
	json_decref(before);
}

/* ---- the page ------------------------------------------------------------------------------ */

static json_t *busy_appliance(uint32_t drives, uint32_t clients, uint32_t cores, uint64_t seconds)
{
	json_t *o = json_pack("{s:{s:I},s:{s:I,s:I},s:{s:I},s:I}", "core", "uptime_ns",
			      (json_int_t)(seconds * 1000000000), "bytes", "read",
			      (json_int_t)(seconds * 1500000000), "written", (json_int_t)0,
			      "fabric", "requests", (json_int_t)(seconds * 250), "items",
			      (json_int_t)(seconds * 12345));
	json_t *list = json_array();

	for (uint32_t i = 0; i < drives; i++)
		json_array_append_new(
			list, json_pack("{s:i,s:s,s:s,s:s,s:i}", "number", (int)i, "state",
					i ? "serving" : "draining", "health", "good", "name",
					"file:/somewhere/that/has/a/very/long/name/d?size=2G",
					"celsius", 41));
	json_object_set_new(o, "drives", list);
	list = json_array();
	for (uint32_t i = 0; i < clients; i++) {
		char session[16];

		snprintf(session, sizeof(session), "%x", i);
		json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s,s:I}", "session", session,
						      "key", "a-key-with-a-name-that-is-long",
						      "transport", "rdma", "peer",
						      "[2001:db8:ffff:ffff:ffff:ffff:ffff:1]:65535",
						      "requests", (json_int_t)(seconds * i)));
	}
	json_object_set_new(o, "clients", list);
	list = json_array();
	for (uint32_t i = 0; i < cores; i++)
		json_array_append_new(list, json_object());
	json_object_set_new(o, "cores", list);
	list = json_array();
	for (uint32_t i = 0; i < 5; i++)
		json_array_append_new(list, json_pack("{s:s}", "text",
						      "Drive \x01 is dead, and that "
						      "is a long story which does not fit a line"));
	json_object_set_new(o, "alarms", list);
	return o;
}

static char *page_of(const json_t *now, const json_t *before, const struct ctl_top_view *view)
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	cr_assert_not_null(f);
	ctl_top_page(f, now, before, view);
	fclose(f);
	return text;
}

Test(ctl_top, a_page_fits_any_terminal)
{
	json_t *before = busy_appliance(64, 256, 16, 100), *now = busy_appliance(64, 256, 16, 102);

	for (uint32_t columns = 20; columns < 200; columns += 15)
		for (uint32_t rows = 1; rows < 400; rows += rows < 30 ? 1 : 37) {
			struct ctl_top_view view = { CTL_BY_READ, true, true, columns, rows };
			char *text = page_of(now, before, &view), *at = text;
			uint32_t count = 0;

			for (; *at; count++) {
				const size_t bytes = strcspn(at, "\n");

				cr_assert_leq(bytes, columns, "%.*s", (int)bytes, at);
				for (size_t i = 0; i < bytes; i++)
					cr_assert(at[i] >= ' ' && at[i] <= '~');
				at += bytes + 1;
			}
			cr_assert_leq(count, rows);
			free(text);
		}
	json_decref(now);
	json_decref(before);
}

Test(ctl_top, a_page_of_80_by_24)
{
	static const struct ctl_top_view view = { CTL_BY_REQUESTS, false, true, 80, 24 };
	json_t *before = busy_appliance(12, 40, 2, 100), *now = busy_appliance(12, 40, 2, 102);
	char *text = page_of(now, before, &view);

	cr_expect(strstr(text, "up 1 min 42 s; 40 clients, by requests") == text, "%s", text);
	cr_expect(strstr(text, "q quit, p pause, s sort\n"), "%s", text);
	cr_expect(strstr(text, "! Drive ? is dead"), "%s", text);
	cr_expect(strstr(text, "! and 3 more: see wekactl status"), "%s", text);
	cr_expect(strstr(text, "read          1.5 GB/s"), "%s", text);
	cr_expect(strstr(text, "items      12.3 k/s"), "%s", text);
	cr_expect(strstr(text, "core busy   100 %  100 %\n"), "%s", text);
	cr_expect(strstr(text, "    0 draining"), "%s", text);
	cr_expect(strstr(text, "drives not shown: 9"), "%s", text);
	cr_expect(strstr(text, "a-key-with-a rdma       39"), "the busiest: %s", text);
	cr_expect(strstr(text, "clients not shown: "), "%s", text);
	free(text);
	json_decref(now);
	json_decref(before);
}

Test(ctl_top, a_status_of_anything_is_no_harm)
{
	static const char *const odd[] = { "{}", "[]",
					   "{\"clients\":5,\"drives\":{},\"cores\":\"x\"}",
					   "{\"clients\":[1,{},\"x\"],\"drives\":[null],"
					   "\"cores\":[7],\"latency\":[{\"buckets\":{}},[]],"
					   "\"alarms\":[3]}" };
	static const struct ctl_top_view view = { CTL_BY_KEY, false, false, 80, 0 };

	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < 4; k++) {
			json_t *now = parse(odd[i]), *before = parse(odd[k]);
			json_t *o = ctl_top_json(now, before, CTL_BY_READ);
			char *text = page_of(now, before, &view);

			cr_assert_gt(strlen(text), 0);
			cr_assert(json_is_array(json_object_get(o, "clients")));
			free(text);
			json_decref(o);
			json_decref(now);
			json_decref(before);
		}
}

/* ---- space --------------------------------------------------------------------------------- */

Test(ctl_top, the_parts_of_the_space_are_all_of_it)
{
	json_t *o = parse("{\"store\":{\"zone_bytes\":1000,\"zones_total\":100,\"zones_free\":60,"
			  "\"zones_log\":3,\"live_file_bytes\":20000,\"live_index_bytes\":1000,"
			  "\"free_bytes\":55000}}");
	struct ctl_space s;

	ctl_space_of(o, &s);
	cr_assert_eq(s.drives_bytes, 100000);
	cr_assert_eq(s.log_bytes, 3000);
	cr_assert_eq(s.dead_bytes, 16000);
	cr_assert_eq(s.empty_bytes, 60000);
	cr_assert_eq(s.files_bytes + s.index_bytes + s.log_bytes + s.dead_bytes + s.empty_bytes,
		     s.drives_bytes);
	cr_assert_eq(s.free_bytes + s.kept_bytes, s.dead_bytes + s.empty_bytes);
	json_decref(o);
	o = parse("{\"store\":{\"zone_bytes\":1000,\"zones_total\":1,\"zones_free\":9,"
		  "\"live_file_bytes\":20000,\"free_bytes\":55000}}");
	ctl_space_of(o, &s);
	cr_assert_eq(s.kept_bytes, 0, "figures that cannot be do not wrap around");
	json_decref(o);
}
