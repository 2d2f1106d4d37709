-- External tables on the tables of a store, and a view of the settled messages that their streams show: what
-- silt views --engine databricks prints, with the store's URL as a parameter.
-- Parameters: schema, with its catalog (main.silt), and data, the store's URL.
DECLARE OR REPLACE VARIABLE statement STRING;
SET VAR statement = 'CREATE SCHEMA IF NOT EXISTS ' || :schema;
EXECUTE IMMEDIATE statement;
SET VAR statement = 'USE ' || :schema;
EXECUTE IMMEDIATE statement;
SET VAR statement = 'CREATE TABLE IF NOT EXISTS messages USING DELTA LOCATION ''' || :data || '/messages''';
EXECUTE IMMEDIATE statement;
SET VAR statement = 'CREATE TABLE IF NOT EXISTS removed USING DELTA LOCATION ''' || :data || '/removed''';
EXECUTE IMMEDIATE statement;
SET VAR statement = 'CREATE TABLE IF NOT EXISTS heads USING DELTA LOCATION ''' || :data || '/heads''';
EXECUTE IMMEDIATE statement;
SET VAR statement = 'CREATE TABLE IF NOT EXISTS journal USING DELTA LOCATION ''' || :data || '/journal''';
EXECUTE IMMEDIATE statement;

CREATE OR REPLACE VIEW `live_messages` AS
WITH ranked AS (
  SELECT *, row_number() OVER (PARTITION BY stream ORDER BY version DESC, stream_id DESC) AS place
  FROM heads
),
head AS (SELECT * FROM ranked WHERE place = 1 AND config IS NOT NULL),
gone AS (
  SELECT *, explode(sequence(shiftright(low, 10), shiftright(high, 10))) AS block
  FROM removed
)
SELECT m.stream, m.subject, m.seq, timestamp_micros(m.ts_ns DIV 1000) AS time,
  m.ts_ns, m.msg_id, m.headers, m.data, m.size
FROM head JOIN messages AS m ON m.stream = head.stream AND m.stream_id = head.stream_id
WHERE m.subject_partition NOT IN ('$events', '$consumers') AND m.kind = 'message'
  AND m.seq BETWEEN head.first_seq AND head.watermark
  AND NOT EXISTS (
    SELECT 1 FROM gone
    WHERE gone.stream = m.stream AND gone.stream_id = m.stream_id AND gone.block = shiftright(m.seq, 10)
      AND m.seq BETWEEN gone.low AND gone.high AND gone.version <= head.version
  );
