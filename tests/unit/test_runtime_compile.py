"""`compile` on the user's machine: what it makes is used from now on, and whatever fails changes nothing."""

import json
import os
import subprocess
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
from compile_samples import GXX, builds, compiler, eventually
from library_samples import answer, compile_library, install, loaded, program, run, toolchain

from gpuforge.runtime import layout
from gpuforge.runtime.userbuild import compilers
from gpuforge.runtime.userbuild.invoke import recipes

pytestmark = pytest.mark.thorough

GOLDEN = Path(__file__).parents[1] / "golden" / "runtime"


def test_a_build_is_used_from_now_on_until_it_is_removed(site):
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


def test_sources_of_the_users_own_are_compiled_with_it(site, tmp_path):
    own = tmp_path / "own.cpp"
    own.write_text('#include "answer.h"\nextern "C" int more(void) { return ANSWER + 1; }\n')
    done = run(site, "compile", own)
    assert done.returncode == 0, done.stderr
    assert "with 1 source of yours" in done.stdout
    assert loaded(site, "more()") == ("43\n", "")


def test_a_folder_gets_the_library_and_nothing_is_activated(site, tmp_path):
    done = run(site, "compile", "--output", tmp_path / "out")
    target = tmp_path / "out" / "libanswers.so"
    assert done.stdout.endswith(f"; GPUFORGE_KERNELS_DEMO_ANSWERS={target} uses it\n")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["libanswers.so"]
    assert answer(site) == 7
    assert answer(site, GPUFORGE_KERNELS_DEMO_ANSWERS=str(target)) == 42


def test_the_folder_may_be_relative(site):
    done = run(site, "compile", "--output", "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"GPUFORGE_KERNELS_DEMO_ANSWERS={site}/out/libanswers.so uses it" in done.stdout
    (site / "file").write_text("")
    done = run(site, "compile", "--output", "file")
    assert done.stderr == "error: file: File exists; nothing was changed. --output names another folder\n"


def test_another_release_of_the_package_does_not_use_it(site, tmp_path):
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


def test_whatever_fails_is_one_line_and_changes_nothing(site, tmp_path):
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


def test_calls_that_are_wrong(site, tmp_path):
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


@pytest.mark.parametrize("script", ["sleep 300", "yes"])
def test_a_compiler_that_does_not_tell_its_version_is_passed_over(tmp_path, monkeypatch, script):
    """It hangs, or prints without end; nothing of it goes on."""
    monkeypatch.setattr(compilers, "ANSWER_S", 0.5)
    file = program(tmp_path / "bin", "g++", f"echo $$ > {tmp_path}/pid; {script}")
    (recipe,) = recipes(install(tmp_path / "site", toolchain("host", "g++")))
    (wanted,) = recipe.toolchains
    found = compilers.find(wanted, {"PATH": os.defpath}, path=str(file))
    assert found == compilers.Absent(wanted, (f"{file}: does not answer to --version within 0.5 s",))
    eventually(lambda: not Path("/proc", (tmp_path / "pid").read_text().strip()).exists())


def test_the_log_of_a_compiler_has_its_beginning_and_its_end(site, tmp_path):
    script = "echo first; yes 'a warning' | head -c 30000000; echo last; exit 1"
    said = run(site, "compile", compiler(tmp_path, script)).stderr
    log = Path(said.partition("all it printed: ")[2].partition(";")[0]).read_text()
    assert log.startswith("first\n")
    assert log.endswith("\nlast\n")
    assert " bytes are left out here]\n" in log
    assert len(log) < 2_000_000


def test_a_user_without_a_home(monkeypatch):
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does for a user whom nobody knows
    assert layout.kernel_home({}) == "/nonexistent/.cache/gpuforge/kernels"
    assert layout.kernel_home({"XDG_CACHE_HOME": "/x"}) == "/x/gpuforge/kernels"


def test_a_relative_cache_folder_of_the_user_does_not_count(monkeypatch):
    monkeypatch.setenv("HOME", "/h")
    assert layout.kernel_home({"XDG_CACHE_HOME": "x"}) == "/h/.cache/gpuforge/kernels"
    monkeypatch.setenv("HOME", "h")
    assert layout.kernel_home({"XDG_CACHE_HOME": "./x"}) == "/nonexistent/.cache/gpuforge/kernels"


@pytest.mark.parametrize("name", ["b ü", "b\udcff"])
def test_a_folder_whose_name_the_terminal_cannot_show(site, tmp_path, name):
    env = {"GPUFORGE_KERNEL_HOME": str(tmp_path / name), "PYTHONIOENCODING": "ascii"}
    for command in (["compile"], ["explain"], ["compile", "--remove"]):
        done = run(site, *command, **env)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("limit", ["nan", "inf", "0", "-1", "x"])
def test_a_time_limit_is_a_time(site, limit):
    done = run(site, "compile", f"--timeout={limit}")
    assert done.returncode == 2
    assert done.stderr.endswith(f"error: argument --timeout: {limit!r} is not a number of seconds\n")


def test_the_first_toolchain_that_is_here_and_fits_is_used(tmp_path):
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
    assert done.stderr.startswith("error: answers: not compiled: found none of nvc++; g++ >=1000 (")
    assert done.stderr.endswith(" is not >=1000). For g++ >=1000: install g++\n")


def test_a_path_in_an_earlier_recipe_is_not_searched(tmp_path):
    """It is the compiler of the build machine; users have others in the range."""
    site = tmp_path / "site"
    recipe = install(site, toolchain("host", "g++", version=">=9")) / "sources" / "answers" / "recipe.json"
    content = json.loads(recipe.read_text())
    assert "path" not in content["toolchains"][0]
    content["toolchains"][0]["path"] = "/opt/build/bin/g++-11"
    recipe.write_text(json.dumps(content))
    done = run(site, "compile")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_makes_the_library(tmp_path):
    script = program(
        tmp_path / "bin",
        "makelib",
        f'mkdir x86_64; {GXX} -shared -fPIC "$1"/mod/*.cpp "$2" -o x86_64/libmech.so',
    )
    command = replace(
        toolchain("tool", "g++"),
        family="command",
        by_command=True,
        programs="",
        argv=(script.name, "{include}", "{abi}"),
        product="*/libmech.so",
    )
    install(tmp_path / "site", command)
    absent = run(tmp_path / "site", "compile")
    assert (absent.returncode, absent.stderr) == (
        3,
        "error: answers: not compiled: no makelib: install g++\n",
    )
    done = run(tmp_path / "site", "compile", PATH=f"{script.parent}:{os.defpath}")
    assert done.returncode == 0, done.stderr
    assert answer(tmp_path / "site") == 42


def test_sources_of_the_users_own_lie_beside_the_packages_where_a_command_takes_a_folder(tmp_path):
    """NEURON's nrnivmodl takes one folder: what lay elsewhere would be left out without a word."""
    script = program(tmp_path / "bin", "makelib", f'{GXX} -shared -fPIC "$1"/mod/*.cpp "$2" -o "$3"')
    argv = (script.name, "{include}", "{abi}", "{output}")
    site = tmp_path / "site"
    install(
        site, replace(toolchain("tool", "g++"), family="command", by_command=True, programs="", argv=argv)
    )
    own = tmp_path / "own" / "more.cpp"
    own.parent.mkdir()
    own.write_text('extern "C" int more(void) { return 5; }\n')
    path = f"{script.parent}:{os.defpath}"
    done = run(site, "compile", own, PATH=path)
    assert done.returncode == 0, done.stderr
    assert "with 1 source of yours, is used from now on" in done.stdout
    assert loaded(site, "more()")[0] == "5\n"
    same = own.rename(own.with_name("answer.cpp"))
    refused = run(site, "compile", same, PATH=path)
    assert refused.returncode == 1
    assert f"{same}: the package has a source of that name, give yours another; in use: " in refused.stderr


def test_a_command_that_pip_has_put_beside_this_python_comes_first(tmp_path):
    """Its own environment's nrnivmodl belongs to the NEURON that is imported; another on PATH does not."""
    other = program(tmp_path / "bin", "pytest", 'echo "of another environment"; exit 7')
    command = replace(
        toolchain("tool", "g++"), family="command", by_command=True, programs="", argv=("pytest", "--version")
    )
    install(tmp_path / "site", command)
    done = run(tmp_path / "site", "compile", PATH=f"{other.parent}:{os.defpath}")
    assert "of another environment" not in done.stderr
    assert f"{Path(sysconfig.get_path('scripts'), 'pytest')} ended well and left no library" in done.stderr


def test_a_build_that_cannot_be_used_is_warned_of_when_the_library_is_loaded(site):
    """Who compiled for the GPU must not compute on the CPU without a word."""
    assert loaded(site) == ("7\n", "")
    assert run(site, "compile").returncode == 0
    assert loaded(site) == ("42\n", "")
    (library,) = (site.parent / "builds").rglob("lib*.so")
    data = library.read_bytes()
    library.write_bytes(
        data[:9] + b"other" + data[14:]
    )  # neither the loader nor the ABI id's reader looks there
    answer, warning = loaded(site)
    assert answer == "7\n"
    assert f"RuntimeWarning: answers: {library}: its sha256 is" in warning
