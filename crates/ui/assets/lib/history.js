// The versions of one object that watch events have shown, newest first, at
// most `limit` of them.

import { asText } from "./json.js";

export const LIMIT = 200;

// The text of all versions together; older ones go first when it is more.
const MAX_TEXT = 20_000_000;

// Requests that look for the oldest place the server still has.
const MAX_PROBES = 24;

export function newHistory(limit = LIMIT) {
  return { limit, versions: [], dropped: 0, size: 0 };
}

// Keeps a version, unless it is there. `type` is the event's, SEEN for what a get showed; `seen` the time on the page's clock, `null` if the event was replayed.
export function record(history, { type, object, seen = null, size = 0 }) {
  const version = asText(object?.metadata?.resourceVersion);
  if (version === "" || type === "BOOKMARK") return false;
  const known = history.versions.find((one) => one.version === version && (one.type === "DELETED") === (type === "DELETED"));
  if (known) {
    // Its event tells more than that it was there.
    if (known.type === "SEEN") known.type = type;
    return false;
  }
  const entry = { version, type, object, seen, size, changed: changeTime(object) };
  const place = history.versions.findIndex((one) => !isNewer(one.version, version));
  history.versions.splice(place < 0 ? history.versions.length : place, 0, entry);
  history.size += size;
  while (history.versions.length > history.limit || (history.size > MAX_TEXT && history.versions.length > 2)) {
    history.size -= history.versions.pop().size;
    history.dropped += 1;
  }
  return true;
}

// Versions are numbers on every server that says they are comparable; what is not a number stays in order of arrival.
function isNewer(a, b) {
  if (!/^\d{1,40}$/.test(a) || !/^\d{1,40}$/.test(b)) return false;
  return BigInt(a) > BigInt(b);
}

// When the object last changed, as far as its managers say, else when it was made.
export function changeTime(object) {
  const times = (Array.isArray(object?.metadata?.managedFields) ? object.metadata.managedFields : [])
    .map((entry) => entry?.time).filter((time) => typeof time === "string");
  const latest = times.sort()[times.length - 1];
  return latest ?? object?.metadata?.deletionTimestamp ?? object?.metadata?.creationTimestamp ?? null;
}

// The search for the oldest version that a watch can start from. Each probe is a watch from `at`; the
// answer (`true` if the server still has that place) gives the next state. `at` is `null` at the end, `best` what was found.
export function firstProbe(current) {
  if (!/^\d{1,18}$/.test(current)) return { at: null, best: null, left: 0 };
  return { at: "1", best: null, low: 1n, high: BigInt(current), left: MAX_PROBES, current: BigInt(current) };
}

export function nextProbe(state, held) {
  if (state.at === null) return state;
  const at = BigInt(state.at);
  if (held && at === 1n) return { ...state, at: null, best: state.at };
  const [low, high] = held ? [state.low, at] : [at, state.high];
  const best = held ? state.at : state.best;
  const left = state.left - 1;
  // Near enough: a search to the last version would cost more requests than what it finds is worth.
  const near = best !== null && high - low <= (state.current - high) / 8n + 1n;
  if (left <= 0 || high - low <= 1n || near) return { ...state, at: null, best, left };
  return { ...state, low, high, best, left, at: String(low + (high - low) / 2n) };
}

// The events in the text of a watch that has ended: { events, expired }.
export function eventsOf(text) {
  const events = [];
  for (const line of text.split("\n")) {
    if (line === "") continue;
    let event;
    try {
      event = JSON.parse(line);
    } catch {
      break;
    }
    if (event?.type === "ERROR") return { events, expired: event.object?.code === 410 };
    events.push({ ...event, size: line.length });
  }
  return { events, expired: false };
}
