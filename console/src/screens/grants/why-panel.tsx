/** `WhyPanel`: what would become of a call, stage by stage, without making it. */

import { useState } from 'preact/hooks';
import { HallError, hall } from '../../api/client';
import type { CallerRow, CheckAnswer, Json, NewGrant, ToolPage } from '../../api/types';
import { href, query, setQuery } from '../../app/router';
import { Chip, type Tone } from '../../ui/basics';
import { Icon, type IconName } from '../../ui/icon';
import { checkJson, JsonInput } from '../../ui/json';
import { Marks } from '../../ui/marks';
import { Combobox } from '../../ui/menu';
import { Question } from '../../ui/question';
import { t } from '../../words/messages';
import '../../words/en/grants';

export function WhyPanel() {
  const [caller, setCaller] = useState(query('caller'));
  const [tool, setTool] = useState(query('tool'));
  const [text, setText] = useState('');
  return (
    <Question
      id="why"
      title={t('grants.whyTitle')}
      about={t('grants.whyAbout')}
      verb={t('grants.ask')}
      ready={caller.trim() !== '' && tool.trim() !== ''}
      atOnce={query('caller') !== '' && query('tool') !== ''}
      ask={() => {
        setQuery({ caller, tool });
        return ask(caller, tool, text);
      }}
      answer={(said) => <CheckResult answer={said} />}
    >
      <div class="columns">
        <CallAsked id="why" caller={caller} onCaller={setCaller} tool={tool} onTool={setTool} />
      </div>
      <JsonInput
        label={t('grants.whyArguments')}
        hint={t('grants.whyArgumentsHint')}
        text={text}
        onInput={setText}
        rows={4}
      />
    </Question>
  );
}

interface CallAskedProps {
  id: string;
  caller: string;
  onCaller: (caller: string) => void;
  tool: string;
  onTool: (tool: string) => void;
}

/** Whose call of what is asked about. */
export function CallAsked({ id, caller, onCaller, tool, onTool }: CallAskedProps) {
  return (
    <>
      <div class="field">
        <label for={`${id}-caller`}>{t('grants.whyCaller')}</label>
        <Combobox id={`${id}-caller`} text={caller} onInput={onCaller} suggest={suggestCallers} />
      </div>
      <div class="field">
        <label for={`${id}-tool`}>{t('grants.whyTool')}</label>
        <Combobox id={`${id}-tool`} text={tool} onInput={onTool} suggest={suggestTools} />
      </div>
    </>
  );
}

/** Ask the hall what would become of a call; `draft` is judged as if it were a grant already. */
export async function ask(caller: string, tool: string, text: string, draft?: NewGrant): Promise<CheckAnswer> {
  const body: Record<string, unknown> = { caller: caller.trim(), tool: tool.trim() };
  if (text.trim()) {
    const { problem } = checkJson(text);
    if (problem) throw new HallError(-1, 'bad_arguments', problem);
    body.arguments = JSON.parse(text) as Json;
  }
  if (draft) body.draft = draft;
  return await hall.post<CheckAnswer>('api/check', body);
}

export async function suggestCallers(text: string): Promise<string[]> {
  const found = await hall.get<{ callers: CallerRow[] }>('api/callers').catch(() => ({ callers: [] as CallerRow[] }));
  return found.callers.map((each) => each.name).filter((each) => each.toLowerCase().includes(text.toLowerCase()));
}

export async function suggestTools(text: string): Promise<string[]> {
  const page = await hall
    .get<ToolPage>('api/tools', { query: { query: text, limit: 12, state: 'active' } })
    .catch(() => null);
  return (page?.tools ?? []).map((each) => each.id);
}

const VERDICTS: Record<CheckAnswer['verdict'], [Tone, IconName]> = {
  runs: ['ok', 'check'],
  refused: ['refused', 'cross'],
  asks: ['person', 'approval'],
  unknown: ['plain', 'info'],
};
const STATES = {
  pass: ['ok', 'check'],
  stop: ['refused', 'cross'],
  ask: ['person', 'approval'],
  unknown: ['plain', 'info'],
  not_reached: ['plain', 'minus'],
} as const;

export function CheckResult({ answer }: { answer: CheckAnswer }) {
  const [tone, icon] = VERDICTS[answer.verdict];
  return (
    <section class="stack tight" aria-live="polite" aria-label={t('grants.answer')}>
      <p class="row">
        <Chip tone={tone} icon={icon}>
          {t(`grants.verdicts.${answer.verdict}`)}
        </Chip>
        <span class="row anywhere">
          <Marks text={answer.caller} />
          <Icon name="next" />
          <Marks text={answer.tool} />
        </span>
      </p>
      <ol class="plain-list check-list">
        {answer.stages.map((each) => {
          const [stageTone, stageIcon] = STATES[each.state];
          return (
            <li key={each.stage} class={each.state === 'not_reached' ? 'faint' : ''}>
              <Chip tone={stageTone} icon={stageIcon}>
                {t(`stages.${each.stage}`)}
              </Chip>
              <span>
                <Marks text={each.words} />
                {each.rule?.startsWith('g_') && (
                  <>
                    {' '}
                    <a href={href(['grants'], { grant: each.rule })}>
                      <code>{each.rule}</code>
                    </a>
                  </>
                )}
                {(each.problems ?? []).map((problem) => (
                  <span key={problem.path}>
                    <br />
                    <code>
                      <Marks text={problem.path || '/'} />
                    </code>{' '}
                    <Marks text={problem.message} />
                  </span>
                ))}
              </span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
