// Suite node-objects: @kubernetes/client-node writes, reads and watches.
//
//     node node_objects.mjs KUBECONFIG NODE_MODULES
import { randomBytes } from 'node:crypto';
import { check, equal, eventually, fails, finish, load, part } from './checks.mjs';

const [kubeconfig, modules] = process.argv.slice(2);
const k8s = await load(modules);

const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const namespace = `node-${randomBytes(4).toString('hex')}`;
const path = `/api/v1/namespaces/${namespace}/configmaps`;

function configMap(name, labels, data) {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, labels }, data };
}
const create = (body) => core.createNamespacedConfigMap({ namespace, body });
const read = (name) => core.readNamespacedConfigMap({ namespace, name });
const replace = (name, body) => core.replaceNamespacedConfigMap({ namespace, name, body });
const remove = (name) => core.deleteNamespacedConfigMap({ namespace, name });
const list = (options) => core.listNamespacedConfigMap({ namespace, ...options });

await core.createNamespace({ body: { metadata: { name: namespace } } });
for (const run of [crud, changes, workloads, pages, objectApi, watching, informer, collections]) await part(run);
await part(cleanUp);
finish();

async function changes() {
  await create(configMap('changes', undefined, { key: 'value' }));
  const patch = (kind, body, rest) =>
    core.patchNamespacedConfigMap({ namespace, name: 'changes', body, ...rest }, k8s.setHeaderOptions('Content-Type', kind));
  await patch(k8s.PatchStrategy.MergePatch, { data: { merge: '1' } });
  await patch(k8s.PatchStrategy.StrategicMergePatch, { data: { strategic: '1' } });
  await patch(k8s.PatchStrategy.JsonPatch, [{ op: 'remove', path: '/data/key' }]);
  equal('patches', (await read('changes')).data, { merge: '1', strategic: '1' });
  const apply = (value, fieldManager, force) =>
    patch(k8s.PatchStrategy.ServerSideApply, configMap('changes', undefined, { applied: value }), { fieldManager, force });
  await apply('1', 'one');
  const status = await fails('conflict', 409, 'Conflict', () => apply('2', 'two'));
  equal('conflict', status?.details?.causes?.[0]?.reason, 'FieldManagerConflict');
  equal('force', (await apply('2', 'two', true)).data.applied, '2');
  await remove('changes');
}

async function crud() {
  const made = await create(configMap('crud', { a: 'b' }, { key: 'value' }));
  equal('create', [made.kind, made.data, made.metadata.labels], ['ConfigMap', { key: 'value' }, { a: 'b' }]);
  check(made.metadata.creationTimestamp instanceof Date, 'create: time');
  equal('read', (await read('crud')).metadata.uid, made.metadata.uid);
  const changed = await replace('crud', { ...made, data: { key: 'other' } });
  equal('replace', changed.data, { key: 'other' });
  await fails('stale replace', 409, 'Conflict', () => replace('crud', { ...made, data: { key: 'third' } }));
  await fails('create again', 409, 'AlreadyExists', () => create(configMap('crud')));
  const status = await fails('invalid', 422, 'Invalid', () => create(configMap('Not_A_Name')));
  equal('invalid: cause', status?.details?.causes?.map((c) => c.field), ['metadata.name']);
  await core.createNamespacedConfigMap({ namespace, body: configMap('dry'), dryRun: 'All' });
  await fails('dry run', 404, 'NotFound', () => read('dry'));
  const answer = await remove('crud');
  equal('delete', [answer.status, answer.details?.uid], ['Success', made.metadata.uid]);
  await fails('read deleted', 404, 'NotFound', () => read('crud'));
  await fails('delete deleted', 404, 'NotFound', () => remove('crud'));
}

async function workloads() {
  const labels = { app: 'web' };
  const containers = [{ name: 'c', image: 'nginx', ports: [{ containerPort: 80 }] }];
  const body = {
    metadata: { name: 'web' },
    spec: { replicas: 2, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } },
  };
  const made = await apps.createNamespacedDeployment({ namespace, body });
  equal('deployment: defaults', [made.spec.strategy.type, made.spec.revisionHistoryLimit], ['RollingUpdate', 10]);
  equal('deployment: port', made.spec.template.spec.containers[0].ports[0].protocol, 'TCP');
  made.status = { ...made.status, replicas: 2 };
  const status = await apps.replaceNamespacedDeploymentStatus({ namespace, name: 'web', body: made });
  equal('deployment: status', status.status.replicas, 2);
  await apps.deleteNamespacedDeployment({ namespace, name: 'web', propagationPolicy: 'Background' });
  const pod = await core.createNamespacedPod({ namespace, body: { metadata: { name: 'pod' }, spec: { containers } } });
  equal('pod', [pod.status.phase, pod.status.qosClass, pod.spec.restartPolicy], ['Pending', 'BestEffort', 'Always']);
  await core.deleteNamespacedPod({ namespace, name: 'pod', gracePeriodSeconds: 0 });
}

async function pages() {
  for (let i = 0; i < 5; i += 1) await create(configMap(`page-${i}`, { paged: 'yes' }));
  const names = [];
  let token;
  let requests = 0;
  do {
    const page = await list({ limit: 2, labelSelector: 'paged=yes', _continue: token });
    names.push(...page.items.map((item) => item.metadata.name));
    token = page.metadata._continue;
    requests += 1;
  } while (token);
  equal('pages', [names, requests], [['page-0', 'page-1', 'page-2', 'page-3', 'page-4'], 3]);
  const chosen = await list({ fieldSelector: 'metadata.name=page-3' });
  equal('field selector', chosen.items.map((item) => item.metadata.name), ['page-3']);
  await fails('bad token', 400, 'BadRequest', () => list({ limit: 1, _continue: 'nonsense' }));
}

async function objectApi() {
  const objects = k8s.KubernetesObjectApi.makeApiClient(config);
  const body = configMap('object', { object: 'yes' }, { a: '1' });
  body.metadata.namespace = namespace;
  const made = await objects.create(body);
  equal('object create', made.data, { a: '1' });
  equal('object read', (await objects.read(body)).metadata.uid, made.metadata.uid);
  const changed = await objects.replace({ ...body, data: { a: '2' } });
  equal('object replace', changed.data, { a: '2' });
  const listed = await objects.list('v1', 'ConfigMap', namespace, undefined, undefined, undefined, undefined, 'object=yes');
  equal('object list', listed.items.map((item) => item.metadata.name), ['object']);
  await objects.delete(body);
  await fails('object read deleted', 404, 'NotFound', () => objects.read(body));
}

async function watching() {
  const begin = (await list({})).metadata.resourceVersion;
  const events = [];
  let ended = false;
  const options = { resourceVersion: begin, labelSelector: 'watched=yes', allowWatchBookmarks: true };
  const request = await new k8s.Watch(config).watch(
    path,
    options,
    (type, object) => type !== 'BOOKMARK' && events.push([type, object.metadata.name, object.data?.a]),
    () => (ended = true),
  );
  const made = await create(configMap('watched', { watched: 'yes' }, { a: '1' }));
  await create(configMap('unwatched'));
  await replace('watched', { ...made, data: { a: '2' } });
  await remove('watched');
  await eventually('watch: three events', () => events.length >= 3);
  equal('watch', events, [
    ['ADDED', 'watched', '1'],
    ['MODIFIED', 'watched', '2'],
    ['DELETED', 'watched', '2'],
  ]);
  request.abort();
  await eventually('watch: ended', () => ended);

  let over = false;
  await new k8s.Watch(config).watch(path, { labelSelector: 'watched=never', timeoutSeconds: 1 }, () => {}, () => (over = true));
  await eventually('watch: its time is over', () => over);
}

async function informer() {
  await create(configMap('known', { informed: 'yes' }));
  const events = [];
  const selector = 'informed=yes';
  const source = k8s.makeInformer(config, path, () => list({ labelSelector: selector }), selector);
  for (const kind of ['add', 'update', 'delete']) source.on(kind, (object) => events.push(`${kind} ${object.metadata.name}`));
  source.on('error', (problem) => events.push(`error ${problem}`));
  await source.start();
  await eventually('informer: known object', () => events.length === 1);
  const made = await create(configMap('fresh', { informed: 'yes' }, { a: '1' }));
  await replace('fresh', { ...made, data: { a: '2' } });
  await eventually('informer: update', () => events.length === 3);
  equal('informer: cached', source.get('fresh', namespace)?.data, { a: '2' });
  await remove('known');
  await eventually('informer: delete', () => events.length === 4);
  equal('informer', events, ['add known', 'add fresh', 'update fresh', 'delete known']);
  equal('informer: list', source.list(namespace).map((object) => object.metadata.name), ['fresh']);
  await source.stop();
}

async function collections() {
  await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: 'paged=yes' });
  const left = (await list({})).items.map((item) => item.metadata.name);
  equal('delete collection', left, ['fresh', 'unwatched']);
}

// Leaves nothing, even on a server that runs no namespace controller.
async function cleanUp() {
  await core.deleteCollectionNamespacedConfigMap({ namespace });
  await core.deleteNamespace({ name: namespace });
  const body = await core.readNamespace({ name: namespace });
  equal('namespace: phase', body.status.phase, 'Terminating');
  body.spec.finalizers = [];
  await core.replaceNamespaceFinalize({ name: namespace, body });
  await fails('namespace: gone', 404, 'NotFound', () => core.readNamespace({ name: namespace }));
}
