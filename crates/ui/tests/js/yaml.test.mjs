import { test } from "node:test";
import assert from "node:assert/strict";
import { toYaml, yamlLines, readsAsText, numberText, sortedKeys } from "../../assets/lib/yaml.js";
import { parseExact, compact } from "../../assets/lib/json.js";

// What `kubectl get -o yaml` shows for each value of a field `k`.
const cases = [
  [{ k: "text" }, "k: text\n"],
  [{ k: "" }, 'k: ""\n'],
  [{ k: "yes" }, 'k: "yes"\n'],
  [{ k: "1" }, 'k: "1"\n'],
  [{ k: "0x1F" }, 'k: "0x1F"\n'],
  [{ k: "1e3" }, 'k: "1e3"\n'],
  [{ k: "1_000" }, 'k: "1_000"\n'],
  [{ k: "12:30:45" }, 'k: "12:30:45"\n'],
  [{ k: "2001-01-01" }, 'k: "2001-01-01"\n'],
  [{ k: "2026-11-18T12:05:37Z" }, 'k: "2026-11-18T12:05:37Z"\n'],
  [{ k: "2001-02-30" }, "k: 2001-02-30\n"],
  [{ k: "25%" }, "k: 25%\n"],
  [{ k: "%25" }, "k: '%25'\n"],
  [{ k: "a: b" }, "k: 'a: b'\n"],
  [{ k: "it's" }, "k: it's\n"],
  [{ k: "# no" }, "k: '# no'\n"],
  [{ k: "a\tb" }, 'k: "a\\tb"\n'],
  [{ k: "😀" }, 'k: "\\U0001F600"\n'],
  [{ k: "a\nb\n" }, "k: |\n  a\n  b\n"],
  [{ k: "a\nb" }, "k: |-\n  a\n  b\n"],
  [{ k: "a\n\n" }, "k: |+\n  a\n\n"],
  [{ k: " a\nb" }, "k: |2-\n   a\n  b\n"],
  [{ k: "a \nb" }, 'k: "a \\nb"\n'],
  [{ k: [] }, "k: []\n"],
  [{ k: {} }, "k: {}\n"],
  [{ k: [{ b: 1, a: [1, [2]] }] }, "k:\n- a:\n  - 1\n  - - 2\n  b: 1\n"],
  [{ k: null, b: true }, "b: true\nk: null\n"],
  [{ k: 2n ** 63n - 1n }, "k: 9223372036854775807\n"],
  [{ k: `${"word ".repeat(18)}end` }, `k: ${"word ".repeat(16)}\n  word word end\n`.replace(" \n", "\n")],
];

for (const [value, expected] of cases) {
  test(`yaml of ${compact(value, 60)}`, () => assert.equal(toYaml(value), expected));
}

test("keys are in go-yaml's order", () => {
  assert.deepEqual(sortedKeys({ a10: 1, a9: 1, b: 1, B: 1, "1": 1, "-": 1 }), ["-", "1", "B", "a9", "a10", "b"]);
});

test("floats are Go's", () => {
  assert.deepEqual([0.5, 1e21, 0.00001, 1234567.5].map(numberText), ["0.5", "1e+21", "1e-05", "1.2345675e+06"]);
});

test("each line knows its field", () => {
  const lines = yamlLines({ spec: { list: [{ name: "a", text: "x\ny\n" }], "a/b": 1 } });
  assert.deepEqual(lines.map(({ text, pointer }) => [text, pointer]), [
    ["spec:", "/spec"],
    ["  a/b: 1", "/spec/a~1b"],
    ["  list:", "/spec/list"],
    ["  - name: a", "/spec/list/0/name"],
    ["    text: |", "/spec/list/0/text"],
    ["      x", "/spec/list/0/text"],
    ["      y", "/spec/list/0/text"],
  ]);
  assert.equal(lines[3].item, "/spec/list/0");
  assert.equal(lines[3].text.slice(...lines[3].key), "name");
});

test("a scalar can be shown as another", () => {
  const lines = yamlLines({ data: { a: "c2VjcmV0" } }, (pointer, value) => (pointer === "/data/a" ? "hidden" : value));
  assert.equal(lines[1].text, "  a: hidden");
});

test("depth costs neither the stack nor the square of it", () => {
  let deep = 1;
  for (let count = 0; count < 100_000; count += 1) deep = [deep];
  const lines = yamlLines({ deep });
  assert.ok(lines.reduce((sum, line) => sum + line.text.length, 0) < 1_000_000);
});

test("names of prototypes are names", () => {
  assert.equal(toYaml(JSON.parse('{"__proto__":{"a":1},"constructor":"x"}')), "__proto__:\n  a: 1\nconstructor: x\n");
});

test("long texts of digits are read in time", () => {
  assert.equal(readsAsText(`1${"0_".repeat(200_000)}x`), true);
  assert.equal(readsAsText("1".repeat(300)), false);
});

test("whole numbers beyond doubles are exact, and strings like them stay strings", () => {
  const value = parseExact('{"a":9007199254740993,"b":"9007199254740993","c":1.00000000000000000001,"d":"integer 9","e":"\\"12345678901234567890"}');
  assert.deepEqual(value, { a: 9007199254740993n, b: "9007199254740993", c: 1, d: "integer 9", e: '"12345678901234567890' });
  assert.equal(compact(value.a), "9007199254740993");
});
