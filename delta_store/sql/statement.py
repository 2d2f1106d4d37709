"""A statement as DuckDB parsed it, checked before anything of it runs: it may read the views and nothing else. Pure.

DuckDB parses the text and shows its tree as JSON (``json_serialize_sql``, which takes nothing but SELECT). A tree may
hold tables by plain names, the table functions in :data:`TABLE_FUNCTIONS`, Silt's own (:data:`SILT_FUNCTIONS`), which
are taken out as :class:`Call` to be bound to relations, and functions of values but for :data:`REFUSED_FUNCTIONS`.
Kinds of statements, tables and table functions that are not known are refused: what a new version adds is shut.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from delta_store.sql.sql_errors import invalid, refused

Node = dict[str, Any]
SILT_FUNCTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "as_of": ("stream", "point"),
    "multi_last": ("stream", "filter", "point"),
    "diff": ("stream", "a", "b"),
    "versions": ("stream",),
}
"""Table functions that Silt binds, with their parameters."""
TABLE_FUNCTIONS: Final = frozenset(
    ("range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree", "icu_calendar_names")
)
"""Table functions of DuckDB that read neither files nor the state of the engine."""
REFUSED_FUNCTIONS: Final = frozenset(
    (
        "current_setting", "getenv", "getvariable", "setval", "nextval", "currval", "write_log", "sleep_ms", "pg_sleep",
        "json_execute_serialized_sql", "json_serialize_plan", "current_query", "pg_get_viewdef", "pg_get_constraintdef",
        "pg_get_expr", "parse_duckdb_log_message", "query", "query_table", "read_text", "read_blob", "glob",
        "inet_client_addr", "inet_client_port", "inet_server_addr", "inet_server_port", "setseed", "add_parquet_key",
        "get_block_size",
    )
)  # fmt: skip
"""Functions that show or change the state of the engine or of its process, or that wait."""
_QUERIES: Final = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))
_TABLES: Final = frozenset(
    ("BASE_TABLE", "TABLE_FUNCTION", "SUBQUERY", "JOIN", "EXPRESSION_LIST", "EMPTY", "PIVOT", "SHOW_REF")
)
_REST: Final = frozenset(
    (
        "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "ORDER_MODIFIER", "DISTINCT_MODIFIER",
        "ORDER_DEFAULT", "ASCENDING", "DESCENDING", "TABLE", "SCALAR",
    )
)  # fmt: skip
_ALL_TABLES: Final = frozenset(('"tables"', "__show_tables_expanded"))
_STAR: Final[Node] = {
    "class": "STAR", "type": "STAR", "alias": "", "query_location": 0, "relation_name": "", "exclude_list": [],
    "replace_list": [], "columns": False, "expr": None, "qualified_exclude_list": [], "rename_list": [],
}  # fmt: skip
ALL_NAMES: Final = "silt_views"
"""The relation that answers SHOW TABLES."""
_REFUSED_STARTS: Final = ("__internal", "duckdb_", "pragma_", "pg_get_", "read_", "inet_")
_NESTING_MAX: Final = 400


class TableUse(NamedTuple):
    """A table that a statement names."""

    name: str
    node: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one of Silt's table functions."""

    function: str
    arguments: Mapping[str, Node]
    """Expressions by parameter."""
    node: Node

    def read_from(self, relation: str) -> None:
        """Replace the call by a relation's name; an alias stays."""
        node = self.node
        alias = node["alias"] or self.function
        kept = {key: node[key] for key in ("sample", "query_location", "column_name_alias")}
        node.clear()
        node.update(base_table(relation) | kept | {"alias": alias})


@dataclass(frozen=True, slots=True)
class Statement:
    """One SELECT, its tree open to be rewritten."""

    tree: Node
    tables: Sequence[TableUse]
    calls: Sequence[Call]
    defined: frozenset[str]
    """Names that its own WITH clauses define, in lower case."""
    rewritten: bool
    """Whether the tree is no longer that of the text."""

    @property
    def as_json(self) -> str:
        """The tree as ``json_deserialize_sql`` takes it."""
        return json.dumps(self.tree)

    def parameters_left(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Name the parameters that are still in the tree; return their values by these names.

        A call that was replaced took its parameters with it, so places would no longer be right.
        """
        left: dict[str, Any] = {}
        for node in nodes(self.tree):
            if node.get("class") == "PARAMETER":
                given = str(node["identifier"])
                if given not in values:
                    raise invalid(f"there is no parameter {given}")
                node["identifier"] = f"p{given}"
                left[node["identifier"]] = values[given]
        return left


def by_name(parameters: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """Return a statement's parameters by the names that its tree has for them."""
    if isinstance(parameters, Mapping):
        return {str(name): value for name, value in parameters.items()}
    return {str(place): value for place, value in enumerate(parameters, 1)}


def read_statement(serialized: str) -> Statement:
    """Check what ``json_serialize_sql`` returned. Raises :class:`SqlError`."""
    try:
        tree: Node = json.loads(serialized)
    except RecursionError:
        raise invalid("the statement is nested too deeply") from None
    if tree["error"]:
        raise _not_parsed(tree)
    statements = tree["statements"]
    if len(statements) != 1:
        raise refused(f"one statement at a time: these are {len(statements)}")
    checks = _Checks()
    for node in nodes(statements[0]):
        checks.pass_by(node)
    return Statement(tree, checks.tables, checks.calls, frozenset(checks.defined), checks.shown or bool(checks.calls))


@dataclass(slots=True)
class _Checks:
    """The checks of all objects of a tree, outer ones first, and what was found in them."""

    tables: list[TableUse] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    defined: set[str] = field(default_factory=set)
    shown: bool = False
    """Whether a SHOW was replaced."""

    def pass_by(self, node: Node) -> None:
        """Take note of an object; raise for one that is not allowed."""
        kind = node.get("type")
        if isinstance(kind, str) and "class" not in node and kind not in _QUERIES | _TABLES | _REST:
            raise refused(f"{kind.replace('_', ' ').lower()} is not allowed here")
        self._define(node)
        if kind == "SHOW_REF" and node["query"] is None:
            _show(node)
            self.shown = True
            kind = node["type"]
        if kind == "BASE_TABLE":
            self.tables.append(_table(node))
        elif kind == "TABLE_FUNCTION":
            call = _call(node)
            self.calls += [] if call is None else [call]
        elif "function_name" in node:
            _check_function(node)

    def _define(self, node: Node) -> None:
        if "cte_map" in node:
            self.defined.update(entry["key"].lower() for entry in node["cte_map"]["map"])
        if "cte_name" in node:
            self.defined.add(str(node["cte_name"]).lower())


def base_table(name: str) -> Node:
    """Return the tree of a table's name."""
    return {
        "type": "BASE_TABLE", "alias": "", "sample": None, "query_location": 0, "schema_name": "", "table_name": name,
        "column_name_alias": [], "catalog_name": "", "at_clause": None, "qualified_name": {"path": [name]},
    }  # fmt: skip


def value_query(expression: Node) -> str:
    """Return the tree of a SELECT of one expression without tables, as ``json_deserialize_sql`` takes it.

    Raises :class:`SqlError` where the expression depends on more than constants.
    """
    for node in nodes(expression):
        if node.get("class") in ("COLUMN_REF", "SUBQUERY", "PARAMETER"):
            raise invalid("the arguments of a table function must be constants or parameters")
    node = _select([expression], {"type": "EMPTY", "alias": "", "sample": None, "query_location": 0})
    return json.dumps({"error": False, "statements": [{"node": node, "named_param_map": []}]})


def _not_parsed(tree: Node) -> Exception:
    if tree.get("error_type") == "not implemented":
        return refused("only SELECT is allowed: the tables are read only, and the engine's settings are fixed")
    return invalid(str(tree.get("error_message", "the statement can't be parsed")))


def nodes(value: Any, depth: int = 0) -> Iterator[Node]:
    """Iterate over all objects of the tree, outer ones first."""
    if depth > _NESTING_MAX:
        raise invalid("the statement is nested too deeply")
    if isinstance(value, dict):
        yield value
        for part in list(value.values()):
            yield from nodes(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            yield from nodes(part, depth + 1)


def _show(node: Node) -> None:
    """Replace SHOW TABLES by the view of names, and SHOW name by DESCRIBE; raise for what shows the engine's state."""
    name = str(node["table_name"])
    if node["show_type"] == "SHOW" and not node["schema_name"]:
        node.update({"show_type": "DESCRIBE", "table_name": "", "query": _select([_STAR], base_table(name))})
        node["qualified_name"] = {"path": []}
    elif name in _ALL_TABLES:
        node.clear()
        node.update(base_table(ALL_NAMES))
    else:
        raise refused("of SHOW, only SHOW TABLES and SHOW name are allowed")


def _select(items: list[Node], source: Node) -> Node:
    return {
        "type": "SELECT_NODE", "modifiers": [], "cte_map": {"map": []}, "select_list": items, "from_table": source,
        "where_clause": None, "group_expressions": [], "group_sets": [], "aggregate_handling": "STANDARD_HANDLING",
        "having": None, "sample": None, "qualify": None,
    }  # fmt: skip


def _table(node: Node) -> TableUse:
    path: list[str] = list(node["qualified_name"]["path"])
    if node["at_clause"] is not None:
        raise refused("AT is not known here: read the past by as_of(stream, point)")
    if len(path) > 1 and [one.lower() for one in path[:-1]] not in (["main"], ["memory", "main"]):
        raise refused(f"{'.'.join(path)} is no view: SHOW TABLES lists them")
    return TableUse(path[-1], node)


def _call(node: Node) -> Call | None:
    """Return a call of Silt's functions; None for one of DuckDB's that is allowed."""
    function = node["function"]
    path: list[str] = list(function["qualified_name"]["path"])
    name = path[-1].lower()
    if len(path) > 1:
        raise refused(f"{'.'.join(path)} is not allowed here")
    if name in TABLE_FUNCTIONS:
        return None
    if name not in SILT_FUNCTIONS:
        raise refused(f"the table function {name} is not allowed: what reads files or the engine's state is shut")
    parameters = SILT_FUNCTIONS[name]
    arguments: dict[str, Node] = {}
    for place, argument in enumerate(function["arguments"]):
        given = argument["name"] or argument["expression"].get("alias") or ""
        parameter = str(given).lower() or (parameters[place] if place < len(parameters) else "")
        if parameter not in parameters or parameter in arguments:
            raise invalid(f"{name} takes ({', '.join(parameters)})")
        arguments[parameter] = argument["expression"]
    return Call(name, arguments, node)


def _check_function(node: Node) -> None:
    path = [str(part).lower() for part in node.get("qualified_name", {}).get("path", ())] or [node["function_name"]]
    name = path[-1].lower()
    if name in REFUSED_FUNCTIONS or name.startswith(_REFUSED_STARTS):
        raise refused(f"the function {name} is not allowed here")
