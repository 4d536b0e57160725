// Suite node: the generated classes of @kubernetes/client-node.
//
//     node node_client.mjs KUBECONFIG RECORDED NODE_MODULES
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [kubeconfig, recorded, modules] = process.argv.slice(2);
// The packages are installed outside the repository.
const require = createRequire(pathToFileURL(`${modules}/`));
const k8s = await import(pathToFileURL(require.resolve('@kubernetes/client-node')));

let ran = 0;
let failed = 0;
function check(ok, message) {
  ran += 1;
  if (!ok) {
    failed += 1;
    console.log(`FAIL ${message}`);
  }
}
function equal(what, got, expected) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(expected)];
  check(a === b, `${what}: ${a}, expected ${b}`);
}

const served = new Map();
for (const line of fs.readFileSync(`${recorded}/resources.tsv`, 'utf8').trimEnd().split('\n')) {
  const [groupVersion, name, singular, scope, , kind, verbs, shortNames, , hash] = line.split('\t');
  if (!served.has(groupVersion)) served.set(groupVersion, []);
  served.get(groupVersion).push([name, singular, scope === 'Namespaced', kind, verbs, shortNames, hash].join(' '));
}

const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);

const version = await config.makeApiClient(k8s.VersionApi).getCode();
equal('VersionApi', [version.major, version.minor], ['1', '36']);
const core = await config.makeApiClient(k8s.CoreApi).getAPIVersions();
equal('CoreApi', core.versions, ['v1']);
const groups = (await config.makeApiClient(k8s.ApisApi).getAPIVersions()).groups;
equal(
  'ApisApi',
  groups.flatMap((group) => group.versions.map((v) => v.groupVersion)).sort(),
  [...served.keys()].filter((v) => v !== 'v1').sort(),
);
const ready = await fetchReady();
check(ready, 'Health.readyz');

for (const name of Object.keys(k8s).filter((n) => /Api$/.test(n)).sort()) {
  if (!isServed(name)) continue;
  const api = config.makeApiClient(k8s[name]);
  if (typeof api.getAPIGroup === 'function') {
    const group = await api.getAPIGroup();
    check(group.versions.length > 0, `${name}.getAPIGroup`);
  }
  if (typeof api.getAPIResources === 'function') {
    const answer = await api.getAPIResources();
    const got = answer.resources.map((r) =>
      [r.name, r.singularName, r.namespaced, r.kind, r.verbs.join(), (r.shortNames ?? []).join(), r.storageVersionHash ?? ''].join(' '),
    );
    equal(`${name}.getAPIResources`, got.sort(), [...served.get(answer.groupVersion)].sort());
    served.delete(answer.groupVersion);
  }
}
equal('group versions no class reads', [...served.keys()], []);

console.log(`checks ${ran} failed ${failed}`);
process.exit(failed ? 1 : 0);

function fetchReady() {
  return new k8s.Health(config).readyz({});
}

// The package also has classes for beta versions, which are off by default.
function isServed(className) {
  return [...served.keys()].some((groupVersion) => {
    const [group, version] = groupVersion.includes('/') ? groupVersion.split('/') : ['core', groupVersion];
    const camel = group.replace(/\.k8s\.io$/, '').split('.').map(capital).join('');
    return className === `${camel}${capital(version)}Api` || (className === `${camel}Api` && group !== 'core');
  });
}

function capital(word) {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
