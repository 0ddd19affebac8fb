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

CREATE TABLE rows (
  id BIGINT PRIMARY KEY CHECK (id >> 32 = "last" >> 32),
  "last" BIGINT NOT NULL UNIQUE,
  "row" TEXT COLLATE "C" NOT NULL,
  hash BYTEA NOT NULL CHECK (length(hash) = 32),
  texts TEXT COLLATE "C" NOT NULL,
  dest TEXT COLLATE "C" GENERATED ALWAYS AS ("row"::json ->> 'dest') STORED
);

CREATE INDEX rows_ended ON rows ((id >> 32), dest) WHERE dest IN ('Done', 'Failed');

CREATE TABLE texts (
  id BIGINT PRIMARY KEY CHECK (id > 0),
  media_type TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL CHECK (length(digest) = 64),
  salt TEXT COLLATE "C",
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
ALTER TABLE rows ALTER texts SET STATISTICS 0;
ALTER TABLE texts ALTER media_type SET STATISTICS 0, ALTER salt SET STATISTICS 0, ALTER body SET STATISTICS 0;
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

CREATE FUNCTION json_text(data JSON) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$ BEGIN RETURN data #>> '{}'; EXCEPTION WHEN OTHERS THEN RETURN replace(data::text, '\u0000', '\ufffd')::json #>> '{}'; END $$;

CREATE VIEW transitions AS
  SELECT id, id >> 32 AS run, id & 4294967295 AS seq, ("row"::json ->> 'at')::bigint AS at, "row"::json ->> 'trigger' AS "trigger",
         "row"::json ->> 'source' AS source, dest,
         (SELECT '{' || coalesce(string_agg(to_json(name) || ':' || held, ',' ORDER BY name), '') || '}' FROM (
            SELECT value COLLATE "C" AS name, CASE WHEN strpos("row"::json ->> 'guards', key) < strpos("row"::json ->> 'guards', '-')
                   THEN 'true' ELSE 'false' END AS held FROM json_each_text(
            '{"a":"action_allowed","b":"answer_present","c":"answer_valid","d":"approval_needed",
            "e":"argument_missing","f":"budget_used_up","g":"concluded","h":"criteria_met","i":"duplicate",
            "j":"elicitation_requested","k":"elicitations_left","l":"final_action_pending","m":"hard_stop",
            "n":"in_doubt","o":"input_required","p":"parameter_retries_left","q":"parameters_ok",
            "r":"parameters_safe","s":"parameters_valid","t":"plan_has_steps","u":"reply_invalid",
            "v":"result_known","w":"retries_left","x":"retryable","y":"review_retries_left","z":"review_retry",
            "A":"review_success","B":"selection_ok","C":"selection_retries_left","D":"selection_valid",
            "E":"should_continue","F":"step_retries_left","G":"steps_left","H":"stop_reached",
            "I":"tools_offered"}')
            WHERE strpos("row"::json ->> 'guards', key) > 0
            UNION ALL SELECT key COLLATE "C", value FROM json_each_text("row"::json -> 'own_guards')) AS told) AS guards,
         coalesce("row"::json -> 'request', '{"kind":"none"}')::text AS request,
         coalesce("row"::json -> 'outcome', '{"kind":"none"}')::text AS outcome, ("row"::json -> 'change')::text AS change,
         coalesce(("row"::json ->> 'step')::bigint, 0) AS step, coalesce(("row"::json ->> 'action')::bigint, 0) AS action,
         coalesce(("row"::json ->> 'retries')::bigint, 0) AS retries, coalesce(("row"::json ->> 'tokens_in')::bigint, 0) AS tokens_in,
         coalesce(("row"::json ->> 'tokens_out')::bigint, 0) AS tokens_out,
         coalesce(("row"::json ->> 'cost_micro')::bigint, 0) AS cost_micro, coalesce(("row"::json ->> 'time_us')::bigint, 0) AS time_us,
         coalesce("row"::json -> 'counters', '{}')::text AS counters,
         coalesce((SELECT hash FROM rows AS before WHERE before.id = rows.id - 1),
                  (SELECT root_hash FROM specs WHERE specs.run = rows.id >> 32)) AS prev_hash,
         hash, json_text(texts::json -> -1 -> 4) AS made
  FROM rows;

CREATE VIEW payloads AS
  SELECT id, id >> 32 AS run, id & 4294967295 AS n, media_type, digest, salt, body, is_text FROM texts
  UNION ALL
  SELECT rows.id >> 32 << 32 | (value ->> 0)::bigint, rows.id >> 32, (value ->> 0)::bigint, coalesce(value ->> 1, 'application/json'),
         coalesce(value ->> 2, jsonb_path_query_first("row"::jsonb, '$.** ? (@.n == $n).digest',
                                                      jsonb_build_object('n', (value ->> 0)::bigint)) #>> '{}',
                  (SELECT documents.digest FROM documents WHERE documents.id BETWEEN rows.id >> 32 << 32 AND rows.id >> 32 << 32 | 4294967295
                   AND payload = (value ->> 0)::bigint LIMIT 1)), value ->> 3,
         convert_to(json_text(value -> 4), 'UTF8'), value ->> 3 IS NOT NULL
  FROM rows, json_array_elements(texts::json) AS value;

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
    (SELECT max(id) FROM rows WHERE id BETWEEN specs.run << 32 AND specs.run << 32 | 4294967295),
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
    (SELECT id FROM rows WHERE id = (runs.run << 32 | runs.head_seq)),
    (SELECT parent.run << 32 | runs.head_seq FROM specs AS parent WHERE parent.run_id = runs.parent_run_id));

CREATE VIEW v_steps AS
  SELECT run_id, seq, to_timestamp(at / 1000000) AS at, "trigger", source, dest, step, action,
         request::json ->> 'kind' AS request, outcome::json ->> 'kind' AS outcome, guards, time_us, upper(encode(hash, 'hex')) AS hash,
         made::json -> 'refinement' ->> 'reason' AS reason
  FROM transitions JOIN specs ON specs.run = transitions.run;

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
  SELECT run_id, call.action, call.step, call.made::json -> 'intent' ->> 'tool' AS tool, call.made::json -> 'intent' ->> 'effect' AS effect,
         call.made::json -> 'intent' -> 'arguments' AS arguments,
         CASE WHEN answer.made::json -> 'reply' -> 'content' ->> 'approve' = 'true' THEN coalesce(answer.made::json -> 'reply' ->> 'actor', 'somebody') END AS approved_by,
         to_timestamp(call.at / 1000000) AS started, to_timestamp(ended.at / 1000000) AS ended,
         ended.outcome::json ->> 'ok' IN ('1', 'true') AS ok, ended.outcome::json ->> 'error' AS error, ended.outcome::json ->> 'label' AS label, call.seq
  FROM transitions AS call JOIN specs ON specs.run = call.run
  LEFT JOIN transitions AS answer ON answer.id = call.id - 1 AND call.seq > 0 AND answer."trigger" = 'provide'
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
