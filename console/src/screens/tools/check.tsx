/** What a check says: which stage would stop the call, by which rule. */

import type { CheckAnswer, CheckStage } from '../../api/types';
import { href } from '../../app/router';
import { Chip, type Tone } from '../../ui/basics';
import type { IconName } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { t } from '../../words/messages';
import '../../words/en/try-it';

const TONES: Record<CheckAnswer['verdict'], Tone> = {
  runs: 'ok',
  refused: 'refused',
  asks: 'person',
  unknown: 'plain',
};
const ICONS: Record<CheckStage['state'], IconName> = {
  pass: 'check',
  stop: 'cross',
  ask: 'approval',
  unknown: 'info',
  not_reached: 'minus',
};

export function CheckResult({ answer }: { answer: CheckAnswer }) {
  return (
    <section class="card" aria-labelledby="check-title" aria-live="polite">
      <header>
        <h2 id="check-title">{t('tryIt.checkTitle')}</h2>
        <Chip tone={TONES[answer.verdict]}>{t(`tryIt.verdict.${answer.verdict}`)}</Chip>
      </header>
      <div class="in stack tight">
        <ol class="check-stages">
          {answer.stages.map((stage) => (
            <li key={stage.stage} class={stage.state}>
              <Chip
                tone={stage.state === 'stop' ? 'refused' : stage.state === 'ask' ? 'person' : 'plain'}
                icon={ICONS[stage.state]}
              >
                {t(`stages.${stage.stage}`)}
              </Chip>
              <span class="small">
                <span class="sr">{t(`tryIt.checkStates.${stage.state}`)}. </span>
                <Marks text={stage.words} cut={500} /> <Rule rule={stage.rule} />
              </span>
            </li>
          ))}
        </ol>
        <p class="hint">{t('tryIt.checkNothing')}</p>
      </div>
    </section>
  );
}

/** The rule that decided; a grant is a link. */
function Rule({ rule }: { rule: string | null }) {
  if (rule === null) return null;
  return rule.startsWith('g_') ? <a href={href(['grants'], { grant: rule })}>{rule}</a> : <code>{rule}</code>;
}
