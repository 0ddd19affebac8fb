-- The journal's schema in PostgreSQL, version 3. Described in docs/journal-format.md; it is made within a schema of its own.
CREATE TABLE journal (
  id TEXT COLLATE "C" PRIMARY KEY,
  version BIGINT NOT NULL
);

CREATE TABLE specs (
  run BIGINT PRIMARY KEY,
  run_id TEXT COLLATE "C" NOT NULL UNIQUE,
  workflow_id TEXT COLLATE "C" NOT NULL,
  round BIGINT NOT NULL,
  task BIGINT NOT NULL,
  parent_run_id TEXT COLLATE "C",
  parent_seq BIGINT,
  spec TEXT COLLATE "C" NOT NULL,
  spec_payload BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  root_hash BYTEA NOT NULL,
  "key" TEXT COLLATE "C" UNIQUE,
  metadata TEXT COLLATE "C" NOT NULL,
  conversation TEXT COLLATE "C"
);

CREATE INDEX specs_place ON specs (workflow_id, round, task);

CREATE INDEX specs_conversation ON specs (conversation, round) WHERE conversation IS NOT NULL;

CREATE TABLE leases (
  run BIGINT PRIMARY KEY REFERENCES specs (run),
  fence BIGINT NOT NULL,
  owner TEXT COLLATE "C",
  lease_until BIGINT,
  cancel BIGINT NOT NULL
);

CREATE TABLE transitions (
  id BIGINT PRIMARY KEY CHECK (id = (run << 32 | seq)),
  run BIGINT NOT NULL,
  seq BIGINT NOT NULL CHECK (seq >= 0),
  at BIGINT NOT NULL,
  "trigger" TEXT COLLATE "C" NOT NULL,
  source TEXT COLLATE "C" NOT NULL,
  dest TEXT COLLATE "C" NOT NULL,
  guards TEXT COLLATE "C" NOT NULL,
  request TEXT COLLATE "C" NOT NULL,
  outcome TEXT COLLATE "C" NOT NULL,
  change TEXT COLLATE "C" NOT NULL,
  step BIGINT NOT NULL,
  action BIGINT NOT NULL,
  retries BIGINT NOT NULL,
  tokens_in BIGINT NOT NULL,
  tokens_out BIGINT NOT NULL,
  cost_micro BIGINT NOT NULL,
  time_us BIGINT NOT NULL,
  counters TEXT COLLATE "C" NOT NULL,
  prev_hash BYTEA NOT NULL,
  hash BYTEA NOT NULL
);

CREATE INDEX transitions_ended ON transitions (run, dest) WHERE dest IN ('Done', 'Failed');

CREATE TABLE payloads (
  id BIGINT PRIMARY KEY CHECK (id = (run << 32 | n)),
  run BIGINT NOT NULL,
  n BIGINT NOT NULL CHECK (n >= 0),
  media_type TEXT COLLATE "C" NOT NULL,
  digest BYTEA NOT NULL,
  salt BYTEA,
  body BYTEA,
  is_text BOOLEAN NOT NULL
);

CREATE TABLE documents (
  id BIGINT PRIMARY KEY CHECK (id = (run << 32 | number)),
  run BIGINT NOT NULL,
  number BIGINT NOT NULL CHECK (number >= 0),
  label TEXT COLLATE "C" NOT NULL,
  position BIGINT NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  mime TEXT COLLATE "C" NOT NULL,
  bytes BIGINT NOT NULL,
  digest TEXT COLLATE "C" NOT NULL,
  payload BIGINT NOT NULL
);

CREATE TABLE erasures (
  id BIGINT PRIMARY KEY CHECK (id = (run << 32 | number)),
  run BIGINT NOT NULL REFERENCES specs (run),
  number BIGINT NOT NULL CHECK (number >= 0),
  at BIGINT NOT NULL,
  rule TEXT COLLATE "C" NOT NULL,
  payloads TEXT COLLATE "C" NOT NULL,
  reason TEXT COLLATE "C",
  hash BYTEA NOT NULL
);

CREATE TABLE queue (
  run BIGINT PRIMARY KEY,
  ready_at BIGINT,
  attempts BIGINT NOT NULL,
  tried_seq BIGINT NOT NULL,
  worker TEXT COLLATE "C",
  reason TEXT COLLATE "C"
);

CREATE INDEX queue_ready ON queue (ready_at, run);
CREATE INDEX queue_reason ON queue (reason) WHERE worker IS NULL;

CREATE TABLE turns (
  ticket BIGINT PRIMARY KEY,
  conversation TEXT COLLATE "C" NOT NULL,
  owner TEXT COLLATE "C" NOT NULL,
  until BIGINT NOT NULL
);

CREATE TABLE unscrubbed (
  run BIGINT PRIMARY KEY REFERENCES specs (run)
);

-- ANALYZE keeps samples of columns, which any reader sees in pg_stats, also after an erasure: none of those that are erased.
ALTER TABLE specs ALTER "key" SET STATISTICS 0, ALTER metadata SET STATISTICS 0, ALTER conversation SET STATISTICS 0;
ALTER TABLE payloads ALTER media_type SET STATISTICS 0, ALTER salt SET STATISTICS 0, ALTER body SET STATISTICS 0;
ALTER TABLE documents ALTER name SET STATISTICS 0, ALTER mime SET STATISTICS 0;

-- What SQLite has and the statements for both use: a part of a JSON text by a path of one name.
CREATE FUNCTION json_part(data TEXT, path TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$ SELECT (data::json -> trim(BOTH '"' FROM substr(path, 3)))::text $$;

CREATE FUNCTION json_value(data BYTEA, path TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$ SELECT convert_from(data, 'UTF8')::json ->> trim(BOTH '"' FROM substr(path, 3)) $$;

CREATE FUNCTION json_valid(data BYTEA) RETURNS BOOLEAN LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$ BEGIN RETURN convert_from(data, 'UTF8')::json IS NOT NULL; EXCEPTION WHEN OTHERS THEN RETURN FALSE; END $$;

CREATE FUNCTION body_text(data BYTEA, is_text BOOLEAN) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$ BEGIN RETURN CASE WHEN is_text THEN convert_from(data, 'UTF8') END; EXCEPTION WHEN OTHERS THEN RETURN NULL; END $$;

CREATE OPERATOR -> (LEFTARG = TEXT, RIGHTARG = TEXT, FUNCTION = json_part);

CREATE OPERATOR ->> (LEFTARG = BYTEA, RIGHTARG = TEXT, FUNCTION = json_value);

CREATE VIEW runs AS
  SELECT specs.run, run_id, workflow_id, round, task, parent_run_id, parent_seq, spec,
         coalesce(dest, 'Planning') AS state,
         CASE WHEN dest = 'Done' THEN 'done' WHEN dest = 'Failed' THEN 'failed'
              WHEN "trigger" = 'wait' THEN 'waiting' ELSE 'running' END AS status,
         CASE WHEN dest IN ('Done', 'Failed') THEN counters::json ->> 'stop' END AS reason,
         created_at,
         CASE WHEN dest IN ('Done', 'Failed') THEN at END AS ended_at,
         coalesce(seq, -1) AS head_seq,
         CASE WHEN transitions.run = specs.run THEN hash ELSE root_hash END AS head_hash,
         "key", metadata, conversation
  FROM specs LEFT JOIN transitions ON transitions.id = coalesce(
    (SELECT max(id) FROM transitions WHERE id BETWEEN specs.run << 32 AND specs.run << 32 | 4294967295),
    (SELECT parent.run << 32 | specs.parent_seq FROM specs AS parent WHERE parent.run_id = specs.parent_run_id));

CREATE VIEW v_lineage AS
  WITH RECURSIVE part (run_id, stands_under, last_seq) AS (
    SELECT run_id, run_id, head_seq FROM runs
    UNION
    SELECT part.run_id, specs.parent_run_id, specs.parent_seq
    FROM part JOIN specs ON specs.run_id = part.stands_under WHERE specs.parent_run_id IS NOT NULL)
  SELECT part.run_id, stands_under, coalesce(parent_seq + 1, 0) AS first_seq, last_seq
  FROM part JOIN specs ON specs.run_id = part.stands_under
  WHERE last_seq >= coalesce(parent_seq + 1, 0);

CREATE VIEW v_runs AS
  SELECT run_id, status, state, reason, head_seq + 1 AS transitions, coalesce(step, 0) AS steps,
         coalesce(tokens_in, 0) AS tokens_in, coalesce(tokens_out, 0) AS tokens_out,
         coalesce(cost_micro, 0) / 1000000.0 AS cost, coalesce(time_us, 0) / 1000000.0 AS seconds,
         to_timestamp(created_at / 1000000) AS created, to_timestamp(ended_at / 1000000) AS ended
  FROM runs LEFT JOIN transitions ON transitions.id = coalesce(
    (SELECT id FROM transitions WHERE id = (runs.run << 32 | runs.head_seq)),
    (SELECT parent.run << 32 | runs.head_seq FROM specs AS parent WHERE parent.run_id = runs.parent_run_id));

CREATE VIEW v_steps AS
  SELECT run_id, seq, to_timestamp(at / 1000000) AS at, "trigger", source, dest, step, action,
         request::json ->> 'kind' AS request, outcome::json ->> 'kind' AS outcome, guards, time_us, upper(encode(hash, 'hex')) AS hash,
         made.body -> 'refinement' ->> 'reason' AS reason
  FROM transitions JOIN specs ON specs.run = transitions.run
  LEFT JOIN LATERAL (SELECT body_text(body, is_text)::json AS body FROM payloads
    WHERE payloads.id = (transitions.run << 32 | (change::json ->> 'n')::bigint)) AS made ON TRUE;

CREATE VIEW v_actions AS
  SELECT run_id, action, step, request::json ->> 'tool' AS tool, outcome::json ->> 'label' AS label,
         coalesce(outcome::json ->> 'ok', '0') IN ('1', 'true') AS ok, (outcome::json ->> 'documents')::bigint AS documents,
         CASE WHEN "trigger" = 'execute' THEN outcome::json ->> 'error'
              WHEN guards::json ->> 'action_allowed' = 'false' THEN 'denied'
              WHEN guards::json ->> 'duplicate' = 'true' THEN 'duplicate_call_blocked'
              WHEN guards::json ->> 'parameters_safe' = 'false' THEN 'unsafe_parameters'
              ELSE 'invalid_parameters' END AS error,
         seq
  FROM transitions JOIN specs ON specs.run = transitions.run
  WHERE "trigger" IN ('execute', 'refuse');

CREATE VIEW v_calls AS
  SELECT run_id, call.action, call.step, made.body -> 'intent' ->> 'tool' AS tool, made.body -> 'intent' ->> 'effect' AS effect,
         made.body -> 'intent' -> 'arguments' AS arguments,
         CASE WHEN said.body -> 'reply' -> 'content' ->> 'approve' = 'true' THEN coalesce(said.body -> 'reply' ->> 'actor', 'somebody') END AS approved_by,
         to_timestamp(call.at / 1000000) AS started, to_timestamp(ended.at / 1000000) AS ended,
         ended.outcome::json ->> 'ok' IN ('1', 'true') AS ok, ended.outcome::json ->> 'error' AS error, ended.outcome::json ->> 'label' AS label, call.seq
  FROM transitions AS call JOIN specs ON specs.run = call.run
  LEFT JOIN LATERAL (SELECT body_text(body, is_text)::json AS body FROM payloads
    WHERE payloads.id = (call.run << 32 | (call.change::json ->> 'n')::bigint)) AS made ON TRUE
  LEFT JOIN transitions AS answer ON answer.id = call.id - 1 AND call.seq > 0 AND answer."trigger" = 'provide'
  LEFT JOIN LATERAL (SELECT body_text(body, is_text)::json AS body FROM payloads
    WHERE payloads.id = (answer.run << 32 | (answer.change::json ->> 'n')::bigint)) AS said ON TRUE
  LEFT JOIN transitions AS ended ON ended.id = (
    SELECT id FROM transitions AS later WHERE later.id BETWEEN call.id + 1 AND call.run << 32 | 4294967295
    AND later."trigger" IN ('execute', 'specify') ORDER BY id LIMIT 1) AND ended."trigger" = 'execute'
  WHERE call."trigger" = 'specify';

CREATE VIEW v_usage AS
  SELECT run_id, CASE request::json ->> 'kind' WHEN 'tool' THEN 'text' ELSE request::json ->> 'kind' END AS kind,
         sum(coalesce((outcome::json ->> 'calls')::bigint, json_array_length(outcome::json -> 'texts'),
                      CASE WHEN request::json ->> 'model' IS NOT NULL THEN 1 ELSE 0 END)) AS requests,
         sum(coalesce((outcome::json ->> 'tokens_in')::bigint, 0)) AS tokens_in,
         sum(coalesce((outcome::json ->> 'tokens_out')::bigint, 0)) AS tokens_out,
         sum(coalesce((outcome::json ->> 'tokens_cached')::bigint, 0)) AS tokens_cached,
         sum(coalesce((outcome::json ->> 'tokens_reasoning')::bigint, 0)) AS tokens_reasoning,
         sum(coalesce((outcome::json ->> 'cost_micro')::bigint, 0)) / 1000000.0 AS cost
  FROM transitions JOIN specs ON specs.run = transitions.run
  WHERE request::json ->> 'model' IS NOT NULL OR outcome::json ->> 'texts' IS NOT NULL
     OR outcome::json ->> 'tokens_in' IS NOT NULL AND request::json ->> 'tool' IS DISTINCT FROM 'workflow.task'
        AND NOT EXISTS (SELECT 1 FROM specs AS called WHERE called.workflow_id = specs.run_id || '/' || action)
  GROUP BY run_id, kind;
