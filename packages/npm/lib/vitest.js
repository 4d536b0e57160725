// globalSetup of vitest: one server for all tests, which find it by KUBECONFIG or `current()`.
import { start } from './index.js';

export function globalSetup(options) {
  return async () => {
    const server = await start(options);
    const before = process.env.KUBECONFIG;
    process.env.KUBECONFIG = server.kubeconfig;
    return async () => {
      if (before === undefined) delete process.env.KUBECONFIG;
      else process.env.KUBECONFIG = before;
      await server.stop();
    };
  };
}

export default globalSetup();
