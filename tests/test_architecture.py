"""The laws of the house, read from the imports: which room may use which, and no way back.

An import inside a function counts like any other: laziness saves start-up time and excuses no cycle.
"""

import ast
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "lexergy"
OPEN_TO_ALL = ("errors", "files", "progress", "storage")
ROOMS = ("core", "data", "recipes", "runs", "models", "training", "tasks", "report", "studies", "serve", "cli")
SUB_ROOMS = {
    "models": (
        "architectures",
        "loading",
        "inference",
        "causal",
        "remote",
        "masked",
        "seq2seq",
        "cloze",
        "energies",
        "joint",
        "scoring",
        "detection",
        "finetuned",
    ),
}
MAY_IMPORT_TRANSFORMERS = ("models", "testing")
TORCH_FREE = {"torch", "transformers", "numpy", "pyarrow", "datasets", "accelerate", "scipy", "sklearn", "matplotlib"}


class Import(NamedTuple):
    """`importer` names a module of the package, `imported` any module; both with dots, the package's own without it."""

    importer: str
    imported: str
    inside: bool  # of the package


def read_imports(source: Path) -> list[Import]:
    """All imports of all modules below `source`, wherever in the module they stand."""
    modules = {_name(path, source): path for path in sorted(source.rglob("*.py"))}
    return [
        entry
        for importer, path in modules.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for entry in _imports_of(node, importer, modules)
    ]


def _name(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports_of(node: ast.AST, importer: str, modules: Mapping[str, Path]) -> Iterable[Import]:
    if isinstance(node, ast.Import):
        targets = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{importer}: imports are absolute"
        # `from package import module` is an import of the module.
        targets = [
            f"{node.module}.{alias.name}" if _inside(f"{node.module}.{alias.name}") in modules else str(node.module)
            for alias in node.names
        ]
    else:
        return
    for target in dict.fromkeys(targets):
        own = _inside(target)
        yield Import(importer, target if own is None else own, own is not None)


def _inside(target: str) -> str | None:
    """The name of a module of this package, without the package's; None for anybody else's."""
    return target.removeprefix("lexergy").lstrip(".") if target.split(".")[0] == "lexergy" else None


def room(module: str) -> str:
    return module.split(".")[0]


def sub_room(module: str) -> str:
    """The folder below the room, or the file itself where it stands directly in the room."""
    return ".".join(module.split(".")[:2])


def upward_imports(imports: Iterable[Import]) -> list[Import]:
    """Those from a room that stands below the importer's own."""
    ranks = {name: rank for rank, name in enumerate((*ROOMS, "testing", "__main__", ""))}
    return [
        entry
        for entry in imports
        if entry.inside
        and room(entry.imported) not in OPEN_TO_ALL
        and entry.importer != ""  # the package's front door names what lies behind it
        and entry.imported != ""
        and (room(entry.importer) in OPEN_TO_ALL or ranks[room(entry.imported)] > ranks[room(entry.importer)])
    ]


def upward_sub_imports(imports: Iterable[Import]) -> list[Import]:
    """Those between sub-rooms against the order in which they are listed."""
    ranks = {f"{name}.{part}": rank for name, parts in SUB_ROOMS.items() for rank, part in enumerate(parts)}
    return [
        entry
        for entry in imports
        if entry.inside
        and room(entry.importer) in SUB_ROOMS
        and room(entry.importer) == room(entry.imported)
        and ranks[sub_room(entry.imported)] > ranks[sub_room(entry.importer)]
    ]


def cycle(edges: Iterable[tuple[str, str]]) -> list[str]:
    """A way round, empty where there is none."""
    graph: dict[str, set[str]] = {}
    for start, end in edges:
        if start != end:
            graph.setdefault(start, set()).add(end)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return read_imports(SOURCE)


def test_every_folder_is_a_room():
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(ROOMS)
    for name, parts in SUB_ROOMS.items():
        found = {path.name for path in (SOURCE / name).iterdir() if path.is_dir() and path.name != "__pycache__"}
        assert found == set(parts)


def test_a_room_imports_only_from_rooms_above_it(imports):
    assert upward_imports(imports) == []
    assert upward_sub_imports(imports) == []


def test_no_module_and_no_sub_room_imports_its_importer(imports):
    inside = [entry for entry in imports if entry.inside and "" not in entry]
    assert cycle((entry.importer, entry.imported) for entry in inside) == []
    same_room = [entry for entry in inside if room(entry.importer) == room(entry.imported)]
    assert cycle((sub_room(entry.importer), sub_room(entry.imported)) for entry in same_room) == []


def test_only_models_import_transformers(imports):
    users = {room(entry.importer) for entry in imports if not entry.inside and room(entry.imported) == "transformers"}
    assert users == set(MAY_IMPORT_TRANSFORMERS)


def test_recipes_need_no_torch(imports):
    """They and all that they import, directly or not, load nothing that takes seconds."""
    reached, waiting = set(), {entry.importer for entry in imports if room(entry.importer) == "recipes"}
    while waiting:
        reached |= waiting
        waiting = {entry.imported for entry in imports if entry.inside and entry.importer in waiting} - reached
    heavy = [entry for entry in imports if entry.importer in reached and room(entry.imported) in TORCH_FREE]
    assert "recipes.residual" in reached
    assert heavy == []


def test_the_mathematics_knows_no_files_and_prints_nothing():
    for path in (SOURCE / "core").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and hasattr(node.func, "id")}
        assert not called & {"print", "open", "input"}, path
    core = [entry for entry in read_imports(SOURCE) if room(entry.importer) == "core"]
    assert not {room(entry.imported) for entry in core} & {"pathlib", "os", "json", "files", "transformers", "pyarrow"}


def test_type_checking_hides_no_import():
    """Under it a cycle would look like none. The command line has it for speed: its verbs import when they run."""
    users = [path for path in SOURCE.rglob("*.py") if "if TYPE_CHECKING:" in path.read_text(encoding="utf-8")]
    assert {path.relative_to(SOURCE).parts[0] for path in users} <= {"__init__.py", "cli"}


@pytest.mark.parametrize(
    ("importer", "imported", "law"),
    [
        ("core.losses", "models.causal.lm", upward_imports),
        ("report.tables", "studies.study", upward_imports),
        ("errors", "core.losses", upward_imports),
        ("models.causal.lm", "models.joint.model", upward_sub_imports),
    ],
)
def test_the_laws_can_be_broken(importer, imported, law):
    broken = Import(importer, imported, inside=True)
    assert law([broken, Import(imported, importer, inside=True)]) == [broken]


def test_a_cycle_is_found_wherever_it_stands(tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "a.py").write_text("from lexergy.core import b\n")
    (tmp_path / "core" / "b.py").write_text("def late():\n    import lexergy.core.a\n")
    edges = [(entry.importer, entry.imported) for entry in read_imports(tmp_path)]
    assert set(cycle(edges)) == {"core.a", "core.b"}
