"""The effects of acks on a consumer."""

import zlib
from collections.abc import Iterator, Sequence

from consumers.config.consumer_config import MachineConfig
from consumers.machine import advisories
from consumers.machine.ack_bodies import ACK, NAK, NEXT, PROGRESS, TERM, nak_delay, term_reason
from consumers.machine.consumer_progress import ConsumerProgress
from consumers.machine.effects import Ack, Done, Effect, Reply
from consumers.machine.stream_view import StreamView


class AckDesk:
    """The acks of one event, booked in order; plain ones are gathered and booked together."""

    __slots__ = ("_acked", "_config", "_effects", "_now_ns", "_pending", "_progress", "_replied", "_stream")

    def __init__(self, config: MachineConfig, stream: StreamView, progress: ConsumerProgress, *, now_ns: int) -> None:
        self._config = config
        self._stream = stream
        self._progress = progress
        self._pending = progress.pending
        self._now_ns = now_ns
        self._acked: list[int] = []
        self._effects: list[Effect] = []
        self._replied = False

    def take(self, acks: Sequence[Ack]) -> Iterator[Ack]:
        """Book acks in order; yield each ``+NXT``, which also asks for the next message, right after it is booked."""
        config, position = self._config, self._progress.position
        policy = config.ack_policy
        if policy not in {"explicit", "all"}:
            return
        next_seq = position.next_seq
        plain = policy == "explicit" and not (config.sample_freq or config.flow_control)
        acked, effects = self._acked, self._effects
        for ack in acks:
            seq, _, _, body, reply, _ = ack
            if plain and body in ACK:
                if seq < next_seq:
                    acked.append(seq)
                    if reply:
                        effects.append(Reply(reply))
                        self._replied = True
            elif body.startswith(NEXT):
                self._ack(ack, sample=True)
                yield ack
                next_seq, effects = position.next_seq, self._effects
            else:
                self._other(ack)

    def finish(self) -> list[Effect]:
        """Book the gathered acks; return the effects so far."""
        self._book()
        effects, self._effects = self._effects, []
        if self._replied:
            self._progress.must_persist = self._progress.dirty
        return effects

    def through(self, cseq: int, seq: int) -> None:
        """Ack everything up to a consumer and a stream sequence."""
        reached = self._pending.reached
        if cseq <= reached[0] or seq <= reached[1]:
            return
        gone = self._pending.ack_through(cseq, seq)
        self._progress.acked(self._now_ns)
        if self._stream.retention != "limits":
            self._effects.append(Done([*gone, seq] if not gone or gone[-1] != seq else gone))

    def _other(self, ack: Ack) -> None:
        """Book any ack but a plain one."""
        body, replies = ack.body, True
        if body in ACK:
            replies = self._ack(ack, sample=True)
        elif body.startswith(NAK):
            self._nak(ack)
        elif body == PROGRESS:
            self._book()
            if ack.stream_seq in self._pending.cseqs:
                self._pending.touch(ack.stream_seq, self._now_ns)
                self._progress.delivered(self._now_ns)
        elif body.startswith(TERM):
            replies = self._ack(ack, sample=False)
        if replies and ack.reply:
            self._effects.append(Reply(ack.reply))
            self._replied = True
        if body.startswith(TERM):
            self._effects.append(advisories.terminated(self._delivery(ack), term_reason(body)))

    def _ack(self, ack: Ack, *, sample: bool) -> bool:
        """Ack one message; return False if it has not been delivered yet, for which there is no reply."""
        config, seq = self._config, ack.stream_seq
        if seq >= self._progress.position.next_seq and not config.flow_control:
            return False
        if config.ack_policy == "all":
            self.through(ack.consumer_seq, seq)
            return True
        if sample and config.sample_freq:
            self._book()
            self._measure(ack)
        self._acked.append(seq)
        return True

    def _nak(self, ack: Ack) -> None:
        self._book()
        seq, pending = ack.stream_seq, self._pending
        done = max(pending.floor[0], pending.reached[0])
        if not done < ack.consumer_seq <= pending.delivered[0] + 1 or seq not in pending.cseqs:
            return
        self._effects.append(advisories.naked(self._delivery(ack)))
        delay = nak_delay(ack.body)
        if delay is not None:
            pending.queue.drop(seq)
            pending.touch(seq, self._now_ns - self._config.ack_wait + delay)
            self._progress.delivered(self._now_ns)
        elif seq not in pending.queue:
            pending.queue.add((seq,))

    def _measure(self, ack: Ack) -> None:
        """Emit the metric of a message's time to ack, if it is sampled."""
        seq = ack.stream_seq
        sent_ns = self._pending.sent.get(seq)
        if sent_ns is not None and _is_sampled(self._config.sample_freq, seq):
            self._effects.append(advisories.ack_metric(self._delivery(ack), self._now_ns - sent_ns))

    def _delivery(self, ack: Ack) -> advisories.Delivery:
        stream, consumer = self._stream.name, self._config.name
        return advisories.Delivery(stream, consumer, ack.consumer_seq, ack.stream_seq, ack.delivered)

    def _book(self) -> None:
        """Book the gathered acks."""
        acked = self._acked
        if not acked:
            return
        if self._stream.retention != "limits":
            cseqs, position = self._pending.cseqs, self._progress.position
            done = [seq for seq in acked if seq in cseqs or position.wants(seq)]
            if done:
                self._effects.append(Done(done))
        self._pending.ack_many(acked)
        self._progress.acked(self._now_ns)
        acked.clear()


def _is_sampled(freq_text: str, seq: int) -> bool:
    """Whether the ack of this sequence is sampled: always the same ones, spread evenly."""
    return zlib.crc32(seq.to_bytes(8, "little")) % 100 < int(freq_text.removesuffix("%"))
