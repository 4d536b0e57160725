// globalSetup of jest: one server for all tests, which find it by KUBECONFIG or `current()`.
// What `globals.sternpost` of jest's settings has are its options.
import { start } from './index.js';

export default async function setup(_, project) {
  const server = await start(project?.globals?.sternpost);
  globalThis[Symbol.for('sternpost.server')] = server;
  process.env.KUBECONFIG = server.kubeconfig;
}
