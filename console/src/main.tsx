/** Starts the console: preferences, address, who the person is, then the frame. */

import './style/index.css';
import { render } from 'preact';
import { useEffect, useLayoutEffect } from 'preact/hooks';
import { askWhoIAm, me, meProblem } from './api/me';
import { Frame } from './app/frame';
import { applyPreferences, preferences } from './app/preferences';
import { followAddress } from './app/router';
import { SignInPage } from './app/session';

function Console() {
  useLayoutEffect(followAddress, []);
  useEffect(() => void askWhoIAm(), []);
  if (me.value) return <Frame key={preferences.value.language} person={me.value} />;
  return meProblem.value ? <SignInPage problem={meProblem.value} /> : null;
}

applyPreferences();
const place = document.getElementById('app');
if (place) render(<Console />, place);
