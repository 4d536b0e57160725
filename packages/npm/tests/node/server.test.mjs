import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { ApiError, current, findBinary, start } from 'sternpost';

const fixtures = process.env.STERNPOST_FIXTURES;
let server;

before(async () => {
  server = await start({ load: fixtures, flags: ['--log-level=debug'] });
});
after(() => server?.stop());

async function waitUntil(condition) {
  const end = Date.now() + 60_000;
  while (!(await condition())) {
    assert.ok(Date.now() < end, 'it did not come to pass');
    await sleep(50);
  }
}

function isRunning(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test('a server answers and leaves nothing behind', async () => {
  const own = await start();
  assert.match(own.url, /^https:\/\/127\.0\.0\.1:\d+$/);
  assert.equal(await own.request('GET', '/readyz'), 'ok');
  const { pid, kubeconfig } = own;
  assert.ok(existsSync(kubeconfig));
  await own.stop();
  await own.stop();
  assert.ok(!isRunning(pid));
  assert.ok(!existsSync(path.dirname(kubeconfig)));
});

test('errors have the status', async () => {
  const wrong = server.request('GET', '/api/v1/namespaces/nowhere');
  await assert.rejects(wrong, (error) => {
    assert.ok(error instanceof ApiError);
    assert.equal(error.code, 404);
    assert.equal(error.status.reason, 'NotFound');
    return true;
  });
});

test('what is loaded is there', async () => {
  const boat = await server.request('GET', '/apis/example.com/v1/namespaces/harbour/boats/loaded');
  assert.deepEqual(boat.spec, { masts: 2 });
});

test('a wrong manifest fails the start with its place', async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'sternpost-test-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'wrong.yaml');
  writeFileSync(file, 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: default\ndata:\n  a: [1]\n');
  await assert.rejects(start({ load: [file] }), /ended with code 1; its log:\n(.|\n)*wrong\.yaml:7:/);
});

test('a wrong flag fails the start', async () => {
  await assert.rejects(start({ flags: ['--nonsense'] }), /ended with code 2(.|\n)*--nonsense/);
});

test('controllers are a switch', async (t) => {
  const bare = await start({ controllers: false });
  t.after(() => bare.stop());
  const name = await bare.createNamespace();
  await bare.deleteNamespace(name);
  assert.equal((await bare.request('GET', `/api/v1/namespaces/${name}`)).status.phase, 'Terminating');
});

test('namespaces end', async () => {
  const name = await server.createNamespace('ending-');
  assert.match(name, /^ending-/);
  await server.deleteNamespace(name);
  await waitUntil(async () => {
    const { items } = await server.request('GET', '/api/v1/namespaces');
    return !items.some((item) => item.metadata.name === name);
  });
});

test('the log is kept', async () => {
  await server.request('GET', '/api/v1/nodes');
  await waitUntil(() => server.log.includes('/api/v1/nodes'));
  assert.match(server.log, /is ready on/);
});

test('the official client', async () => {
  const { CoreV1Api, KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  config.loadFromFile(server.kubeconfig);
  const core = config.makeApiClient(CoreV1Api);
  const namespace = await server.createNamespace();
  await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'a' }, data: { b: 'c' } } });
  assert.deepEqual((await core.readNamespacedConfigMap({ namespace, name: 'a' })).data, { b: 'c' });
});

test('the current server is that of KUBECONFIG', async (t) => {
  process.env.KUBECONFIG = server.kubeconfig;
  t.after(() => delete process.env.KUBECONFIG);
  assert.equal(current().url, server.url);
  assert.equal(server.environ.KUBECONFIG, server.kubeconfig);
});

test('settings of the environment are not for it', async (t) => {
  process.env.STERNPOST_LOG_FORMAT = 'json';
  t.after(() => delete process.env.STERNPOST_LOG_FORMAT);
  const own = await start();
  t.after(() => own.stop());
  assert.equal(await own.request('GET', '/readyz'), 'ok');
});

test('a missing program is told', async (t) => {
  const binary = process.env.STERNPOST_BINARY;
  t.after(() => (binary === undefined ? delete process.env.STERNPOST_BINARY : (process.env.STERNPOST_BINARY = binary)));
  process.env.STERNPOST_BINARY = '/nowhere';
  await assert.rejects(start(), /there is no such file/);
});

const ends = { 'an exit': 'process.exit(3)', 'SIGKILL': 'process.kill(process.pid, "SIGKILL")', 'its last line': '' };
for (const [name, end] of Object.entries(ends)) {
  test(`a server ends with the process that started it: ${name}`, { skip: process.platform === 'win32' }, async () => {
    const program = `import { start } from 'sternpost';
      const server = await start();
      await new Promise((done) => process.stdout.write(server.pid + ' ' + server.kubeconfig, done));
      ${end}`;
    const ended = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8', timeout: 60_000 });
    const [pid, kubeconfig] = ended.stdout.split(' ');
    assert.ok(kubeconfig, ended.stderr);
    await waitUntil(() => !isRunning(Number(pid)));
    assert.ok(!existsSync(kubeconfig));
  });
}

test('the command is the program', () => {
  const command = new URL('../bin/sternpost.js', import.meta.resolve('sternpost'));
  const run = (...words) => spawnSync(process.execPath, [command.pathname, ...words], { encoding: 'utf8' });
  assert.equal(run('version').stdout, spawnSync(findBinary(), ['version'], { encoding: 'utf8' }).stdout);
  assert.equal(run('nonsense').status, 2);
});
