CREATE INDEX ix_account_links_caller_state ON account_links (caller, state);

CREATE INDEX ix_account_links_state_expires ON account_links (state, expires);

CREATE UNIQUE INDEX ix_accounts_user_provider ON accounts (user, provider);

CREATE INDEX ix_approvals_caller_state ON approvals (caller, state);

CREATE INDEX ix_approvals_expires ON approvals (expires);

CREATE INDEX ix_approvals_state_expires ON approvals (state, expires);

CREATE INDEX ix_events_id_number ON events (id, number);

CREATE INDEX ix_factor_tries_person ON factor_tries (person);

CREATE INDEX ix_factors_person ON factors (person);

CREATE UNIQUE INDEX ix_secrets_user_name ON secrets (user, name);

CREATE INDEX ix_tasks_expires_at ON tasks (expires_at);

CREATE INDEX ix_tasks_owner_state ON tasks (owner, state);

CREATE INDEX ix_tasks_state_holder ON tasks (state, holder);

CREATE INDEX ix_tools_document ON tools (document);

CREATE INDEX ix_used_states_caller ON used_states (caller);

CREATE INDEX ix_used_states_expires ON used_states (expires);

CREATE TABLE account_links (
	id TEXT NOT NULL, 
	caller TEXT NOT NULL, 
	user TEXT NOT NULL, 
	provider TEXT NOT NULL, 
	issuer TEXT NOT NULL, 
	scopes TEXT NOT NULL, 
	tool TEXT, 
	sealed BLOB NOT NULL, 
	browser TEXT NOT NULL, 
	how TEXT NOT NULL, 
	created REAL NOT NULL, 
	expires REAL NOT NULL, 
	state TEXT NOT NULL, 
	reason TEXT, 
	mac BLOB NOT NULL, 
	PRIMARY KEY (id)
)
 STRICT

;

CREATE TABLE accounts (
	id TEXT NOT NULL, 
	user TEXT NOT NULL, 
	provider TEXT NOT NULL, 
	issuer TEXT NOT NULL, 
	scopes TEXT NOT NULL, 
	sealed BLOB NOT NULL, 
	expires_at REAL, 
	state TEXT NOT NULL, 
	created_at REAL NOT NULL, 
	refreshed_at REAL, 
	serial INTEGER NOT NULL, 
	mac BLOB NOT NULL, 
	PRIMARY KEY (id)
)
 STRICT

;

CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE api_keys (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	owner TEXT, 
	shared INTEGER NOT NULL, 
	scopes TEXT NOT NULL, 
	digest BLOB NOT NULL, 
	created_at REAL NOT NULL, 
	expires_at REAL, 
	last_used_at REAL, 
	revoked_at REAL, 
	"by" TEXT NOT NULL, 
	mac BLOB NOT NULL, 
	PRIMARY KEY (id)
)
 STRICT

;

CREATE TABLE approvals (
	id TEXT NOT NULL, 
	how TEXT NOT NULL, 
	caller TEXT NOT NULL, 
	person TEXT NOT NULL, 
	acting_for TEXT, 
	tool TEXT NOT NULL, 
	definition_sha256 TEXT NOT NULL, 
	arguments_sha256 TEXT NOT NULL, 
	shown BLOB NOT NULL, 
	level INTEGER NOT NULL, 
	effect TEXT, 
	dialect TEXT NOT NULL, 
	created REAL NOT NULL, 
	expires REAL NOT NULL, 
	state TEXT NOT NULL, 
	approver TEXT, 
	method TEXT, 
	decided_at REAL, 
	mac BLOB NOT NULL, code_sha256 TEXT DEFAULT '' NOT NULL, reason TEXT, 
	PRIMARY KEY (id)
)
 STRICT

;

CREATE TABLE audit_anchors (
	id TEXT NOT NULL, 
	public TEXT NOT NULL, 
	marks TEXT NOT NULL, 
	accepted TEXT NOT NULL, 
	mac BLOB NOT NULL, 
	PRIMARY KEY (id)
)
 STRICT

;

CREATE TABLE changes (
	last INTEGER NOT NULL
)
 STRICT

;

CREATE TABLE data_keys (
	id TEXT NOT NULL, 
	tenant TEXT NOT NULL, 
	use TEXT NOT NULL, 
	kek TEXT NOT NULL, 
	wrapped BLOB NOT NULL, 
	created_at REAL NOT NULL, 
	mac BLOB NOT NULL, 
	PRIMARY KEY (id)
)
 STRICT

;

CREATE TABLE documents (
	digest TEXT NOT NULL, 
	content BLOB NOT NULL, 
	PRIMARY KEY (digest)
)
 STRICT

;

CREATE TABLE events (
	number INTEGER NOT NULL, 
	at REAL NOT NULL, 
	"by" TEXT NOT NULL, 
	id TEXT NOT NULL, 
	what TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	PRIMARY KEY (number)
)
 STRICT

;

CREATE TABLE factor_tries (
	number INTEGER NOT NULL, 
	person TEXT NOT NULL, 
	at REAL NOT NULL, 
	PRIMARY KEY (number)
)
 STRICT

;

CREATE TABLE factors (
	id TEXT NOT NULL, 
	person TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	secret TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	created_at REAL NOT NULL, 
	expires REAL, 
	counter INTEGER NOT NULL, 
	used_at REAL, 
	mac BLOB NOT NULL, 
	PRIMARY KEY (id)
)
 STRICT

;

CREATE TABLE grants (
	id TEXT NOT NULL, 
	effect TEXT NOT NULL, 
	callers TEXT NOT NULL, 
	tools TEXT NOT NULL, 
	conditions TEXT NOT NULL, 
	created_at REAL NOT NULL, 
	"by" TEXT NOT NULL, 
	mac BLOB NOT NULL, 
	PRIMARY KEY (id)
)
 STRICT

;

CREATE TABLE seals (
	name TEXT NOT NULL, 
	mac BLOB NOT NULL, 
	PRIMARY KEY (name)
)
 STRICT

;

CREATE TABLE secrets (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	user TEXT NOT NULL, 
	sealed BLOB NOT NULL, 
	dek TEXT NOT NULL, 
	hint TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	created_at REAL NOT NULL, 
	changed_at REAL NOT NULL, 
	mac BLOB NOT NULL, 
	PRIMARY KEY (id)
)
 STRICT

;

CREATE TABLE tasks (
	id TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	user_id TEXT, 
	tool TEXT NOT NULL, 
	dialect TEXT NOT NULL, 
	state TEXT NOT NULL, 
	sealed_call BLOB NOT NULL, 
	sealed_memory BLOB, 
	sealed_status BLOB, 
	sealed_result BLOB, 
	attempt INTEGER NOT NULL, 
	holder TEXT, 
	epoch INTEGER NOT NULL, 
	serial INTEGER NOT NULL, 
	lease_until REAL NOT NULL, 
	created_at REAL NOT NULL, 
	updated_at REAL NOT NULL, 
	expires_at REAL NOT NULL, 
	poll_ms INTEGER NOT NULL, 
	mac BLOB NOT NULL, 
	PRIMARY KEY (id)
)
 STRICT

;

CREATE TABLE tools (
	id TEXT NOT NULL, 
	toolkit TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	version TEXT NOT NULL, 
	dialect TEXT NOT NULL, 
	document TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	model BLOB NOT NULL, 
	state TEXT NOT NULL, 
	deprecated_at REAL, 
	sunset TEXT, 
	successor TEXT, 
	origin TEXT NOT NULL, 
	origin_detail TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	registered_at REAL NOT NULL, 
	changed_at REAL NOT NULL, 
	shown_digest TEXT NOT NULL, 
	contract_digest TEXT NOT NULL, 
	serial INTEGER NOT NULL, mac BLOB, 
	PRIMARY KEY (id), 
	FOREIGN KEY(document) REFERENCES documents (digest)
)
 STRICT

;

CREATE TABLE upstreams (
	id TEXT NOT NULL, 
	settings TEXT, 
	era TEXT, 
	revision TEXT, 
	server_name TEXT, 
	server_version TEXT, 
	listing_digest TEXT, 
	off INTEGER NOT NULL, 
	"by" TEXT NOT NULL, 
	added_at REAL NOT NULL, 
	changed_at REAL NOT NULL, 
	serial INTEGER NOT NULL, 
	mac BLOB NOT NULL, 
	PRIMARY KEY (id)
)
 STRICT

;

CREATE TABLE used_states (
	id TEXT NOT NULL, 
	caller TEXT NOT NULL, 
	expires REAL NOT NULL, 
	PRIMARY KEY (id)
)
 STRICT

;

-- revision [('0009',)]
