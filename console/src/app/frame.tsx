/** The frame of all screens: side bar, top bar, bottom bar, the line about missing news, and what lies over the page. */

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { sessionEnded } from '../api/client';
import { followVisibility, staleSince } from '../api/events';
import { mayManage } from '../api/me';
import type { Me } from '../api/types';
import { ConnectClient } from '../screens/overview/connect';
import { Dialog } from '../ui/dialog';
import { Icon, Logo } from '../ui/icon';
import { Contain, EmptyState, PageHead } from '../ui/states';
import { clock } from '../words/format';
import { t } from '../words/messages';
import { badge, useNeeds } from './badges';
import { Find } from './find';
import { followKeyboard, overlay, useKeys } from './keys';
import { lazy } from './lazy';
import { href, route } from './router';
import { SECTIONS, type Section, sectionOf } from './sections';
import { SessionEnded } from './session';

/** Shown once the hall has said who the person is. */
export function Frame({ person }: { person: Me }) {
  useNeeds();
  // What answers the person is there before the browser paints; what only follows the page may come after.
  useLayoutEffect(followKeyboard, []);
  useEffect(followVisibility, []);
  const { screen, path } = route.value;
  const section = sectionOf(screen);
  useScreenFocus(screen, section);
  return (
    <>
      {/* biome-ignore lint/a11y/useValidAnchor: it goes to a place of this page, which is not an address here */}
      <a class="skip" href="#main" onClick={skip}>
        {t('shared.skip')}
      </a>
      <div class="frame">
        <SideBar person={person} />
        <div>
          <StaleLine />
          <TopBar />
          <main class="page" id="main" tabIndex={-1}>
            <Contain at={location.hash}>
              {section?.may() ? <section.Screen path={path} /> : <NoSuchPage known={section} />}
            </Contain>
          </main>
        </div>
      </div>
      <BottomBar />
      <Overlays />
    </>
  );
}

// The address holds the screen, so the link to the content must not change it.
function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

// Who comes to another screen starts at its head; the page that was opened first keeps the browser's own focus.
function useScreenFocus(screen: string, section: Section | undefined): void {
  const first = useRef(true);
  useLayoutEffect(() => {
    document.title = `${section ? t(section.title) : t('states.missing')} · Toolhall`;
    if (first.current) {
      first.current = false;
      return;
    }
    scrollTo(0, 0);
    return focusHead();
  }, [screen, section]);
}

// The head comes with the code of the screen; until then, whoever has gone on elsewhere keeps the focus there.
function focusHead(): () => void {
  const main = document.getElementById('main');
  const before = document.activeElement;
  const look = () => {
    const head = main?.querySelector('h1');
    if (!head) return;
    watch.disconnect();
    const moved = document.activeElement !== before && document.activeElement !== document.body;
    if (!moved) head.focus({ preventScroll: true });
  };
  const watch = new MutationObserver(look);
  if (main) watch.observe(main, { childList: true, subtree: true });
  look();
  return () => watch.disconnect();
}

function NoSuchPage({ known }: { known: Section | undefined }) {
  const scope = known?.may === mayManage ? 'admin' : 'observe';
  const why = known ? t('states.forbiddenWhy', { scope }) : t('states.missingWhy', { address: location.hash });
  return (
    <>
      <PageHead title={known ? t(known.title) : t('states.missing')} />
      <section class="card">
        <EmptyState
          icon={known ? 'secret' : 'find'}
          action={
            <a class="button" href={href([])}>
              {t('states.toOverview')}
            </a>
          }
        >
          {why}
        </EmptyState>
      </section>
    </>
  );
}

function StaleLine() {
  if (!staleSince.value) return null;
  return (
    <p class="line-above" role="status">
      <Icon name="warning" />
      {t('states.stale', { time: clock(staleSince.value) })}
    </p>
  );
}

function Entry({ section }: { section: Section }) {
  const count = badge(section.name);
  const words = t('frame.waits', { count });
  return (
    <a
      href={href(section.name ? [section.name] : [])}
      aria-current={route.value.screen === section.name ? 'page' : undefined}
    >
      <Icon name={section.icon} />
      <span>{t(section.title)}</span>
      {count > 0 && (
        <span class={section.name === 'review' ? 'count warn' : 'count'}>
          <span aria-hidden="true">{count}</span>
          <span class="sr">{words}</span>
        </span>
      )}
    </a>
  );
}

const visible = (group: Section['group']): Section[] => SECTIONS.filter((each) => each.group === group && each.may());

function SideBar({ person }: { person: Me }) {
  return (
    <aside class="side" aria-label={t('frame.hall')}>
      <div>
        <a class="brand" href={href([])}>
          <Logo />
          <span>
            Toolhall
            <small class="cut">{person.profile === 'local' ? t('frame.ownMachine') : person.hall}</small>
          </span>
        </a>
        <nav aria-label={t('frame.console')}>
          {visible('main').map((each) => (
            <Entry key={each.name} section={each} />
          ))}
          {visible('access').length > 0 && <h2>{t('frame.access')}</h2>}
          {visible('access').map((each) => (
            <Entry key={each.name} section={each} />
          ))}
          {visible('hall').length > 0 && <h2>{t('frame.hall')}</h2>}
          {[...visible('hall'), ...visible('more')].map((each) => (
            <Entry key={each.name} section={each} />
          ))}
        </nav>
        <Profile person={person} />
      </div>
    </aside>
  );
}

function role({ proof, may, scopes }: Me): string {
  if (proof === 'local') return t('frame.role.local');
  if (may.manage) return t('frame.role.manage');
  if (may.observe) return t('frame.role.observe');
  return may.approve && scopes.includes('approve') ? t('frame.role.approve') : t('frame.role.plain');
}

function Profile({ person }: { person: Me }) {
  const name = person.person ?? person.caller;
  return (
    <div class="whoami">
      <button type="button" aria-haspopup="dialog" onClick={() => show('preferences')}>
        <span class="face" aria-hidden="true">
          {[...name].slice(0, 2).join('').toUpperCase()}
        </span>
        <span class="cut">
          <strong>{name}</strong>
          <br />
          <span class="faint tiny">{role(person)}</span>
          <span class="sr">{t('frame.profile')}</span>
        </span>
        <span class="push">
          <Icon name="settings" />
        </span>
      </button>
    </div>
  );
}

const show = (name: typeof overlay.value) => {
  overlay.value = name;
};

function TopBar() {
  return (
    <header class="top">
      <button type="button" class="seek" aria-keyshortcuts="Control+K" onClick={() => show('find')}>
        <Icon name="find" />
        <span class="cut">{t('frame.find')}</span>
        <kbd class="push">Ctrl K</kbd>
      </button>
      <button type="button" class="button wide push" onClick={() => show('connect')}>
        <Icon name="plug" />
        {t('frame.connect')}
      </button>
    </header>
  );
}

function BottomBar() {
  const [open, setOpen] = useState(false);
  const rest = SECTIONS.filter((each) => !each.inBar && each.may());
  const current = route.value.screen;
  const close = () => setOpen(false);
  useLayoutEffect(close, [current]);
  useKeys({ close: () => (open ? close() : false) });
  return (
    <nav class="bottom" aria-label={t('frame.consoleShort')}>
      {SECTIONS.filter((each) => each.inBar && each.may()).map((each) => (
        <Entry key={each.name} section={each} />
      ))}
      <button type="button" aria-expanded={open} aria-controls="sheet" onClick={() => setOpen(!open)}>
        <Icon name="more" />
        <span>{t('frame.more')}</span>
      </button>
      <div id="sheet" class="sheet menu" hidden={!open}>
        {rest.map((each) => (
          <a
            key={each.name}
            href={href([each.name])}
            aria-current={current === each.name ? 'page' : undefined}
            onClick={close}
          >
            <Icon name={each.icon} />
            {t(each.title)}
          </a>
        ))}
        <button type="button" onClick={() => show('connect')}>
          <Icon name="plug" />
          {t('frame.connect')}
        </button>
        <button type="button" onClick={() => show('preferences')}>
          <Icon name="person" />
          {t('frame.profile')}
        </button>
      </div>
    </nav>
  );
}

const KeyTable = lazy(async () => (await import('./help')).KeyTable);
const PreferencesForm = lazy(async () => (await import('./help')).PreferencesForm);

// The dialog is there at once, so that keys go into it, also while what is in it is being loaded.
function Overlays() {
  const close = () => show(null);
  if (sessionEnded.value) return <SessionEnded />;
  switch (overlay.value) {
    case 'find':
      return <Find onClose={close} />;
    case 'help':
      return (
        <Dialog title={t('frame.keys')} onClose={close}>
          <KeyTable />
        </Dialog>
      );
    case 'preferences':
      return (
        <Dialog title={t('frame.preferences')} onClose={close}>
          <PreferencesForm />
        </Dialog>
      );
    case 'connect':
      return (
        <Dialog title={t('frame.connect')} onClose={close} wide>
          <ConnectClient onLeave={close} />
        </Dialog>
      );
    default:
      return null;
  }
}
