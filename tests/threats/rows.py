"""The threat model: every attack, what stands against it, and which peers it happened to."""

from typing import NamedTuple


class Row(NamedTuple):
    """One attack and its control; `later` says which part of the product it waits for, if that is not there yet."""

    attack: str
    control: str
    later: str = ""


GROUPS = {
    "A": "Definitions, which the model reads",
    "B": "Identity and authorization",
    "C": "Approvals",
    "D": "OAuth",
    "E": "Connections that the hall makes",
    "F": "Parsing, schemas, protocol",
    "G": "Results, secrets, logs",
    "H": "Processes and files",
    "I": "Exhaustion",
    "J": "Audit and storage",
    "K": "Availability, leaks and isolation, found by attacking a running hall",
}

_COMMANDS = "tools that are made of commands"

ROWS = {
    "A1": Row(
        "instructions to the model in a description", "quarantine until a person saw the raw text; lint as a hint"
    ),
    "A2": Row("the same, hidden deep in a schema", "every text of a definition is read, linted and part of its digest"),
    "A3": Row("a definition changes after it was approved", "activation is bound to a digest; a change is quarantined"),
    "A4": Row(
        "same text, somebody else behind it", "a toolkit is run by who registered it, or whom the operator names"
    ),
    "A5": Row("poison served only now and then", "clients are served from the store alone"),
    "A6": Row("a tool takes another's name", "one map of names per dialect; the later one is refused"),
    "A7": Row("names that look alike", "plain letters only; twins by case, width, accent or script are refused"),
    "A8": Row("a description that talks of other tools", "a finding for the person who activates it"),
    "A9": Row("hints that lie", "hints from outside decide nothing"),
    "A10": Row(
        "a level that is stated too low", "the highest of definition, traits and the operator's word; no silent drop"
    ),
    "A11": Row("icons that run code or track", "https and data only; never fetched here"),
    "A12": Row("arguments mirrored into headers", "every rule of the newest revision, and no secrets"),
    "A13": Row("a page's policy with a directive of somebody else", "origins alone, checked where a page is declared"),
    "A14": Row(
        "an upstream that states what only the hall may: an id, a level, a deprecation, a requirement",
        "its `_meta` of the hall's own names is removed; ids, levels and versions are the operator's and the hall's",
    ),
    "B1": Row("one path without authentication", "identity comes before the path; a short list of public paths"),
    "B2": Row("paths and hosts read in two ways", "the path as the server gives it; one valid Host from a list"),
    "B3": Row("a token meant for somebody else", "the audience is this server; no credential leaves the process"),
    "B4": Row("forged tokens", "named algorithms, keys from configured issuers only, one answer for every forgery"),
    "B5": Row("a storm of key fetches", "one fetch at a time, at most one in half a minute"),
    "B6": Row("another caller's session", "a session belongs to its caller; to others it is unknown"),
    "B7": Row(
        "answers delivered to the wrong request", "an answer goes to its connection; ids of clients route nothing"
    ),
    "B8": Row(
        "another caller's task", "keyed on caller and user; another's answers like one that never was, byte for byte"
    ),
    "B9": Row("a service's credential used for a user", "who acts for whom is proven, never claimed"),
    "B10": Row(
        "other arguments than those that were allowed",
        "conditions are checked on every round, on what was sent and on what the tool gets for it",
    ),
    "B11": Row(
        "tools or lists leak to other callers", "lists are made per caller and never shared; hidden equals unknown"
    ),
    "B12": Row("keys guessed by timing", "lookup by public id, comparison in constant time, also for unknown ids"),
    "B13": Row("keys guessed by trying", "256 bits and a checksum; failures are counted per address"),
    "B14": Row("DNS rebinding", "Host and Origin are checked on every transport, always"),
    "B15": Row(
        "requests forged from another page", "strict cookies, a token per form, the browser's own word on the origin"
    ),
    "B16": Row("listening to the world by accident", "loopback only; elsewhere nothing starts without credentials"),
    "B17": Row("headers that disagree with the body", "compared exactly; doubled headers are refused"),
    "B18": Row("an older revision to avoid checks", "no decision depends on the revision"),
    "B19": Row("a user id in the message", "ignored or refused, unless the caller may act for others"),
    "B20": Row(
        "a console session used from another page, or where programs call",
        "its cookie counts at the management interface only, for requests of our own pages, with the session's token",
    ),
    "B21": Row(
        "a console session that outlives its person",
        "idle 15 minutes, at most 12 hours; its key is verified each time; what matters most asks for a factor again",
    ),
    "B22": Row("the check of calls as an oracle", "for those who may read the hall; recorded, and nothing is counted"),
    "B23": Row("a credential that reads changes something", "every change asks for admin; secrets are not read at all"),
    "B24": Row(
        "a stream of events that outlives its credential, or takes all connections",
        "for those who may read the hall; proven again before each event and every five seconds; bounded per caller",
    ),
    "B25": Row(
        "a sign-in at an identity provider that somebody else began, or that another provider answers",
        "state, nonce, PKCE, `iss` and signature; one sealed cookie for one browser, ten minutes and one session; a "
        "network has 60 steps a minute",
    ),
    "B26": Row(
        "a script or a file of somebody else in the console",
        "a policy without exceptions, Trusted Types, no frames; files of the package only, by exact name, unsniffed",
    ),
    "B27": Row(
        "a reader of the hall who has the whole audit read again and again",
        "three readings at a time, eight waiting of each caller, 32 of all, and one of callers' own calls beside them;"
        " who has more gets 429",
    ),
    "B28": Row(
        "a caller that learns from the records of its own calls what others call, or which tools are hidden from it",
        "records of its own name and person only; a hidden tool looks like an unknown one, also to every filter",
    ),
    "B29": Row(
        "an upstream's question about one call, put to another caller",
        "it goes to the one call that it must be about, or is refused; kinds that were not declared reach nobody",
    ),
    "B30": Row(
        "what an upstream keeps of one caller, met by another",
        "a session or child for each caller, unless the operator shares it; a stream that all share has no account",
    ),
    "B31": Row(
        "a call that waits at its upstream, continued by somebody else, or with another credential",
        "its id is random and sealed; caller and credential are compared, and a mismatch cancels it",
    ),
    "C1": Row("a client approves for itself", "only our own page, command or terminal can approve"),
    "C2": Row("an approval used twice", "used up in one statement, before the tool runs"),
    "C3": Row("one call approved, another run", "bound to caller, tool, version, definition and arguments"),
    "C4": Row("an approval page that hides something", "the exact bytes, invisible characters shown, nothing cut"),
    "C5": Row("a link sent to the wrong person", "the page signs in; only the person concerned may decide"),
    "C6": Row("so many questions that one is waved through", "three at a time, and a pause after a no"),
    "C7": Row("approving one's own level-10 call", "another person, with the scope to approve"),
    "C8": Row("a code used again or guessed", "each time step once; five tries in five minutes"),
    "C9": Row("a clock turned back", "expiry is judged where the approval is kept, and time never goes back there"),
    "D1": Row(
        "a consent that somebody else began",
        "our own page first, for each link; its cookie must come back with the answer",
    ),
    "D2": Row("a token for one resource used at another", "each is asked for one resource; only our own is taken"),
    "D3": Row("an answer of another provider", "each attempt has one issuer; `iss` is compared byte for byte"),
    "D4": Row("PKCE left out", "S256 always; a provider that does not say S256 is not used"),
    "D5": Row("tricks with the redirect address", "one exact address from the settings; https, or this machine"),
    "D6": Row("an answer that nobody asked for", "256 random bits, once, ten minutes, one browser, one person"),
    "D12": Row("a redirect that lands at an impostor", "the page names the exact host, and warns of this machine"),
    "D7": Row(
        "an authorize URL that runs something", "nothing opens URLs; a person is sent to https alone, read strictly"
    ),
    "D8": Row("metadata that leads inside", "through the door; the issuer that was asked, no redirects, 64 KiB, 5 s"),
    "D9": Row("two refreshes of one token", "claimed before it is asked for, kept before it is used; reuse breaks it"),
    "D10": Row("scopes by way of other tools", "granted scopes are kept; what is missing is asked for on a page"),
    "D11": Row("credentials for another issuer", "an account belongs to one issuer; nothing of it goes to another"),
    "D13": Row(
        "a caller's credential, or another person's token, at an upstream",
        "a call carries its own user's account for that upstream; nothing of callers is sent on",
    ),
    "D14": Row(
        "an upstream whose metadata is for another resource",
        "its own URL or origin, or none; `resource` in every request for a token",
    ),
    "D15": Row(
        "an upstream that names somebody else's authorization server",
        "a configured client serves the upstreams it names; issuers are compared, and have redirects of their own",
    ),
    "D16": Row(
        "metadata of an upstream that leads inside",
        "as D8; a public upstream may name public addresses only, and few",
    ),
    "D17": Row("tokens and registrations in logs and lists", "encrypted rows; errors hold codes, not answers"),
    "E1": Row("inner addresses, in any spelling", "all addresses of a host are judged before one is connected to"),
    "E2": Row("a name that leads elsewhere a moment later", "the address that was judged is the one connected to"),
    "E3": Row("redirects to the inside", "not followed; who follows one by choice meets the same guard"),
    "E4": Row("paths that climb", "every part is encoded; a client of one base goes nowhere else"),
    "E5": Row("headers that choose the destination", "none is read; Host is that of the URL"),
    "E6": Row("proxies in the environment", "not used"),
    "E7": Row("replies that never end, or unpack to gigabytes", "caps on bytes, on growth and on the whole time"),
    "E8": Row("line breaks in headers", "printable letters only"),
    "E9": Row("sockets of this machine, other schemes", "https, and http to opened loopback; nothing else"),
    "E10": Row(
        "an old transport whose `endpoint` event leads elsewhere",
        "only the origin of the stream; credentials go nowhere else",
    ),
    "E11": Row("halls that call each other in a circle", "each request names the halls it went through; four at most"),
    "F1": Row("duplicate or lookalike members", "a strict reader; exact names"),
    "F2": Row("numbers that readers disagree on", "finite, at most 20 digits, kept exactly"),
    "F3": Row("nesting without end", "depth is counted on the bytes"),
    "F4": Row("bodies, members, strings too large", "caps before anything is read"),
    "F5": Row("bytes that are no text", "strict UTF-8; no surrogates, no NUL"),
    "F6": Row("batches and floods of notifications", "one message per request"),
    "F7": Row("an exception that ends the server", "each request ends alone, wherever the client leaves"),
    "F8": Row("references to files and hosts in schemas", "only references into the schema itself"),
    "F9": Row("patterns that never end", "a linear engine, and a cap on length"),
    "F10": Row("schemas that multiply", "work is counted at registration"),
    "F11": Row("a validation that stops everybody", "what could take long runs in a process of its own"),
    "F12": Row("a flood of errors", "twenty, and a small answer"),
    "F13": Row("arguments that nobody declared", "own tools are closed; from level 4 on, those from outside too"),
    "F14": Row("requests smuggled in requests", "ambiguous lengths are refused and the connection closed"),
    "F15": Row("YAML that expands, or that makes objects", "events of the parser become JSON; no aliases, no tags"),
    "G1": Row("invisible characters", "removed, unless a script or an emoji needs them"),
    "G2": Row("terminal escape sequences", "stripped whole"),
    "G3": Row("towers of accents", "eight to a letter"),
    "G4": Row(
        "instructions in results",
        "marked with where they come from; later calls are held by levels and approvals, not by the mark",
    ),
    "G5": Row("results that break their schema", "refused, and the caller hears that the tool broke its word"),
    "G6": Row("results without end", "capped"),
    "G7": Row("a secret in the answer, however written", "searched for in nine encodings, across chunks too"),
    "G8": Row(
        "a secret in errors, logs and traces", "exception text goes to the log alone, and through the same search"
    ),
    "G9": Row("forged log lines", "one line per event; control characters escaped"),
    "G10": Row("secrets in dumps and children", "no core dumps; children get a short list of variables"),
    "G11": Row("messages for developers reach the model", "never sent"),
    "G12": Row("one caller's cached answer for another", "nothing of a caller's is shared"),
    "G13": Row("links that carry data away", "counted and marked for results from outside"),
    "G14": Row(
        "what is read runs as a page, a script or a style of the hall's own origin",
        "no origin, nothing loaded, never sniffed; scripts and styles are plain text; what could run is downloaded",
    ),
    "G15": Row(
        "a question of an upstream that phishes",
        "the upstream's name stands before it; fields for secrets, by name, title or format, and odd pages are refused",
    ),
    "G16": Row(
        "an upstream that repeats the credential which it was sent",
        "redacted from results, events, errors, its state, the check and the log",
    ),
    "G17": Row("an upstream that writes the hall's log", "single clean lines, cut, twenty a second for a session"),
    "H1": Row(
        "commands by API",
        "none is ever taken from a request, whoever sends it; they come from the machine's files and command line",
    ),
    "H2": Row("options smuggled as values", "comes with commands", _COMMANDS),
    "H3": Row("shell characters in names", "plain letters only"),
    "H4": Row("environment variables that load code", "a short list of variables reaches a child"),
    "H5": Row(
        "paths out of a folder", "each directory is opened in the one before; no link is followed; only regular files"
    ),
    "H6": Row(
        "noise on a child's output",
        "lines that are no messages are skipped; a message, the kept error output and its lines in the log are bounded",
    ),
    "H7": Row("children that outlive the hall", "a group of their own, killed with it"),
    "H8": Row("a tool that takes all memory or time", "a process with limits, for tools that ask for it"),
    "H9": Row("objects that run when read", "JSON only, everywhere"),
    "I1": Row("requests that never end", "deadlines for the first byte, the headers and the body"),
    "I2": Row("readers that never read", "small buffers; a stalled write ends the connection"),
    "I3": Row("listening streams without number", "a few per caller"),
    "I4": Row("floods of calls", "limits per caller, per tool, and for both together"),
    "I5": Row("expensive tools", "a cost per tool"),
    "I6": Row("queues that grow", "bounded everywhere; beyond them an answer at once"),
    "I7": Row("a tool that never returns, or blocks", "a deadline, threads and processes of its own, a watchdog"),
    "I8": Row("sessions and approvals without number", "caps and expiry"),
    "I9": Row("compressed bodies", "refused"),
    "I10": Row("metrics with endless labels", "labels come from the registry"),
    "I11": Row("floods of progress", "twenty a second, 64 kB a call"),
    "I12": Row("questions without end", "five rounds"),
    "I13": Row("long calls without number or end", "100 open ones a caller, 10,000 in all, 1 MiB each, a week at most"),
    "I14": Row(
        "an upstream that lists without end, or huge and costly schemas",
        "20,000 definitions and 64 MiB an upstream, 256 KiB and a bounded cost each; a list is read in small steps",
    ),
    "I15": Row(
        "a hint of an upstream that its effect may be repeated", "not believed; only the operator's `idempotent` counts"
    ),
    "I16": Row(
        "an upstream that asks without end, or more than anybody reads",
        "five rounds, sixteen questions at a time, 8 KiB of state, four waiting calls a caller",
    ),
    "J1": Row("records changed, removed, moved", "a chain of hashes with signed checkpoints; verify names the first"),
    "J2": Row("yesterday's log put back", "checkpoints are kept in a second place as well"),
    "J3": Row("an effect without a record", "from level 4 on the intent is on disk first"),
    "J4": Row("secrets in records and files", "digests, never arguments; secrets sealed, with a key kept apart"),
    "J5": Row("SQL in search terms", "bound parameters only"),
    "J6": Row(
        "files that others can read", "0600 and 0700; what was changed is named at the start and by `audit verify`"
    ),
    "J7": Row(
        "rows written behind the hall's back",
        "every row carries a code that only the hall can make; what is sealed opens in its own row only",
    ),
    "J8": Row(
        "what long calls were given and gave, read from the files",
        "arguments, questions, answers and results are sealed in the row, bound to id and owner; no token is kept",
    ),
    "K1": Row(
        "half-sent bodies of strangers take every slot",
        "a slot is taken once the body is there; strangers have few of their own, per address too, and less time",
    ),
    "K2": Row(
        "strangers keep /health and the pages from answering",
        "vital paths keep a reserve for proven callers, and the health a small one for everybody",
    ),
    "K3": Row(
        "one caller's slow calls take every slot",
        "concurrent calls are bounded per caller and per tool; nobody gets more than half of what is free",
    ),
    "K4": Row("a WebSocket that never answers the close", "the connection is dropped after five seconds"),
    "K5": Row(
        "strangers' idle connections at a tool server in TypeScript",
        "few, timed, and the oldest make way; no listening beyond loopback without a token",
    ),
    "K6": Row(
        "missed events replayed to a lesser key",
        "the policy is asked again before a replay; event ids cannot be guessed",
    ),
    "K7": Row("search or pins tell a hidden tool from an unknown one", "names resolve among what the caller sees"),
    "K8": Row(
        "a tool's prints, warnings, threads and tasks write a secret to the log",
        "the redactor covers the process's streams, hooks and log records while a secret is in use and shortly after",
    ),
    "K9": Row(
        "a worker process writes what it likes into the hall's log",
        "output comes through a pipe: labelled, redacted, bounded in rate and size",
    ),
    "K10": Row(
        "a secret in a form that programs write by accident",
        "every form that is listed is removed, also when it is spread over the parts of a result",
    ),
    "K11": Row(
        "keys read from the hall's environment",
        "keys are wiped from the environment of the running hall; it is not dumpable",
    ),
    "K12": Row(
        "an isolated tool reads the hall's data folder",
        "Landlock, where the kernel has it; a warning where not",
    ),
    "K13": Row(
        "an isolated tool signals, freezes, slows or traces the hall",
        "Landlock scopes or signals judged by a supervisor, and seccomp, where the kernel can; a warning where not",
    ),
    "K14": Row("an isolated tool leaves daemons behind", "whatever it started is found and killed with its worker"),
    "K15": Row(
        "the audit is cut together with its witness",
        "the newest checkpoint is also in the store, within a minute, of level 7 and up with the intent; "
        "behind is told, and levels 4 and up wait",
    ),
    "K16": Row(
        "the audit's folder is replaced or taken away, also together with the database's removal",
        "the store knows its key and newest checkpoints, and its checkpoints say that there was a store; "
        "a database or row of the same age as an older audit is told only by a copy of the witness elsewhere",
    ),
    "K17": Row(
        "a call whose process was killed leaves no trace of its end",
        "verify lists intents without an outcome",
    ),
    "K18": Row(
        "an approved call runs other code of the tool's own file",
        "an approval is bound to the function and its file; a worker that imported another text of it refuses",
    ),
    "K19": Row(
        "a request state is used twice",
        "good once in all processes, unless a limit of the hall let nothing run; one yes holds for its call only",
    ),
    "K20": Row("an invalid WebSocket frame fills the log", "one line, no traceback"),
    "K21": Row("a result of 100 MB is encoded before it is refused", "measured while it is encoded"),
    "K22": Row(
        "user ids with invisible characters, or in two spellings",
        "printable, NFC, single blanks, nothing that may be drawn as nothing",
    ),
    "K23": Row(
        "a right that was taken away still counts for the next request of an open connection",
        "every request is authenticated, whatever its head; decisions go with the tools and rules they rest on",
    ),
}


# What holds whatever is tried: by name, in a sentence.
PROMISES = {
    "S1": "there is one way to a tool: no preview, health or management path runs one",
    "S2": "a tool that stands for a resource reaches what its caller may read, and nothing else",
    "P7": "memory is bounded, however many clients listen or do not read",
    "P8": "a tool that blocks, crashes or leaks hurts only itself",
    "R10": "connections that come and go leave nothing behind",
    "R11": "a tool that blocks its thread or the loop is found, named and moved",
    "R12": "a tool cannot take more memory than it was given",
}


class Advisory(NamedTuple):
    """What happened to a peer, and the rows that keep it from happening here."""

    name: str
    product: str
    cause: str
    rows: tuple[str, ...]


ADVISORIES = (
    Advisory("CVE-2025-49596", "MCP Inspector", "a local proxy that anybody could use", ("B1", "B14")),
    Advisory("CVE-2026-23744", "MCPJam Inspector", "open to the network, no authentication", ("B1", "B16")),
    Advisory("CVE-2025-53365, -53366", "MCP Python SDK", "an exception ended the server", ("F7",)),
    Advisory("python-sdk 2328, 2064", "MCP Python SDK", "invalid UTF-8, or a client that left, ended it", ("F5", "F7")),
    Advisory("CVE-2025-66416, -66414, CVE-2026-42559", "MCP SDKs", "no protection from rebinding by default", ("B14",)),
    Advisory("CVE-2026-52869", "MCP Python SDK", "sessions not bound to their caller", ("B6",)),
    Advisory("CVE-2026-59950", "MCP Python SDK", "a WebSocket without a check of its origin", ("B14",)),
    Advisory("CVE-2026-33946", "MCP Ruby SDK", "a second stream replaced the first", ("B6",)),
    Advisory("CVE-2026-25536, python-sdk 3060", "MCP SDKs", "answers routed by the client's id", ("B7",)),
    Advisory("CVE-2026-0621", "MCP TypeScript SDK", "a pattern that never ended", ("F9",)),
    Advisory("CVE-2026-27896", "MCP Go SDK", "members read without regard to case", ("F1",)),
    Advisory("CVE-2025-64340", "FastMCP", "shell characters in a name", ("H3",)),
    Advisory("CVE-2026-42271", "LiteLLM", "a preview that executed", ("S1",)),
    Advisory("CVE-2026-48710", "Starlette", "the Host header became part of the path", ("B2",)),
    Advisory("GHSA-g53w-w6mj-hrpp", "Kuadrant", "a header chose the authority", ("B1",)),
    Advisory(
        "ContextForge 1.0.6", "ContextForge", "log injection, and outputs that went round the guard", ("G6", "G9")
    ),
    Advisory("mcpo 309", "mcpo", "open to the network, no key by default", ("B16",)),
    Advisory("mcp-memory-service 10.4.4", "mcp-memory-service", "keys compared with ==", ("B12",)),
    Advisory("CVE-2026-32211", "Azure MCP", "no authentication", ("B1",)),
    Advisory("CVE-2025-54136", "Cursor", "an approval outlived the change", ("A3",)),
    Advisory("CVE-2025-59420, CVE-2026-27962", "Authlib", "crit ignored; a key from the token itself", ("B4",)),
    Advisory("docker mcp-gateway 513, stella 2675", "gateways", "a tool took another's name", ("A6",)),
)
