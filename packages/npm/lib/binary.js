// Which program is started.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const name = process.platform === 'win32' ? 'sternpost.exe' : 'sternpost';

export function findBinary() {
  const chosen = process.env.STERNPOST_BINARY;
  if (chosen) {
    if (existsSync(chosen)) return chosen;
    throw new Error(`STERNPOST_BINARY is ${chosen}, and there is no such file`);
  }
  const platform = `@sternpost/${process.platform}-${process.arch}`;
  return packaged(platform) ?? onPath() ?? fail(platform);
}

function packaged(platform) {
  try {
    const manifest = createRequire(import.meta.url).resolve(`${platform}/package.json`);
    const program = path.join(path.dirname(manifest), 'bin', name);
    return existsSync(program) ? program : undefined;
  } catch {
    return undefined;
  }
}

// npm puts the commands of packages into folders of this name; ours would only search again.
function onPath() {
  const folders = (process.env.PATH ?? '').split(path.delimiter);
  const others = folders.filter((folder) => folder && !folder.endsWith(path.join('node_modules', '.bin')));
  return others.map((folder) => path.join(folder, name)).find((file) => existsSync(file));
}

function fail(platform) {
  throw new Error(
    `${platform} is not installed (is this platform supported, and were optional dependencies left out?), ` +
      'there is no sternpost on the PATH, and STERNPOST_BINARY is not set',
  );
}
