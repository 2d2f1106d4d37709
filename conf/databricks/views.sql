-- External tables on both tables of a store, and a view of the settled messages that their streams show.
-- Parameters: schema, with its catalog (main.silt), and data, the store's URL.
DECLARE OR REPLACE VARIABLE statement STRING;
SET VAR statement = 'CREATE SCHEMA IF NOT EXISTS ' || :schema;
EXECUTE IMMEDIATE statement;
SET VAR statement = 'USE ' || :schema;
EXECUTE IMMEDIATE statement;
SET VAR statement = 'CREATE TABLE IF NOT EXISTS messages USING DELTA LOCATION ''' || :data || '/messages''';
EXECUTE IMMEDIATE statement;
SET VAR statement = 'CREATE TABLE IF NOT EXISTS journal USING DELTA LOCATION ''' || :data || '/journal''';
EXECUTE IMMEDIATE statement;

CREATE OR REPLACE VIEW live_messages AS
WITH newest AS (
  SELECT
    stream,
    max_by(stream_id, struct(stream_id, seq, event_no)) AS stream_id,
    max_by(kind, struct(stream_id, seq, event_no)) AS last_event
  FROM messages
  WHERE subject_partition = '$events' AND kind IN ('stream', 'stream_delete')
  GROUP BY stream
),
known AS (
  SELECT messages.*
  FROM messages
  JOIN newest ON messages.stream = newest.stream AND messages.stream_id = newest.stream_id
  WHERE newest.last_event = 'stream' AND messages.kind IN ('message', 'remove', 'stream')
),
firsts AS (SELECT stream, max(first_seq) AS first_live_seq FROM known GROUP BY stream),
ranges AS (
  SELECT stream, explode(from_json(CAST(data AS STRING), 'ranges array<array<bigint>>').ranges) AS bounds
  FROM known
  WHERE kind = 'remove'
),
-- By blocks of 1024 sequences, so that the join below is one of equal keys.
removed AS (
  SELECT
    stream,
    bounds[0] AS low,
    bounds[1] AS high,
    explode(sequence(shiftright(bounds[0], 10), shiftright(bounds[1], 10))) AS block
  FROM ranges
)
SELECT
  known.stream, known.subject, known.seq, timestamp_micros(known.ts_ns DIV 1000) AS time, known.ts_ns,
  known.msg_id, known.headers, known.data, known.size
FROM known
JOIN firsts ON known.stream = firsts.stream
LEFT ANTI JOIN known AS evicting ON known.stream = evicting.stream AND known.seq = evicting.evicts
LEFT ANTI JOIN removed ON known.stream = removed.stream AND shiftright(known.seq, 10) = removed.block
  AND known.seq BETWEEN removed.low AND removed.high
WHERE known.kind = 'message' AND known.seq >= firsts.first_live_seq;
