// Counting and waiting for the Node suites: check() as often as there is
// something to check, finish() once at the end. An exception in a part() is a
// failed check and leaves the other parts to run.
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

// How long anything that must happen may take.
const PATIENCE = 20_000;

let ran = 0;
let failed = 0;

// The client, which is installed outside the repository.
export async function load(modules) {
  const require = createRequire(pathToFileURL(`${modules}/`));
  return import(pathToFileURL(require.resolve('@kubernetes/client-node')));
}
export function check(ok, message) {
  ran += 1;
  if (!ok) {
    failed += 1;
    console.log(`FAIL ${message}`);
  }
  return ok;
}
export function equal(what, got, expected) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(expected)];
  return check(a === b, `${what}: ${a}, expected ${b}`);
}
// The Status of a call that must fail.
export async function fails(what, code, reason, call) {
  try {
    await call();
  } catch (problem) {
    const status = typeof problem.body === 'string' ? JSON.parse(problem.body) : problem.body;
    equal(what, [problem.code, status?.code, status?.reason, status?.kind], [code, code, reason, 'Status']);
    return status;
  }
  check(false, `${what}: did not fail`);
  return undefined;
}
export async function eventually(what, condition) {
  for (const begin = Date.now(); Date.now() - begin < PATIENCE; await sleep(20)) {
    if (await condition()) return check(true, what);
  }
  return check(false, `${what}: not in ${PATIENCE} ms`);
}
export async function part(run) {
  try {
    await run();
  } catch (problem) {
    check(false, `${run.name}: ${problem.stack ?? problem}`);
  }
}
export function finish() {
  console.log(`checks ${ran} failed ${failed}`);
  process.exit(failed ? 1 : 0);
}
