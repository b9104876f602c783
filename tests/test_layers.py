"""Imports point down the layers, never up."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tuner"
# Lowest first; modules of one line may import each other. A name stands for the module or for all below a package.
LAYERS = [
    ["tuner", "tuner.errors", "tuner.rules", "tuner.locate", "tuner.policy", "tuner.descriptors", "tuner.modelconfig"],
    ["tuner.trial", "tuner.objective", "tuner.redaction"],
    ["tuner.space"],
    ["tuner.engines"],
    ["tuner.benchmarks"],
    ["tuner.launchers"],  # the contract; its implementations are higher
    ["tuner.node"],
    ["tuner.node.processes"],
    ["tuner.node.ports"],
    ["tuner.launchers.process", "tuner.launchers.attach"],
    ["tuner.node.locks", "tuner.node.gpu"],
    ["tuner.asking"],
    ["tuner.readiness"],
    ["tuner.server"],
    ["tuner.spec"],  # the values; what reads them from files is higher
    ["tuner.spec.yamlevents"],
    ["tuner.spec.yamlfile"],
    ["tuner.spec.faults"],
    ["tuner.spec.fields"],
    ["tuner.spec.schema", "tuner.spec.spaceschema", "tuner.spec.workloadschema"],
    ["tuner.spec.spacefile"],
    ["tuner.spec.canonical", "tuner.spec.room"],
    ["tuner.spec.studyfile", "tuner.spec.needs"],
    ["tuner.search"],
    ["tuner.history"],
    ["tuner.report", "tuner.exporters"],
    ["tuner.executors"],  # the contract; its implementations are higher
    ["tuner.reading"],
    ["tuner.evaluation"],
    ["tuner.storage"],
    ["tuner.database"],
    ["tuner.executors.local", "tuner.executors.recorded"],
    ["tuner.editions"],
    ["tuner.archive"],
    ["tuner.study"],
    ["tuner.console", "tuner.benching"],
    ["tuner.driving"],
    ["tuner.running"],
    ["tuner.cli"],
    ["tuner.__main__"],
]
# What a module imports inside a function because the other is above it: data flows down, the call is made late.
LATE = {("tuner.spec", "tuner.spec.studyfile"), ("tuner.spec", "tuner.spec.needs")}


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def level(module: str) -> int:
    """The layer of the longest name in `LAYERS` that the module is or lies below."""
    best = max(
        ((name, index) for index, names in enumerate(LAYERS) for name in names if covers(name, module)),
        key=lambda pair: len(pair[0]),
    )
    return best[1]


def covers(name: str, module: str) -> bool:
    return module == name or (module.startswith(f"{name}.") and name != "tuner")


def imported(path: Path) -> set[str]:
    """The modules of this package that a file imports, anywhere in it, annotations' imports aside."""
    tree = ast.parse(path.read_text())
    skipped = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    found = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in MODULES}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tuner":
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & MODULES.keys()) or {node.module}
    return found


PRODUCT = [name for name in MODULES if not name.startswith("tuner.testing")]


@pytest.mark.parametrize("module", PRODUCT)
def test_imports_point_down(module: str) -> None:
    upward = [
        other for other in imported(MODULES[module]) if level(other) > level(module) and (module, other) not in LATE
    ]
    assert upward == []


@pytest.mark.parametrize("module", PRODUCT)
def test_every_module_has_its_place(module: str) -> None:
    assert any(covers(name, module) for names in LAYERS for name in names)


def test_only_testing_knows_testing() -> None:
    users = [name for name in PRODUCT if any(other.startswith("tuner.testing") for other in imported(MODULES[name]))]
    assert users == []


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("tuner.engines", {"subprocess", "socket", "os", "time", "httpx", "psutil", "pathlib", "asyncio"}),
        ("tuner.report", {"subprocess", "socket", "os", "httpx", "psutil", "optuna", "asyncio"}),
        ("tuner.exporters", {"subprocess", "socket", "os", "httpx", "psutil", "optuna", "asyncio"}),
        ("tuner.search.decide", {"subprocess", "socket", "os", "time", "httpx", "optuna", "pathlib"}),
        ("tuner.search.phases", {"subprocess", "socket", "os", "time", "httpx", "optuna", "pathlib"}),
        ("tuner.search.scores", {"subprocess", "socket", "os", "time", "httpx", "optuna", "pathlib"}),
        ("tuner.space", {"subprocess", "socket", "os", "time", "httpx", "optuna", "pathlib"}),
        ("tuner.objective", {"subprocess", "socket", "os", "time", "httpx", "optuna", "pathlib"}),
    ],
)
def test_pure_modules_use_nothing_impure(package: str, forbidden: set[str]) -> None:
    for name, path in MODULES.items():
        if not covers(package, name):
            continue
        tree = ast.parse(path.read_text())
        used = {alias.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
        used |= {n.module.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
        assert not used & forbidden, (name, used & forbidden)


@pytest.mark.parametrize("code", ["import tuner", "import tuner.cli", "import tuner.spec, tuner.search.decide"])
def test_importing_loads_neither_optuna_nor_numpy(code: str) -> None:
    check = f"import sys; {code}; print([m for m in ('optuna', 'numpy', 'sqlalchemy', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_only_the_command_line_prints_or_exits() -> None:
    for name in PRODUCT:
        if name in ("tuner.cli", "tuner.__main__"):
            continue
        calls = [n.func for n in ast.walk(ast.parse(MODULES[name].read_text())) if isinstance(n, ast.Call)]
        said = [ast.unparse(call) for call in calls if ast.unparse(call) in ("print", "sys.exit", "exit", "quit")]
        assert said == [], name
