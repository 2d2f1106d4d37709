"""A start of Arrow without pandas, for processes that never use it.

The first list that is given to ``pyarrow.array`` makes pyarrow import pandas where it is installed, which would cost a
gateway half a second and more before its first acknowledgement.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    """An import finder that refuses pandas."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not used by this process", name=fullname)


def without_pandas() -> None:
    """Make pyarrow find no pandas, once for this process; call it at the start, before Arrow data is made.

    Converting Arrow data to pandas fails afterwards; importing pandas itself does not. Nothing happens when pandas has
    been imported already.
    """
    if "pandas" in sys.modules:
        return
    blocker = _NoPandas()
    sys.meta_path.insert(0, blocker)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(blocker)
