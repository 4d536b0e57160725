export default {
  globalSetup: 'sternpost/jest/setup',
  globalTeardown: 'sternpost/jest/teardown',
  globals: { sternpost: { load: process.env.STERNPOST_FIXTURES } },
  testMatch: ['**/*.test.js'],
  transform: {},
};
