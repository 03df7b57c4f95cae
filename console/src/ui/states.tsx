/** What is shown where a value is not: `Loaded` for a resource, and its parts alone. */

import { Component, type ComponentChild, type ComponentChildren } from 'preact';
import type { HallError } from '../api/client';
import type { Resource } from '../api/resource';
import { href } from '../app/router';
import { type MessageKey, t } from '../words/messages';
import { Icon, type IconName } from './icon';
import { Marks } from './marks';

interface LoadedProps<T> {
  /** A resource of `useResource`, or pages of `usePages` with what is shown as `data`. */
  of: Pick<Resource<T>, 'data' | 'state' | 'error'> & { reload: () => unknown };
  /** How many grey bars stand for it while it loads. */
  rows?: number;
  /** The scope that is missing where it is forbidden. */
  scope?: string;
  /** Whether a value is empty, and what then is shown. */
  empty?: { when: (data: T) => boolean; show: ComponentChild };
  children: (data: T) => ComponentChildren;
}

/** A resource in whichever state it is: grey bars, error, missing right, empty, or its value. */
export function Loaded<T>({ of, rows = 4, scope = 'observe', empty, children }: LoadedProps<T>) {
  if (of.state === 'forbidden') return <Forbidden scope={scope} />;
  if (of.data !== undefined) {
    return (
      <>
        {of.error && <ErrorState error={of.error} again={of.reload} small />}
        {empty?.when(of.data) ? empty.show : children(of.data)}
      </>
    );
  }
  if (of.error) return <ErrorState error={of.error} again={of.reload} />;
  return <Waiting rows={rows} />;
}

/** Grey bars of the final height; seen only after 150 ms, so that fast answers do not flicker. */
export function Waiting({ rows = 4 }: { rows?: number }) {
  return (
    <div class="waiting" role="status">
      <span class="sr">{t('shared.loading')}</span>
      {Array.from({ length: rows }, (_, row) => (
        <i key={row} />
      ))}
    </div>
  );
}

/** One sentence why there is nothing, and one action. */
export function EmptyState({ icon = 'info', children, action }: EmptyProps) {
  return (
    <div class="state">
      <Icon name={icon} />
      <p>{children}</p>
      {action && <div class="actions">{action}</div>}
    </div>
  );
}

interface EmptyProps {
  icon?: IconName;
  children: ComponentChildren;
  action?: ComponentChild;
}

/** What was asked, what the hall said, and Try again. */
export function ErrorState({
  error,
  again,
  small = false,
}: {
  error: HallError;
  again?: () => unknown;
  small?: boolean;
}) {
  const button = again && (
    <button type="button" class="button low" onClick={() => void again()}>
      <Icon name="refresh" />
      {t('shared.again')}
    </button>
  );
  if (small) {
    return (
      <div class="note failed" role="alert">
        <Icon name="warning" />
        <div>
          <Said error={error} />
        </div>
        {button}
      </div>
    );
  }
  return (
    <div class="state" role="alert">
      <Icon name="warning" />
      <p>
        <strong>{t('states.error', { asked: error.asked })}</strong>
      </p>
      <p>
        <Said error={error} />
      </p>
      {button && <div class="actions">{button}</div>}
    </div>
  );
}

/** What the hall said: the message with its code, and each problem with its place. */
export function Said({ error }: { error: HallError }) {
  if (error.status === 0) return <>{t('states.unreachable')}</>;
  return (
    <>
      <Marks text={t('states.errorSaid', { message: error.message, code: error.code })} />
      {error.problems.map((each) => (
        <span key={each.path}>
          <br />
          <code>{each.path || '/'}</code> <Marks text={each.message} />
        </span>
      ))}
    </>
  );
}

/** The scope that is missing, and who can give it. */
export function Forbidden({ scope }: { scope: string }) {
  return (
    <div class="state">
      <Icon name="secret" />
      <p>
        <strong>{t('states.forbidden')}</strong>
      </p>
      <p>{t('states.forbiddenWhy', { scope })}</p>
    </div>
  );
}

/** A screen that is not there yet. */
export function Placeholder({ title }: { title: MessageKey }) {
  return (
    <>
      <PageHead title={t(title)} />
      <section class="card">
        <EmptyState icon="clock">{t('states.noScreen')}</EmptyState>
      </section>
    </>
  );
}

interface HeadProps {
  title: ComponentChild;
  /** One sentence below the title. */
  children?: ComponentChildren;
  /** Buttons at the end of the line. */
  actions?: ComponentChild;
  /** Where one came from: words and addresses. */
  crumbs?: (readonly [ComponentChild, string])[];
}

/** The head of a page: title, one sentence, actions. Each screen has exactly one. */
export function PageHead({ title, children, actions, crumbs }: HeadProps) {
  return (
    <>
      {crumbs && (
        <nav class="crumbs" aria-label={t('shared.back')}>
          {crumbs.map(([word, address]) => (
            <a key={address} href={address}>
              {word}
            </a>
          ))}
        </nav>
      )}
      <div class="head">
        <div>
          <h1 tabIndex={-1}>{title}</h1>
          {children && <p>{children}</p>}
        </div>
        {actions && <div class="row">{actions}</div>}
      </div>
    </>
  );
}

/** Keeps what breaks in one screen from taking the others with it. */
export class Contain extends Component<
  { children: ComponentChildren; at: string },
  { broken: Error | null; at: string }
> {
  override state: { broken: Error | null; at: string } = { broken: null, at: this.props.at };

  static override getDerivedStateFromProps(props: { at: string }, state: { at: string }) {
    return props.at === state.at ? null : { broken: null, at: props.at };
  }

  override componentDidCatch(broken: Error): void {
    console.error(broken);
    this.setState({ broken });
  }

  override render() {
    const { broken } = this.state;
    if (!broken) return this.props.children;
    return (
      <>
        <PageHead title={t('states.broken')} />
        <section class="card">
          <EmptyState
            icon="warning"
            action={
              <a class="button" href={href([])}>
                {t('states.toOverview')}
              </a>
            }
          >
            {t('states.brokenWhy', { message: broken.message })}
          </EmptyState>
        </section>
      </>
    );
  }
}
