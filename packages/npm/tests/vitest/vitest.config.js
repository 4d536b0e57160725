export default { test: { globalSetup: './setup.js', include: ['*.test.js'] } };
