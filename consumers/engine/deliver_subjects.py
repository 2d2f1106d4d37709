"""The interest in deliver subjects of push consumers. Pure."""

from collections.abc import Callable

from consumers.config.consumer_config import MachineConfig
from consumers.engine.consumer_directory import ConsumerDirectory
from consumers.engine.effect_desk import EffectDesk
from consumers.machine.consumer_machine import ConsumerMachine


class DeliverSubjects:
    """The interest in deliver subjects, passed to push consumers when it changes, and to new ones when durable."""

    __slots__ = ("_desk", "_directory", "_listened_to", "_starting")

    def __init__(
        self, directory: ConsumerDirectory, desk: EffectDesk, listened_to: Callable[[bytes, bytes], bool]
    ) -> None:
        """``listened_to`` returns whether there is a subscription of this subject and queue group."""
        self._directory = directory
        self._desk = desk
        self._listened_to = listened_to
        self._starting: list[ConsumerMachine] = []

    def listened_to(self, config: MachineConfig) -> bool:
        """Whether the deliver subject of this configuration has interest; False for a pull consumer."""
        subject, group = config.deliver_subject.encode(), config.deliver_group.encode()
        return bool(subject) and self._listened_to(subject, group)

    def tell(self, consumer: ConsumerMachine, now_ns: int) -> None:
        """Pass the interest to a consumer now, if it is a push consumer."""
        if consumer.config.deliver_subject:
            active = self.listened_to(consumer.config)
            effects = consumer.stored(now_ns) if active else []
            self._desk.after(consumer, effects + consumer.set_active(active, now_ns))

    def tell_later(self, consumer: ConsumerMachine) -> None:
        """Pass the interest at the next :meth:`tell_new`, as the deliver subject is not durable yet."""
        self._starting.append(consumer)

    def tell_new(self, now_ns: int) -> None:
        """Pass the interest to the consumers of :meth:`tell_later` that still exist."""
        starting, self._starting = self._starting, []
        for consumer in starting:
            if consumer in self._directory.homes:
                self.tell(consumer, now_ns)

    def changed(self, subject: bytes, now_ns: int) -> None:
        """Apply a change of interest in a subject (wildcards possible)."""
        found = self._directory.delivering.overlapping(subject.decode(errors="replace"))
        for consumer in {one.value: None for one in found}:
            self.tell(consumer, now_ns)
