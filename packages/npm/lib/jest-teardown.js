// globalTeardown of jest, in the process of its setup.
export default async function teardown() {
  await globalThis[Symbol.for('sternpost.server')]?.stop();
}
