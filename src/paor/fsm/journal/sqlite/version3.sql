-- What version 3 adds: the conversation of a run, the reason of a step, and usage that counts a called run once.
ALTER TABLE specs ADD COLUMN conversation TEXT;

CREATE INDEX specs_conversation ON specs (conversation, round) WHERE conversation IS NOT NULL;

DROP VIEW runs;

CREATE VIEW runs AS
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

DROP VIEW v_steps;

CREATE VIEW v_steps AS
  SELECT run_id, seq, datetime(at / 1000000, 'unixepoch') AS at, "trigger", source, dest, step, action,
         request ->> '$.kind' AS request, outcome ->> '$.kind' AS outcome, guards, time_us, hex(hash) AS hash,
         made.body ->> '$.refinement.reason' AS reason
  FROM transitions JOIN specs ON specs.run = transitions.run
  LEFT JOIN payloads AS made ON made.id = (transitions.run << 32 | change ->> '$.n');

DROP VIEW v_usage;

CREATE VIEW v_usage AS
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
