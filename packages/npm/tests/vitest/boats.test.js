import { current } from 'sternpost';
import setup from 'sternpost/vitest';
import { expect, test } from 'vitest';

test('what the setup has loaded is there', async () => {
  const boat = await current().request('GET', '/apis/example.com/v1/namespaces/harbour/boats/loaded');
  expect(boat.spec).toEqual({ masts: 2 });
});

test('a namespace of its own', async () => {
  const server = current();
  const namespace = await server.createNamespace();
  const made = await server.request('POST', `/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name: 'a' } });
  expect(made.metadata.namespace).toBe(namespace);
  await server.deleteNamespace(namespace);
});

test('a setup leaves the environment as it was', async () => {
  const before = process.env.KUBECONFIG;
  const teardown = await setup();
  expect(process.env.KUBECONFIG).not.toBe(before);
  await teardown();
  expect(process.env.KUBECONFIG).toBe(before);
});
