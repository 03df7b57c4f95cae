/** The words of the screen Tasks. */

import { addWords } from '../messages';

export const tasks = addWords({
  tasks: {
    about: 'Calls that outlive their connection. Arguments and results are shown to nobody but their callers.',
    placeholder: 'state:open tool:Mail.send caller:ci',
    none: 'There is no task now. A tool with the option task runs as one, and stays here until it is deleted.',
    newest: 'The newest {count}. Filter to see others.',
    noneMatch: 'No task matches the filter.',
    unknown: 'There is no task {id}. Tasks are deleted when their time to live is over.',
    task: 'Task',
    tool: 'Tool',
    caller: 'Caller',
    actingFor: 'For',
    state: 'State',
    states: {
      working: 'working',
      input_required: 'asks',
      completed: 'completed',
      failed: 'failed',
      cancelled: 'cancelled',
    },
    created: 'Begun',
    changed: 'Last change',
    expires: 'Kept until',
    dialect: 'Dialect',
    attempts: 'Times begun',
    error: 'Error',
    questions: 'What it asks',
    sealed: 'Its questions cannot be opened with the keys of this hall.',
    answered: 'Its caller answers, over the connection that it asked from.',
    openTool: 'Open the tool',
    calls: 'Calls of this caller',
    cancel: 'Cancel it',
    cancelTitle: 'Cancel this task of {caller}?',
    cancelWhy: 'It is stopped where its code lets it, and ends as cancelled. What it has done already stays done.',
    close: 'Close this task',
  },
} as const);
