/** What the list and the page of a tool both say of it: state, deprecation, needs. */

import type { ToolSummary } from '../../api/types';
import { Chip, type Tone } from '../../ui/basics';
import { Marks } from '../../ui/marks';
import { day } from '../../words/format';
import { rich, t } from '../../words/messages';
import '../../words/en/tools';

export type ToolStateWord = ToolSummary['state'] | 'unreachable';

/** The state in which callers find a tool: active is not enough if nothing runs it. */
export function stateWord(tool: Pick<ToolSummary, 'state' | 'served'>): ToolStateWord {
  return tool.state === 'active' && !tool.served ? 'unreachable' : tool.state;
}

const TONES: Record<ToolStateWord, Tone> = {
  active: 'ok',
  unreachable: 'failed',
  quarantined: 'person',
  inactive: 'plain',
  withheld: 'plain',
  registered: 'plain',
};

export function ToolState({ tool }: { tool: Pick<ToolSummary, 'state' | 'served'> }) {
  const word = stateWord(tool);
  return (
    <Chip tone={TONES[word]} {...(word === 'active' ? { icon: 'check' as const } : {})}>
      {t(`tools.states.${word}`)}
    </Chip>
  );
}

/** The URI of a resource, or its template. */
export function Uri({ uri }: { uri: string }) {
  return (
    <code class="uri tiny anywhere">
      <Marks text={uri} cut={200} />
    </code>
  );
}

export function MimeType({ type }: { type: string }) {
  return (
    <span class="chip mono anywhere">
      <Marks text={type} cut={40} />
    </span>
  );
}

/** Says that a tool will go, and when. */
export function Deprecation({ tool }: { tool: Pick<ToolSummary, 'deprecatedAt' | 'sunset'> }) {
  if (tool.sunset) return <Chip tone="refused">{t('tools.ends', { day: day(tool.sunset) })}</Chip>;
  return tool.deprecatedAt ? <Chip tone="refused">{t('tools.deprecated')}</Chip> : null;
}

const NEED_ICONS = { secret: 'secret', account: 'link', user: 'person' } as const;

export function Needs({ tool }: { tool: Pick<ToolSummary, 'requirements'> }) {
  return (
    <>
      {(tool.requirements ?? []).map(({ kind, name }) => (
        <Chip key={`${kind} ${name}`} icon={NEED_ICONS[kind]}>
          {kind === 'user'
            ? t('tools.needs.user')
            : rich(`tools.needs.${kind}`, { name: <Marks text={name} cut={60} /> })}
        </Chip>
      ))}
    </>
  );
}
