// Objects as YAML, as `kubectl -o yaml` writes them: block style, two spaces,
// lists at the column of their key, keys in go-yaml's order, lines folded
// behind column 80. Each line knows the field it belongs to. Reading YAML is
// the server's part.

import { child } from "./pointer.js";
import { compact } from "./json.js";

const INDENT = 2;
const WIDTH = 80;
const MAX_SIMPLE_KEY = 128;

// Deeper values are written as JSON in one line: indentation would grow with the square of the depth.
const MAX_DEPTH = 100;

// The text, with its last line break.
export function toYaml(value) {
  return `${yamlLines(value).map((line) => line.text).join('\n')}\n`;
}

// The lines of a value: `text`, `pointer` of the field that the line belongs
// to, `item` if it starts an item of a list, `key` as [start, end] columns
// of a key, `value` as the column where a scalar starts, `kind` of the scalar.
// `scalar(pointer, value)` may give another value to show.
export function yamlLines(value, scalar = (_, value) => value) {
  const writer = newWriter();
  const stack = [];
  enter(writer, stack, value, null, "root", "", scalar);
  while (stack.length) step(writer, stack, scalar);
  if (writer.line.text !== "") writer.lines.push(writer.line);
  return writer.lines;
}

// One more member or item of the innermost collection.
function step(writer, stack, scalar) {
  const frame = stack[stack.length - 1];
  if (frame.next >= frame.keys.length) {
    stack.pop();
    return;
  }
  const index = frame.next;
  frame.next += 1;
  newLine(writer, frame.column);
  if (frame.isList) {
    const pointer = child(frame.pointer, index);
    marker(writer, "-");
    writer.line.item ??= pointer;
    writer.line.pointer = pointer;
    enter(writer, stack, frame.value[index], frame.column, "item", pointer, scalar);
    return;
  }
  const key = frame.keys[index];
  const pointer = child(frame.pointer, key);
  writer.line.pointer = pointer;
  writer.pointer = pointer;
  if (key.length <= MAX_SIMPLE_KEY && !hasBreak(key)) {
    if (!writer.afterSpace) put(writer, " ");
    const start = writer.column;
    text(writer, key, frame.column, "key");
    writer.line.key = [start, writer.column];
    put(writer, ":");
    writer.afterSpace = false;
    writer.onlyMarkers = false;
  } else {
    marker(writer, "?");
    text(writer, key, frame.column, "item");
    newLine(writer, frame.column);
    marker(writer, ":");
  }
  enter(writer, stack, frame.value[key], frame.column, "value", pointer, scalar);
}

// A scalar is written; a collection goes on the stack.
function enter(writer, stack, given, outer, place, pointer, scalar) {
  writer.pointer = pointer;
  writer.line.pointer = pointer;
  const isCollection = given !== null && typeof given === "object";
  const value = isCollection ? given : scalar(pointer, given);
  if (isCollection) {
    const isList = Array.isArray(value);
    const keys = isList ? value : sortedKeys(value);
    if (!keys.length) return token(writer, isList ? "[]" : "{}", "empty");
    if (stack.length >= MAX_DEPTH) return token(writer, compact(value), "deep");
    const beside = isList && place === "value" && !writer.onlyMarkers;
    const column = outer === null ? 0 : beside ? outer : outer + INDENT;
    stack.push({ value, isList, keys, column, pointer, next: 0 });
    return undefined;
  }
  if (value === null || value === undefined) return token(writer, "null", "null");
  if (typeof value === "boolean") return token(writer, String(value), "boolean");
  if (typeof value === "bigint") return token(writer, String(value), "number");
  if (typeof value === "number") return token(writer, numberText(value), "number");
  return text(writer, String(value), outer, place);
}

// -- the line being written --

function newWriter() {
  return { lines: [], line: { text: "", pointer: "" }, column: 0, afterSpace: true, onlyMarkers: true, pointer: "" };
}

function put(writer, part) {
  writer.line.text += part;
  writer.column += 1;
}

function lineBreak(writer) {
  writer.lines.push(writer.line);
  writer.line = { text: "", pointer: writer.pointer };
  writer.column = 0;
}

// Goes to a column: on this line if only markers stand there, else on the next.
function newLine(writer, column) {
  if (!writer.onlyMarkers || writer.column > column || (writer.column === column && !writer.afterSpace)) {
    lineBreak(writer);
  }
  if (writer.column < column) {
    writer.line.text += " ".repeat(column - writer.column);
    writer.column = column;
  }
  writer.afterSpace = true;
  writer.onlyMarkers = true;
}

function marker(writer, part) {
  if (!writer.afterSpace) put(writer, " ");
  put(writer, part);
  writer.afterSpace = false;
}

function token(writer, part, kind) {
  if (!writer.afterSpace) put(writer, " ");
  writer.line.value = writer.line.text.length;
  writer.line.kind = kind;
  writer.line.text += part;
  writer.column += part.length;
  writer.afterSpace = false;
  writer.onlyMarkers = false;
}

// -- strings --

function text(writer, value, outer, place) {
  const column = outer === null ? INDENT : outer + INDENT;
  const folds = place !== "key";
  if (!writer.afterSpace) put(writer, " ");
  if (folds) {
    writer.line.value = writer.line.text.length;
    writer.line.kind = "string";
  }
  const style = styleOf(value, place);
  if (style === "plain") plain(writer, value, column, folds);
  else if (style === "single") singleQuoted(writer, value, column, folds);
  else if (style === "double") doubleQuoted(writer, value, column, folds);
  else return literal(writer, value, column);
  writer.afterSpace = false;
  writer.onlyMarkers = false;
  return undefined;
}

function plain(writer, value, column, folds) {
  let afterSpace = false;
  const chars = [...value];
  chars.forEach((char, index) => {
    const fold = char === " " && folds && !afterSpace && writer.column > WIDTH && chars[index + 1] !== " ";
    if (fold) newLine(writer, column);
    else put(writer, char);
    afterSpace = char === " ";
    if (!afterSpace) writer.onlyMarkers = false;
  });
}

function singleQuoted(writer, value, column, folds) {
  put(writer, "'");
  writer.onlyMarkers = false;
  let afterSpace = false;
  let afterBreak = false;
  const chars = [...value];
  chars.forEach((char, index) => {
    if (char === " ") {
      const inside = index > 0 && index + 1 < chars.length && chars[index + 1] !== " ";
      if (folds && !afterSpace && writer.column > WIDTH && inside) newLine(writer, column);
      else put(writer, char);
      afterSpace = true;
    } else if (isBreak(char)) {
      if (!afterBreak && char === "\n") lineBreak(writer);
      breakWith(writer, char);
      afterBreak = true;
    } else {
      if (afterBreak) newLine(writer, column);
      put(writer, char === "'" ? "''" : char);
      writer.onlyMarkers = false;
      afterSpace = false;
      afterBreak = false;
    }
  });
  put(writer, "'");
}

function doubleQuoted(writer, value, column, folds) {
  put(writer, '"');
  writer.onlyMarkers = false;
  let afterSpace = false;
  const marked = value.startsWith("\u{feff}");
  const chars = [...value];
  chars.forEach((char, index) => {
    if (marked || needsEscape(char)) {
      const escaped = escape(char);
      writer.line.text += escaped;
      writer.column += escaped.length;
      afterSpace = false;
    } else if (char === " ") {
      const inside = index > 0 && index + 1 < chars.length;
      if (folds && !afterSpace && writer.column > WIDTH && inside) {
        newLine(writer, column);
        if (chars[index + 1] === " ") put(writer, "\\");
      } else {
        put(writer, char);
      }
      afterSpace = true;
    } else {
      put(writer, char);
      afterSpace = false;
    }
  });
  put(writer, '"');
}

function literal(writer, value, column) {
  put(writer, "|");
  const chars = [...value];
  if (chars[0] === " " || isBreak(chars[0])) put(writer, "2");
  const last = chars[chars.length - 1];
  const before = chars[chars.length - 2];
  if (!isBreak(last)) put(writer, "-");
  else if (before === undefined || isBreak(before)) put(writer, "+");
  lineBreak(writer);
  writer.onlyMarkers = true;
  writer.afterSpace = true;
  let afterBreak = true;
  for (const char of chars) {
    if (isBreak(char)) {
      breakWith(writer, char);
      afterBreak = true;
    } else {
      if (afterBreak) {
        newLine(writer, column);
        writer.line.value = 0;
        writer.line.kind = "string";
      }
      put(writer, char);
      writer.onlyMarkers = false;
      afterBreak = false;
    }
  }
}

// A line ends with its own kind of break; all but the usual one stay in the text.
function breakWith(writer, char) {
  if (char !== "\n") {
    writer.line.text += char;
    writer.column = 0;
  } else {
    lineBreak(writer);
  }
  writer.onlyMarkers = true;
}

function styleOf(value, place) {
  const isKey = place === "key";
  const wanted = value.includes("\n") ? "literal"
    : readsAsText(value) && !(isKey && value === "<<") ? "plain" : "double";
  const allowed = allowedStyles(value);
  if (wanted === "literal" && allowed.literal && !isKey) return "literal";
  if (wanted === "plain" && allowed.plain) return "plain";
  if (wanted === "plain" && allowed.single) return "single";
  return "double";
}

const FIRST_INDICATORS = new Set(',[]{}&*!|>\'"%@`');

// Which styles keep a text as it is: libyaml's rules.
function allowedStyles(value) {
  let indicators = value.startsWith("---") || value.startsWith("...");
  let breaks = false;
  let special = false;
  let spaceBeforeBreak = false;
  let spaceAfterBreak = false;
  let afterSpace = false;
  let afterBreak = false;
  let afterBlank = true;
  const chars = [...value];
  chars.forEach((char, index) => {
    const next = chars[index + 1];
    const blankFollows = next === undefined || next === " " || next === "\t";
    if (FIRST_INDICATORS.has(char)) indicators ||= index === 0;
    else if (char === "#") indicators ||= afterBlank;
    else if (char === "?" || char === "-") indicators ||= index === 0 && blankFollows;
    else if (char === ":") indicators ||= blankFollows;
    special ||= !isPrintable(char);
    if (char === " ") {
      spaceAfterBreak ||= afterBreak;
      afterSpace = true;
      afterBreak = false;
    } else if (isBreak(char)) {
      breaks = true;
      spaceBeforeBreak ||= afterSpace;
      afterSpace = false;
      afterBreak = true;
    } else {
      afterSpace = false;
      afterBreak = false;
    }
    afterBlank = char === " " || char === "\t" || isBreak(char);
  });
  const broken = spaceBeforeBreak || special;
  return {
    plain: !(indicators || breaks || value.startsWith(" ") || afterSpace || broken),
    single: !(spaceAfterBreak || broken),
    literal: !(afterSpace || broken),
  };
}

function hasBreak(value) {
  return /[\n\r\u0085\u2028\u2029]/.test(value);
}

function isBreak(char) {
  return char === "\n" || char === "\r" || char === "\u0085" || char === "\u2028" || char === "\u2029";
}

// As libyaml has it: without tabs, and nothing beyond the first plane.
function isPrintable(char) {
  const code = char.codePointAt(0);
  return code === 0x0a || (code >= 0x20 && code <= 0x7e)
    || (((code >= 0xa0 && code <= 0xd7ff) || (code >= 0xe000 && code <= 0xfffd)) && code !== 0xfeff);
}

function needsEscape(char) {
  return !isPrintable(char) || isBreak(char) || char === "\"" || char === "\\";
}

const SHORT_ESCAPES = new Map(Object.entries({
  "\0": "0", "\x07": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", "\x1b": "e",
  "\"": "\"", "\\": "\\", "\u0085": "N", "\u00a0": "_", "\u2028": "L", "\u2029": "P",
}));

function escape(char) {
  const short = SHORT_ESCAPES.get(char);
  if (short !== undefined) return `\\${short}`;
  const code = char.codePointAt(0);
  const hex = code.toString(16).toUpperCase();
  if (code <= 0xff) return `\\x${hex.padStart(2, '0')}`;
  return code <= 0xffff ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

// -- which texts need quotes --

const WORDS = new Set([
  "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON",
  "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", ".nan", ".NaN", ".NAN",
  ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF",
]);
const FLOAT = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const BASE_60 = /^[+-]?\d[\d_]*(?::[0-5]?\d)+(?:\.[\d_]*)?$/;
const TIMESTAMP = /^\d{4}-(\d{1,2})-(\d{1,2})(?:[Tt]\d{1,2}:\d{1,2}:\d{1,2}(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)| +\d{1,2}:\d{1,2}:\d{1,2}(?:[.,]\d+)?)?$/;

// Longer texts are no numbers and no times, and need no expression run over them.
const MAX_NUMBER = 512;

// Whether a plain text reads back as itself, for readers of YAML 1.1 too.
export function readsAsText(value) {
  if (value === "") return false;
  if (!/[0-9+\-.~yYnNtTfFoO]/.test(value[0])) return true;
  if (WORDS.has(value)) return false;
  if (value.length > MAX_NUMBER) return !/^[\d_.+-]+$/.test(value);
  const digits = value[0] === "." ? value.replace(/(\d)_(?=\d)/g, "$1") : value.replaceAll("_", "");
  return !(isInteger(digits) || isFloat(digits) || BASE_60.test(value) || isTimestamp(value));
}

function isInteger(value) {
  const match = /^[+-]?(0[xX][\da-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9]\d*)$/.exec(value);
  if (!match) return /^0b[+-][01]{1,63}$/.test(value);
  const digits = match[1];
  const isOctal = /^0\d/.test(digits);
  const magnitude = BigInt(isOctal ? `0o${digits.slice(1)}` : digits.toLowerCase());
  if (value[0] === "-") return magnitude <= 2n ** 63n;
  return magnitude < (value[0] === "+" ? 2n ** 63n : 2n ** 64n);
}

function isFloat(value) {
  return FLOAT.test(value) && Number.isFinite(Number(value));
}

function isTimestamp(value) {
  const match = TIMESTAMP.exec(value);
  if (!match) return false;
  const [month, day] = [Number(match[1]), Number(match[2])];
  if (month < 1 || month > 12 || day < 1) return false;
  const last = new Date(Date.UTC(Number(value.slice(0, 4)) || 4, month, 0)).getUTCDate();
  const time = /(\d{1,2}):(\d{1,2}):(\d{1,2})/.exec(value);
  return day <= last && (!time || (time[1] < 24 && time[2] < 60 && time[3] < 60));
}

// Go's shortest form: with an exponent outside of 1e-4 up to 1e6, unless the number is whole.
export function numberText(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e21) return String(value);
  const [mantissa, exponent] = value.toExponential().split("e");
  const power = Number(exponent);
  if (power >= -4 && power < 6) return String(value);
  return `${mantissa}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
}

// -- the order of keys --

// Keys as go-yaml sorts them: letters behind all else, digits by the number they begin.
export function sortedKeys(object) {
  return Object.keys(object).sort(natural);
}

const LETTER = /\p{Alphabetic}/u;
const DIGIT = /\p{N}/u;

function natural(a, b) {
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same += 1;
  // Not between the halves of one character.
  if (same > 0 && /[\ud800-\udbff]/.test(a[same - 1])) same -= 1;
  if (same === a.length || same === b.length) return a.length - b.length;
  const [first, second] = [String.fromCodePoint(a.codePointAt(same)), String.fromCodePoint(b.codePointAt(same))];
  const [letter, other] = [LETTER.test(first), LETTER.test(second)];
  if (letter && other) return first.codePointAt(0) - second.codePointAt(0);
  if (letter !== other) return letter ? 1 : -1;
  const inside = (first === "0" || second === "0") && endsInNumber(a.slice(0, same));
  const [x, xDigits] = digitsAt(a, same, inside);
  const [y, yDigits] = digitsAt(b, same, inside);
  if (x !== y) return x < y ? -1 : 1;
  return xDigits - yDigits || first.codePointAt(0) - second.codePointAt(0);
}

// A zero inside of a number is not a leading one.
function endsInNumber(common) {
  const digits = /\p{N}*$/u.exec(common.slice(-64));
  return /[^0]/.test(digits[0]);
}

function digitsAt(value, at, inside) {
  let number = inside ? 1n : 0n;
  let count = 0;
  for (const char of value.slice(at, at + 64)) {
    if (!DIGIT.test(char)) break;
    number = BigInt.asIntN(64, number * 10n + BigInt(char.codePointAt(0) - 48));
    count += 1;
  }
  return [number, count];
}
