/** How a tool server is: as bad as the worst of its tools. */

import type { Served } from './served.js';

export type Status = 'healthy' | 'degraded' | 'unhealthy';
const ORDER: readonly Status[] = ['healthy', 'degraded', 'unhealthy'];
const PATIENCE_MS = 1_500; // the hall waits two seconds for the whole

export interface Health {
  status: Status;
  components: { tools: Record<string, Status> };
}

export async function healthOf(served: readonly Served[]): Promise<Health> {
  const found = await Promise.all(served.map(async (each) => [each.declaration.name, await statusOf(each)] as const));
  const tools = new Map<string, Status>();
  for (const [name, status] of found) tools.set(name, worse(tools.get(name) ?? 'healthy', status));
  return { status: [...tools.values()].reduce(worse, 'healthy'), components: { tools: Object.fromEntries(tools) } };
}

/** A check that fails, says nothing known or takes too long is a bad sign by itself. */
async function statusOf(served: Served): Promise<Status> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Status>((resolve) => {
    timer = setTimeout(() => resolve('unhealthy'), PATIENCE_MS);
  });
  const check = served.health().then(
    (said) => ORDER.find((each) => each === said) ?? 'unhealthy',
    () => 'unhealthy' as const,
  );
  try {
    return await Promise.race([check, late]);
  } finally {
    clearTimeout(timer);
  }
}

function worse(one: Status, other: Status): Status {
  return ORDER.indexOf(one) > ORDER.indexOf(other) ? one : other;
}
