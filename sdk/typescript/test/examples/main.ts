// main.ts
import { join } from '@toolhall/sdk';
import { calendar } from './calendar.js';
import { Echo } from './echo.js';

const joined = await join([calendar, new Echo()], { hall: process.env.HALL_URL ?? 'http://127.0.0.1:8000' });
console.log(joined.tools);
