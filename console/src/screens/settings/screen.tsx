/** Settings: every setting with its value and where it comes from; secrets never. */

import { useResource } from '../../api/resource';
import type { SettingRow, Settings } from '../../api/types';
import { query } from '../../app/router';
import type { ScreenProps } from '../../app/sections';
import { Chip } from '../../ui/basics';
import { FilterLine } from '../../ui/filter-line';
import { Marks } from '../../ui/marks';
import { EmptyState, Loaded, PageHead } from '../../ui/states';
import { type Column, DataTable } from '../../ui/table';
import { t } from '../../words/messages';
import '../../words/en/settings';

const SOURCES = ['default', 'file', 'environment', 'option', 'code'] as const;

export function SettingsScreen(_: ScreenProps) {
  const settings = useResource<Settings>('api/settings');
  const words = query('query').toLowerCase();
  const source = query('source');
  const matches = (each: SettingRow) =>
    (!source || each.source === source) && `${each.name} ${each.description}`.toLowerCase().includes(words);
  return (
    <>
      <PageHead title={t('titles.settings')}>{t('settings.about')}</PageHead>
      <section class="card" aria-label={t('titles.settings')}>
        <header>
          <FilterLine
            fields={[{ name: 'source', values: (text) => SOURCES.filter((each) => each.startsWith(text)) }]}
            plain="query"
            placeholder={t('settings.placeholder')}
          />
        </header>
        <Loaded
          of={settings}
          rows={12}
          scope="admin"
          empty={{
            when: (data) => !data.settings.some(matches),
            show: <EmptyState icon="filter">{t('settings.none')}</EmptyState>,
          }}
        >
          {(data) => (
            <DataTable
              label={t('titles.settings')}
              columns={columns()}
              rows={data.settings.filter(matches)}
              rowKey={(each) => each.name}
              twoLine
            />
          )}
        </Loaded>
      </section>
    </>
  );
}

const columns = (): Column<SettingRow>[] => [
  {
    id: 'name',
    head: t('settings.name'),
    cell: (each) => (
      <>
        <code>{each.name}</code>
        <br />
        <span class="faint tiny">
          <Described text={each.description} />
        </span>
      </>
    ),
  },
  { id: 'value', head: t('settings.value'), class: 'second anywhere', cell: (each) => <Value row={each} /> },
  {
    id: 'source',
    head: t('settings.source'),
    class: 'last',
    cell: (each) => (
      <>
        <Chip tone={each.source === 'default' ? 'plain' : 'accent'}>{t(`settings.sources.${each.source}`)}</Chip>
        {each.where !== null && (
          <>
            <br />
            <code class="tiny">
              <Marks text={each.where} />
            </code>
          </>
        )}
      </>
    ),
  },
];

/** The hall's own words about a setting; names in them stand between backticks. */
function Described({ text }: { text: string }) {
  return (
    <span class="anywhere">
      {text.split('`').map((piece, index) =>
        index % 2 ? (
          <code key={piece}>
            <Marks text={piece} />
          </code>
        ) : (
          <Marks key={piece} text={piece} />
        ),
      )}
    </span>
  );
}

function Value({ row }: { row: SettingRow }) {
  if (row.secret)
    return <span class="faint">{row.source === 'default' ? t('settings.notSet') : t('settings.secret')}</span>;
  if (row.value === null) return <span class="faint">{t('settings.notSet')}</span>;
  const differs = row.source !== 'default' && JSON.stringify(row.value) !== JSON.stringify(row.default);
  return (
    <>
      <code>
        <Marks text={JSON.stringify(row.value)} cut={400} />
      </code>
      {differs && (
        <>
          <br />
          <span class="faint tiny">
            <Marks text={t('settings.insteadOf', { value: JSON.stringify(row.default) })} cut={200} />
          </span>
        </>
      )}
    </>
  );
}
