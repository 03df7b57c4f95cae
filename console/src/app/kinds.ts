/** The kinds of definitions: tools, resources and prompts have a screen each, and pages with the same tabs. */

import type { ToolSummary } from '../api/types';
import { href, type Query } from './router';

export type Kind = ToolSummary['kind'];

export const SCREEN_OF = { tool: 'tools', resource: 'resources', prompt: 'prompts' } as const;
export const ICON_OF = { tool: 'tool', resource: 'file', prompt: 'prompt' } as const;

/** The address of the page of a tool, a resource or a prompt. */
export function pageOf({ kind, id }: Pick<ToolSummary, 'kind' | 'id'>, tab: string, query: Query = {}): string {
  return href([SCREEN_OF[kind], id, tab], query);
}
