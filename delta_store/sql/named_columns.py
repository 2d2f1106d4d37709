"""The columns that a statement can name, so that what none names need not be fetched. Pure.

Only what is understood counts: an expression of a kind that is not listed here may name any column.
"""

from typing import Final

from delta_store.sql.statement import Node, nodes

_EXPRESSIONS: Final = frozenset(
    (
        "COLUMN_REF", "CONSTANT", "PARAMETER", "FUNCTION", "COMPARISON", "CONJUNCTION", "CAST", "OPERATOR", "CASE",
        "BETWEEN", "SUBQUERY", "WINDOW", "COLLATE", "TYPE",
    )
)  # fmt: skip
_WHOLE: Final = ("PIVOT", "SHOW_REF")
"""Relations that take all columns of another."""


def named_columns(tree: Node) -> frozenset[str] | None:
    """Return the parts of all names in a statement's expressions, in lower case; None if it may name others unseen."""
    found: set[str] = set()
    for node in nodes(tree):
        if not _is_understood(node):
            return None
        names = (*node.get("column_names", ()), *node.get("using_columns", ()))
        found.update(str(name).lower() for name in names)
    return frozenset(found)


def _is_understood(node: Node) -> bool:
    if node.get("column_name_alias") or node.get("ref_type") == "NATURAL":
        return False
    return node["class"] in _EXPRESSIONS if "class" in node else node.get("type") not in _WHOLE
