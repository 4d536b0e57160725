// A throw-away server for tests, as a process of its own that ends with this one.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

import { findBinary } from './binary.js';
import { Client } from './client.js';

export { findBinary } from './binary.js';
export { ApiError, Client } from './client.js';

const READY_MS = 60_000;
const END_MS = 10_000;
/** How many lines of a log are kept for failures. */
const LOG_LINES = 10_000;
const READY = /^sternpost is ready on \S+ in \d+ ms; kubeconfig: (.+)$/;

const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill()));

/** A server that keeps nothing, once it is ready. */
export async function start({ load = [], controllers = true, flags = [], timeout = READY_MS } = {}) {
  const words = ['serve', '--in-memory', '--listen', '127.0.0.1:0', '--exit-with-parent'];
  for (const path of [load].flat()) words.push('--load', String(path));
  if (controllers !== true) words.push(`--controllers=${controllers || '-*'}`);
  const child = spawn(findBinary(), [...words, ...flags], {
    stdio: ['ignore', 'ignore', 'pipe'],
    // What a test starts is what the test says, not what variables add to it.
    env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('STERNPOST_'))),
    // In a group of its own: a Ctrl-C at the terminal is for the tests, which end the server then.
    detached: process.platform !== 'win32',
  });
  running.add(child);
  const log = [];
  const ended = new Promise((resolve) => {
    child.once('error', (error) => resolve(`could not be started: ${error.message}`));
    child.once('close', (code, signal) => resolve(`ended with ${signal ?? `code ${code}`}`));
  }).finally(() => running.delete(child));
  const lines = createInterface({ input: child.stderr });
  let timer;
  try {
    const kubeconfig = await new Promise((resolve, reject) => {
      const fail = (what) => reject(new Error(`the server ${what}; its log:\n${log.join('\n')}`));
      timer = setTimeout(() => fail(`was not ready in ${timeout} ms`), timeout);
      ended.then(fail);
      lines.on('line', (line) => {
        log.push(line);
        if (log.length > LOG_LINES) log.shift();
        const ready = READY.exec(line);
        if (ready) resolve(ready[1]);
      });
    });
    // A test process need not wait for its server.
    child.unref();
    child.stderr.unref();
    return new Server(kubeconfig, child, ended, log);
  } catch (error) {
    await end(child, ended);
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** The server that a global setup has started, or any that KUBECONFIG leads to. */
export function current() {
  const kubeconfig = process.env.KUBECONFIG;
  if (!kubeconfig) throw new Error('KUBECONFIG is not set: has a global setup started a server?');
  return new Client(kubeconfig);
}

export class Server extends Client {
  #child;
  #ended;
  #log;

  constructor(kubeconfig, child, ended, log) {
    super(kubeconfig);
    this.#child = child;
    this.#ended = ended;
    this.#log = log;
  }

  get pid() {
    return this.#child.pid;
  }

  get log() {
    return this.#log.join('\n');
  }

  async stop() {
    await end(this.#child, this.#ended);
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.stop();
  }
}

async function end(child, ended) {
  if (child.exitCode === null && child.signalCode === null) child.kill();
  child.ref();
  const timer = setTimeout(() => child.kill('SIGKILL'), END_MS);
  await ended;
  clearTimeout(timer);
}
