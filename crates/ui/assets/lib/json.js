// JSON without loss: whole numbers beyond 2^53 become BigInt, which `yaml.js`
// writes as it stands. A page that rounded them would write them back rounded.

const NUMBER_OR_TEXT = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const LONG_NUMBER = /\d{16}/;

// As `JSON.parse`, but exact for whole numbers.
export function parseExact(text) {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text);
  const mark = unusedMark(text);
  const marked = text.replace(NUMBER_OR_TEXT, (token) => {
    const isWhole = token[0] !== '"' && !/[.eE]/.test(token);
    return isWhole && !Number.isSafeInteger(Number(token)) ? `"${mark}${token}"` : token;
  });
  return JSON.parse(marked, (_, value) =>
    typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value);
}

// A text that stands nowhere in the document, so that none of its own strings can be taken for a number.
function unusedMark(text) {
  let mark = "integer ";
  while (text.includes(mark)) mark = `${mark}# `;
  return mark;
}

// What stands where a text should, as a text.
export function asText(value) {
  if (typeof value === "string") return value;
  return value === null || value === undefined ? "" : compact(value);
}

// JSON in one line, BigInt as digits, with no recursion; ends after `limit` characters.
export function compact(value, limit = Infinity) {
  const parts = [];
  let length = 0;
  const stack = [{ value }];
  while (stack.length) {
    const top = stack.pop();
    let text = top.text;
    if (text === undefined) {
      const node = top.value;
      if (node === null || typeof node !== "object") {
        text = typeof node === "bigint" ? String(node) : JSON.stringify(node) ?? "null";
      } else {
        const isList = Array.isArray(node);
        const keys = isList ? node : Object.keys(node);
        stack.push({ text: isList ? "]" : "}" });
        for (let index = keys.length - 1; index >= 0; index -= 1) {
          stack.push({ value: isList ? node[index] : node[keys[index]] });
          const name = isList ? "" : `${JSON.stringify(keys[index])}:`;
          stack.push({ text: index > 0 ? `,${name}` : name });
        }
        text = isList ? "[" : "{";
      }
    }
    parts.push(text);
    length += text.length;
    if (length > limit) return `${parts.join('').slice(0, limit)}…`;
  }
  return parts.join("");
}
