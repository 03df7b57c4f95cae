// client.ts
import { connect } from '@toolhall/sdk';
import type { calendar } from './calendar.js';

const hall = connect<typeof calendar>({ url: process.env.HALL_URL ?? 'http://127.0.0.1:8000' });
const { result } = await hall.call('Calendar.hours', { hours: [1, 2.5] });
console.log(result);
hall.close();
