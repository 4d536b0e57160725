// Makes the packages, as npm publishes them: `sternpost`, and one with the program for a platform.
//
//     node pack.mjs --output DIR [--binary PROGRAM --platform linux-x64]
//
// Without a program only the first is made.
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

const here = import.meta.dirname;
const strings = { type: 'string' };
const { values } = parseArgs({ options: { output: strings, binary: strings, platform: strings } });
const output = path.resolve(values.output ?? '.');
const main = JSON.parse(readFileSync(path.join(here, 'package.json'), 'utf8'));
const licence = path.join(here, '../../LICENSE');

mkdirSync(output, { recursive: true });
if (values.binary) pack(stagePlatform);
else pack(stageMain);

function pack(stage) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'sternpost-npm-'));
  try {
    stage(folder);
    copyFileSync(licence, path.join(folder, 'LICENSE'));
    const made = execFileSync('npm', ['pack', '--silent', '--pack-destination', output], {
      cwd: folder,
      encoding: 'utf8',
      shell: process.platform === 'win32',
    });
    console.log(path.join(output, made.trim().split('\n').at(-1)));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function stageMain(folder) {
  for (const part of ['package.json', 'README.md', 'bin', 'lib']) {
    cpSync(path.join(here, part), path.join(folder, part), { recursive: true });
  }
}

function stagePlatform(folder) {
  const { platform, binary } = values;
  const name = `@sternpost/${platform}`;
  if (!(name in main.optionalDependencies)) throw new Error(`${name} is not among the optionalDependencies`);
  const [system, cpu] = platform.split('-');
  const program = system === 'win32' ? 'bin/sternpost.exe' : 'bin/sternpost';
  const manifest = {
    name,
    version: main.version,
    description: `The program sternpost for ${platform}`,
    license: main.license,
    os: [system],
    cpu: [cpu],
    files: ['bin'],
    // Programs cannot be run from an archive.
    preferUnplugged: true,
  };
  mkdirSync(path.join(folder, 'bin'));
  copyFileSync(binary, path.join(folder, program));
  chmodSync(path.join(folder, program), 0o755);
  writeFileSync(path.join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  writeFileSync(path.join(folder, 'README.md'), `The program of the package \`sternpost\` for ${platform}.\n`);
}
