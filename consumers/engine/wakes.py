"""When consumers want to be woken. Pure."""

import heapq
from itertools import count

from consumers.machine.consumer_machine import ConsumerMachine


class Wakes:
    """The next time of each consumer, the earliest first."""

    __slots__ = ("_due", "_heap", "_tie")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ConsumerMachine]] = []
        self._due: dict[ConsumerMachine, int] = {}
        self._tie = count()

    def expect(self, consumer: ConsumerMachine, due_ns: int) -> None:
        """Wake a consumer at that time and at no other; 0 for never."""
        if due_ns == self._due.get(consumer, 0):
            return
        if due_ns:
            self._due[consumer] = due_ns
            heapq.heappush(self._heap, (due_ns, next(self._tie), consumer))
        else:
            self._due.pop(consumer, None)

    @property
    def next_ns(self) -> int:
        """The earliest time, 0 for none."""
        heap, due = self._heap, self._due
        while heap and due.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else 0

    def take(self) -> ConsumerMachine:
        """The consumer of :attr:`next_ns`; its time is forgotten."""
        consumer = heapq.heappop(self._heap)[2]
        del self._due[consumer]
        return consumer
