export interface Options {
  /** Files, directories and kustomizations whose objects are there from the beginning. */
  load?: string | URL | readonly (string | URL)[];
  /** `false` for none, or what `--controllers` takes. */
  controllers?: boolean | string;
  /** Further flags of `sternpost serve`. */
  flags?: readonly string[];
  /** How long it may take to be ready, in milliseconds. */
  timeout?: number;
}

/** An answer that is no success, with the `Status` that the server sent. */
export class ApiError extends Error {
  constructor(code: number, status: Record<string, unknown>);
  readonly code: number;
  readonly status: Record<string, any>;
}

/** A server that is there, as its kubeconfig tells of it. */
export class Client {
  constructor(kubeconfig: string);
  /** Where it is, as https://127.0.0.1:PORT. */
  readonly url: string;
  /** Path of a kubeconfig whose user may do everything. */
  readonly kubeconfig: string;
  readonly token: string;
  /** The certificate of the server's authority, as PEM. */
  readonly ca: string;
  /** The environment of this process with KUBECONFIG, for programs that tests start. */
  readonly environ: NodeJS.ProcessEnv;
  /** One request; the answer as JSON gives it. Rejects with an `ApiError` unless it is a success. */
  request<T = any>(method: string, path: string, body?: unknown, options?: { contentType?: string }): Promise<T>;
  /** A new namespace, whose name begins so. */
  createNamespace(prefix?: string): Promise<string>;
  /** Asks for its end and does not wait. */
  deleteNamespace(name: string): Promise<void>;
}

export class Server extends Client {
  readonly pid: number;
  /** What the server has written so far, or the last of it. */
  readonly log: string;
  /** Ends the server. Nothing is left of it. */
  stop(): Promise<void>;
}

/** A server that keeps nothing, once it is ready. It ends with this process at the latest. */
export function start(options?: Options): Promise<Server>;

/** The server that a global setup has started, or any that KUBECONFIG leads to. */
export function current(): Client;

/** The program: what STERNPOST_BINARY names, else the one of the platform's package, else the one on the PATH. */
export function findBinary(): string;
