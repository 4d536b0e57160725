// Requests to the cluster. They go to the page's own origin, below /k8s, with a token that is in this module's memory
// only; the program that serves the page adds the user's credentials.

// Of this browser's session: it has a path of its own, "/s/NAME/".
const BASE = new URL(".", globalThis.location?.href ?? "http://localhost/").pathname.replace(/\/$/, "");
const PREFIX = `${BASE}/k8s`;
const SHORTEST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;
// A page that nobody sees lets go of its watches after this: a browser has six connections to an origin for all of its tabs.
const UNSEEN = 10_000;

let token;
let impersonated = null;
const load = { requests: 0, bytes: 0, watches: 0, failed: 0, perSecond: 0, recent: [] };
const loadListeners = new Set();
const connectionListeners = new Set();
const warningListeners = new Set();
let connected = true;

export class ApiError extends Error {
  constructor(status, message, reason, details, code) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.reason = reason;
    this.details = details;
    this.code = code ?? status;
  }
}

// Gets the token for this page. Once: the program hands it only to a page that it served itself.
export async function begin() {
  const answer = await fetch(`${BASE}/ui-api/session`, { method: "POST" });
  if (!answer.ok) throw new ApiError(answer.status, await answer.text(), "Unauthorized");
  const session = await answer.json();
  token = session.token;
  delete session.token;
  return session;
}

// Requests to the program itself, such as "kustomize?directory=0".
export async function own(path, { method = "GET", body, signal } = {}) {
  const answer = await counted(`${BASE}/ui-api/${path}`, { method, body, signal, headers: { "X-Sternpost-Token": token } });
  const text = await answer.text();
  note(text.length);
  if (!answer.ok) throw failure(answer.status, text);
  return JSON.parse(text);
}

// "Try as": every request from now on is made as this user, until it is called with null.
export function as(user, groups = []) {
  impersonated = user ? { user, groups } : null;
  return impersonated;
}

export function impersonation() {
  return impersonated;
}

export async function request(path, { method = "GET", headers = {}, body, signal } = {}) {
  const answer = await send(path, { method, headers, body, signal });
  const text = await answer.text();
  note(text.length);
  const warnings = warningsOf(answer);
  if (warnings.length) for (const listener of warningListeners) listener(warnings);
  return { status: answer.status, headers: answer.headers, warnings, text, json: () => JSON.parse(text) };
}

// The JSON of an answer; an answer that is not a success is thrown as an ApiError.
export async function getJSON(path, options = {}) {
  const answer = await request(path, { ...options, headers: { Accept: "application/json", ...options.headers } });
  if (answer.status < 200 || answer.status > 299) throw failure(answer.status, answer.text);
  return answer.json();
}

// Hands on a text while it comes, such as the log of a pod, until its end.
export async function stream(path, onText, { signal, headers = {} } = {}) {
  const answer = await send(path, { headers, signal });
  if (!answer.ok) throw failure(answer.status, await answer.text());
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    note(value.length);
    onText(value);
  }
}

// Follows a watch until `signal` is aborted. `path` has the query of a watch except for `watch` and `resourceVersion`.
// `onEvent` gets {type, object}; BOOKMARKs are handed on, too. When the server no longer has the place (410), `relist`
// is asked for the resource version of a new list and the watch goes on from there.
export async function watch(path, onEvent, { signal, accept = "application/json", resourceVersion, relist } = {}) {
  let place = resourceVersion;
  let pause = SHORTEST_PAUSE;
  load.watches += 1;
  tellLoad();
  try {
    while (!signal?.aborted) {
      let expired = false;
      let reached = false;
      await seen(signal);
      const attempt = whileSeen(signal);
      try {
        if (place === undefined && relist) place = await relist();
        const query = new URLSearchParams({ watch: "1", allowWatchBookmarks: "true" });
        if (place !== undefined) query.set("resourceVersion", place);
        const answer = await send(path + (path.includes("?") ? "&" : "?") + query, { headers: { Accept: accept }, signal: attempt.signal });
        reached = true;
        if (answer.status === 410) {
          expired = true;
        } else if (!answer.ok) {
          const problem = failure(answer.status, await answer.text());
          // A server that was made anew has not come as far as the old one was.
          if (isAhead(problem)) {
            place = undefined;
            continue;
          }
          // What is forbidden or not there stays so; what is only busy does not.
          if (answer.status !== 429 && answer.status < 500) throw problem;
          await rest(pause, signal);
          pause = Math.min(pause * 2, LONGEST_PAUSE);
          continue;
        } else {
          await lines(answer, (line) => {
            const event = JSON.parse(line);
            pause = SHORTEST_PAUSE;
            if (event.type === "ERROR") {
              if (event.object?.code === 410 || isAhead(event.object)) expired = true;
              else throw failure(event.object?.code ?? 500, line);
              return;
            }
            const seen = versionOf(event.object);
            if (seen) place = seen;
            onEvent(event);
          });
        }
      } catch (problem) {
        if (signal?.aborted) return;
        if (attempt.signal.aborted) continue;
        if (problem instanceof ApiError) {
          if (problem.code === 410) expired = true;
          else throw problem;
        } else {
          // A stream that broke goes on where it was. A server that was away may be another one, to which that place
          // means something else.
          if (!reached && relist) place = undefined;
          await rest(pause, signal);
          pause = Math.min(pause * 2, LONGEST_PAUSE);
          continue;
        }
      } finally {
        attempt.end();
      }
      if (expired) place = undefined;
      // A server that ends every watch at once is not asked without a pause.
      await rest(pause, signal);
    }
  } finally {
    load.watches -= 1;
    tellLoad();
  }
}

function isAhead({ details }) {
  return details?.causes?.some((cause) => cause.reason === "ResourceVersionTooLarge") === true;
}

// Calls back with {requests, bytes, watches, failed, perSecond} now and after every change; returns what ends that.
export function onLoad(listener) {
  loadListeners.add(listener);
  listener(load);
  return () => loadListeners.delete(listener);
}

// Calls back with true or false when the cluster begins or ceases to answer.
export function onConnection(listener) {
  connectionListeners.add(listener);
  listener(connected);
  return () => connectionListeners.delete(listener);
}

// Calls back with the texts of Warning headers.
export function onWarnings(listener) {
  warningListeners.add(listener);
  return () => warningListeners.delete(listener);
}

// An ApiError of the text of an answer, which is a Status if a Kubernetes API server wrote it.
export function failure(status, text) {
  try {
    const found = JSON.parse(text);
    const said = found.kind === "Status" ? found : found.object?.kind === "Status" ? found.object : null;
    if (said) return new ApiError(status, said.message ?? said.reason ?? String(status), said.reason, said.details, said.code);
  } catch {
    // Not JSON: the text is the message.
  }
  return new ApiError(status, text.slice(0, 500) || `HTTP ${status}`, undefined, undefined, status);
}

// The texts of Warning headers: `299 - "text"`, several joined by commas.
export function warningsOf(answer) {
  const header = answer.headers.get("Warning");
  if (!header) return [];
  return [...header.matchAll(/\d{3} \S+ "((?:[^"\\]|\\.)*)"/g)].map((found) => found[1].replace(/\\(.)/g, "$1"));
}

async function send(path, { method = "GET", headers = {}, body, signal }) {
  const all = new Headers(headers);
  all.set("X-Sternpost-Token", token);
  if (impersonated) {
    all.set("Impersonate-User", impersonated.user);
    for (const group of impersonated.groups) all.append("Impersonate-Group", group);
  }
  const answer = await counted(PREFIX + path, { method, headers: all, body, signal });
  return answer;
}

async function counted(address, options) {
  load.requests += 1;
  load.recent.push(Date.now());
  tellLoad();
  let answer;
  try {
    answer = await fetch(address, { cache: "no-store", ...options });
  } catch (problem) {
    if (options.signal?.aborted) throw problem;
    load.failed += 1;
    tellConnected(false);
    throw problem;
  }
  // 502 and 504 are the program's own when the cluster does not answer it.
  const away = (answer.status === 502 || answer.status === 504) && answer.headers.get("X-Sternpost-Away") === "1";
  if (!answer.ok) load.failed += 1;
  tellConnected(!away);
  if (away) throw new TypeError((await answer.text()).slice(0, 500));
  return answer;
}

// Calls back with every whole line of an answer that may never end.
async function lines(answer, each) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    note(value.length);
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) each(part);
  }
}

// Of a Table, the version of its list or of its rows' last object.
function versionOf(object) {
  if (object?.kind !== "Table") return object?.metadata?.resourceVersion;
  return object.rows?.at(-1)?.object?.metadata?.resourceVersion ?? object.metadata?.resourceVersion;
}

// Until the page is seen, or the signal is given.
function seen(signal) {
  if (!document.hidden) return undefined;
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal?.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal?.addEventListener("abort", look, { once: true });
  });
}

// A signal that is given with the other one, or when the page has not been seen for a while.
function whileSeen(signal) {
  const controller = new AbortController();
  const abort = () => controller.abort();
  let timer;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(abort, UNSEEN);
  };
  signal?.addEventListener("abort", abort, { once: true });
  document.addEventListener("visibilitychange", look);
  return {
    signal: controller.signal,
    end: () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      document.removeEventListener("visibilitychange", look);
    },
  };
}

function rest(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

function note(bytes) {
  load.bytes += bytes;
  tellLoad();
}

let telling = false;
function tellLoad() {
  if (telling) return;
  telling = true;
  setTimeout(() => {
    telling = false;
    const now = Date.now();
    load.recent = load.recent.filter((time) => now - time < 10_000);
    load.perSecond = load.recent.length / 10;
    for (const listener of loadListeners) listener(load);
  }, 250);
}

function tellConnected(now) {
  if (now === connected) return;
  connected = now;
  for (const listener of connectionListeners) listener(now);
}
