-- The journal's schema, version 3. Described in docs/journal-format.md.
-- A file of version 2 has most of it, and verifiers compare texts: SQLite leaves IF NOT EXISTS out of them, and the column "conversation"
-- is where ALTER TABLE puts it.
CREATE TABLE IF NOT EXISTS specs (
  run INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL UNIQUE,
  workflow_id TEXT NOT NULL,
  round INTEGER NOT NULL,
  task INTEGER NOT NULL,
  parent_run_id TEXT,
  parent_seq INTEGER,
  spec TEXT NOT NULL,
  spec_payload INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  root_hash BLOB NOT NULL,
  "key" TEXT UNIQUE,
  metadata TEXT NOT NULL
, conversation TEXT) STRICT;

CREATE INDEX IF NOT EXISTS specs_place ON specs (workflow_id, round, task);

CREATE INDEX IF NOT EXISTS specs_conversation ON specs (conversation, round) WHERE conversation IS NOT NULL;

CREATE TABLE IF NOT EXISTS leases (
  run INTEGER PRIMARY KEY REFERENCES specs (run),
  fence INTEGER NOT NULL,
  owner TEXT,
  lease_until INTEGER,
  cancel INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS transitions (
  id INTEGER PRIMARY KEY CHECK (id = (run << 32 | seq)),
  run INTEGER NOT NULL REFERENCES specs (run),
  seq INTEGER NOT NULL CHECK (seq >= 0),
  at INTEGER NOT NULL,
  "trigger" TEXT NOT NULL,
  source TEXT NOT NULL,
  dest TEXT NOT NULL,
  guards TEXT NOT NULL,
  request TEXT NOT NULL,
  outcome TEXT NOT NULL,
  change TEXT NOT NULL,
  step INTEGER NOT NULL,
  action INTEGER NOT NULL,
  retries INTEGER NOT NULL,
  tokens_in INTEGER NOT NULL,
  tokens_out INTEGER NOT NULL,
  cost_micro INTEGER NOT NULL,
  time_us INTEGER NOT NULL,
  counters TEXT NOT NULL,
  prev_hash BLOB NOT NULL,
  hash BLOB NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS transitions_ended ON transitions (run, dest) WHERE dest IN ('Done', 'Failed');

CREATE TABLE IF NOT EXISTS payloads (
  id INTEGER PRIMARY KEY CHECK (id = (run << 32 | n)),
  run INTEGER NOT NULL,
  n INTEGER NOT NULL CHECK (n >= 0),
  media_type TEXT NOT NULL,
  digest BLOB NOT NULL,
  salt BLOB,
  body ANY
) STRICT;

CREATE TABLE IF NOT EXISTS documents (
  id INTEGER PRIMARY KEY CHECK (id = (run << 32 | number)),
  run INTEGER NOT NULL,
  number INTEGER NOT NULL CHECK (number >= 0),
  label TEXT NOT NULL,
  position INTEGER NOT NULL,
  name TEXT NOT NULL,
  mime TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  digest TEXT NOT NULL,
  payload INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS erasures (
  id INTEGER PRIMARY KEY CHECK (id = (run << 32 | number)),
  run INTEGER NOT NULL REFERENCES specs (run),
  number INTEGER NOT NULL CHECK (number >= 0),
  at INTEGER NOT NULL,
  rule TEXT NOT NULL,
  payloads TEXT NOT NULL,
  reason TEXT,
  hash BLOB NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS unscrubbed (
  run INTEGER PRIMARY KEY REFERENCES specs (run)
) STRICT;

CREATE VIEW IF NOT EXISTS runs AS
  SELECT specs.run, run_id, workflow_id, round, task, parent_run_id, parent_seq, spec,
         coalesce(dest, 'Planning') AS state,
         CASE WHEN dest = 'Done' THEN 'done' WHEN dest = 'Failed' THEN 'failed'
              WHEN "trigger" = 'wait' THEN 'waiting' ELSE 'running' END AS status,
         CASE WHEN dest IN ('Done', 'Failed') THEN counters ->> '$.stop' END AS reason,
         created_at,
         CASE WHEN dest IN ('Done', 'Failed') THEN at END AS ended_at,
         coalesce(seq, -1) AS head_seq,
         CASE WHEN transitions.run = specs.run THEN hash ELSE root_hash END AS head_hash,
         "key", metadata, conversation
  FROM specs LEFT JOIN transitions ON transitions.id = coalesce(
    (SELECT max(id) FROM transitions WHERE id BETWEEN specs.run << 32 AND specs.run << 32 | 4294967295),
    (SELECT parent.run << 32 | specs.parent_seq FROM specs AS parent WHERE parent.run_id = specs.parent_run_id));

CREATE VIEW IF NOT EXISTS v_lineage AS
  WITH RECURSIVE part (run_id, stands_under, last_seq) AS (
    SELECT run_id, run_id, head_seq FROM runs
    UNION
    SELECT part.run_id, specs.parent_run_id, specs.parent_seq
    FROM part JOIN specs ON specs.run_id = part.stands_under WHERE specs.parent_run_id IS NOT NULL)
  SELECT part.run_id, stands_under, coalesce(parent_seq + 1, 0) AS first_seq, last_seq
  FROM part JOIN specs ON specs.run_id = part.stands_under
  WHERE last_seq >= coalesce(parent_seq + 1, 0);

CREATE VIEW IF NOT EXISTS v_runs AS
  SELECT run_id, status, state, reason, head_seq + 1 AS transitions, coalesce(step, 0) AS steps,
         coalesce(tokens_in, 0) AS tokens_in, coalesce(tokens_out, 0) AS tokens_out,
         coalesce(cost_micro, 0) / 1000000.0 AS cost, coalesce(time_us, 0) / 1000000.0 AS seconds,
         datetime(created_at / 1000000, 'unixepoch') AS created,
         datetime(ended_at / 1000000, 'unixepoch') AS ended
  FROM runs LEFT JOIN transitions ON transitions.id = coalesce(
    (SELECT id FROM transitions WHERE id = (runs.run << 32 | runs.head_seq)),
    (SELECT parent.run << 32 | runs.head_seq FROM specs AS parent WHERE parent.run_id = runs.parent_run_id));

CREATE VIEW IF NOT EXISTS v_steps AS
  SELECT run_id, seq, datetime(at / 1000000, 'unixepoch') AS at, "trigger", source, dest, step, action,
         request ->> '$.kind' AS request, outcome ->> '$.kind' AS outcome, guards, time_us, hex(hash) AS hash,
         made.body ->> '$.refinement.reason' AS reason
  FROM transitions JOIN specs ON specs.run = transitions.run
  LEFT JOIN payloads AS made ON made.id = (transitions.run << 32 | change ->> '$.n');

CREATE VIEW IF NOT EXISTS v_actions AS
  SELECT run_id, action, step, request ->> '$.tool' AS tool, outcome ->> '$.label' AS label, coalesce(outcome ->> '$.ok', 0) AS ok,
         outcome ->> '$.documents' AS documents,
         CASE WHEN "trigger" = 'execute' THEN outcome ->> '$.error'
              WHEN NOT guards ->> '$.action_allowed' THEN 'denied'
              WHEN guards ->> '$.duplicate' THEN 'duplicate_call_blocked'
              WHEN NOT guards ->> '$.parameters_safe' THEN 'unsafe_parameters'
              ELSE 'invalid_parameters' END AS error,
         seq
  FROM transitions JOIN specs ON specs.run = transitions.run
  WHERE "trigger" IN ('execute', 'refuse');

CREATE VIEW IF NOT EXISTS v_calls AS
  SELECT run_id, call.action, call.step, made.body ->> '$.intent.tool' AS tool, made.body ->> '$.intent.effect' AS effect,
         made.body -> '$.intent.arguments' AS arguments,
         CASE WHEN said.body ->> '$.reply.content.approve' THEN coalesce(said.body ->> '$.reply.actor', 'somebody') END AS approved_by,
         datetime(call.at / 1000000, 'unixepoch') AS started, datetime(ended.at / 1000000, 'unixepoch') AS ended,
         ended.outcome ->> '$.ok' AS ok, ended.outcome ->> '$.error' AS error, ended.outcome ->> '$.label' AS label, call.seq
  FROM transitions AS call JOIN specs ON specs.run = call.run
  LEFT JOIN payloads AS made ON made.id = (call.run << 32 | call.change ->> '$.n')
  LEFT JOIN transitions AS answer ON answer.id = call.id - 1 AND call.seq > 0 AND answer."trigger" = 'provide'
  LEFT JOIN payloads AS said ON said.id = (answer.run << 32 | answer.change ->> '$.n')
  LEFT JOIN transitions AS ended ON ended.id = (
    SELECT id FROM transitions AS later WHERE later.id BETWEEN call.id + 1 AND call.run << 32 | 4294967295
    AND later."trigger" IN ('execute', 'specify') ORDER BY id LIMIT 1) AND ended."trigger" = 'execute'
  WHERE call."trigger" = 'specify';

CREATE VIEW IF NOT EXISTS v_usage AS
  SELECT run_id, CASE request ->> '$.kind' WHEN 'tool' THEN 'text' ELSE request ->> '$.kind' END AS kind,
         sum(coalesce(outcome ->> '$.calls', json_array_length(outcome, '$.texts'), request ->> '$.model' IS NOT NULL)) AS requests,
         sum(coalesce(outcome ->> '$.tokens_in', 0)) AS tokens_in,
         sum(coalesce(outcome ->> '$.tokens_out', 0)) AS tokens_out,
         sum(coalesce(outcome ->> '$.tokens_cached', 0)) AS tokens_cached,
         sum(coalesce(outcome ->> '$.tokens_reasoning', 0)) AS tokens_reasoning,
         sum(coalesce(outcome ->> '$.cost_micro', 0)) / 1000000.0 AS cost
  FROM transitions JOIN specs ON specs.run = transitions.run
  WHERE request ->> '$.model' IS NOT NULL OR outcome ->> '$.texts' IS NOT NULL
     OR outcome ->> '$.tokens_in' IS NOT NULL AND request ->> '$.tool' IS NOT 'workflow.task'
        AND NOT EXISTS (SELECT 1 FROM specs AS called WHERE called.workflow_id = specs.run_id || '/' || action)
  GROUP BY run_id, kind;
