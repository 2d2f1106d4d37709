"""Whether somebody listens where push consumers deliver. Pure."""

from collections.abc import Callable

from consumers.config.consumer_config import MachineConfig
from consumers.engine.consumer_directory import ConsumerDirectory
from consumers.engine.effect_desk import EffectDesk
from consumers.machine.consumer_machine import ConsumerMachine


class DeliverSubjects:
    """Tells push consumers of it: when it changes, and new ones when they are durable."""

    __slots__ = ("_desk", "_directory", "_listened_to", "_starting")

    def __init__(
        self, directory: ConsumerDirectory, desk: EffectDesk, listened_to: Callable[[bytes, bytes], bool]
    ) -> None:
        """``listened_to`` says of a subject and its group whether there is such a subscription."""
        self._directory = directory
        self._desk = desk
        self._listened_to = listened_to
        self._starting: list[ConsumerMachine] = []

    def listened_to(self, config: MachineConfig) -> bool:
        """Whether somebody listens where a consumer of this configuration delivers of its own accord."""
        subject, group = config.deliver_subject.encode(), config.deliver_group.encode()
        return bool(subject) and self._listened_to(subject, group)

    def tell(self, consumer: ConsumerMachine, now_ns: int) -> None:
        """Tell a consumer now, if it is one that pushes."""
        if consumer.config.deliver_subject:
            active = self.listened_to(consumer.config)
            effects = consumer.stored(now_ns) if active else []
            self._desk.after(consumer, effects + consumer.set_active(active, now_ns))

    def tell_later(self, consumer: ConsumerMachine) -> None:
        """Tell a consumer at the next :meth:`tell_new`: its deliver subject is not durable yet."""
        self._starting.append(consumer)

    def tell_new(self, now_ns: int) -> None:
        """Tell those that are left of whom :meth:`tell_later` spoke."""
        starting, self._starting = self._starting, []
        for consumer in starting:
            if consumer in self._directory.homes:
                self.tell(consumer, now_ns)

    def changed(self, subject: bytes, now_ns: int) -> None:
        """Somebody began or ceased to listen to a subject (wildcards possible)."""
        found = self._directory.delivering.overlapping(subject.decode(errors="replace"))
        for consumer in {one.value: None for one in found}:
            self.tell(consumer, now_ns)
