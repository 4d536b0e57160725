import { test } from "node:test";
import assert from "node:assert/strict";
import { newHistory, record, firstProbe, nextProbe, eventsOf, changeTime } from "../../assets/lib/history.js";

const at = (version, type = "MODIFIED") => ({ type, object: { metadata: { resourceVersion: version } } });

test("versions are kept once, newest first, and only so many", () => {
  const history = newHistory(3);
  for (const version of ["5", "7", "10", "7", "6"]) record(history, at(version));
  assert.deepEqual(history.versions.map(({ version }) => version), ["10", "7", "6"]);
  assert.equal(history.dropped, 1);
  assert.equal(record(history, at("11", "BOOKMARK")), false);
  assert.equal(record(history, { type: "ADDED", object: null }), false);
  assert.equal(record(history, at("10", "DELETED")), true);
});

// Runs the search against a server that has everything from `oldest` on.
function probe(current, oldest) {
  let state = firstProbe(current);
  let count = 0;
  while (state.at !== null) {
    count += 1;
    state = nextProbe(state, BigInt(state.at) >= BigInt(oldest));
  }
  return { best: state.best, count };
}

test("the oldest place is found in few requests", () => {
  assert.deepEqual(probe("100", "1"), { best: "1", count: 1 });
  const { best, count } = probe("1000000", "990000");
  assert.ok(Number(best) >= 990000 && Number(best) < 992000, best);
  assert.ok(count <= 24, String(count));
  assert.equal(probe("1000000000000", "1000000000000").count <= 24, true);
  assert.equal(firstProbe("not-a-number").at, null);
});

test("a replayed watch is read, and one that has expired says so", () => {
  const text = '{"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}}\n{"type":"ERROR","object":{"code":410}}\n';
  const { events, expired } = eventsOf(text);
  assert.equal(events.length, 1);
  assert.equal(expired, true);
  assert.deepEqual(eventsOf("{broken\n"), { events: [], expired: false });
});

test("the time of a change is its latest manager's", () => {
  assert.equal(changeTime({ metadata: { creationTimestamp: "a", managedFields: [{ time: "2026-01-02" }, { time: "2026-01-01" }, null] } }), "2026-01-02");
  assert.equal(changeTime({ metadata: { creationTimestamp: "a" } }), "a");
  assert.equal(changeTime(null), null);
});
