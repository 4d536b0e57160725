// A server that is there, as its kubeconfig tells of it.
import { readFileSync } from 'node:fs';
import https from 'node:https';

/** An answer that is no success. */
export class ApiError extends Error {
  constructor(code, status) {
    super(`${code} ${status.reason ?? ''}: ${status.message ?? ''}`);
    this.name = 'ApiError';
    this.code = code;
    this.status = status;
  }
}

export class Client {
  constructor(kubeconfig) {
    // The server has written the file: one cluster and one user, a line for each value.
    const text = readFileSync(kubeconfig, 'utf8');
    this.kubeconfig = kubeconfig;
    this.url = value(text, /^ *server: "([^"]*)"$/m, kubeconfig);
    this.token = value(text, /^ *token: "([^"]*)"$/m, kubeconfig);
    this.ca = Buffer.from(value(text, /^ *certificate-authority-data: (\S+)$/m, kubeconfig), 'base64').toString();
  }

  get environ() {
    return { ...process.env, KUBECONFIG: this.kubeconfig };
  }

  request(method, path, body, { contentType = 'application/json' } = {}) {
    const headers = { authorization: `Bearer ${this.token}`, accept: 'application/json' };
    const text = body === undefined ? undefined : JSON.stringify(body);
    if (text !== undefined) {
      headers['content-type'] = contentType;
      headers['content-length'] = Buffer.byteLength(text);
    }
    return new Promise((resolve, reject) => {
      // No agent: a connection that is kept open would keep the process alive.
      const options = { method, headers, ca: this.ca, agent: false };
      const request = https.request(this.url + path, options, (response) => {
        const chunks = [];
        response.on('data', (chunk) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const answer = parsed(Buffer.concat(chunks).toString());
          if (response.statusCode < 300) resolve(answer);
          else reject(new ApiError(response.statusCode, typeof answer === 'object' ? answer : { message: answer }));
        });
      });
      request.on('error', reject);
      request.end(text);
    });
  }

  async createNamespace(prefix = 'test-') {
    const made = await this.request('POST', '/api/v1/namespaces', { metadata: { generateName: prefix } });
    return made.metadata.name;
  }

  async deleteNamespace(name) {
    try {
      await this.request('DELETE', `/api/v1/namespaces/${name}`);
    } catch (error) {
      if (error.code !== 404 && error.code !== 409) throw error;
    }
  }
}

function value(text, pattern, kubeconfig) {
  const found = pattern.exec(text);
  if (!found) throw new Error(`${kubeconfig} is not of a sternpost server`);
  return found[1];
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
