"""Progress of the demonstration: a bar on a terminal, plain lines elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Advance = Callable[[int], None]
"""Called with the number done so far."""

PLAIN_STEPS = 10
"""Number of lines in place of a bar where there is no terminal."""


@contextmanager
def progress(console: Console, what: str, total: int) -> Iterator[Advance]:
    """Show the progress towards ``total`` while the block runs."""
    if not console.is_terminal:
        yield _plain_lines(console, what, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        bar = bars.add_task(what, total=total)
        yield lambda done: bars.update(bar, completed=done)


def _plain_lines(console: Console, what: str, total: int) -> Advance:
    shown = 0

    def advance(done: int) -> None:
        nonlocal shown
        step = done * PLAIN_STEPS // total if total else PLAIN_STEPS
        if step > shown:
            shown = step
            console.print(f"{what}: {done:,} of {total:,}", highlight=False)

    return advance
