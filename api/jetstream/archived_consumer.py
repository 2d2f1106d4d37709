"""A consumer as a backup has it: nats-server's JSON of configuration and stored state. Pure."""

from api.jetstream.consumer_info import config_json
from consumers.config.consumer_config import MachineConfig
from consumers.machine.consumer_state import ConsumerState
from delta_store.dialect.json_writer import write_json


def archived(config: MachineConfig, state: ConsumerState, *, last_seq: int) -> bytes:
    """Return the content of a consumer's entry in the backup of a stream that ends with ``last_seq``."""
    pending = {
        str(seq): {"Sequence": cseq, "Timestamp": ts_ns}
        for seq, (cseq, ts_ns) in state.pending.items()
        if seq <= last_seq
    }
    redelivered = {str(seq): count for seq, count in state.redelivered.items() if seq <= last_seq}
    shown = {
        "delivered": _place(state.delivered, last_seq),
        "ack_floor": _place(state.ack_floor, last_seq),
        **({"pending": pending} if pending else {}),
        **({"redelivered": redelivered} if redelivered else {}),
    }
    return write_json({"config": config_json(config, dynamic=False), "state": shown})


def _place(place: tuple[int, int], last_seq: int) -> dict[str, int]:
    return {"consumer_seq": place[0], "stream_seq": min(place[1], last_seq)}
