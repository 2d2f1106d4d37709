"""Every hard limit, with its source. A limit is fixed; what can be configured is in ``conf.settings``."""

KIB = 1024
MIB = 1024 * KIB

# --- names and texts: nats-server's own bounds (server/jetstream.go, jetstream_api.go, stream.go) ---
STREAM_NAME_CHARS_MAX = 255
STREAM_DESCRIPTION_BYTES_MAX = 4 * KIB
STREAM_METADATA_BYTES_MAX = 128 * KIB

# --- JetStream API pages: nats-server's own (server/jetstream_api.go) ---
NAMES_PAGE = 1024
LIST_PAGE = 256
SUBJECT_DETAILS_PAGE = 100_000
DELETED_DETAILS_MAX = 100_000
VERSIONS_PAGE = 256
"""Ours: versions in one reply of STREAM.VERSIONS."""

API_SYNTAX_BYTES_MAX = 64 * KIB
"""Ours: how far into a broken request its error is located exactly; past it the error text is general."""

# --- Direct Get: nats-server's own (server/stream.go; ADR-31) ---
MULTI_LAST_SUBJECTS_MAX = 1024
MULTI_LAST_MORE_SUBJECTS_MAX = 100_000
"""Ours: subjects in one answer, where the request allows more than nats-server would."""
MULTI_LAST_STREAMS_MAX = 256
"""Ours: streams of one answer."""
DIRECT_GET_STEP_MESSAGES = 512
DIRECT_GET_STEP_BYTES = MIB
"""Messages, and about how many bytes of them, that are read and sent at a time in a large answer."""
DIRECT_GET_BATCH_BYTES = 64 * MIB
API_LEVEL = 5
"""Highest JetStream API level that ``Nats-Required-Api-Level`` may demand: that of nats-server 2.15."""

# --- backup and restore: nats-server's own (server/jetstream_api.go; ADR-63) ---
SNAPSHOT_CHUNK_BYTES = 128 * KIB
SNAPSHOT_CHUNK_BYTES_MIN = KIB
SNAPSHOT_CHUNK_BYTES_MAX = MIB
SNAPSHOT_WINDOW_BYTES = 8 * MIB
SNAPSHOT_WINDOW_BYTES_MAX = 32 * MIB
SNAPSHOT_INTEREST_SECONDS = 2.0
SNAPSHOT_WILDCARD_SECONDS = 0.5
"""How long a backup waits for a subscription of its own subject where a wildcard matches it."""
TRANSFER_SILENCE_SECONDS = 5.0
"""How long a backup waits for an ack, a restore for a chunk."""
SNAPSHOT_STEP_MESSAGES = 4_000
SNAPSHOT_STEP_BYTES = 2 * MIB
"""Ours: messages, and about how many bytes of them, that are read at a time for a backup."""
RESTORE_GROUP_MESSAGES = 16_000
RESTORE_GROUP_BYTES = 8 * MIB
"""Ours: messages and bytes of them that a restore stores at a time."""
RESTORE_WAITING_BYTES_MAX = 16 * MIB
"""Ours: bytes that wait to be committed, past which a restore waits."""
RESTORE_PARKED_SECONDS = 24 * 3_600.0
"""Ours: how long what came of a restore that broke off is kept for a sender that can go on."""
RESTORE_WORD_CHARS_MAX = 256
"""Ours: longest word by which it does."""
TRANSFERS_MAX = 16
"""Ours: backups that are read, and restores, at a time; others wait, or are refused."""

# --- the past as rows again (branch, rewind, undelete): ours ---
PAST_STEP_MESSAGES = 128 * KIB
PAST_STEP_BYTES = 32 * MIB
"""Messages of the past, and about how many bytes of them, that are read at a time: a step opens each file anew."""
REWRITTEN_MESSAGES_MAX = 100_000
REWRITTEN_BYTES_MAX = 64 * MIB
"""Most messages, and bytes of their columns, that a rewind or an undelete stores again: they are one commit."""
REWIND_TRIES = 5
"""How often a rewind is planned anew because messages from before its point have left the stream meanwhile."""
BRANCH_CARRIED_MESSAGES_MIN = 50_000
"""Sequences of a branch from which on the settle job copies it by files: fewer are stored as fast as it begins."""
BRANCH_BASE_BYTES_MAX = 4 * MIB
"""Largest description of the files that it copies."""
BRANCH_CARRY_SECONDS_MAX = 600.0
"""Longest wait for it."""
PAST_WORKS_MAX = 4
"""Branches, rewinds and undeletes at a time; others wait."""

# --- intake: nats-server's own ingest queue (server/stream.go): past it a publisher gets 429 ---
INTAKE_MESSAGES_MAX = 100_000
INTAKE_BYTES_MAX = 128 * MIB

COMMIT_THREAD_BYTES = MIB
"""Payload bytes from which on a group is written to a local disk by a thread, beside the event loop."""
COMMIT_RETRY_SECONDS = 0.25
"""Pause before a group that met a full disk is committed again; publishes are refused meanwhile."""

SETTLED_POLL_SECONDS = 1.0
"""How often the gateway reads the watermarks, to truncate the journal."""
GATEWAY_DRAIN_SECONDS = 10.0
"""Longest wait for the last groups and replies when the gateway stops."""
REBUILD_SECONDS_MAX = 3_600.0
"""Longest time for a reader to build its catalog from the tables, however much is unsettled."""
READ_QUEUE_MAX = 1024
"""STREAM.MSG.GET requests that may wait for a file read."""

# --- Delta: ours ---
SUBJECT_PARTITIONS_EXACT_MAX = 32
"""Subjects of a stream before its partitions become buckets: more would flood the table with folders."""
SUBJECT_BUCKETS = 16
"""Buckets of a stream with many subjects; a layout hint only, readers go by file statistics."""

# --- HTTP: ours ---
HTTP_COMPRESS_BYTES_MIN = KIB
"""Smallest answer that is compressed."""
JWT_LEEWAY_SECONDS = 30.0
"""Clock difference to the issuer of tokens that is tolerated."""
HTTP_COMPRESS_LEVEL = 2
"""gzip level: JSON shrinks nearly as much as at 9, in a fraction of the time."""
HTTP_TAILS_MAX = 1_000
"""Live tails that one process serves at once."""
TAIL_HEARTBEAT_SECONDS = 15.0
"""Longest silence of a live tail: proxies close connections on which nothing comes for half a minute."""
PUBLISH_ANSWER_SECONDS = 10.0
"""Longest wait of an HTTP publish for its acknowledgement."""
PAST_WORK_ANSWER_SECONDS = 300.0
"""Longest wait of an HTTP branch, rewind or undelete for its end; it goes on behind it."""
HTTP_PUBLISH_BYTES_MAX = 96 * MIB
"""Largest body of a publish: the largest payload in base64, and its headers."""
HTTP_QUESTION_BYTES_MAX = MIB
"""Largest body of any other request."""
SQL_NICE = 5
"""Niceness of a process that answers SQL: reads come first."""
SQL_SPARE_BYTES = 1024 * MIB
"""Heap of such a process beyond the query's own memory: Python, Arrow, files that are being read and written."""
SQL_GRACE_SECONDS = 5.0
"""Time after its limit at which a query is killed that did not end by itself."""
SQL_TRANSFER_SECONDS = 600.0
"""Longest time that a client may take to fetch an answer: it occupies a process."""
SQL_IDLE_SECONDS = 60.0
"""Time after which an unused process is ended; another takes half a second to start."""
SQL_WAITING_MAX = 16
"""Queries that may wait for a process."""
SHARED_BYTES_MAX = 4 * 1024 * MIB
"""Bytes of all files that are rendered for Delta Sharing at once, and so of one."""
SHARED_URL_SECONDS = 900
"""Time for which such a file's URL is valid; each query signs a new one."""
HEADER_FILTER_MESSAGES_MAX = 20_000
"""Messages that one request with a header filter looks at; its page says where to go on."""

# --- processes: ours ---
CHILD_START_SECONDS = 180.0
"""Longest wait for a child process to be ready (the first Spark start fetches its jars)."""
SETTLE_START_SECONDS = 1800.0
"""The same for the settle job, which is niced: ended too early on a busy machine, it would never start."""
OPENING_QUIET_SECONDS = 1.0
"""A store that opens within this time is opened without a word in the log."""
OPENING_TOLD_SECONDS = 5.0
"""How often the opening of a store logs its progress."""
CHILD_STOP_SECONDS = 30.0
"""Longest wait for a child process to drain and end before it is killed."""
HUB_START_SECONDS = 20.0
"""Longest wait for the embedded nats-server to listen."""
LOG_FILE_BYTES_MAX = 16 * MIB
"""Size at which a process log is rotated; one old file is kept."""

# --- links to NATS ---
LINK_CONTROL_LINE_BYTES_MAX = 64 * KIB
"""Longest protocol line of a hub: INFO with its URLs; clients' lines are bounded by max_control_line (4 KiB)."""
LINK_PAYLOAD_BYTES_MAX = 64 * MIB
"""nats-server's own ceiling for max_payload (server/const.go)."""
LINK_OUTBOUND_HIGH_BYTES = 16 * KIB
"""Bytes beyond the kernel's buffer at which a link reports it is not writable; uvloop writes so much at once."""
LINK_OUTBOUND_BYTES_MAX = 64 * MIB
"""Bytes at which a link refuses to send: the hub does not read."""
LINK_FLUSHES_MAX = 1024
"""Flushes that may wait for their PONG at once."""
LINK_INTEREST_MAX = 1_000_000
"""Subscriptions of the hub that are remembered; past it every subject counts as subscribed."""
INTEREST_WAIT_SECONDS = 0.25
"""Longest time that client-link requests wait for the leaf link to report who is subscribed."""
HUB_ANSWER_SECONDS = 2.0
"""Longest wait for a hub to confirm what a starting gateway sent, before it is asked again."""
LINK_RETRY_SECONDS = 0.010
"""Pause between two attempts to reach a closed port."""
LINK_BACKOFF_SECONDS_MAX = 2.0
"""Longest pause after a hub refused us (authorization, TLS, protocol)."""
HUB_LOG_POLL_SECONDS = 0.005
"""How often the starting nats-server's log is read for its ports."""

# --- publish: nats-server's own (server/stream.go) ---
HEADER_BYTES_MAX = 65_535
ATOMIC_BATCH_ID_CHARS_MAX = 64
ATOMIC_BATCH_MESSAGES_MAX = 1000
ATOMIC_BATCHES_OPEN_MAX = 50
"""Atomic batches of one stream that may be open at once."""
ATOMIC_BATCH_SECONDS = 10.0
"""Longest pause between two messages of a batch."""
ATOMIC_BATCH_BYTES_MAX = 128 * MIB
"""Ours: bytes of open batches past which a stream answers as if too many were open."""
FAST_BATCH_ID_BYTES_MAX = 64
FAST_BATCHES_OPEN_MAX = 1000
"""Fast batches of one stream that may be open at once."""
FAST_BATCHES_SERVER_MAX = 50_000
"""Fast batches of all streams that may be open at once."""
FAST_BATCH_SECONDS = 10.0
"""Longest pause between two messages of a fast batch."""
FAST_BATCH_FLOW_MAX = 500
"""Messages of all fast batches of a stream between two acknowledgements."""
REPUBLISH_DEPTH_MAX = 8
"""Ours: how often a message may be republished from stream to stream; republishing may go in a circle."""

# --- delta_store: ours ---
SEQUENCE_MAX = 2**63 - 1
"""Sequences are signed 64-bit integers in Delta; a start behind the last one is cut to it."""
TIME_NS_MAX = 2**62
"""Latest time of a message that comes with its own, in 2116, and how far before 1970 the earliest is.

The rows behind it count on in signed 64-bit integers, and ages are added to them.
"""
FIRST_SEQ_MAX = 2**61
"""Highest sequence at which a stream may begin, or a restored one or a mirror may stand.

Reads take 2^62 - 1 for a point behind all sequences, so as many are left to count on.
"""
ROUTES_CACHED_MAX = 262_144
"""Publish subjects whose stream is cached; at the limit the cache is emptied."""
SUBJECT_STEPS_MAX = 2_000_000
"""Steps that comparing the subjects or filters of one configuration may take: about two seconds."""
REMOVAL_RANGES_MAX = 50_000
"""Sequence ranges in one REMOVE row (about a megabyte of JSON); a larger removal takes several rows."""

# --- settling: ours ---
SETTLE_MSG_IDS_MAX = 4_000_000
"""Message ids that the settle job keeps as hashes (16 bytes each) to catch a duplicate that the gateway missed."""
SETTLE_FILES_PER_BATCH = 2_000
SETTLE_FILES_PER_QUERY = 20_000
"""Journal files of the one batch of a query that ends."""
SETTLE_BATCH_BYTES = 64 * MIB
"""Journal bytes of one settle batch, which is held in memory while it is written: decoded up to twice as many."""
SETTLED_CHECKPOINT_COMMITS = 50
SETTLED_CHECKPOINT_COMMITS_MAX = 4_000
"""Least, and most, commits between two checkpoints of ``messages``: who opens the table to commit reads as many."""
BESIDE_CHECKPOINT_COMMITS = 50
"""Commits to a table beside ``messages`` before its next checkpoint."""
BESIDE_COMMIT_TRIES = 8
"""Versions that a commit to such a table may lose to others before it fails."""
TYPED_RETRY_SECONDS = 30.0
"""Rest of a typed table after a failure."""
TYPED_STEP_SECONDS = 0.5
"""About how long typed tables are caught up between two batches, which wait meanwhile."""
TYPED_ROUND_SECONDS = 60.0
"""How often typed tables are cleaned and merged."""
HEADS_FILES_MAX = 16
"""Files of ``heads``, or of ``removed``, before they are merged."""
HEADS_ENTRIES_READ_MAX = 1_000
"""Commits to ``messages`` that are looked at, after a break, for whether they deleted rows; of more it is assumed."""
REMOVED_KEPT_SECONDS = 600
"""How long ``removed`` keeps rows whose messages are deleted: for queries that have pinned ``messages`` before."""
CLEANUP_GRACE_SECONDS = 60.0
"""Least time from when messages are told to be removed until they are deleted, unless rounds of upkeep are closer than
that: for queries that have pinned ``heads`` and not yet ``messages``."""
STAGED_KEPT_SECONDS = 3_600
"""Least age of a data file that nobody has committed before it is deleted."""
SETTLE_ROWS_PER_FOLDER_MIN = 100_000
"""Messages of a stream in one batch that are spread by subject at once; fewer wait in one file for compaction."""
STAGED_BYTES = 64 * MIB
"""Rows that a writer holds in memory before it writes them, in bytes."""
UPKEEP_REST_FACTOR = 3.0
"""Rest after maintenance, as a multiple of its duration: it takes at most a quarter of the settle job's time."""

SETTLE_LAG_TOLD_SECONDS = 60.0
"""How often the gateway logs how far settling is behind, while that slows publishers down."""
SETTLE_START_NICE = 4
"""Niceness of the settle job until its query runs: fully niced, a JVM takes minutes to start."""
SETTLE_HEARTBEAT_SECONDS = 5.0
"""How often the settle job reports that it is alive."""

LOCK_POLL_SECONDS = 0.25
"""How often one that stands by looks whether the kernel has released a folder's lock."""

# --- leases in an object store: ours ---
LEASE_BEAT_SECONDS = 1.0
"""How often the owner of a store renews its lease."""
LEASE_POLL_SECONDS = 0.5
"""How often one that stands by looks at it."""
LEASE_REQUEST_SECONDS = 1.0
"""Longest time of one request for a lease; after one that failed the next follows at once."""
LEASE_RETRY_SECONDS = 0.1
LEASE_DOUBT_SECONDS = 2.5
"""A gateway that could not renew its lease for so long answers nobody until it can: another may take over soon."""
LEASE_LOOK_SECONDS = 0.2
"""How often it looks at that."""
LEASE_QUIET_SECONDS = 3.0
"""A lease that has not changed for so long is taken over: its owner is dead, stopped or cut off."""

# --- journal: ours ---
REMOTE_COMMIT_INTERVAL_MS = 50.0
"""Default of ``journal.commit_interval_ms`` on an object store, where a commit costs two writes.

Where each takes 25 ms or more, nobody waits for anything but them; where they are faster, twenty files a second do.
"""
JOURNAL_CHECKPOINT_COMMITS = 256
"""Commits between two checkpoints: a reader that opens the journal reads at most about that many log entries."""
JOURNAL_LOG_KEEP_SECONDS = 20.0
"""Least age of the checkpoint below which log entries are deleted: readers may still read what they listed."""
JOURNAL_REMOVE_GRACE_SECONDS = 60.0
"""Time between a file leaving the journal and its deletion: a reader may have it open."""
JOURNAL_REMOVES_PER_COMMIT_MAX = 128
"""Files that one truncation commit removes: an acknowledgement waits for it that long."""
JOURNAL_FETCH_CACHE_BYTES = 64 * MIB
"""Decoded journal files that are cached for reads of payloads that memory no longer holds."""
JOURNAL_RESERVE_BYTES = 16 * MIB
"""Disk space set aside for decided groups when the disk becomes full: two groups of the default size."""
JOURNAL_RESERVE_SHARE = 16
"""On a small disk the reserve is one part in so many."""
JOURNAL_CLAIMS_KEPT = 1_000
"""Claims that log cleanup leaves: an owner is fenced also after it slept while so many others came and went."""
JOURNAL_CLAIM_TRIES = 8
"""Claims of either table that may lose a race in a row."""
JOURNAL_PUT_TRIES = 3
"""Attempts to learn the outcome of a conditional put that failed without an answer."""

# --- consumers: ours ---
CONSUMER_RUN_MESSAGES = 1_000
"""Messages that one consumer is given at a time."""
CONSUMER_RUN_BYTES = 4 * MIB
"""Bytes of these messages."""
CONSUMER_FRAME_MESSAGES = 64
"""Messages of a run that are framed and sent before the next: the hub works on them meanwhile."""
CONSUMER_TURN_MESSAGES = 4_000
"""Messages that are delivered before the event loop gets its turn."""
CONSUMER_READS_MAX = 4
"""Consumers whose messages are read from files at the same time."""
CONSUMER_AHEAD_MESSAGES = 8_192
CONSUMER_AHEAD_BYTES = 2 * MIB
"""Read at a time for a consumer far behind the tail; up to twice as much is cached for each."""
CONSUMER_AHEAD_CONSUMERS = 64
"""Consumers with such a cache."""
CONSUMER_RETRY_SECONDS = 0.5
"""Pause before a failed read is tried again."""
CONSUMER_ANSWERS_MAX = 100_000
"""Answers to double acks that wait for space on a full disk; past it a client has to ask again."""
CONSUMER_STATE_SECONDS = 0.25
"""Longest time between an ack without a reply and the journal's record of it."""
CONSUMER_RETURN_SECONDS = 90
"""Least time that an unused consumer is kept after a start, or after a lost link: clients notice after two missing
heartbeats, of 30 seconds each at the most (nats.go and nats.js), and then need a moment."""
CONSUMER_LONG_WAIT_SECONDS = 5
"""Pulls that wait at least so long are journalled: a client whose pull ends sooner asks anew by itself."""

CONSUMER_VIEWS_MAX = 64
CONSUMER_VIEWS_MESSAGES_MAX = 10_000_000
"""Past states that consumers read, and the messages of all; consumers of one stream and point share a state."""
CONSUMER_VIEWS_READ_MAX = 2
"""Past states that are read at a time; others wait."""
CONSUMER_VIEW_WAIT_SECONDS = 60.0
"""Longest time that a request waits for past states to be read again after a start."""
CONSUMER_VIEW_LOOK_SECONDS = 5.0
"""How often it is checked that past states which consumers read are still kept."""

# --- consumer configurations: nats-server's own (server/jetstream.go, jetstream_api.go, consumer.go) ---
CONSUMER_NAME_CHARS_MAX = 255
CONSUMER_DESCRIPTION_BYTES_MAX = 4 * KIB
CONSUMER_METADATA_BYTES_MAX = 128 * KIB
CONSUMER_WAITING_DEFAULT = 512
CONSUMER_ACK_PENDING_DEFAULT = 1_000

# --- mirrors and sources: ours ---
COPY_STEP_MESSAGES = 2_000
COPY_STEP_BYTES = 4 * MIB
"""Copied at a time by a mirror or source; the next step waits until that is durable."""
COPY_TURN_MESSAGES = 8_000
"""Messages that are copied before the event loop gets its turn."""
COPY_RETRY_SECONDS = 1.0
"""Longest time until a mirror or source that is stuck tries again."""
ORIGIN_LOOK_SECONDS = 0.1
"""How often copies of other domains and accounts look at the time."""
ORIGIN_ANSWER_SECONDS = 5.0
"""How long such a copy waits for the consumer that it asked its origin for."""
ORIGIN_BACKOFF_SECONDS = 1.0
ORIGIN_BACKOFF_SECONDS_MAX = 15.0
"""Added to a copy's wait for each failed try, and the most that is added."""

# --- mirrors and sources of another domain or account: nats-server's ---
ORIGIN_ASK_SECONDS = 2.0
"""Least time between two consumers that a copy asks its origin for."""
ORIGIN_SILENCE_SECONDS = 10.0
"""A copy that hears nothing for so long asks for a new consumer; heartbeats come each second."""
ORIGIN_STALLS_MAX = 3
"""Heartbeats that tell of the same unanswered flow control, after which stream info shows an error."""
MIRROR_CAUGHT_UP = 10
"""A mirror may answer Direct Get for its origin once fewer messages than this are left."""

# --- message schedules: ours ---
SCHEDULES_TURN_MAX = 1_000
"""Schedules of one stream that fire in one turn."""
SCHEDULES_READ_MAX = 64
"""Messages that are read from files for schedules in one turn."""
