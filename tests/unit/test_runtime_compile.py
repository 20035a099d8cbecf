"""`compile` on the user's machine: what it makes is used from now on, and whatever fails changes nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from library_samples import answer, compile_library, environment, install, program, run, toolchain

from gpuforge.runtime import look
from gpuforge.runtime.userbuild import compilers
from gpuforge.runtime.userbuild.invoke import invoke
from gpuforge.runtime.userbuild.outcome import Stopped
from gpuforge.runtime.userbuild.recipe import recipes

pytestmark = pytest.mark.thorough

GOLDEN = Path(__file__).parents[1] / "golden" / "runtime"
GXX = shutil.which("g++") or "g++"
VERSION = "echo 'g++ (Debian 12.2.0-1) 12.2.0'; echo 'Copyright (C) 2022 Free Software Foundation, Inc.'"

RECORD = '{"schema": 1, "build": "b", "file": "FILE", "size": SIZE, "toolchain": "", '
RECORD += '"compiler": "", "arch": "", "sources": []}'
NUL = RECORD.replace("FILE", "a\\u0000b").replace("SIZE", "1")
INFINITE = RECORD.replace("SIZE", "Infinity")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    install(tmp_path / "site", toolchain("host", "g++", version=">=9"))
    return tmp_path / "site"


def compiler(tmp_path: Path, script: str) -> str:
    """A compiler that answers as g++ 12 and otherwise runs `script`; returned as the option that names it."""
    file = program(tmp_path / "bin", "g++", f'[ "$1" = --version ] && {{ {VERSION}; exit; }}\n{script}')
    return f"--toolchain=host={file}"


def builds(site: Path) -> list[str]:
    return sorted(
        p.name.partition("-")[0] for p in (site.parent / "builds").glob("user/demo/*/*") if p.is_dir()
    )


def test_a_build_is_used_from_now_on_until_it_is_removed(site: Path) -> None:
    assert answer(site) == 7
    done = run(site, "compile")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"answers: {site.parent}/builds/user/demo/answers-")
    assert done.stdout.count("\n") == 1
    assert "made by g++ " in done.stdout
    assert done.stdout.endswith(" (toolchain host), is used from now on\n")
    assert answer(site) == 42
    assert builds(site) == ["build"]

    again = run(site, "compile")
    assert again.returncode == 0
    assert builds(site) == ["build"]  # the one before is gone

    removed = run(site, "compile", "--remove")
    assert removed.stdout == (
        "answers: your build was removed; in use: the shipped library, default-answers, made by g++ 12.2.0\n"
    )
    assert (answer(site), builds(site)) == (7, [])
    assert "there was no build of yours" in run(site, "compile", "--remove").stdout


def test_sources_of_the_users_own_are_compiled_with_it(site: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.cpp"
    own.write_text('#include "answer.h"\nextern "C" int more(void) { return ANSWER + 1; }\n')
    done = run(site, "compile", own)
    assert done.returncode == 0, done.stderr
    assert "with 1 source of yours" in done.stdout
    loads = "from demo._gpuforge import KernelLibrary; print(KernelLibrary.shipped('answers').load().more())"
    shown = subprocess.run(
        [sys.executable, "-c", loads],
        capture_output=True,
        text=True,
        check=True,
        cwd=site,
        env=environment(site),
    )
    assert shown.stdout == "43\n"


def test_a_folder_gets_the_library_and_nothing_is_activated(site: Path, tmp_path: Path) -> None:
    done = run(site, "compile", "--output", tmp_path / "out")
    target = tmp_path / "out" / "libanswers.so"
    assert done.stdout.endswith(f"; GPUFORGE_KERNELS_DEMO_ANSWERS={target} uses it\n")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["libanswers.so"]
    assert answer(site) == 7
    assert answer(site, GPUFORGE_KERNELS_DEMO_ANSWERS=str(target)) == 42


def test_the_folder_may_be_relative(site: Path) -> None:
    done = run(site, "compile", "--output", "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"GPUFORGE_KERNELS_DEMO_ANSWERS={site}/out/libanswers.so uses it" in done.stdout
    (site / "file").write_text("")
    done = run(site, "compile", "--output", "file")
    assert done.stderr == "error: file: File exists; nothing was changed. --output names another folder\n"


def test_another_release_of_the_package_does_not_use_it(site: Path, tmp_path: Path) -> None:
    run(site, "compile")
    newer = tmp_path / "newer" / "site"
    install(newer, toolchain("host", "g++", version=">=10"))
    env = {"GPUFORGE_KERNEL_HOME": str(tmp_path / "builds")}
    assert (answer(newer, **env), answer(site)) == (7, 42)


FAILURES = {
    "no compiler": (None, 3),
    "crashes": ("echo 'answer.cpp:3:9: error: expected a type'; exit 1", 1),
    "killed": ("kill -9 $$", 1),
    "crashes by a signal": ("kill -SEGV $$", 1),
    "prints megabytes": (
        "yes 'a warning' | head -c 30000000; echo 'x.cpp:1: error: the last line'; exit 1",
        1,
    ),
    "prints without end": ("yes", 1),
    "hangs": ("sleep 60", 1),
    "writes nothing": ("exit 0", 1),
    "disk full": (f'{GXX} "$@" -o /dev/full; exit 1', 1),
    "another abi": ("for last; do :; done; cp OTHER $last", 1),
    "no abi": (f'for last; do :; done; echo "int x;" | {GXX} -shared -fPIC -x c++ - -o $last', 1),
    "cut short": (f'{GXX} "$@"; for last; do :; done; truncate -s 9000 $last', 1),
    "does not load": (f'{GXX} "$@" -Wl,--no-as-needed -Wl,-z,now -DX -include BROKEN', 1),
}
UNENDING = {"hangs", "prints without end"}


def test_whatever_fails_is_one_line_and_changes_nothing(site: Path, tmp_path: Path) -> None:
    source = tmp_path / "other.cpp"
    source.write_text("int x;\n")
    (tmp_path / "broken.h").write_text("extern int missing(); static int called = missing();\n")
    other = compile_library(tmp_path / "other.so", source, abi="2-def")
    assert run(site, "compile").returncode == 0
    before = answer(site)
    told = []
    for name, (written, status) in FAILURES.items():
        script = written and written.replace("OTHER", str(other)).replace(
            "BROKEN", str(tmp_path / "broken.h")
        )
        option = compiler(tmp_path, script) if script else f"--toolchain=host={tmp_path}/none"
        done = run(site, "compile", option, "--timeout", 100 if name not in UNENDING else 1)
        assert (done.returncode, done.stdout) == (status, ""), done.stderr
        assert done.stderr.count("\n") == 1
        assert (answer(site), builds(site)) == (before, ["build"])
        told.append(f"{name}\n  {done.stderr}")
    text = "".join(told).replace(str(tmp_path), "TMP")
    for word in text.split():
        for part in word.split("/"):
            if part.startswith(("answers-", "work-", "build-")) and len(part) > 12:
                text = text.replace(part.rstrip(",;:"), part.partition("-")[0] + "-…")
    text = text.replace(
        subprocess.run([GXX, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip(),
        "12.2.0",
    )
    golden = GOLDEN / "compile.txt"
    if "UPDATE_GOLDEN" in os.environ:
        golden.write_text(text)
    assert text == golden.read_text()


def test_calls_that_are_wrong(site: Path, tmp_path: Path) -> None:
    said = [
        run(site, "compile", *arguments)
        for arguments in (
            ["--toolchain", "acc"],
            ["--object", "answer"],
            [tmp_path / "none.cpp"],
            ["--remove", __file__],
        )
    ]
    assert [done.returncode for done in said] == [2] * 4
    assert [done.stderr.replace(str(tmp_path), "TMP") for done in said] == [
        f"error: {problem}\n"
        for problem in (
            "answers has no toolchain 'acc'; it has: host",
            "demo has no object 'answer'; it has: answers",
            "TMP/none.cpp: there is no such file",
            "--remove takes no sources",
        )
    ]


def test_changed_sources_are_not_compiled(site: Path) -> None:
    source = site / "demo/_gpuforge/sources/answers/mod/answer.cpp"
    source.write_text(source.read_text() + "// mine\n")
    done = run(site, "compile")
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {source} was changed after it was installed: install the wheel again, and "
        "give sources of your own as arguments\n"
    )


def test_sources_that_change_after_the_recipe_was_read_are_not_compiled(site: Path, tmp_path: Path) -> None:
    (recipe,) = recipes(site / "demo/_gpuforge")
    source = recipe.folder / recipe.sources[0]
    source.write_text(source.read_text() + "// mine\n")
    made = compilers.Compiler("g++", Path(GXX), "12.2.0")
    with pytest.raises(Stopped, match=re.escape(f"{source} was changed after it was installed")):
        invoke(recipe, recipe.toolchains[0], made, tmp_path, extra=(), arch=None, env={}, limit=9)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[" * 100_000, "it is not valid JSON"),
        (b" " * (5 << 20), "it has more than 4 MiB"),
        (None, "it is not a regular file"),
    ],
)
def test_a_damaged_recipe_is_one_line(site: Path, content: bytes | None, problem: str) -> None:
    recipe = site / "demo/_gpuforge/sources/answers/recipe.json"
    recipe.unlink()
    recipe.write_bytes(content) if content else os.mkfifo(recipe)
    done = run(site, "compile")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert problem in done.stderr


def test_a_table_of_a_recipe_that_is_a_list_is_one_line(site: Path) -> None:
    recipe = site / "demo/_gpuforge/sources/answers/recipe.json"
    content = json.loads(recipe.read_text())
    content["toolchains"][0]["install"] = [1]
    recipe.write_text(json.dumps(content))
    done = run(site, "compile")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.endswith(": install the wheel again\n")


@pytest.mark.parametrize(
    ("file", "content"),
    [("METADATA", b"caf\xe9"), ("RECORD", b"caf\xe9.so,,\n"), ("RECORD", b"a.so,x,1,4,5\n")],
)
def test_a_damaged_package_that_is_required_does_not_stop_a_compilation(
    site: Path, file: str, content: bytes
) -> None:
    own, other = site / "demo-1.0.dist-info", site / "other-1.0.dist-info"
    for folder, name in ((own, "demo"), (other, "other")):
        folder.mkdir(exist_ok=True)
        needs = "Requires-Dist: other\n" * (name == "demo")
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
    (own / "RECORD").write_text("demo/_gpuforge/__init__.py,,\n")
    (other / file).write_bytes(content)
    done = run(site, "compile")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_folder_that_cannot_be_written(site: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(site, "compile", GPUFORGE_KERNEL_HOME=str(tmp_path / "file"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Not a directory; nothing was changed. GPUFORGE_KERNEL_HOME names another folder" in done.stderr


@pytest.mark.parametrize("damage", ["", "{}", '{"schema": 2}', "[1]", NUL, INFINITE])
def test_a_damaged_record_is_a_reason(site: Path, damage: str) -> None:
    run(site, "compile")
    (record,) = (site.parent / "builds").glob("user/demo/*/active.json")
    record.write_text(damage)
    assert answer(site) == 7
    assert run(site, "compile").returncode == 0
    assert answer(site) == 42


def test_a_link_to_the_library_is_followed(site: Path, tmp_path: Path) -> None:
    """Builds with a version leave libx.so as a link to libx.so.1."""
    script = f'{GXX} "$@"; for last; do :; done; mv $last $last.1; ln -s $last.1 $last'
    assert run(site, "compile", compiler(tmp_path, script)).returncode == 0
    assert answer(site) == 42


@pytest.mark.parametrize("part", ["", "*/", "*/libanswers.so", "active.json"])
def test_where_others_could_put_code_nothing_is_loaded(site: Path, part: str) -> None:
    run(site, "compile")
    (place,) = (site.parent / "builds/user/demo").iterdir()
    (path,) = place.glob(part) if part else [place]
    mode = path.stat().st_mode
    path.chmod(0o777)
    assert answer(site) == 7
    assert f"{path} can be written by other users (chmod o-w {path})" in run(site, "explain").stdout
    done = run(site, "compile")
    assert (done.returncode, done.stderr.count("\n")) == ((1, 1) if not part else (0, 0))
    path.chmod(mode) if not part else None
    assert answer(site) == 42


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")
def test_a_build_of_another_user_is_not_loaded(site: Path) -> None:
    run(site, "compile")
    (place,) = (site.parent / "builds/user/demo").iterdir()
    os.chown(place, 12345, 12345)
    assert answer(site) == 7
    done = run(site, "compile")
    assert done.stderr == (
        f"error: {place} belongs to another user, who could put code into it; nothing was changed. "
        "GPUFORGE_KERNEL_HOME names another folder\n"
    )


def test_a_build_is_used_whatever_the_umask(site: Path) -> None:
    before = os.umask(0)
    try:
        assert run(site, "compile").returncode == 0
    finally:
        os.umask(before)
    assert answer(site) == 42


HANGS = "echo $$ > HERE/pids; sleep 300 & echo $! >> HERE/pids; touch HERE/started; wait"


def _hears() -> None:
    """Let a process be interrupted, also where the tests run in the background or by nohup, and are not."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Compiling:
    """A compilation whose compiler hangs, with a child of its own, until it is ended."""

    def __init__(self, site: Path, tmp_path: Path, *arguments: object, before: Sequence[str] = ()) -> None:
        option = compiler(tmp_path, HANGS.replace("HERE", str(tmp_path)))
        argv = [*before, sys.executable, "-m", "demo._gpuforge", "compile", option, *map(str, arguments)]
        self.process = subprocess.Popen(
            argv,
            cwd=site,
            env=environment(site),
            stderr=subprocess.PIPE,
            preexec_fn=_hears,
        )
        eventually((tmp_path / "started").exists)
        self.compilers = [Path("/proc", pid) for pid in (tmp_path / "pids").read_text().split()]

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; return the exit status, and what was said."""
        self.process.send_signal(number)
        said = self.process.communicate()[1].decode()
        return self.process.returncode, said

    def alive(self) -> bool:
        return any(pid.exists() for pid in self.compilers)


def eventually(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_is_one_line_ends_the_compiler_and_changes_nothing(
    site: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run(site, "compile")
    compiling = Compiling(site, tmp_path)
    assert builds(site) == ["build", "work"]
    status, said = compiling.end(number)
    (library,) = (site.parent / "builds").rglob("libanswers.so")
    made_by = run(site, "explain").stdout.partition("made by ")[2].splitlines()[0]
    now = f"in use: user build ({library}), made by {made_by}"
    assert (status, said) == (130, f"error: answers: interrupted by {number.name}; {now}\n")
    eventually(lambda: not compiling.alive())
    assert (answer(site), builds(site)) == (42, ["build"])


def test_a_signal_that_is_ignored_ends_nothing(site: Path, tmp_path: Path) -> None:
    """As by nohup: the compilation goes on when the terminal is closed."""
    compiling = Compiling(site, tmp_path, before=["nohup"])
    compiling.process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    assert compiling.process.poll() is None
    assert "interrupted by SIGTERM" in compiling.end(signal.SIGTERM)[1]


@pytest.mark.parametrize("output", [False, True])
def test_what_a_killed_compilation_leaves_is_cleared(site: Path, tmp_path: Path, output: bool) -> None:
    """Its compiler ends with it; its folder goes with the next compilation, while that of another one stays."""
    out = tmp_path / "out"
    arguments = ["--output", out] if output else []
    compiling = Compiling(site, tmp_path, *arguments)
    folder = out if output else next((site.parent / "builds/user/demo").iterdir())
    (left,) = folder.glob(".compile-*" if output else "work-*")
    assert run(site, "compile", *arguments).returncode == 0
    assert left.exists()
    assert compiling.end(signal.SIGKILL) == (-signal.SIGKILL, "")
    eventually(lambda: not compiling.alive())
    assert left.exists()
    assert run(site, "compile", *arguments).returncode == 0
    assert sorted(p.name.partition("-")[0] for p in folder.iterdir()) == (
        ["libanswers.so"] if output else ["active.json", "build", "lock"]
    )


@pytest.mark.parametrize("script", ["sleep 300", "yes"])
def test_a_compiler_that_does_not_tell_its_version_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    """It hangs, or prints without end; nothing of it goes on."""
    monkeypatch.setattr(compilers, "ANSWER_S", 0.5)
    file = program(tmp_path / "bin", "g++", f"echo $$ > {tmp_path}/pid; {script}")
    (recipe,) = recipes(install(tmp_path / "site", toolchain("host", "g++")))
    (wanted,) = recipe.toolchains
    found = compilers.find(wanted, {"PATH": os.defpath}, path=str(file))
    assert found == compilers.Absent(wanted, (f"{file}: does not answer to --version within 0.5 s",))
    eventually(lambda: not Path("/proc", (tmp_path / "pid").read_text().strip()).exists())


def test_the_log_of_a_compiler_has_its_beginning_and_its_end(site: Path, tmp_path: Path) -> None:
    script = "echo first; yes 'a warning' | head -c 30000000; echo last; exit 1"
    said = run(site, "compile", compiler(tmp_path, script)).stderr
    log = Path(said.partition("all it printed: ")[2].partition(";")[0]).read_text()
    assert log.startswith("first\n")
    assert log.endswith("\nlast\n")
    assert " bytes are left out here]\n" in log
    assert len(log) < 2_000_000


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does for a user whom nobody knows
    assert look.kernel_home({}) == "/nonexistent/.cache/gpuforge/kernels"
    assert look.kernel_home({"XDG_CACHE_HOME": "/x"}) == "/x/gpuforge/kernels"


@pytest.mark.parametrize("name", ["b ü", "b\udcff"])
def test_a_folder_whose_name_the_terminal_cannot_show(site: Path, tmp_path: Path, name: str) -> None:
    env = {"GPUFORGE_KERNEL_HOME": str(tmp_path / name), "PYTHONIOENCODING": "ascii"}
    for command in (["compile"], ["explain"], ["compile", "--remove"]):
        done = run(site, *command, **env)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("limit", ["nan", "inf", "0", "-1", "x"])
def test_a_time_limit_is_a_time(site: Path, limit: str) -> None:
    done = run(site, "compile", f"--timeout={limit}")
    assert done.returncode == 2
    assert done.stderr.endswith(f"error: argument --timeout: {limit!r} is not a number of seconds\n")


def test_the_first_toolchain_that_is_here_and_fits_is_used(tmp_path: Path) -> None:
    toolchains = (
        toolchain("acc", "nvc++"),
        toolchain("future", "g++", version=">=1000"),
        toolchain("host", "g++", version=">=9,!=10.1.*"),
    )
    install(tmp_path / "site", *toolchains)
    assert "(toolchain host)" in run(tmp_path / "site", "compile").stdout
    install(tmp_path / "none" / "site", *toolchains[:2])
    done = run(tmp_path / "none" / "site", "compile")
    assert done.returncode == 3
    assert done.stderr.startswith("error: answers: found no compiler of nvc++; g++ >=1000 (")
    assert done.stderr.endswith(" is not >=1000). For g++ >=1000: install g++\n")


def test_a_command_makes_the_library(tmp_path: Path) -> None:
    script = program(
        tmp_path / "bin",
        "makelib",
        f'mkdir x86_64; {GXX} -shared -fPIC "$1"/mod/*.cpp "$2" -o x86_64/libmech.so',
    )
    command = replace(
        toolchain("tool", "g++"),
        family="command",
        programs="",
        argv=(script.name, "{include}", "{abi}"),
        product="*/libmech.so",
    )
    install(tmp_path / "site", command)
    absent = run(tmp_path / "site", "compile")
    assert (absent.returncode, absent.stderr) == (
        3,
        "error: answers: found no compiler of makelib. For makelib: install g++\n",
    )
    done = run(tmp_path / "site", "compile", PATH=f"{script.parent}:{os.defpath}")
    assert done.returncode == 0, done.stderr
    assert answer(tmp_path / "site") == 42


def test_sources_of_the_users_own_lie_beside_the_packages_where_a_command_takes_a_folder(
    tmp_path: Path,
) -> None:
    """NEURON's nrnivmodl takes one folder: what lay elsewhere would be left out without a word."""
    script = program(tmp_path / "bin", "makelib", f'{GXX} -shared -fPIC "$1"/mod/*.cpp "$2" -o "$3"')
    argv = (script.name, "{include}", "{abi}", "{output}")
    site = tmp_path / "site"
    install(site, replace(toolchain("tool", "g++"), family="command", programs="", argv=argv))
    own = tmp_path / "own" / "more.cpp"
    own.parent.mkdir()
    own.write_text('extern "C" int more(void) { return 5; }\n')
    path = f"{script.parent}:{os.defpath}"
    done = run(site, "compile", own, PATH=path)
    assert done.returncode == 0, done.stderr
    assert "with 1 source of yours, is used from now on" in done.stdout
    load = "from demo._gpuforge import KernelLibrary as K; print(K.shipped('answers').load().more())"
    called = [sys.executable, "-c", load]
    seen = subprocess.run(called, check=True, capture_output=True, text=True, cwd=site, env=environment(site))
    assert seen.stdout == "5\n"
    same = own.rename(own.with_name("answer.cpp"))
    refused = run(site, "compile", same, PATH=path)
    assert refused.returncode == 1
    assert f"{same}: the package has a source of that name, give yours another; in use: " in refused.stderr


def test_a_command_that_pip_has_put_beside_this_python_comes_first(tmp_path: Path) -> None:
    """Its own environment's nrnivmodl belongs to the NEURON that is imported; another on PATH does not."""
    other = program(tmp_path / "bin", "pytest", 'echo "of another environment"; exit 7')
    command = replace(toolchain("tool", "g++"), family="command", programs="", argv=("pytest", "--version"))
    install(tmp_path / "site", command)
    done = run(tmp_path / "site", "compile", PATH=f"{other.parent}:{os.defpath}")
    assert "of another environment" not in done.stderr
    assert f"{Path(sysconfig.get_path('scripts'), 'pytest')} ended well and left no library" in done.stderr


def test_a_build_that_cannot_be_used_is_warned_of_when_the_library_is_loaded(site: Path) -> None:
    """Who compiled for the GPU must not compute on the CPU without a word."""
    load = "from demo._gpuforge import KernelLibrary; print(KernelLibrary.shipped('answers').load().answer())"

    def loaded() -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", load],
            capture_output=True,
            text=True,
            check=True,
            cwd=site,
            env=environment(site),
        )
        return done.stdout, done.stderr

    assert loaded() == ("7\n", "")
    assert run(site, "compile").returncode == 0
    assert loaded() == ("42\n", "")
    (library,) = (site.parent / "builds").rglob("lib*.so")
    library.write_bytes(library.read_bytes()[:9000])
    answer, warning = loaded()
    assert answer == "7\n"
    assert f"RuntimeWarning: answers: {library}: has 9000 bytes" in warning
