-- The journal's schema, version 3. Described in docs/journal-format.md. Verifiers compare its text.
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
  metadata TEXT NOT NULL,
  conversation TEXT
) STRICT;

CREATE INDEX IF NOT EXISTS specs_place ON specs (workflow_id, round, task);

CREATE INDEX IF NOT EXISTS specs_conversation ON specs (conversation, round) WHERE conversation IS NOT NULL;

CREATE TABLE IF NOT EXISTS leases (
  run INTEGER PRIMARY KEY REFERENCES specs (run),
  fence INTEGER NOT NULL,
  owner TEXT,
  lease_until INTEGER,
  cancel INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS rows (
  id INTEGER PRIMARY KEY,
  "last" INTEGER NOT NULL UNIQUE,
  "row" TEXT NOT NULL,
  hash BLOB NOT NULL,
  texts TEXT NOT NULL,
  dest TEXT AS ("row" ->> '$.dest') VIRTUAL
) STRICT;

CREATE INDEX IF NOT EXISTS rows_ended ON rows (id >> 32, dest) WHERE dest IN ('Done', 'Failed');

CREATE TABLE IF NOT EXISTS texts (
  id INTEGER PRIMARY KEY,
  media_type TEXT NOT NULL,
  digest TEXT NOT NULL,
  salt TEXT,
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

CREATE VIEW IF NOT EXISTS transitions AS
  SELECT id, id >> 32 AS run, id & 4294967295 AS seq, "row" ->> '$.at' AS at, "row" ->> '$.trigger' AS "trigger",
         "row" ->> '$.source' AS source, dest,
         (SELECT json_group_object(name, json(iif(held, 'true', 'false'))) FROM (
            SELECT value AS name, instr("row" ->> '$.guards', key) < instr("row" ->> '$.guards', '-') AS held FROM json_each(
            '{"a":"action_allowed","b":"answer_present","c":"answer_valid","d":"approval_needed",
            "e":"argument_missing","f":"budget_used_up","g":"concluded","h":"criteria_met","i":"duplicate",
            "j":"elicitation_requested","k":"elicitations_left","l":"final_action_pending","m":"hard_stop",
            "n":"in_doubt","o":"input_required","p":"parameter_retries_left","q":"parameters_ok",
            "r":"parameters_safe","s":"parameters_valid","t":"plan_has_steps","u":"reply_invalid",
            "v":"result_known","w":"retries_left","x":"retryable","y":"review_retries_left","z":"review_retry",
            "A":"review_success","B":"selection_ok","C":"selection_retries_left","D":"selection_valid",
            "E":"should_continue","F":"step_retries_left","G":"steps_left","H":"stop_reached",
            "I":"tools_offered"}')
            WHERE instr("row" ->> '$.guards', key)
            UNION ALL SELECT key, value FROM json_each("row", '$.own_guards') ORDER BY name)) AS guards,
         coalesce("row" -> '$.request', '{"kind":"none"}') AS request, coalesce("row" -> '$.outcome', '{"kind":"none"}') AS outcome,
         "row" -> '$.change' AS change, coalesce("row" ->> '$.step', 0) AS step, coalesce("row" ->> '$.action', 0) AS action,
         coalesce("row" ->> '$.retries', 0) AS retries, coalesce("row" ->> '$.tokens_in', 0) AS tokens_in,
         coalesce("row" ->> '$.tokens_out', 0) AS tokens_out, coalesce("row" ->> '$.cost_micro', 0) AS cost_micro,
         coalesce("row" ->> '$.time_us', 0) AS time_us, coalesce("row" -> '$.counters', '{}') AS counters,
         coalesce((SELECT hash FROM rows AS before WHERE before.id = rows.id - 1),
                  (SELECT root_hash FROM specs WHERE specs.run = rows.id >> 32)) AS prev_hash,
         hash, texts ->> '$[#-1][4]' AS made
  FROM rows;

CREATE VIEW IF NOT EXISTS payloads AS
  SELECT id, id >> 32 AS run, id & 4294967295 AS n, media_type, digest, salt, body FROM texts
  UNION ALL
  SELECT rows.id >> 32 << 32 | value ->> '$[0]', rows.id >> 32, value ->> '$[0]', coalesce(value ->> '$[1]', 'application/json'),
         coalesce(value ->> '$[2]', (SELECT said.value ->> '$.digest' FROM json_tree("row") AS said WHERE said.type = 'object'
                                     AND said.value ->> '$.n' = json_each.value ->> '$[0]' AND said.value ->> '$.digest' IS NOT NULL),
                  (SELECT documents.digest FROM documents WHERE documents.id BETWEEN rows.id >> 32 << 32 AND rows.id >> 32 << 32 | 4294967295
                   AND payload = json_each.value ->> '$[0]')),
         value ->> '$[3]', value ->> '$[4]'
  FROM rows, json_each(texts);

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
    (SELECT max(id) FROM rows WHERE id BETWEEN specs.run << 32 AND specs.run << 32 | 4294967295),
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
    (SELECT id FROM rows WHERE id = (runs.run << 32 | runs.head_seq)),
    (SELECT parent.run << 32 | runs.head_seq FROM specs AS parent WHERE parent.run_id = runs.parent_run_id));

CREATE VIEW IF NOT EXISTS v_steps AS
  SELECT run_id, seq, datetime(at / 1000000, 'unixepoch') AS at, "trigger", source, dest, step, action,
         request ->> '$.kind' AS request, outcome ->> '$.kind' AS outcome, guards, time_us, hex(hash) AS hash,
         made ->> '$.refinement.reason' AS reason
  FROM transitions JOIN specs ON specs.run = transitions.run;

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
  SELECT run_id, call.action, call.step, call.made ->> '$.intent.tool' AS tool, call.made ->> '$.intent.effect' AS effect,
         call.made -> '$.intent.arguments' AS arguments,
         CASE WHEN answer.made ->> '$.reply.content.approve' THEN coalesce(answer.made ->> '$.reply.actor', 'somebody') END AS approved_by,
         datetime(call.at / 1000000, 'unixepoch') AS started, datetime(ended.at / 1000000, 'unixepoch') AS ended,
         ended.outcome ->> '$.ok' AS ok, ended.outcome ->> '$.error' AS error, ended.outcome ->> '$.label' AS label, call.seq
  FROM transitions AS call JOIN specs ON specs.run = call.run
  LEFT JOIN transitions AS answer ON answer.id = call.id - 1 AND call.seq > 0 AND answer."trigger" = 'provide'
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
