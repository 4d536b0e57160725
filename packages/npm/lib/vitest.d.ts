import type { Options } from './index.js';

/** A global setup with options, to be the default export of a file that `globalSetup` of vitest's settings names. */
export function globalSetup(options?: Options): () => Promise<() => Promise<void>>;

declare const setup: () => Promise<() => Promise<void>>;
export default setup;
