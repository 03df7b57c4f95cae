/** Tools, resources and prompts: find one among thousands, try it, and see what it promises. */

import type { Kind } from '../../app/kinds';
import type { ScreenProps } from '../../app/sections';
import { ToolList } from './list';
import { ToolPage } from './tool';

export const ToolsScreen = (props: ScreenProps) => <OfKind kind="tool" {...props} />;
export const ResourcesScreen = (props: ScreenProps) => <OfKind kind="resource" {...props} />;
export const PromptsScreen = (props: ScreenProps) => <OfKind kind="prompt" {...props} />;

function OfKind({ kind, path }: ScreenProps & { kind: Kind }) {
  const [id, tab] = path;
  return id === undefined ? <ToolList kind={kind} /> : <ToolPage key={id} kind={kind} id={id} tab={tab ?? 'try'} />;
}
