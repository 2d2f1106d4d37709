"""The outlet of consumers' effects: replies and advisories leave with the gathering group, others at once. Pure."""

from api.core import consumer_frames
from api.core.intake import Intake
from consumers.engine.effect_desk import Outbox
from consumers.engine.engine import ConsumerEngine
from consumers.machine.effects import Advisory, Reply
from ingest.publishing.group import Gathering


class ConsumerOutlet:
    """The consumers' outbox, sorted by the way each effect leaves."""

    def __init__(self, consumers: ConsumerEngine, gathering: Gathering, intake: Intake) -> None:
        self._said = consumers.outbox
        self._gathering = gathering
        self._intake = intake
        self._outgoing: Outbox = []

    def __bool__(self) -> bool:
        """Whether :meth:`take` has effects to return."""
        return bool(self._outgoing or self._said)

    def take(self, now_ns: int) -> Outbox:
        """Return deliveries and statuses, which show durable messages only, to be sent at once in this order."""
        self.sort(now_ns)
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def sort(self, now_ns: int) -> None:
        """Add replies and advisories to the gathering group, and keep the other effects for :meth:`take`."""
        if not self._said:
            return
        said = self._said.copy()
        self._said.clear()
        for one in said:
            effect = one[1]
            if isinstance(effect, Reply):
                self._gathering.group.replies.append(consumer_frames.reply(effect))
            elif isinstance(effect, Advisory):
                self._intake.advise(effect, now_ns)
            else:
                self._outgoing.append(one)
