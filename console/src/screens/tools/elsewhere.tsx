/** Use it elsewhere: this very call as curl, Python, TypeScript, a client's configuration, and for two model APIs. */

import { useId } from 'preact/hooks';
import { BASE } from '../../api/client';
import { me } from '../../api/me';
import type { ToolDetail } from '../../api/types';
import { query, setQuery } from '../../app/router';
import { type CopiedCall, copyAs, type Form, formsOf } from '../../copyas/forms';
import type { Exact } from '../../json/exact';
import { CopyButton } from '../../ui/basics';
import { TabList } from '../../ui/tabs';
import { t } from '../../words/messages';
import '../../words/en/try-it';

export function Elsewhere({ tool, value }: { tool: ToolDetail; value: Exact }) {
  const id = useId();
  const forms = formsOf(tool.kind);
  const form: Form = forms.find((each) => each === query('as')) ?? 'curl';
  const text = copyAs(form, callOf(tool, value));
  return (
    <section class="card" aria-labelledby={`${id}-title`}>
      <header>
        <h2 id={`${id}-title`}>{t('tryIt.elsewhere')}</h2>
      </header>
      <div class="in stack tight">
        <TabList
          label={t('tryIt.as')}
          tabs={forms.map((each) => ({ id: each, title: t(`tryIt.formOf.${each}`) }))}
          chosen={form}
          onChoose={(as) => setQuery({ as: as === 'curl' ? null : as })}
          panel={id}
        />
        <div class="copyable" role="tabpanel" id={id} aria-label={t(`tryIt.formOf.${form}`)}>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached by keyboard */}
          <pre tabIndex={0}>{text}</pre>
          <CopyButton text={text} label={t('tryIt.copyCall')} />
        </div>
      </div>
    </section>
  );
}

function callOf(tool: ToolDetail, value: Exact): CopiedCall {
  const person = me.value;
  const hall = (person?.publicUrl ?? new URL(BASE, location.href).href).replace(/\/$/, '');
  return {
    kind: tool.kind,
    uri: tool.uri,
    hall,
    mcp: person?.endpoints.mcp ?? `${hall}/mcp`,
    hallName: 'toolhall',
    toolkit: tool.toolkit,
    tool: tool.tool,
    version: tool.newest ? null : tool.version,
    published: tool.name,
    arguments: value,
    needsKey: person?.profile === 'server',
  };
}
