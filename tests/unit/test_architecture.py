"""Imports point one way, and each heavy library has one home."""

import ast
import graphlib
import re
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest
from source_samples import parsed, statements

import gpuforge
from gpuforge.package import contents
from gpuforge.runtime.backends import BACKENDS
from gpuforge.runtime.values import KINDS
from gpuforge.toolchain_names import OWN

pytestmark = pytest.mark.xdist_group("architecture")  # parses the package once
ROOT = Path(gpuforge.__file__).parent
FOUNDATION = {
    "cache_folder",
    "expectation",
    "grouping",
    "datafile",
    "cpython",
    "errors",
    "requirements",
    "diagnostics",
    "digest",
    "disk",
    "locks",
    "private_mounts",
    "toolchain_names",
    "tree",
}
# the runtime's modules that the foundation shares with it: they import each other and the standard library
SHARED = {"arch", "cpu", "document", "elf", "layout", "placeholders"} | {
    *(
        "index",
        "libraries",
        "recipe",
        "values",
        "wheels",
    )  # the documents in a wheel, which the audit reads, too
}
# folder, or a module beside them -> the folders it may import from, beside the foundation and itself
MAY_IMPORT = {
    "expectation.py": {"cuda"},
    "__main__.py": {"cli"},
    "binary": {"cuda"},
    "wheel": {"binary"},
    "manifest": {"cuda"},
    "cuda": set(),
    "toolchains": {"cuda"},
    "toolkits": {"binary", "wheel", "cuda", "toolchains"},
    "plan": {"cuda", "manifest", "package", "toolchains", "toolkits"},
    "actions": {
        *("binary", "wheel", "cuda", "manifest", "toolchains", "toolkits"),
        *("plan", "package", "audit"),
    },
    "containers": {"cuda", "wheel", "toolchains", "toolkits", "plan"},
    "execute": {"plan", "toolchains", "containers"},
    "cluster": {"plan", "toolchains", "containers", "execute"},
    "package": {"binary", "wheel", "cuda", "runtime"},
    "audit": {"binary", "wheel", "cuda"},
    "runtime": set(),
    "project": {"cuda", "wheel", "manifest", "toolkits", "plan", "actions"},
    "cli": {
        "actions",
        "cuda",
        "project",
        "wheel",
        "manifest",
        "toolchains",
        "toolkits",
        "plan",
        "containers",
        "execute",
        "cluster",
        "package",
        "audit",
    },
}
# the same of the folders in audit/; its modules beside them are values, tables, and what joins the folders
AUDIT_MAY_IMPORT: dict[str, set[str]] = {
    "read": set(),
    "link": set(),
    "host": {"read", "link"},
    "rules": {"link", "host"},
    "report": {"link", "rules"},
}
HEAVY = {
    "abi3info": {"audit/rules"},
    "docker": {"containers"},
    "distributed": {"cluster"},
    "fsspec": {"cluster"},
    "s3fs": set(),
    "gcsfs": set(),
    "rich": {"cli", "audit/report"},
    "click": {"cli"},
    "isal": {"wheel"},
    "cyclonedx": {"package"},
    "email": {"wheel"},  # METADATA, WHEEL
    "build": {"actions"},
    "pyopencl": {"runtime/backends/opencl"},
    "pypi_simple": {"project", "actions"},
    "tomli_w": {"project"},
    "iree": {"runtime/backends/iree"},
    "tree_sitter": {"manifest"},
}


@cache
def imports() -> list[tuple[str, str]]:
    """Every import of the package: (file relative to it, module imported)."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in statements(path):
            if isinstance(node, ast.Import):
                found += [(name, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.append((name, node.module))
                if node.module == "gpuforge":
                    found += [(name, f"gpuforge.{alias.name}") for alias in node.names]
    return found


def test_imports_point_one_way():
    wrong = []
    for name, module in imports():
        parts = module.split(".")
        if parts[0] != "gpuforge" or len(parts) == 1:
            continue
        folder = name.split("/")[0] if "/" in name else ""
        target = parts[1]
        may = {folder, "__version__"} | MAY_IMPORT[folder] if folder else MAY_IMPORT.get(name, set())
        if (
            target == "runtime" and {*parts[2:]} <= SHARED
        ):  # `from gpuforge.runtime import arch` has only the folder
            continue
        if target not in FOUNDATION | may:
            wrong.append(f"{name} imports {module}")
    assert wrong == []


def test_the_runtimes_modules_import_each_other_one_way_also_for_their_types():
    """Sets, libraries and what explains both are one thing in three files."""
    modules = {path.relative_to(ROOT / "runtime"): path for path in (ROOT / "runtime").rglob("*.py")}
    names = {
        (path.parent if path.name == "__init__.py" else path.with_suffix("")): p
        for path, p in modules.items()
    }
    one = dict.fromkeys(map(Path, ("explain", "kernellibrary", "kernelset")), Path("explain"))
    graph: dict[Path, set[Path]] = {}
    for name, path in names.items():
        package = name if path.name == "__init__.py" else name.parent
        for node in statements(path):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = [package, *package.parents][node.level - 1].joinpath(*(node.module or "").split("."))
                found = {base / alias.name if base / alias.name in names else base for alias in node.names}
                graph.setdefault(one.get(name, name), set()).update(one.get(f, f) for f in found)
    graphlib.TopologicalSorter({name: found - {name} for name, found in graph.items()}).prepare()


def test_the_audit_reads_links_judges_and_reports_one_way():
    wrong = []
    for name, module in imports():
        of, target = name.split("/"), module.split(".")
        if of[0] != "audit" or len(of) < 3 or target[:2] != ["gpuforge", "audit"] or len(target) < 3:
            continue
        if target[2] in AUDIT_MAY_IMPORT and target[2] not in AUDIT_MAY_IMPORT[of[1]] | {of[1]}:
            wrong.append(f"{name} imports {module}")
    assert wrong == []


def compared(path: Path) -> set[object]:
    """Return the constants that a module compares something with, alone or as one of several."""
    sides = [
        side
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
    ]
    several = [
        each for side in sides if isinstance(side, (ast.Set, ast.Tuple, ast.List)) for each in side.elts
    ]
    return {each.value for each in (*sides, *several) if isinstance(each, ast.Constant)}


def test_what_differs_between_compilers_and_kinds_of_images_stands_in_their_tables():
    names = {*OWN, *KINDS} - {"library", "cuda"}  # which are also a kind of object, and a key
    folders = ("cli", "containers", "package", "plan", "runtime", "actions", "toolkits")
    modules = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert {path.relative_to(ROOT).as_posix() for path in modules if compared(path) & names} == {
        "runtime/arch.py",  # how an architecture is spelled
        "runtime/backends/iree/devices.py",  # the package `iree`
        "actions/write_wheel.py",  # what a fatbin has
    }


def test_what_differs_between_back_ends_of_the_runtime_stands_in_their_folders():
    folder = ROOT / "runtime"
    modules = [path for path in folder.rglob("*.py") if path.relative_to(folder).parts[0] != "backends"]
    assert [path.name for path in modules if compared(path) & {*BACKENDS}] == []


@pytest.mark.parametrize("library", HEAVY)
def test_heavy_libraries_have_one_home(library):
    users = {name for name, module in imports() if module.split(".")[0] == library}
    strangers = {name for name in users if not any(name.startswith(f"{home}/") for home in HEAVY[library])}
    assert strangers == set()


def test_the_runtime_needs_the_standard_library_only():
    modules = {module.split(".")[0] for name, module in imports() if name.startswith("runtime/")}
    assert modules - {"pyopencl", "iree"} <= set(sys.stdlib_module_names)  # its one home is above


def test_what_a_build_uses_of_the_runtime_imports_nothing_else_of_it():
    names = {path.name for path in contents.FOR_COMMANDS}
    for path in contents.FOR_COMMANDS:
        found = ast.walk(parsed(path)) if path.suffix == ".py" else ()
        imported = [node.module for node in found if isinstance(node, ast.ImportFrom) and node.level]
        assert {f"{module}.py" for module in imported} <= names


def test_only_the_command_line_prints_or_exits():
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        folder, text = path.relative_to(ROOT).parts[0], path.read_text()
        # What a step prints is its action's log; the others are users' wheels' command line, and forks that must end.
        others = ("runtime/__main__.py", "execute/runners/local/keeper.py", "private_mounts.py")
        if folder in {"actions", "cli"} or path in {ROOT / name for name in others}:
            continue
        if not re.search("print|exit|quit", text):  # to look at all nodes takes a second
            continue
        for node in ast.walk(parsed(path)):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in {"print", "exit", "quit", "sys.exit", "os._exit"}:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {called}")
    assert wrong == []


def test_no_two_files_of_tests_have_one_name():
    """pytest imports them by it, whatever folder they are in, and leaves out the second."""
    tests = Path(__file__).parents[1]
    names = [path.name for folder in ("unit", "integration", "gpu") for path in (tests / folder).glob("*.py")]
    twice = {name for name in names if names.count(name) > 1}
    assert twice == {"conftest.py"}


def test_tests_of_a_group_run_on_one_worker(request):
    """pytest-xdist passes on the group in the name of a test; without it, fixtures are built by every worker."""
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@architecture")


def test_no_runner_is_imported_by_name_from_outside_the_runners():
    """Others get them from the list in `runners/choice.py`."""
    wrong = [
        f"{name} imports {module}"
        for name, module in imports()
        if re.match(r"gpuforge\.(execute\.runners\.\w+\.|cluster\.runner)", module)
        and not name.startswith(("execute/runners/", "cluster/"))
    ]
    assert wrong == []


def test_functions_stay_short():
    functions = {
        f"{path.relative_to(ROOT).as_posix()}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in ROOT.rglob("*.py")
        for node in statements(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert [name for name, lines in functions.items() if lines > 55] == []


def lines_of_code(path: Path) -> Iterator[str]:
    """Return the lines of a source file without imports, comments, white space and lines of punctuation."""
    text = path.read_text()
    if path.suffix == ".py":
        nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import | ast.ImportFrom)]
        skipped = {line for n in nodes for line in range(n.lineno, (n.end_lineno or 0) + 1)}
        text = "\n".join(line for number, line in enumerate(text.split("\n"), 1) if number not in skipped)
    for line in text.split("\n"):
        code = " ".join(line.split())
        if re.search(r"\w", code) and not code.startswith(("#", "//")):
            yield code


@pytest.mark.thorough
def test_no_six_lines_of_code_stand_twice():
    """Generated copies, which other tests hold equal, apart; `#include` of a C file is no code either."""
    tree = ROOT.parent
    folders = ("gpuforge", "scripts", "bench", "recipes", "tests")
    runs: dict[tuple[str, ...], str] = {}
    twice = []
    for path in sorted(file for folder in folders for file in (tree / folder).rglob("*")):
        if path.suffix not in {".py", ".c", ".h", ".cpp", ".cu", ".sh"} or generated(path):
            continue
        code = list(lines_of_code(path))
        for number in range(len(code) - 5):
            place = f"{path.relative_to(tree)}: {code[number]}"
            first = runs.setdefault(tuple(code[number : number + 6]), place)
            if first != place:
                twice.append(f"{first} = {place}")
    assert twice == []


def generated(path: Path) -> bool:
    """Return whether a script makes the file from others."""
    with path.open() as file:
        return "made by scripts/" in file.readline()


def run_time_imports(path: Path, names: Collection[str]) -> Iterator[str]:
    """Yield the modules of the package that one imports, also within functions; not those for annotations alone."""
    package = ["gpuforge", *path.relative_to(ROOT).parent.parts]
    for node in statements(path, types=False):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            found = (f"{module}.{alias.name}" for alias in node.names)
            yield from (each if each in names else module for each in found)


def test_no_module_imports_itself_through_others():
    parts = {path: path.relative_to(ROOT.parent).with_suffix("").parts for path in ROOT.rglob("*.py")}
    names = {".".join(p[:-1] if p[-1] == "__init__" else p): path for path, p in parts.items()}
    graph = {n: names.keys() & {*run_time_imports(path, names)} - {n} for n, path in names.items()}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, with the modules
