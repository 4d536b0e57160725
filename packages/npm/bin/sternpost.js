#!/usr/bin/env node
// The command `sternpost`: the program itself.
import { spawn } from 'node:child_process';
import os from 'node:os';

import { findBinary } from '../lib/binary.js';

try {
  const child = spawn(findBinary(), process.argv.slice(2), { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => fail(error));
  child.on('exit', (code, signal) => process.exit(code ?? 128 + os.constants.signals[signal]));
} catch (error) {
  fail(error);
}

function fail(error) {
  console.error(`error: ${error.message}`);
  process.exit(1);
}
