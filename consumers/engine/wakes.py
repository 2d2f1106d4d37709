"""The wake times of consumers. Pure."""

import heapq
from itertools import count

from consumers.machine.consumer_machine import ConsumerMachine


class Wakes:
    """The next wake time of each consumer, earliest first."""

    __slots__ = ("_due", "_heap", "_tie")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ConsumerMachine]] = []
        self._due: dict[ConsumerMachine, int] = {}
        self._tie = count()

    def expect(self, consumer: ConsumerMachine, due_ns: int) -> None:
        """Set the wake time of a consumer; 0 for never."""
        if due_ns == self._due.get(consumer, 0):
            return
        if due_ns:
            self._due[consumer] = due_ns
            heapq.heappush(self._heap, (due_ns, next(self._tie), consumer))
        else:
            self._due.pop(consumer, None)

    @property
    def next_ns(self) -> int:
        """The earliest wake time (ns), 0 for none."""
        heap, due = self._heap, self._due
        while heap and due.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else 0

    def take(self) -> ConsumerMachine:
        """Remove and return the consumer of :attr:`next_ns`."""
        consumer = heapq.heappop(self._heap)[2]
        del self._due[consumer]
        return consumer
