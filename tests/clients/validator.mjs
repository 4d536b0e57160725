// Suite validator-node: two more public validators over every document.
//
//     node validator.mjs KUBECONFIG NODE_MODULES
import https from 'node:https';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [kubeconfig, modules] = process.argv.slice(2);
// The packages are installed outside the repository.
const require = createRequire(pathToFileURL(`${modules}/`));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { KubeConfig } = await load('@kubernetes/client-node');
const readme = await load('@readme/openapi-parser');
const { default: SwaggerParser } = await load('@apidevtools/swagger-parser');

let ran = 0;
let failed = 0;
function check(name, validator, complaint) {
  ran += 1;
  if (complaint) {
    failed += 1;
    console.log(`FAIL ${name}: ${validator}: ${complaint.slice(0, 2000)}`);
  }
}

const config = new KubeConfig();
config.loadFromFile(kubeconfig);
const options = {};
await config.applyToHTTPSOptions(options);

await validate('openapi v2', await read('/openapi/v2'));
// Both spellings of names; a kube-apiserver ignores the parameter.
const urls = new Set();
for (const root of ['/openapi/v3', '/openapi/v3?names=upstream']) {
  for (const entry of Object.values((await read(root)).paths)) urls.add(entry.serverRelativeURL);
}
for (const url of urls) {
  await validate(`openapi v3 ${url}`, await read(url));
}
console.log(`checks ${ran} failed ${failed}`);
process.exit(failed ? 1 : 0);

// Both resolve references in place, so each gets a copy. The second collects all
// errors of a document, which for a thoroughly wrong one takes more memory than
// there is, so it only sees what the first let pass.
async function validate(name, document) {
  try {
    await SwaggerParser.validate(structuredClone(document));
    check(name, '@apidevtools/swagger-parser', '');
  } catch (error) {
    check(name, '@apidevtools/swagger-parser', error.message);
    return;
  }
  const result = await readme.validate(structuredClone(document));
  check(name, '@readme/openapi-parser', result.valid ? '' : JSON.stringify(result.errors));
}

function read(path) {
  const url = new URL(path, config.getCurrentCluster().server);
  return new Promise((resolve, reject) => {
    const request = https.get(url, { ...options, headers: { ...options.headers, Accept: 'application/json' } }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        if (response.statusCode === 200) resolve(JSON.parse(text));
        else reject(new Error(`${path}: ${response.statusCode} ${text.slice(0, 200)}`));
      });
    });
    request.on('error', reject);
  });
}
