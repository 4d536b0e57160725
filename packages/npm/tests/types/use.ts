// Compiled, not run: what users write has types.
import { ApiError, current, start, type Options, type Server } from 'sternpost';
import { globalSetup } from 'sternpost/vitest';

const options: Options = { load: ['crds/', new URL('file:///more')], controllers: false, flags: ['--log-level=debug'] };
const server: Server = await start(options);
const made = await server.request<{ metadata: { name: string } }>('POST', '/api/v1/namespaces', {});
const name: string = made.metadata.name;
try {
  await current().deleteNamespace(name);
} catch (error) {
  if (error instanceof ApiError) console.log(error.code + 1, error.status.reason);
}
// @ts-expect-error: there is no such option
await start({ nonsense: true });
export default globalSetup(options);
await server.stop();
