/** Connect a client: the configuration of each, ready to be copied, and the first call that comes, live. */

import { useEffect, useId, useState } from 'preact/hooks';
import { BASE } from '../../api/client';
import { useEvents } from '../../api/events';
import { mayManage, me } from '../../api/me';
import type { AuditRecord } from '../../api/types';
import { href } from '../../app/router';
import { CopyButton, Note, Outcome, Time } from '../../ui/basics';
import { Icon } from '../../ui/icon';
import { Marks } from '../../ui/marks';
import { TabList } from '../../ui/tabs';
import { rich, t } from '../../words/messages';
import { type ClientForm, clientForms } from './clients';
import { findSample, sample, sampleArguments } from './sample';
import '../../words/en/connect';

const KEY_VARIABLE = 'TOOLHALL_KEY';

/** The hall as clients reach it. */
function connection() {
  const person = me.value;
  const base = (person?.publicUrl ?? new URL(BASE, location.href).href).replace(/\/$/, '');
  return {
    mcp: person?.endpoints.mcp ?? `${base}/mcp`,
    base,
    keyVariable: person?.profile === 'server' ? KEY_VARIABLE : null,
  };
}

/** The forms of all clients, with what waits for the first call below. */
export function ConnectClient({ onLeave }: { onLeave?: () => void }) {
  const tool = sample.value;
  const call = tool ? { toolkit: tool.toolkit, tool: tool.tool, arguments: sampleArguments(tool) } : null;
  const forms = clientForms({ ...connection(), call });
  const [chosen, choose] = useState(forms[0]?.id ?? '');
  const id = useId();
  useEffect(() => {
    if (chosen === 'curl' && tool === undefined) void findSample();
  }, [chosen, tool]);
  const form = forms.find((each) => each.id === chosen);
  return (
    <div class="stack">
      <TabList
        label={t('connect.client')}
        tabs={forms.map((each) => ({ id: each.id, title: each.title }))}
        chosen={chosen}
        onChoose={choose}
        panel={id}
      />
      {form && <Form form={form} id={id} />}
      {me.value?.profile === 'server' && (
        <Note tone="info" icon="key">
          {rich('connect.key', { name: <code>{KEY_VARIABLE}</code> })}{' '}
          {mayManage() && (
            <a href={href(['callers'], { new: 'key' })} onClick={onLeave}>
              {t('connect.makeKey')}
            </a>
          )}
        </Note>
      )}
      <FirstCall {...(onLeave ? { onLeave } : {})} />
    </div>
  );
}

function Form({ form, id }: { form: ClientForm; id: string }) {
  return (
    <div class="stack tight" role="tabpanel" id={id} aria-label={form.title}>
      <p class="small soft">
        {typeof form.into === 'object'
          ? rich('connect.into', { file: <code>{form.into.file}</code> })
          : t(form.into === 'python' ? 'connect.inProject' : 'connect.inShell')}
      </p>
      <div class="copyable">
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard */}
        <pre tabIndex={0}>{form.text}</pre>
        <CopyButton text={form.text} />
      </div>
      {form.command && (
        <>
          <p class="small soft">{t('connect.orRun')}</p>
          <div class="copyable">
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard */}
            <pre tabIndex={0}>{form.command}</pre>
            <CopyButton text={form.command} />
          </div>
        </>
      )}
    </div>
  );
}

// What people do themselves is no client's first call: tries in a console, changes of the hall.
function isOfClient({ phase, dialect }: AuditRecord): boolean {
  return phase !== 'intent' && !dialect.endsWith('/console') && !dialect.endsWith('/management');
}

function FirstCall({ onLeave }: { onLeave?: () => void }) {
  const [first, setFirst] = useState<AuditRecord | null>(null);
  useEvents(['calls'], (event) => {
    if (event.topic === 'calls' && 'record' in event && isOfClient(event.record))
      setFirst((before) => before ?? event.record);
  });
  if (!first) {
    return (
      <Note tone="info" icon="clock" live>
        <strong>{t('connect.waiting')}</strong> {t('connect.waitingWhy')}
      </Note>
    );
  }
  return (
    <Note tone="ok" live>
      <span class="row">
        <strong>
          {rich('connect.came', {
            caller: <Marks text={first.caller} cut={60} />,
            tool: <Marks text={first.tool} cut={80} />,
          })}
        </strong>
        <Outcome outcome={first.outcome} />
        <Time at={first.at} as="clock" />
        <a href={href(['calls', first.call])} onClick={onLeave}>
          {t('connect.see')}
          <Icon name="next" />
        </a>
      </span>
    </Note>
  );
}
