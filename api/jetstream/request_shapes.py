"""The shapes of the request bodies, field by field as nats-server 2.15 knows them; fields ``silt_…`` are our own."""

from consumers.config.consumer_config import MachineConfig
from delta_store.archive.entries import FROM_SEQ, RESUME
from delta_store.config.field_tags import shapes
from delta_store.config.stream_config import StreamConfig
from delta_store.dialect.json_shapes import ANYTHING, FLAG, INT, TEXT, TEXTS, TIME, UINT64, MapOf, Struct, Word
from delta_store.values.point_shape import AS_OF, POINT

STREAM_CONFIG_REQUEST = Struct("StreamConfigRequest", {**shapes(StreamConfig), "pedantic": FLAG})
STREAM_NAMES_REQUEST = Struct("JSApiStreamNamesRequest", {"offset": INT, "subject": TEXT})
STREAM_LIST_REQUEST = Struct("JSApiStreamListRequest", {"offset": INT, "subject": TEXT})
STREAM_INFO_REQUEST = Struct(
    "JSApiStreamInfoRequest", {"offset": INT, "deleted_details": FLAG, "subjects_filter": TEXT, AS_OF: POINT}
)
STREAM_PURGE_REQUEST = Struct(
    "JSApiStreamPurgeRequest", {"seq": UINT64, "filter": TEXT, "keep": UINT64, "silt_no_erase": FLAG}
)
STREAM_DIFF_REQUEST = Struct("StreamDiffRequest", {"from": POINT, "to": POINT, "filter": TEXT, "offset": INT})
STREAM_VERSIONS_REQUEST = Struct("StreamVersionsRequest", {"before": UINT64, AS_OF: POINT})
MULTI_LAST_REQUEST = Struct(
    "StreamMultiLastRequest",
    {
        "streams": MapOf(TEXTS, "map[string][]string"),
        "after": Struct("StreamMultiLastPlace", {"stream": TEXT, "seq": UINT64}),
        AS_OF: POINT,
    },
)
CUT_LIST_REQUEST = Struct("CutListRequest", {"offset": INT})
MSG_DELETE_REQUEST = Struct("JSApiMsgDeleteRequest", {"seq": UINT64, "no_erase": FLAG})
MSG_GET_REQUEST = Struct(
    "JSApiMsgGetRequest",
    {
        "seq": UINT64,
        "last_by_subj": TEXT,
        "next_by_subj": TEXT,
        "batch": INT,
        "max_bytes": INT,
        "start_time": TIME,
        "multi_last": TEXTS,
        "up_to_seq": UINT64,
        "up_to_time": TIME,
        "no_hdr": FLAG,
        AS_OF: POINT,
    },
)
SNAPSHOT_REQUEST = Struct(
    "JSApiStreamSnapshotRequest",
    {
        "deliver_subject": TEXT,
        "no_consumers": FLAG,
        "chunk_size": INT,
        "window_size": INT,
        "jsck": FLAG,
        AS_OF: POINT,
        FROM_SEQ: UINT64,
    },
)
RESTORE_REQUEST = Struct(
    "JSApiStreamRestoreRequest",
    {"config": Struct("StreamConfig", shapes(StreamConfig)), "state": ANYTHING, RESUME: TEXT},
)
STREAM_BRANCH_REQUEST = Struct(
    "SiltStreamBranchRequest",
    {"name": TEXT, AS_OF: POINT, "consumers": FLAG, "config": Struct("StreamConfig", shapes(StreamConfig))},
)
STREAM_REWIND_REQUEST = Struct("SiltStreamRewindRequest", {AS_OF: POINT, "force": FLAG})
STREAM_UNDELETE_REQUEST = Struct("SiltStreamUndeleteRequest", {AS_OF: POINT, "seqs": TEXTS, "filter": TEXT})
"""The last three are Silt's own."""

CONSUMER_CONFIG = Struct("ConsumerConfig", shapes(MachineConfig))
CONSUMER_CREATE_REQUEST = Struct(
    "CreateConsumerRequest",
    {
        "stream_name": TEXT,
        "config": CONSUMER_CONFIG,
        "action": Word(("", "create", "update"), "unknown consumer action"),
        "pedantic": FLAG,
        AS_OF: POINT,
    },
)
CONSUMERS_REQUEST = Struct("JSApiConsumersRequest", {"offset": INT})
CONSUMER_PAUSE_REQUEST = Struct("JSApiConsumerPauseRequest", {"pause_until": TIME})
CONSUMER_RESET_REQUEST = Struct("JSApiConsumerResetRequest", {"seq": UINT64}, is_open=True)
CONSUMER_UNPIN_REQUEST = Struct("JSApiConsumerUnpinRequest", {"group": TEXT}, is_open=True)
