// The log of a pod's container, where the cluster runs containers.

import { h, replace } from "../../dom.js";
import { strings } from "../../strings.js";
import { asText } from "../../lib/json.js";

const say = strings.object.logs;
const MAX_LINES = 5000;

export async function show(root, state) {
  const spec = state.object.spec ?? {};
  const containers = ["containers", "initContainers", "ephemeralContainers"]
    .flatMap((list) => (Array.isArray(spec[list]) ? spec[list] : [])).map((one) => asText(one?.name));
  const canLog = state.resource.subresources.some(({ name }) => name === "log");
  if (!canLog) {
    replace(root, h("p", { class: "empty" }, say.none));
    return {};
  }
  let running = null;
  const output = h("pre", { class: "log", role: "log", tabindex: "0", "aria-label": say.label });
  const status = h("p", { class: "quiet", role: "status" });
  const container = h("select", { "aria-label": say.container }, containers.map((name) => h("option", { value: name }, name)));
  const box = (label, checked) => {
    const input = h("input", { type: "checkbox", checked });
    return { input, node: h("label", {}, input, ` ${label}`) };
  };
  const [follow, previous, timestamps] = [box(say.follow, true), box(say.previous, false), box(say.timestamps, false)];
  const lines = h("input", { type: "number", min: "1", max: String(MAX_LINES), value: "200", "aria-label": say.lines, class: "short" });
  const stop = () => {
    running?.abort();
    running = null;
  };
  const start = async () => {
    stop();
    const own = new AbortController();
    running = own;
    replace(status, "");
    const query = new URLSearchParams({ container: container.value, tailLines: String(Math.min(MAX_LINES, Number(lines.value) || 200)) });
    if (follow.input.checked) query.set("follow", "true");
    if (previous.input.checked) query.set("previous", "true");
    if (timestamps.input.checked) query.set("timestamps", "true");
    try {
      await read(state, `${state.path}/log?${query}`, output, status, own.signal);
      replace(status, output.textContent ? say.ended : spec.nodeName ? say.empty : say.none);
    } catch (problem) {
      if (!own.signal.aborted) replace(status, noNodes(problem) && !spec.nodeName ? say.none : `${say.failed}: ${problem.message}`);
    }
  };
  replace(root, h("div", { class: "bar" }, container, follow.node, previous.node, timestamps.node,
    h("label", {}, `${say.lines} `, lines), h("button", { onclick: start }, say.start), h("button", { onclick: stop }, say.stop)), status, output);
  start();
  return { end: stop };
}

// A server without nodes does not know the subresource, or has nowhere to get a log from.
function noNodes(problem) {
  return problem.status === 404 || problem.status === 405 || problem.status === 501;
}

async function read(state, path, output, status, signal) {
  const { api } = state.context;
  let kept = [""];
  let dropped = 0;
  let waiting = false;
  replace(output);
  const draw = () => {
    waiting = false;
    const atEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 40;
    output.textContent = kept.join("\n");
    if (dropped) replace(status, say.cut(dropped));
    if (atEnd) output.scrollTop = output.scrollHeight;
  };
  const take = (text) => {
    const [first, ...rest] = text.split("\n");
    kept[kept.length - 1] += first;
    kept = kept.concat(rest);
    if (kept.length > MAX_LINES) {
      dropped += kept.length - MAX_LINES;
      kept = kept.slice(-MAX_LINES);
    }
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(draw);
    }
  };
  await api.stream(path, take, { signal });
  draw();
}
