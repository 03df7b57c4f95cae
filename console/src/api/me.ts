/** The person who looks: who it is and what the console may show. */

import { signal } from '@preact/signals';
import { changeToken, HallError, hall, requireDialectToken, sessionEnded } from './client';
import type { Me } from './types';

/** Null until the hall has said who it is. */
export const me = signal<Me | null>(null);
/** Why `me` could not be asked for. */
export const meProblem = signal<HallError | null>(null);

/** Ask who the person is; true if the hall knows. A session that had ended is over with this. */
export async function askWhoIAm(): Promise<boolean> {
  try {
    const said = await hall.get<Me>('api/me');
    changeToken.value = said.token;
    requireDialectToken(said.profile === 'server');
    meProblem.value = null;
    me.value = said;
    sessionEnded.value = false;
    return true;
  } catch (error) {
    if (!(error instanceof HallError)) throw error;
    meProblem.value = error;
    return false;
  }
}

/** Whether the person may see what needs the scope `observe` or `admin`. */
export const mayLook = (): boolean => !!me.value && (me.value.may.manage || me.value.may.observe);
/** Whether the person may change the hall. */
export const mayManage = (): boolean => !!me.value?.may.manage;
