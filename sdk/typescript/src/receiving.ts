/** A message from the hall, whatever brought it, given to the desk. */

import { type Desk, responded } from './desk.js';
import { ToolError } from './errors.js';
import { type Ending, failed, type Outlet } from './running.js';
import { writeResponse } from './wire/endings.js';
import { Malformed } from './wire/fields.js';
import { type Order, readOrder } from './wire/orders.js';

/** What a message led to; `stop` is for a caller that goes away. */
export interface Received {
  kind: Order['kind'] | 'refused';
  ended: Promise<Ending>;
  stop(): void;
}

export function receive(desk: Desk, body: string, outlet: Outlet): Received {
  const stop = () => {};
  let order: Order;
  try {
    order = readOrder(body);
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    return { kind: 'refused', ended: Promise.resolve(refused(error)), stop };
  }
  switch (order.kind) {
    case 'call':
      return { kind: order.kind, ...desk.begin(order, outlet) };
    case 'answer': {
      const status = desk.answer(order) ? 'ok' : 'not_running';
      return { kind: order.kind, ended: Promise.resolve(responded(null, { status })), stop };
    }
    case 'request':
      return { kind: order.kind, ended: desk.request(order), stop };
  }
}

function refused(error: Malformed): Ending {
  const { id, message } = error;
  if (error.isCall) return failed({ id, tool: '', method: '' }, new ToolError(message, { code: 'INVALID_REQUEST' }));
  return refusal(400, 'INVALID_REQUEST', message, id);
}

export function refusal(status: number, code: string, message: string, id: Malformed['id'] = null): Ending {
  const error = { code, message, details: {} };
  return { message: writeResponse({ kind: 'response', id, result: null, error }), status };
}
