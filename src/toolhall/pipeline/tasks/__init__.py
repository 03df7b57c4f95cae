"""Long calls: tasks, which outlive their requests, their connections and the process that runs them.

Theory of operation
-------------------
A call of a tool that is declared with `task=` may be started by `StoredTasks.start` instead of the dispatcher. It runs
through the same pipeline, in a background task of this process, with a `TaskRun` as its client link. Refusals come
before the tool runs, so they answer the request as always. When the tool is about to run (`LongCallRunner`), or at
`await ctx.detach()`, the TaskRun stores the task's row; from then on the caller has a task id, and the tool's progress,
questions and result go into the row.

**A run from the top.** A task that waits for a person's answer for more than a minute is set down: its coroutine ends,
and the row stays. When the answer comes, any process claims the row and runs the tool again from its beginning. It
finds the answers and the results of `ctx.once` in the row, as decision 0002 has it. After a crash the same happens to
calls that may run again; the others end with OutcomeUnknown. Every run passes all stages, so that grants, levels,
limits and credentials are judged anew.

`rows` has the changes of a row, `run` one run of a task, `rights` what callers may see, `engine` what they may do, and
what happens at a start and a stop. The rules of concurrent changes are those of `stores.tasks`.
"""
