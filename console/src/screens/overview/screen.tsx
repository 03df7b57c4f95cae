/** Overview: is it well, and what needs me. In a hall that was never called, the first run is in its place. */

import './screen.css';
import { me } from '../../api/me';
import { FirstRun } from './first-run';
import { HallOverview } from './hall-overview';

export function OverviewScreen() {
  const person = me.value;
  const look = !!person && (person.may.manage || person.may.observe);
  return person?.firstRun && look ? <FirstRun /> : <HallOverview />;
}
