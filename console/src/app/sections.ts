/** The screens: name in the address, word and icon in the side bar, who may open it, and the component. */

import type { ComponentType } from 'preact';
import { mayLook, mayManage } from '../api/me';
import { OverviewScreen } from '../screens/overview/screen';
import type { IconName } from '../ui/icon';
import type { MessageKey } from '../words/messages';
import { lazy } from './lazy';

export interface ScreenProps {
  /** The segments of the address after the screen's name, decoded. */
  path: string[];
}

export interface Section {
  /** The first segment of the address; empty for the Overview. */
  name: string;
  title: MessageKey;
  icon: IconName;
  group: 'main' | 'access' | 'hall' | 'more';
  /** In the bottom bar of a small window, which has room for four. */
  inBar?: true;
  /** Whether this person may open it; entries of others are left out. The API checks it again. */
  may: () => boolean;
  Screen: ComponentType<ScreenProps>;
}

const anybody = () => true;

export const SECTIONS: readonly Section[] = [
  {
    name: '',
    title: 'titles.overview',
    icon: 'overview',
    group: 'main',
    inBar: true,
    may: anybody,
    Screen: OverviewScreen,
  },
  {
    name: 'tools',
    title: 'titles.tools',
    icon: 'tool',
    group: 'main',
    inBar: true,
    may: anybody,
    Screen: lazy(async () => (await import('../screens/tools/screen')).ToolsScreen),
  },
  {
    name: 'resources',
    title: 'titles.resources',
    icon: 'file',
    group: 'main',
    may: anybody,
    Screen: lazy(async () => (await import('../screens/tools/screen')).ResourcesScreen),
  },
  {
    name: 'prompts',
    title: 'titles.prompts',
    icon: 'prompt',
    group: 'main',
    may: anybody,
    Screen: lazy(async () => (await import('../screens/tools/screen')).PromptsScreen),
  },
  {
    name: 'calls',
    title: 'titles.calls',
    icon: 'calls',
    group: 'main',
    inBar: true,
    may: anybody,
    Screen: lazy(async () => (await import('../screens/calls/screen')).CallsScreen),
  },
  {
    name: 'tasks',
    title: 'titles.tasks',
    icon: 'history',
    group: 'main',
    may: mayLook,
    Screen: lazy(async () => (await import('../screens/tasks/screen')).TasksScreen),
  },
  {
    name: 'approvals',
    title: 'titles.approvals',
    icon: 'approval',
    group: 'main',
    inBar: true,
    may: anybody,
    Screen: lazy(async () => (await import('../screens/approvals/screen')).ApprovalsScreen),
  },
  {
    name: 'callers',
    title: 'titles.callers',
    icon: 'key',
    group: 'access',
    may: mayLook,
    Screen: lazy(async () => (await import('../screens/callers/screen')).CallersScreen),
  },
  {
    name: 'grants',
    title: 'titles.grants',
    icon: 'grant',
    group: 'access',
    may: mayLook,
    Screen: lazy(async () => (await import('../screens/grants/screen')).GrantsScreen),
  },
  {
    name: 'secrets',
    title: 'titles.secrets',
    icon: 'secret',
    group: 'access',
    may: mayManage,
    Screen: lazy(async () => (await import('../screens/secrets/screen')).SecretsScreen),
  },
  {
    name: 'accounts',
    title: 'titles.accounts',
    icon: 'link',
    group: 'access',
    may: anybody,
    Screen: lazy(async () => (await import('../screens/accounts/screen')).AccountsScreen),
  },
  {
    name: 'servers',
    title: 'titles.servers',
    icon: 'server',
    group: 'hall',
    may: mayLook,
    Screen: lazy(async () => (await import('../screens/servers/screen')).ServersScreen),
  },
  {
    name: 'upstreams',
    title: 'titles.upstreams',
    icon: 'plug',
    group: 'hall',
    may: mayLook,
    Screen: lazy(async () => (await import('../screens/upstreams/screen')).UpstreamsScreen),
  },
  {
    name: 'contracts',
    title: 'titles.contracts',
    icon: 'contract',
    group: 'hall',
    may: mayLook,
    Screen: lazy(async () => (await import('../screens/contracts/screen')).ContractsScreen),
  },
  {
    name: 'review',
    title: 'titles.review',
    icon: 'review',
    group: 'hall',
    may: mayManage,
    Screen: lazy(async () => (await import('../screens/review/screen')).ReviewScreen),
  },
  {
    name: 'limits',
    title: 'titles.limits',
    icon: 'limit',
    group: 'hall',
    may: mayLook,
    Screen: lazy(async () => (await import('../screens/limits/screen')).LimitsScreen),
  },
  {
    name: 'health',
    title: 'titles.health',
    icon: 'health',
    group: 'hall',
    may: mayLook,
    Screen: lazy(async () => (await import('../screens/health/screen')).HealthScreen),
  },
  {
    name: 'settings',
    title: 'titles.settings',
    icon: 'settings',
    group: 'more',
    may: mayLook,
    Screen: lazy(async () => (await import('../screens/settings/screen')).SettingsScreen),
  },
];

/** The screen of a name that this person may open. */
export const sectionOf = (name: string): Section | undefined => SECTIONS.find((each) => each.name === name);
