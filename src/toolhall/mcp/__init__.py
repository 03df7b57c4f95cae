"""The Model Context Protocol, all supported revisions, over HTTP and stdio.

Theory of operation
-------------------
**Two kinds of revisions.** MCP 2026-07-28 is stateless: every request carries its protocol version and the client's
capabilities in `_meta` and is answered alone (`stateless.StatelessMcp`). MCP 2025-06-18 and 2025-11-25 are stateful:
`initialize` negotiates a revision and capabilities once, and later requests refer to that session
(`stateful.StatefulSession`). `McpHttp` and `McpStdio` decide per message: the header `MCP-Protocol-Version: 2026-07-28`
or a version in `_meta` makes a request stateless, anything else belongs to a session.

**Sessions** (`sessions`). Over HTTP a session has a random id, the header `Mcp-Session-Id`. The id proves nothing: it
is found only together with the caller who opened it, whose credential is verified with every request. Sessions that
are idle for an hour expire; there are at most 100 per caller and 10,000 in total. On stdio there is one session.

**Resumable streams** (`sessions.ResumableRequest`, `http.sse.EventStream`). A request in a session outlives its
connection: a disconnect does not cancel it. Its messages go into a bounded stream; if the response is the first
message, it is sent as plain JSON and the stream is discarded, else the stream is sent as SSE with event ids. A client
resumes by GET with `Last-Event-ID`; the credential and the policy decide again before each event. In 2026-07-28
there is nothing to resume: closing the connection cancels the call (`response.ResponseWriter`).

**Questions of tools.** In a session a question is a request of the server on the call's stream, and the tool waits for
the response (`response.StatefulLink`). A stateless call cannot wait: it ends with `input_required`, the questions and
a sealed `requestState` (`request_state.RequestState`). The client sends the call again with its replies and the state;
the tool then runs from its beginning, and each question that has a reply returns at once. A state is bound to the
caller, tool and arguments, expires after ten minutes, allows five rounds, and is consumed by its first use. It also
holds a person's consent, so that an approval covers the rounds that follow it.

**List changes** (`tool_requests`, `subscriptions`). A client is notified only if the list that it would be shown
changes: `ClientView` is everything that decides that list. Sessions are notified on their standalone GET stream,
stateless clients on `subscriptions/listen`.
"""
