"""JetStream API errors: ``code``, ``err_code`` and text exactly as nats-server gives them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApiError(Exception):
    """An error reply of the JetStream API; ``err_code`` is stable, the text is not."""

    code: int
    err_code: int
    description: str

    def as_json(self) -> dict[str, int | str]:
        """The ``error`` object of a reply."""
        return {"code": self.code, "err_code": self.err_code, "description": self.description}
