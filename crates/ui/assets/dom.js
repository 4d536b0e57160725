// Builds DOM nodes. What comes from a cluster is only ever text or an attribute here, never markup, so that no
// object can put a script into the page. The Content-Security-Policy forbids inline styles and scripts besides.

const SVG = "http://www.w3.org/2000/svg";

// h("button", {class: "primary", onclick: save, "aria-label": "Save"}, "Save")
// Children: nodes, strings, numbers, arrays of them; null, undefined and false are left out.
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

// Puts other children into a node.
export function replace(node, ...children) {
  node.replaceChildren(...flat(children));
  return node;
}

function filled(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) set(node, name, value);
  node.append(...flat(children));
  return node;
}

function set(node, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) {
    if (typeof value !== "function") throw new TypeError(`${name} is not a function`);
    node.addEventListener(name.slice(2).toLowerCase(), value);
  } else if (name === "dataset") {
    Object.assign(node.dataset, value);
  } else if (name === "style") {
    // By CSSOM, property by property: a style attribute would need 'unsafe-inline'.
    for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
  } else if (name === "value" || name === "checked" || name === "disabled" || name === "selected" || name === "indeterminate") {
    node[name] = value;
  } else if (name === "href") {
    node.setAttribute("href", safeAddress(value));
  } else {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}

// Only places within the page, or pages of the web: never javascript: or data:.
function safeAddress(value) {
  const text = String(value);
  return text.startsWith("#") || /^https?:\/\//.test(text) ? text : "#";
}

function flat(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}
