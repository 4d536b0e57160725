import { globalSetup } from 'sternpost/vitest';

export default globalSetup({ load: process.env.STERNPOST_FIXTURES });
