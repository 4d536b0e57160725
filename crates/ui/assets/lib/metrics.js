// What /metrics of an API server says, between two looks at it.
//
// A document can be megabytes long. `parse` goes over it once and keeps the samples of the families below by the text of
// their labels; labels are taken apart only for samples that changed (`growth`) or are asked for (`gauges`).

// Families whose growth is of interest, and those whose value is.
const COUNTERS = [
  "apiserver_request_total",
  "apiserver_request_duration_seconds_bucket",
  "apiserver_watch_events_total",
  "apiserver_flowcontrol_dispatched_requests_total",
  "apiserver_flowcontrol_rejected_requests_total",
  "apiserver_flowcontrol_request_wait_duration_seconds_bucket",
  "apiserver_admission_webhook_admission_duration_seconds_bucket",
  "apiserver_admission_webhook_request_total",
  "apiserver_admission_webhook_rejection_count",
  "apiserver_admission_webhook_fail_open_count",
  "aggregator_unavailable_apiservice_total",
  "process_cpu_seconds_total",
];
const GAUGES = [
  "apiserver_longrunning_requests",
  "apiserver_current_inflight_requests",
  "apiserver_flowcontrol_nominal_limit_seats",
  "apiserver_flowcontrol_current_limit_seats",
  "apiserver_flowcontrol_current_executing_seats",
  "apiserver_flowcontrol_current_executing_requests",
  "apiserver_flowcontrol_current_inqueue_requests",
  "process_start_time_seconds",
  "process_resident_memory_bytes",
];
const FAMILIES = new Set([...COUNTERS, ...GAUGES]);
const BUCKET = "_bucket";

// Requests that last as long as their clients like: their duration says nothing of the server.
const LONG_RUNNING = new Set(["WATCH", "WATCHLIST", "CONNECT", "PROXY"]);

// {samples: Map(name → Map(text of the labels → value)), start: when the process began, in seconds, or null}
export function parse(text) {
  const samples = new Map();
  for (let at = 0; at < text.length;) {
    const newline = text.indexOf("\n", at);
    const end = newline < 0 ? text.length : newline;
    if (text.charCodeAt(at) !== 0x23) readSample(text.slice(at, end), samples);
    at = end + 1;
  }
  const start = samples.get("process_start_time_seconds")?.get("");
  return { samples, start: start > 0 ? start : null };
}

// name{labels} value [timestamp] [# exemplar]
function readSample(line, samples) {
  const brace = line.indexOf("{");
  const space = line.indexOf(" ");
  const hasLabels = brace >= 0 && (space < 0 || brace < space);
  const nameEnd = hasLabels ? brace : space;
  if (nameEnd < 0) return;
  const name = line.slice(0, nameEnd);
  if (!FAMILIES.has(name)) return;
  const labelsEnd = hasLabels ? closingBrace(line, brace + 1) : nameEnd;
  if (labelsEnd < 0) return;
  const labels = hasLabels ? line.slice(brace + 1, labelsEnd) : "";
  const value = number(line.slice(hasLabels ? labelsEnd + 1 : labelsEnd).trimStart().split(/\s/, 1)[0]);
  if (Number.isNaN(value)) return;
  let family = samples.get(name);
  if (!family) samples.set(name, family = new Map());
  family.set(labels, value);
}

// A brace in a value is text.
function closingBrace(line, from) {
  let quoted = false;
  for (let at = from; at < line.length; at += 1) {
    const char = line[at];
    if (quoted && char === "\\") at += 1;
    else if (char === '"') quoted = !quoted;
    else if (char === "}" && !quoted) return at;
  }
  return -1;
}

function number(text) {
  if (text === "+Inf") return Infinity;
  if (text === "-Inf") return -Infinity;
  return text === "" ? NaN : Number(text);
}

const LABEL = /([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"/g;

// The labels of a text such as `verb="GET",code="200"`.
export function labelsOf(text) {
  const labels = Object.create(null);
  for (const [, name, value] of text.matchAll(LABEL)) {
    labels[name] = value.includes("\\") ? value.replace(/\\(.)/g, (_, char) => (char === "n" ? "\n" : char)) : value;
  }
  return labels;
}

// [{labels, value}] of a family.
export function gauges(snapshot, name) {
  return [...snapshot.samples.get(name) ?? []].map(([text, value]) => ({ labels: labelsOf(text), value }));
}

// The sum of a family by a key that `keyOf` makes of the labels.
export function sumBy(samples, keyOf) {
  const sums = new Map();
  for (const { labels, value } of samples) {
    const key = keyOf(labels);
    sums.set(key, (sums.get(key) ?? 0) + value);
  }
  return sums;
}

// How much each counter grew from one look to the next: Map(name → [{labels, value}]), without those that did not. A
// counter that went back began again, so what it shows now is what it grew by. One that was not there began at zero.
export function growth(before, after) {
  const grown = new Map();
  for (const name of COUNTERS) {
    const now = after.samples.get(name);
    if (!now) continue;
    const was = before.samples.get(name);
    const changes = [];
    for (const [text, value] of now) {
      const previous = was?.get(text) ?? 0;
      const more = value < previous ? value : value - previous;
      if (more > 0) changes.push({ labels: labelsOf(text), value: more });
    }
    if (changes.length > 0) grown.set(name, changes);
  }
  return grown;
}

// The upper bounds of a histogram's buckets in ascending order, Infinity last.
export function boundsOf(snapshot, name) {
  const bounds = new Set();
  for (const text of snapshot.samples.get(name + BUCKET)?.keys() ?? []) {
    const found = /(?:^|,)le="([^"]*)"/.exec(text);
    if (found) bounds.add(number(found[1]));
  }
  bounds.delete(NaN);
  return [...bounds].sort((a, b) => a - b);
}

// The value below which this share of all observations lie, from the counts of observations up to each bound; `null`
// without any. Within a bucket they are taken to lie evenly. What is beyond the last bound is told as that bound.
export function quantile(share, counts, bounds) {
  let total = 0;
  for (const count of counts.values()) total = Math.max(total, count);
  if (!(total > 0)) return null;
  const rank = share * total;
  let [lower, below] = [0, 0];
  for (const bound of bounds) {
    const upTo = counts.get(bound) ?? below;
    if (upTo >= rank && upTo > below) {
      if (bound === Infinity) return lower;
      return lower + (bound - lower) * ((rank - below) / (upTo - below));
    }
    [lower, below] = [bound === Infinity ? lower : bound, Math.max(below, upTo)];
  }
  return lower;
}

// Looks at one server over time. A server behind a load balancer may be several processes, each with counters of its
// own: a look is compared with the last one at the same process, told by when it began.
//
// `look(text, time)` → {snapshot, step, began} where `step` is {seconds, grown, time} since the last look at that process,
// `null` for the first one, and `began` says "restart" if this process is younger than the last, "other" if it is
// another one that was there before.
export function observer() {
  const processes = new Map();
  let last = null;
  return {
    get processes() { return processes.size; },
    look(text, time) {
      const snapshot = parse(text);
      const known = processes.get(snapshot.start);
      const step = known && time > known.time
        ? { time, seconds: (time - known.time) / 1000, grown: growth(known.snapshot, snapshot) } : null;
      let began = null;
      if (last && last.start !== snapshot.start) began = !known && snapshot.start > last.start ? "restart" : "other";
      // What restarted does not come back.
      if (began === "restart") processes.clear();
      processes.set(snapshot.start, { snapshot, time });
      last = snapshot;
      return { snapshot, step, began };
    },
  };
}

// The steps that together go back `seconds` from the last one.
export function windowOf(steps, seconds) {
  const from = (steps.at(-1)?.time ?? 0) - seconds * 1000;
  return steps.filter((step) => step.time - step.seconds * 1000 >= from - 1 || step === steps.at(-1));
}

// How the requests of some steps look: [{key, verb, group, resource, subresource, rate, failures, refusals, p50, p99}],
// rates a second, the busiest first. `failures` are answers 5xx, `refusals` 4xx.
export function requestRows(steps, bounds) {
  const seconds = secondsOf(steps);
  const rows = new Map();
  const rowOf = (labels) => {
    const { verb = "", group = "", resource = "", subresource = "" } = labels;
    const key = `${verb} ${group}/${resource}/${subresource}`;
    let row = rows.get(key);
    if (!row) rows.set(key, row = { key, verb, group, resource, subresource, count: 0, failures: 0, refusals: 0, buckets: new Map() });
    return row;
  };
  for (const { labels, value } of samplesOf(steps, "apiserver_request_total")) {
    const row = rowOf(labels);
    row.count += value;
    if (labels.code?.startsWith("5")) row.failures += value;
    if (labels.code?.startsWith("4")) row.refusals += value;
  }
  for (const { labels, value } of samplesOf(steps, "apiserver_request_duration_seconds_bucket")) {
    if (!LONG_RUNNING.has(labels.verb)) add(rowOf(labels).buckets, number(labels.le), value);
  }
  return [...rows.values()]
    .filter((row) => row.count > 0)
    .map(({ count, buckets, ...row }) => ({
      ...row,
      rate: count / seconds,
      failures: row.failures / seconds,
      refusals: row.refusals / seconds,
      p50: quantile(0.5, buckets, bounds),
      p99: quantile(0.99, buckets, bounds),
    }))
    .sort((a, b) => b.rate - a.rate || (a.key < b.key ? -1 : 1));
}

// {rate, failures, p50, p99} of all requests.
export function requestTotals(steps, bounds) {
  const seconds = secondsOf(steps);
  const totals = { rate: 0, failures: 0 };
  for (const { labels, value } of samplesOf(steps, "apiserver_request_total")) {
    totals.rate += value / seconds;
    if (labels.code?.startsWith("5")) totals.failures += value / seconds;
  }
  const buckets = new Map();
  for (const { labels, value } of samplesOf(steps, "apiserver_request_duration_seconds_bucket")) {
    if (!LONG_RUNNING.has(labels.verb)) add(buckets, number(labels.le), value);
  }
  return { ...totals, p50: quantile(0.5, buckets, bounds), p99: quantile(0.99, buckets, bounds) };
}

// Long-running requests that are open, and what watches were told: [{verb, group, resource, subresource, open, events}].
export function longRunningRows(snapshot, steps) {
  const seconds = secondsOf(steps);
  const rows = new Map();
  for (const { labels, value } of gauges(snapshot, "apiserver_longrunning_requests")) {
    if (!(value > 0)) continue;
    const { verb = "", group = "", resource = "", subresource = "" } = labels;
    const key = `${verb} ${group}/${resource}/${subresource}`;
    const row = rows.get(key) ?? { key, verb, group, resource, subresource, open: 0, events: null };
    row.open += value;
    rows.set(key, row);
  }
  const events = sumBy(samplesOf(steps, "apiserver_watch_events_total"), ({ group = "", resource = "" }) => `WATCH ${group}/${resource}/`);
  for (const [key, value] of events) {
    const row = rows.get(key);
    if (row) row.events = value / seconds;
  }
  return [...rows.values()].sort((a, b) => b.open - a.open || (a.key < b.key ? -1 : 1));
}

// Priority levels: [{name, limit, nominal, seats, executing, waiting, dispatched, rejected, reasons, wait}].
export function flowRows(snapshot, steps) {
  const seconds = secondsOf(steps);
  const level = ({ priority_level: name = "" }) => name;
  const now = (name) => sumBy(gauges(snapshot, `apiserver_flowcontrol_${name}`), level);
  const grown = (name) => samplesOf(steps, `apiserver_flowcontrol_${name}`);
  const [limit, nominal, seats] = ["current_limit_seats", "nominal_limit_seats", "current_executing_seats"].map(now);
  const [executing, waiting] = ["current_executing_requests", "current_inqueue_requests"].map(now);
  const dispatched = sumBy(grown("dispatched_requests_total"), level);
  const rejected = sumBy(grown("rejected_requests_total"), level);
  const bounds = boundsOf(snapshot, "apiserver_flowcontrol_request_wait_duration_seconds");
  const names = new Set([limit, nominal, seats, executing, waiting, dispatched, rejected].flatMap((sums) => [...sums.keys()]));
  return [...names].sort().map((name) => {
    const buckets = new Map();
    for (const { labels, value } of grown("request_wait_duration_seconds_bucket")) {
      if (level(labels) === name) add(buckets, number(labels.le), value);
    }
    const reasons = grown("rejected_requests_total").filter(({ labels }) => level(labels) === name).map(({ labels }) => labels.reason ?? "");
    return {
      name,
      limit: limit.get(name) ?? nominal.get(name) ?? null,
      seats: seats.get(name) ?? 0,
      executing: executing.get(name) ?? 0,
      waiting: waiting.get(name) ?? 0,
      dispatched: (dispatched.get(name) ?? 0) / seconds,
      rejected: (rejected.get(name) ?? 0) / seconds,
      reasons: [...new Set(reasons)].sort(),
      wait: quantile(0.99, buckets, bounds),
    };
  });
}

// Admission webhooks: Map(name → {name, rate, rejected, failed, open, p50, p99}), rates a second. `rejected` are those
// that the webhook said no to, `failed` could not be asked, `open` of those were let through.
export function webhookRows(snapshot, steps) {
  const seconds = secondsOf(steps);
  const bounds = boundsOf(snapshot, "apiserver_admission_webhook_admission_duration_seconds");
  const rows = new Map();
  const rowOf = ({ name = "" }) => {
    let row = rows.get(name);
    if (!row) rows.set(name, row = { name, rate: 0, rejected: 0, failed: 0, open: 0, buckets: new Map() });
    return row;
  };
  for (const name of ["admission_duration_seconds_bucket", "request_total", "rejection_count", "fail_open_count"]) {
    for (const text of snapshot.samples.get(`apiserver_admission_webhook_${name}`)?.keys() ?? []) rowOf(labelsOf(text));
  }
  for (const { labels, value } of samplesOf(steps, "apiserver_admission_webhook_admission_duration_seconds_bucket")) {
    const row = rowOf(labels);
    const bound = number(labels.le);
    add(row.buckets, bound, value);
    if (bound === Infinity) row.rate += value / seconds;
  }
  for (const { labels, value } of samplesOf(steps, "apiserver_admission_webhook_rejection_count")) {
    const isFailure = labels.error_type !== undefined && labels.error_type !== "no_error";
    rowOf(labels)[isFailure ? "failed" : "rejected"] += value / seconds;
  }
  for (const { labels, value } of samplesOf(steps, "apiserver_admission_webhook_fail_open_count")) {
    rowOf(labels).open += value / seconds;
  }
  for (const row of rows.values()) {
    row.p50 = quantile(0.5, row.buckets, bounds);
    row.p99 = quantile(0.99, row.buckets, bounds);
    delete row.buckets;
  }
  return rows;
}

// The sum of a gauge, `null` if the server does not have it.
export function gaugeSum(snapshot, name, matches = () => true) {
  const found = gauges(snapshot, name).filter(({ labels }) => matches(labels));
  return found.length === 0 ? null : found.reduce((sum, { value }) => sum + value, 0);
}

// Whether the server tells of this family at all.
export function has(snapshot, prefix) {
  for (const name of snapshot.samples.keys()) if (name.startsWith(prefix)) return true;
  return false;
}

// The checks of /readyz?verbose: [{name, ok, excluded, said}].
export function checks(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = /^\[([+-])\](\S+) (.*)$/.exec(line);
    if (match) found.push({ name: match[2], ok: match[1] === "+", excluded: match[3].startsWith("excluded"), said: match[3] });
  }
  return found;
}

// The points of a line through these values, in a box of this size; a gap where a value is `null`.
export function sparkline(values, width, height) {
  const known = values.filter((value) => value !== null);
  const most = Math.max(...known, 0) || 1;
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  const round = (value) => Math.round(value * 10) / 10;
  let path = "";
  let drawing = false;
  values.forEach((value, index) => {
    if (value !== null) path += `${drawing ? "L" : "M"}${round(index * step)} ${round(height - (value / most) * height)}`;
    drawing = value !== null;
  });
  return path;
}

function samplesOf(steps, name) {
  return steps.flatMap((step) => step.grown.get(name) ?? []);
}

function secondsOf(steps) {
  return steps.reduce((sum, step) => sum + step.seconds, 0) || 1;
}

function add(sums, key, value) {
  sums.set(key, (sums.get(key) ?? 0) + value);
}
