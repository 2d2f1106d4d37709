"""The client stands alone: nats-py and the standard library, and no IO where it decides."""

import ast
import subprocess
import sys
from pathlib import Path

import consumers.client

FOLDER = Path(consumers.client.__file__).parent
ROOT = FOLDER.parent.parent
PURE = {
    "delivery",
    "direct_get",
    "errors",
    "fetch_state",
    "names",
    "ordered_state",
    "pull",
    "pull_state",
    "pull_status",
    "stored_message",
}
IO = {"asyncio", "nats", "random", "socket", "subprocess", "threading", "time"}


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            found.add(node.module)
    return found


def test_the_client_needs_nats_py_and_python_alone() -> None:
    """No module of the client imports another part of Silt, or a library other than nats-py."""
    allowed = {"nats"} | set(sys.stdlib_module_names)
    for path in FOLDER.glob("*.py"):
        for name in _imports(path):
            assert name.startswith("consumers.client") or name.split(".")[0] in allowed, f"{path.name}: {name}"


def test_decision_modules_do_no_io() -> None:
    """What decides imports no event loop, no connection, no clock, and nothing that does."""
    modules = {path.stem for path in FOLDER.glob("*.py")}
    assert modules >= PURE
    for name in PURE:
        for imported in _imports(FOLDER / f"{name}.py"):
            assert imported.split(".")[0] not in IO, f"{name}: {imported}"
            if imported.startswith("consumers.client."):
                assert imported.removeprefix("consumers.client.") in PURE, f"{name}: {imported}"


def test_importing_the_client_brings_nothing_heavy() -> None:
    """A program with the client starts without Spark, Delta, Arrow, numpy or a web framework."""
    heavy = (
        "{'pyspark', 'deltalake', 'fastapi', 'pyarrow', 'numpy', 'pydantic', 'delta_store', 'ingest', 'conf', 'api'}"
    )
    code = f"import sys, consumers.client; print(sorted({heavy} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stdout == "[]\n", ran.stdout + ran.stderr
