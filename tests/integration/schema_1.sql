-- The tables of version 1, as its daemons made them: databases of that time must still be read. Never changed.
CREATE TABLE meta (
    key TEXT PRIMARY KEY CHECK(key <> ''),
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE boxes (
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL CHECK(state IN ('intent', 'starting', 'blank', 'leased', 'parked', 'deleting')),
    profile TEXT NOT NULL,
    backend TEXT NOT NULL,
    spec_hash INTEGER NOT NULL,
    sandbox_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    principal INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    url TEXT NOT NULL,
    token TEXT NOT NULL,
    ref TEXT NOT NULL,
    meta TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    ready_ms INTEGER NOT NULL,
    leased_ms INTEGER NOT NULL,
    parked_ms INTEGER NOT NULL,
    active_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    idle_limit_ms INTEGER NOT NULL,
    end TEXT NOT NULL
) STRICT;
CREATE VIEW intents AS SELECT id, state, profile, backend, sandbox_id, generation, ref, created_ms, end FROM boxes WHERE state IN ('intent', 'deleting');
CREATE TABLE leases (
    sandbox_id TEXT PRIMARY KEY CHECK(sandbox_id <> ''),
    generation INTEGER NOT NULL,
    box_id INTEGER NOT NULL,
    user_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    principal INTEGER NOT NULL,
    profile TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL,
    end TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX leases_ended ON leases(ended_ms) WHERE ended_ms > 0;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
