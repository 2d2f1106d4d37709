"""Messages read ahead for consumers far behind the tail, a few thousand for each. Pure."""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

from conf.limits import CONSUMER_AHEAD_CONSUMERS, CONSUMER_AHEAD_MESSAGES
from consumers.machine.consumer_machine import ConsumerMachine
from delta_store.values.lru import Lru
from delta_store.values.stream_message import MessageRun


class ConsumerAhead:
    """Runs of messages by consumer, in order; bounded by dropping the least recently used consumer's."""

    def __init__(self) -> None:
        self._runs: Lru[ConsumerMachine, deque[MessageRun]] = Lru(CONSUMER_AHEAD_CONSUMERS)

    def take(self, consumer: ConsumerMachine, seqs: Sequence[int]) -> MessageRun | None:
        """Return as many of the ascending sequences as are adjacent in the first run; None if there are none.

        Runs before them are dropped, as a consumer reads on.
        """
        runs = self._runs.get(consumer)
        while runs:
            run = runs[0]
            if run.seqs[-1] < seqs[0]:
                runs.popleft()
                continue
            start = bisect_left(run.seqs, seqs[0])
            number = min(len(seqs), len(run.seqs) - start)
            if run.seqs[start : start + number] != seqs[:number]:
                number = next((n for n in range(number) if run.seqs[start + n] != seqs[n]), number)
            return run[start : start + number] if number else None
        return None

    def keep(self, consumer: ConsumerMachine, run: MessageRun) -> None:
        """Add a run behind all others of this consumer."""
        if not len(run):
            return
        runs = self._runs.get(consumer) or deque()
        if runs and runs[-1].seqs[-1] >= run.seqs[0]:
            runs.clear()
        runs.append(run)
        self._runs.put(consumer, runs)

    def last(self, consumer: ConsumerMachine) -> int:
        """Return the last sequence read, 0 for none."""
        runs = self._runs.peek(consumer)
        return runs[-1].seqs[-1] if runs else 0

    def wants_more(self, consumer: ConsumerMachine, seq: int) -> bool:
        """Whether less than half of a read is left from ``seq`` on."""
        runs = self._runs.peek(consumer)
        if not runs:
            return False
        left = sum(len(run) - bisect_left(run.seqs, seq) for run in runs)
        return left < CONSUMER_AHEAD_MESSAGES // 2

    def forget(self, consumer: ConsumerMachine) -> None:
        """Drop the runs of a consumer."""
        self._runs.pop(consumer)
