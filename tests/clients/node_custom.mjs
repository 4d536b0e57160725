// Suite node-custom: @kubernetes/client-node defines custom resources and uses
// them, with its generated CustomObjectsApi and its KubernetesObjectApi.
//
//     node node_custom.mjs KUBECONFIG NODE_MODULES
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { check, equal, eventually, fails, finish, load, part } from './checks.mjs';

const [kubeconfig, modules] = process.argv.slice(2);
const k8s = await load(modules);
const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);
const core = config.makeApiClient(k8s.CoreV1Api);
const extensions = config.makeApiClient(k8s.ApiextensionsV1Api);
const custom = config.makeApiClient(k8s.CustomObjectsApi);

const namespace = `node-${randomBytes(4).toString('hex')}`;
const group = `${namespace}.example.com`;
const sails = { group, version: 'v1', namespace, plural: 'sails' };
const harbours = { group, version: 'v1', plural: 'harbours' };
const path = `/apis/${group}/v1/namespaces/${namespace}/sails`;
const { JsonPatch, MergePatch, StrategicMergePatch, ServerSideApply } = k8s.PatchStrategy;

function definition(file) {
  const text = readFileSync(new URL(`custom/${file}`, import.meta.url), 'utf8');
  return k8s.loadYaml(text.replaceAll('NAMESPACE', namespace));
}
function sail(name, spec, labels, version = 'v1') {
  return { apiVersion: `${group}/${version}`, kind: 'Sail', metadata: { name, labels }, spec };
}
const create = (name, spec, labels) => custom.createNamespacedCustomObject({ ...sails, body: sail(name, spec, labels) });
const read = (name) => custom.getNamespacedCustomObject({ ...sails, name });
const replace = (body) => custom.replaceNamespacedCustomObject({ ...sails, name: body.metadata.name, body });
const list = (options) => custom.listNamespacedCustomObject({ ...sails, ...options });
const remove = (name, options) => custom.deleteNamespacedCustomObject({ ...sails, name, ...options });
const as = (kind) => k8s.setHeaderOptions('Content-Type', kind);
const patch = (name, kind, body, options) => custom.patchNamespacedCustomObject({ ...sails, name, body, ...options }, as(kind));
const names = (answer) => answer.items.map((item) => item.metadata.name);

await core.createNamespace({ body: { metadata: { name: namespace } } });
const parts = [definitions, crud, values, lists, patches, apply, subresources, versions, clusterObjects];
for (const run of [...parts, objectApi, watching, informer, deletes, changedDefinition]) await part(run);
await part(cleanUp);
finish();

// What discovery knows of a version; a real server is a moment late.
async function served(version) {
  try {
    return (await custom.getAPIResources({ group, version })).resources.map((resource) => resource.name).sort();
  } catch {
    return [];
  }
}

async function definitions() {
  const made = await extensions.createCustomResourceDefinition({ body: definition('sails.yaml') });
  equal('definition', [made.metadata.generation, made.spec.conversion.strategy, made.status.storedVersions], [1, 'None', ['v1']]);
  await extensions.createCustomResourceDefinition({ body: definition('harbours.yaml') });
  for (const plural of ['sails', 'harbours']) {
    let conditions;
    await eventually(`${plural}: established`, async () => {
      const found = await extensions.readCustomResourceDefinition({ name: `${plural}.${group}` });
      conditions = Object.fromEntries((found.status.conditions ?? []).map((c) => [c.type, [c.status, c.reason]]));
      return conditions.Established?.[0] === 'True';
    });
    equal(`${plural}: conditions`, conditions, {
      NamesAccepted: ['True', 'NoConflicts'],
      Established: ['True', 'InitialNamesAccepted'],
    });
    await eventually(`${plural}: served`, async () => (await served('v1')).includes(plural));
  }
  equal('resources', await served('v1'), ['harbours', 'sails', 'sails/scale', 'sails/status']);
  await fails('definition: again', 409, 'AlreadyExists', () => extensions.createCustomResourceDefinition({ body: definition('sails.yaml') }));
  const status = await fails('definition: broken', 422, 'Invalid', () =>
    extensions.createCustomResourceDefinition({ body: definition('broken.yaml') }),
  );
  check(status?.details?.causes?.some((c) => c.field === 'metadata.name'), `definition: ${status?.message}`);
  const schema = (await extensions.readCustomResourceDefinition({ name: `sails.${group}` })).spec.versions[0].schema.openAPIV3Schema;
  const { colour, area, opening } = schema.properties.spec.properties;
  equal('definition: schema', [colour._default, colour._enum, area.minimum], ['white', ['white', 'red', 'tanned'], 1]);
  equal('definition: extension', opening.x_kubernetes_int_or_string, true);
}

async function crud() {
  const made = await create('crud', { area: 5 }, { a: 'b' });
  equal('create: defaults', made.spec, { area: 5, colour: 'white', replicas: 1 });
  equal('create: metadata', [made.metadata.generation, made.metadata.labels], [1, { a: 'b' }]);
  equal('read', await read('crud'), made);
  const changed = await replace({ ...made, spec: { ...made.spec, area: 6 } });
  equal('replace', [changed.spec.area, changed.metadata.generation], [6, 2]);
  await fails('replace: stale', 409, 'Conflict', () => replace(made));
  await fails('replace: no version', 422, 'Invalid', () => replace(sail('crud', { area: 7 })));
  const exists = await fails('create: again', 409, 'AlreadyExists', () => create('crud', { area: 1 }));
  equal('create: again text', exists?.message, `sails.${group} "crud" already exists`);
  await custom.createNamespacedCustomObject({ ...sails, body: sail('dry', { area: 1 }), dryRun: 'All' });
  const missing = await fails('dry run', 404, 'NotFound', () => read('dry'));
  equal('dry run: details', missing?.details, { name: 'dry', group, kind: 'sails' });
  const answer = await remove('crud');
  equal('delete', [answer.status, answer.details.uid, answer.details.group], ['Success', made.metadata.uid, group]);
  await fails('delete again', 404, 'NotFound', () => remove('crud'));
}

async function values() {
  const reefs = [{ name: 'a', knots: 1 }];
  const made = await create('values', { area: 5, weight: 3, reefs, settings: { any: [1] }, note: null, opening: '5%', battens: [1.5, 2] });
  equal('pruned and defaulted', made.spec, {
    area: 5,
    battens: [1.5, 2],
    colour: 'white',
    note: null,
    opening: '5%',
    reefs: [{ depth: 1, name: 'a' }],
    replicas: 1,
    settings: { any: [1] },
  });
  const cases = [
    ['required', { colour: 'red' }, 'FieldValueRequired', 'spec.area'],
    ['type', { area: 'big' }, 'FieldValueTypeInvalid', 'spec.area'],
    ['enum', { area: 1, colour: 'blue' }, 'FieldValueNotSupported', 'spec.colour'],
    ['range', { area: 5001 }, 'FieldValueInvalid', 'spec.area'],
    ['set', { area: 1, tags: ['a', 'a'] }, 'FieldValueDuplicate', 'spec.tags[1]'],
    ['int or string', { area: 1, opening: 1.5 }, 'FieldValueTypeInvalid', 'spec.opening'],
    ['rule', { area: 2000, colour: 'red' }, 'FieldValueForbidden', 'spec.colour'],
    ['rule with expression', { area: 1, reefs: [{ name: 'a', depth: 2 }] }, 'FieldValueInvalid', 'spec'],
  ];
  for (const [what, spec, reason, field] of cases) {
    const status = await fails(what, 422, 'Invalid', () => create('refused', spec));
    const causes = status?.details?.causes?.filter((c) => c.field !== '<nil>').map((c) => [c.reason, c.field]);
    equal(`${what}: causes`, causes, [[reason, field]]);
  }
  const strict = await fails('strict', 400, 'BadRequest', () =>
    custom.createNamespacedCustomObject({ ...sails, body: sail('strict', { area: 1, weight: 2 }), fieldValidation: 'Strict' }),
  );
  check(strict?.message.includes('unknown field "spec.weight"'), `strict: ${strict?.message}`);
  await remove('values');
}

async function lists() {
  const colours = ['red', 'white', 'red', 'tanned', 'white'];
  for (const [i, colour] of colours.entries()) await create(`list-${i}`, { area: 10 + i, colour }, { mast: i < 2 ? 'main' : 'fore' });
  const all = await list({ labelSelector: 'mast' });
  equal('list', [all.kind, all.apiVersion, names(all)], ['SailList', `${group}/v1`, colours.map((_, i) => `list-${i}`)]);
  equal('label selector', names(await list({ labelSelector: 'mast=main' })), ['list-0', 'list-1']);
  equal('field selector', names(await list({ fieldSelector: 'spec.colour=red' })), ['list-0', 'list-2']);
  equal('field selector: two', names(await list({ fieldSelector: 'spec.colour!=red,spec.area=13' })), ['list-3']);
  await fails('field selector: other', 400, 'BadRequest', () => list({ fieldSelector: 'spec.material=flax' }));
  const pages = [];
  let token;
  do {
    const page = await list({ labelSelector: 'mast', limit: 2, _continue: token });
    pages.push(names(page));
    token = page.metadata.continue;
  } while (token);
  equal('pages', pages, [['list-0', 'list-1'], ['list-2', 'list-3'], ['list-4']]);
  const everywhere = await custom.listCustomObjectForAllNamespaces({ group, version: 'v1', plural: 'sails', resourcePlural: 'sails', labelSelector: 'mast=main' });
  equal('all namespaces', names(everywhere), ['list-0', 'list-1']);
  await custom.deleteCollectionNamespacedCustomObject({ ...sails, labelSelector: 'mast=fore' });
  equal('delete collection', names(await list({ labelSelector: 'mast' })), ['list-0', 'list-1']);
  await custom.deleteCollectionNamespacedCustomObject({ ...sails, labelSelector: 'mast' });
}

async function patches() {
  await create('patched', { area: 5, tags: ['a'], marks: { x: '1', y: '2' } });
  const merged = await patch('patched', MergePatch, { spec: { marks: { x: null, z: '3' } } });
  equal('merge patch', merged.spec.marks, { y: '2', z: '3' });
  const changed = await patch('patched', JsonPatch, [{ op: 'add', path: '/spec/tags/-', value: 'b' }]);
  equal('JSON patch', [changed.spec.tags, changed.metadata.generation], [['a', 'b'], 3]);
  const status = await fails('strategic patch', 415, 'UnsupportedMediaType', () => patch('patched', StrategicMergePatch, { spec: {} }));
  check(status?.message.includes('application/apply-patch+yaml'), `strategic patch: ${status?.message}`);
  await fails('patch: invalid', 422, 'Invalid', () => patch('patched', MergePatch, { spec: { area: 0 } }));
  await remove('patched');
}

async function apply() {
  const applied = (fieldManager, spec, force) => patch('applied', ServerSideApply, sail('applied', spec), { fieldManager, force });
  const made = await applied('one', { area: 5, reefs: [{ name: 'a', depth: 2 }] });
  equal('apply', made.spec.reefs, [{ depth: 2, name: 'a' }]);
  const both = await applied('two', { reefs: [{ name: 'b' }] });
  equal('apply: merged by key', both.spec.reefs, [{ depth: 2, name: 'a' }, { depth: 1, name: 'b' }]);
  const status = await fails('apply: conflict', 409, 'Conflict', () => applied('two', { area: 6 }));
  equal('apply: cause', status?.details?.causes, [{ reason: 'FieldManagerConflict', message: 'conflict with "one"', field: '.spec.area' }]);
  const forced = await applied('two', { area: 6 }, true);
  equal('apply: forced', [forced.spec.area, forced.spec.reefs.length], [6, 1]);
  await remove('applied');
}

async function subresources() {
  const made = await create('sub', { area: 5, replicas: 3 });
  const body = { ...made, spec: { area: 9 }, status: { replicas: 2, selector: 'a=b', odd: 1 } };
  const shown = await custom.replaceNamespacedCustomObjectStatus({ ...sails, name: 'sub', body });
  equal('status', [shown.spec.area, shown.status, shown.metadata.generation], [5, { replicas: 2, selector: 'a=b' }, 1]);
  const conditions = [{ type: 'Ready', status: 'True' }];
  const more = await custom.patchNamespacedCustomObjectStatus({ ...sails, name: 'sub', body: { status: { conditions } } }, as(MergePatch));
  equal('status: patch', [more.status.conditions, more.status.replicas], [[{ status: 'True', type: 'Ready' }], 2]);
  equal('status: read', (await custom.getNamespacedCustomObjectStatus({ ...sails, name: 'sub' })).status, more.status);
  const scale = await custom.getNamespacedCustomObjectScale({ ...sails, name: 'sub' });
  equal('scale', [scale.kind, scale.apiVersion, scale.spec, scale.status], ['Scale', 'autoscaling/v1', { replicas: 3 }, { replicas: 2, selector: 'a=b' }]);
  const scaled = await custom.replaceNamespacedCustomObjectScale({ ...sails, name: 'sub', body: { ...scale, spec: { replicas: 4 } } });
  equal('scale: replace', scaled.spec.replicas, 4);
  const again = await custom.patchNamespacedCustomObjectScale({ ...sails, name: 'sub', body: { spec: { replicas: 5 } } }, as(MergePatch));
  equal('scale: patch', again.spec.replicas, 5);
  const last = await read('sub');
  equal('scale: object', [last.spec.replicas, last.metadata.generation], [5, 3]);
  await remove('sub');
}

async function versions() {
  const old = { ...sails, version: 'v1beta1' };
  const answer = await custom.createNamespacedCustomObjectWithHttpInfo({ ...old, body: sail('old', { area: 5 }, undefined, 'v1beta1') });
  equal('old version: warning', answer.headers.warning, '299 - "v1beta1 sails are torn; take v1"');
  equal('old version', answer.data.apiVersion, `${group}/v1beta1`);
  const seen = await read('old');
  equal('new version', [seen.apiVersion, seen.spec.colour, seen.metadata.uid], [`${group}/v1`, 'white', answer.data.metadata.uid]);
  await remove('old');
}

async function clusterObjects() {
  const body = { apiVersion: `${group}/v1`, kind: 'Harbour', metadata: { name: namespace }, depth: 12, piers: [{ length: 1.5 }] };
  const made = await custom.createClusterCustomObject({ ...harbours, body });
  equal('cluster', [made.depth, made.piers, made.metadata.namespace], [12, [{ length: 1.5 }], undefined]);
  const patched = await custom.patchClusterCustomObject({ ...harbours, name: namespace, body: { depth: 13 } }, as(MergePatch));
  equal('cluster: patch', [patched.depth, patched.metadata.generation], [13, 2]);
  equal('cluster: list', names(await custom.listClusterCustomObject(harbours)), [namespace]);
  await custom.deleteClusterCustomObject({ ...harbours, name: namespace });
  await fails('cluster: deleted', 404, 'NotFound', () => custom.getClusterCustomObject({ ...harbours, name: namespace }));
}

async function objectApi() {
  const objects = k8s.KubernetesObjectApi.makeApiClient(config);
  const body = sail('object', { area: 3 }, { object: 'yes' });
  body.metadata.namespace = namespace;
  const made = await objects.create(body);
  equal('object create', made.spec, { area: 3, colour: 'white', replicas: 1 });
  equal('object read', (await objects.read(body)).metadata.uid, made.metadata.uid);
  const replaced = await objects.replace({ ...made, spec: { ...made.spec, area: 4 } });
  equal('object replace', replaced.spec.area, 4);
  const header = { apiVersion: body.apiVersion, kind: 'Sail', metadata: { name: 'object', namespace } };
  const merged = await objects.patch({ ...header, spec: { marks: { a: 'b' } } }, undefined, undefined, undefined, undefined, MergePatch);
  equal('object merge patch', merged.spec.marks, { a: 'b' });
  // What the client sends if it is told nothing.
  await fails('object strategic patch', 415, 'UnsupportedMediaType', () => objects.patch({ ...header, spec: { area: 9 } }));
  const applied = await objects.patch({ ...header, spec: { tags: ['t'] } }, undefined, undefined, 'objects', true, ServerSideApply);
  equal('object apply', [applied.spec.tags, applied.spec.area], [['t'], 4]);
  const listed = await objects.list(`${group}/v1`, 'Sail', namespace, undefined, undefined, undefined, 'spec.colour=white', 'object=yes');
  equal('object list', names(listed), ['object']);
  await objects.delete(body);
  await fails('object read deleted', 404, 'NotFound', () => objects.read(body));
  const harbour = await objects.create({ apiVersion: `${group}/v1`, kind: 'Harbour', metadata: { name: `${namespace}-object` } });
  equal('object cluster', harbour.metadata.generation, 1);
  await objects.delete(harbour);
}

async function watching() {
  const begin = (await list({})).metadata.resourceVersion;
  const all = [];
  const red = [];
  const watches = [];
  for (const [events, options] of [[all, { labelSelector: 'watched=yes', allowWatchBookmarks: true }], [red, { fieldSelector: 'spec.colour=red' }]]) {
    watches.push(
      await new k8s.Watch(config).watch(
        path,
        { resourceVersion: begin, ...options },
        (type, object) => type !== 'BOOKMARK' && events.push([type, object.metadata.name, object.spec.area]),
        () => {},
      ),
    );
  }
  const made = await create('watched', { area: 1, colour: 'red' }, { watched: 'yes' });
  await create('unwatched', { area: 1 });
  await replace({ ...made, spec: { ...made.spec, area: 2 } });
  await patch('watched', MergePatch, { spec: { colour: 'white' } });
  await remove('watched');
  await eventually('watch: events', () => all.length >= 4 && red.length >= 3);
  equal('watch', all, [['ADDED', 'watched', 1], ['MODIFIED', 'watched', 2], ['MODIFIED', 'watched', 2], ['DELETED', 'watched', 2]]);
  // To a watcher of red sails, one that turns white is gone.
  equal('watch: field selector', red, [['ADDED', 'watched', 1], ['MODIFIED', 'watched', 2], ['DELETED', 'watched', 2]]);
  for (const request of watches) request.abort();
  await remove('unwatched');
}

async function informer() {
  await create('known', { area: 1 }, { informed: 'yes' });
  const events = [];
  const selector = 'informed=yes';
  const source = k8s.makeInformer(config, path, () => list({ labelSelector: selector }), selector);
  for (const kind of ['add', 'update', 'delete']) source.on(kind, (object) => events.push(`${kind} ${object.metadata.name}`));
  source.on('error', (problem) => events.push(`error ${problem}`));
  await source.start();
  await eventually('informer: known object', () => events.length === 1);
  const made = await create('fresh', { area: 1 }, { informed: 'yes' });
  await replace({ ...made, spec: { ...made.spec, area: 2 } });
  await eventually('informer: update', () => events.length === 3);
  equal('informer: cached', source.get('fresh', namespace)?.spec.area, 2);
  await remove('known');
  await eventually('informer: delete', () => events.length === 4);
  equal('informer', events, ['add known', 'add fresh', 'update fresh', 'delete known']);
  await source.stop();
  await remove('fresh');
}

async function deletes() {
  const body = sail('held', { area: 1 });
  body.metadata.finalizers = ['example.com/hold'];
  await custom.createNamespacedCustomObject({ ...sails, body });
  const going = await remove('held');
  equal('delete: held', [going.kind, going.metadata.finalizers, going.metadata.deletionGracePeriodSeconds], ['Sail', ['example.com/hold'], 0]);
  going.metadata.finalizers = [];
  await replace(going);
  await fails('delete: let go', 404, 'NotFound', () => read('held'));
  await create('kept', { area: 1 });
  const left = await remove('kept', { propagationPolicy: 'Orphan' });
  equal('delete: orphan', left.metadata.finalizers, ['orphan']);
  await patch('kept', JsonPatch, [{ op: 'remove', path: '/metadata/finalizers' }]);
  await fails('delete: orphaned', 404, 'NotFound', () => read('kept'));
}

async function changedDefinition() {
  const name = `sails.${group}`;
  await create('early', { area: 5 });
  const before = await extensions.readCustomResourceDefinition({ name });
  const body = definition('sails-changed.yaml');
  body.metadata.resourceVersion = before.metadata.resourceVersion;
  equal('changed', (await extensions.replaceCustomResourceDefinition({ name, body })).metadata.generation, 2);
  await eventually('changed: new version', async () => (await served('v2')).length > 0);
  await eventually('changed: old version gone', async () => (await served('v1beta1')).length === 0);
  await eventually('changed: new field', async () => {
    const made = await custom.createNamespacedCustomObject({ ...sails, body: sail('weighed', { area: 5, weight: 7 }), dryRun: 'All' });
    return made.spec.weight === 7;
  });
  const v2 = await custom.getNamespacedCustomObject({ ...sails, version: 'v2', name: 'early' });
  equal('changed: other schema', [v2.apiVersion, v2.spec], [`${group}/v2`, { area: 5 }]);
  const patched = await extensions.patchCustomResourceDefinition({ name, body: { metadata: { labels: { seen: 'yes' } } } }, as(StrategicMergePatch));
  equal('changed: strategic patch of a definition', patched.metadata.labels.seen, 'yes');
}

// Leaves nothing, even on a server that runs no namespace controller.
async function cleanUp() {
  for (const plural of ['sails', 'harbours']) {
    const name = `${plural}.${group}`;
    await extensions.deleteCustomResourceDefinition({ name });
    await eventually(`${plural}: definition gone`, () =>
      extensions.readCustomResourceDefinition({ name }).then(() => false, (problem) => problem.code === 404),
    );
    await eventually(`${plural}: no longer served`, async () => !(await served('v1')).includes(plural));
  }
  await core.deleteNamespace({ name: namespace });
  const body = await core.readNamespace({ name: namespace });
  body.spec.finalizers = [];
  await core.replaceNamespaceFinalize({ name: namespace, body });
  await fails('namespace: gone', 404, 'NotFound', () => core.readNamespace({ name: namespace }));
}
