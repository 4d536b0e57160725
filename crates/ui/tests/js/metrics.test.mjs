import assert from "node:assert/strict";
import test from "node:test";

import {
  boundsOf, checks, flowRows, gauges, gaugeSum, growth, has, labelsOf, longRunningRows, observer, parse, quantile,
  requestRows, requestTotals, sparkline, webhookRows, windowOf,
} from "../../assets/lib/metrics.js";

const total = (code, value, verb = "GET") =>
  `apiserver_request_total{verb="${verb}",group="apps",resource="deployments",subresource="",code="${code}"} ${value}\n`;
const bucket = (le, value, verb = "GET") =>
  `apiserver_request_duration_seconds_bucket{verb="${verb}",group="apps",resource="deployments",subresource="",le="${le}"} ${value}\n`;
const step = (before, after, seconds = 10) => ({ time: 10_000, seconds, grown: growth(parse(before), parse(after)) });

test("keeps the families that are shown and no others", () => {
  const { samples } = parse(`# HELP apiserver_request_total x\n# TYPE apiserver_request_total counter\n${total(200, 3)}go_goroutines 12\n`);
  assert.deepEqual([...samples.keys()], ["apiserver_request_total"]);
});

test("reads values with exponents, timestamps, exemplars and without a last line break", () => {
  const text = 'apiserver_current_inflight_requests{request_kind="a"} 1.5e+01 1700000000000\n'
    + 'apiserver_current_inflight_requests{request_kind="b"} 2 # {trace="x"} 1\nprocess_start_time_seconds 7';
  const snapshot = parse(text);
  assert.equal(gaugeSum(snapshot, "apiserver_current_inflight_requests"), 17);
  assert.equal(snapshot.start, 7);
});

test("braces, quotes and line breaks in a label are text", () => {
  const [found] = gauges(parse('apiserver_longrunning_requests{verb="a}b",resource="c\\"d\\\\e\\nf"} 4\n'), "apiserver_longrunning_requests");
  assert.equal(found.value, 4);
  assert.deepEqual({ ...found.labels }, { verb: "a}b", resource: 'c"d\\e\nf' });
});

test("a label called __proto__ is a label", () => {
  const labels = labelsOf('__proto__="x",verb="GET"');
  assert.equal(Object.getPrototypeOf(labels), null);
  assert.equal(labels.verb, "GET");
});

test("lines that are no samples are passed over", () => {
  for (const line of ["", "apiserver_request_total", 'apiserver_request_total{verb="GET"', "apiserver_request_total ", "apiserver_request_total{} x", "<html>"]) {
    assert.equal(parse(`${line}\n`).samples.size, 0, line);
  }
});

test("rates are growth over time, and failures are told from refusals", () => {
  const rows = requestRows([step(total(200, 100) + total(404, 1), total(200, 150) + total(404, 11) + total(500, 20))], []);
  assert.equal(rows.length, 1);
  assert.deepEqual([rows[0].rate, rows[0].refusals, rows[0].failures], [8, 1, 2]);
});

test("a counter that went back began again", () => {
  const [row] = requestRows([step(total(200, 1000), total(200, 30))], []);
  assert.equal(row.rate, 3);
});

test("what did not grow has no row", () => {
  assert.deepEqual(requestRows([step(total(200, 5), total(200, 5))], []), []);
});

test("quantiles come from what the buckets grew by", () => {
  const before = bucket("0.1", 1000) + bucket("1", 1000) + bucket("+Inf", 1000);
  const after = bucket("0.1", 1000) + bucket("1", 1100) + bucket("+Inf", 1100);
  const bounds = boundsOf(parse(after), "apiserver_request_duration_seconds");
  assert.deepEqual(bounds, [0.1, 1, Infinity]);
  const [row] = requestRows([step(before + total(200, 0), after + total(200, 100))], bounds);
  assert.ok(Math.abs(row.p50 - 0.55) < 1e-9, String(row.p50));
  assert.ok(Math.abs(row.p99 - 0.991) < 1e-9, String(row.p99));
});

test("a quantile beyond the last bound is that bound, and of nothing there is none", () => {
  assert.equal(quantile(0.99, new Map([[1, 10], [Infinity, 100]]), [1, Infinity]), 1);
  assert.equal(quantile(0.5, new Map(), [1, Infinity]), null);
});

test("how long watches last does not count as latency", () => {
  const [row] = requestRows([step("", bucket("60", 0, "WATCH") + bucket("+Inf", 5, "WATCH") + total(200, 5, "WATCH"))], [60, Infinity]);
  assert.equal(row.p99, null);
  assert.equal(requestTotals([step("", bucket("+Inf", 5, "WATCH"))], [60, Infinity]).p99, null);
});

test("bounds are found wherever the label stands", () => {
  const text = 'apiserver_request_duration_seconds_bucket{le="5.0",verb="GET"} 1\napiserver_request_duration_seconds_bucket{verb="GET"} 1\n';
  assert.deepEqual(boundsOf(parse(text), "apiserver_request_duration_seconds"), [5]);
});

test("a look is compared with the last one at the same process", () => {
  const seen = observer();
  const text = (start, count) => `process_start_time_seconds ${start}\n${total(200, count)}`;
  assert.equal(seen.look(text(100, 10), 0).step, null);
  assert.equal(requestRows([seen.look(text(100, 20), 1000).step], [])[0].rate, 10);
  // Another replica, older: nothing to compare with yet, and then only with itself.
  const other = seen.look(text(50, 5000), 2000);
  assert.deepEqual([other.step, other.began], [null, "other"]);
  assert.equal(requestRows([seen.look(text(100, 50), 4000).step], [])[0].rate, 10);
  assert.equal(requestRows([seen.look(text(50, 5009), 5000).step], [])[0].rate, 3);
  // A younger process is a restart.
  const again = seen.look(text(200, 1), 6000);
  assert.deepEqual([again.step, again.began, seen.processes], [null, "restart", 1]);
});

test("without a start time a restart shows in counters only", () => {
  const seen = observer();
  seen.look(total(200, 100), 0);
  const { step: last, began } = seen.look(total(200, 4), 2000);
  assert.equal(began, null);
  assert.equal(requestRows([last], [])[0].rate, 2);
});

test("a window holds the steps that began within it, and always the last", () => {
  const steps = [10, 20, 30, 40].map((at) => ({ time: at * 1000, seconds: 10, grown: new Map() }));
  assert.deepEqual(windowOf(steps, 20).map((one) => one.time), [30_000, 40_000]);
  assert.deepEqual(windowOf(steps, 1).map((one) => one.time), [40_000]);
  assert.deepEqual(windowOf([], 20), []);
});

test("open watches come with what they were told", () => {
  const text = 'apiserver_longrunning_requests{verb="WATCH",group="",resource="pods",scope="cluster",subresource=""} 3\n'
    + 'apiserver_longrunning_requests{verb="WATCH",group="",resource="pods",scope="namespace",subresource=""} 2\n'
    + 'apiserver_longrunning_requests{verb="CONNECT",group="",resource="pods",scope="resource",subresource="exec"} 1\n'
    + 'apiserver_longrunning_requests{verb="WATCH",group="",resource="nodes",scope="cluster",subresource=""} 0\n'
    + 'apiserver_watch_events_total{group="",resource="pods",version="v1"} 40\n';
  const rows = longRunningRows(parse(text), [step("", text)]);
  assert.deepEqual(rows.map(({ verb, resource, open, events }) => [verb, resource, open, events]), [["WATCH", "pods", 5, 4], ["CONNECT", "pods", 1, null]]);
});

test("flow control by priority level", () => {
  const flow = (name, labels, value) => `apiserver_flowcontrol_${name}{${labels}} ${value}\n`;
  const text = flow("nominal_limit_seats", 'priority_level="low"', 10) + flow("nominal_limit_seats", 'priority_level="idle"', 3)
    + flow("current_limit_seats", 'priority_level="low"', 12)
    + flow("current_executing_seats", 'flow_schema="a",priority_level="low"', 4) + flow("current_executing_seats", 'flow_schema="b",priority_level="low"', 5)
    + flow("current_inqueue_requests", 'flow_schema="a",priority_level="low"', 7)
    + flow("dispatched_requests_total", 'flow_schema="a",priority_level="low"', 50)
    + flow("rejected_requests_total", 'flow_schema="a",priority_level="low",reason="queue-full"', 20)
    + flow("request_wait_duration_seconds_bucket", 'priority_level="low",le="0.5"', 10) + flow("request_wait_duration_seconds_bucket", 'priority_level="low",le="+Inf"', 10);
  const [idle, low] = flowRows(parse(text), [step("", text)]);
  assert.deepEqual([idle.name, idle.limit, idle.seats, idle.wait], ["idle", 3, 0, null]);
  assert.deepEqual([low.limit, low.seats, low.waiting, low.dispatched, low.rejected, low.reasons, low.wait], [12, 9, 7, 5, 2, ["queue-full"], 0.495]);
});

test("webhooks: refusals are told from failures, and idle ones are listed", () => {
  const hook = (name, labels, value) => `apiserver_admission_webhook_${name}{name="w",type="admit",${labels}} ${value}\n`;
  const before = hook("admission_duration_seconds_bucket", 'le="0.1"', 10) + hook("admission_duration_seconds_bucket", 'le="+Inf"', 10)
    + 'apiserver_admission_webhook_request_total{name="idle",type="admit",code="200"} 4\n';
  const after = hook("admission_duration_seconds_bucket", 'le="0.1"', 30) + hook("admission_duration_seconds_bucket", 'le="+Inf"', 30)
    + hook("rejection_count", 'error_type="no_error",rejection_code="403"', 10) + hook("rejection_count", 'error_type="calling_webhook_error",rejection_code="0"', 20)
    + hook("fail_open_count", 'operation="CREATE"', 5) + 'apiserver_admission_webhook_request_total{name="idle",type="admit",code="200"} 4\n';
  const rows = webhookRows(parse(after), [step(before, after)]);
  const found = rows.get("w");
  assert.deepEqual([found.rate, found.rejected, found.failed, found.open], [2, 1, 2, 0.5]);
  assert.ok(found.p50 > 0.04 && found.p50 < 0.06);
  assert.equal(rows.get("idle").rate, 0);
});

test("what a server does not tell is null, not zero", () => {
  const snapshot = parse(total(200, 1));
  assert.equal(gaugeSum(snapshot, "process_resident_memory_bytes"), null);
  assert.equal(has(snapshot, "apiserver_flowcontrol_"), false);
  assert.equal(has(snapshot, "apiserver_request_"), true);
});

test("checks of readyz", () => {
  const found = checks("[+]ping ok\n[-]etcd failed: reason withheld\n[+]log excluded: ok\nreadyz check failed\n");
  assert.deepEqual(found.map(({ name, ok, excluded }) => [name, ok, excluded]), [["ping", true, false], ["etcd", false, false], ["log", true, true]]);
});

test("a sparkline has gaps where nothing is known", () => {
  assert.equal(sparkline([0, 2, null, 1], 30, 10), "M0 10L10 0M30 5");
  assert.equal(sparkline([0, 0], 10, 10), "M0 10L10 10");
  assert.equal(sparkline([], 10, 10), "");
});

test("ten megabytes are read in one pass", () => {
  const noise = 'other_metric{a="b",c="d",e="f"} 1\n'.repeat(300_000);
  const snapshot = parse(noise + total(200, 1));
  assert.equal(snapshot.samples.get("apiserver_request_total").size, 1);
});
