import { current } from 'sternpost';

test('what the setup has loaded is there', async () => {
  const boat = await current().request('GET', '/apis/example.com/v1/namespaces/harbour/boats/loaded');
  expect(boat.spec).toEqual({ masts: 2 });
});

test('an error is one of the API', async () => {
  await expect(current().request('GET', '/api/v1/namespaces/nowhere')).rejects.toThrow('404 NotFound');
});
