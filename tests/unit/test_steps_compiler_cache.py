"""The compiler cache of host builds: what reaches it, what does not, and that it cannot break a build."""

import os
import subprocess
from pathlib import Path

import pytest

from gpuforge.actions import build_notes, compiler_cache
from gpuforge.actions.compiler_cache import compiler_identity, write_nvcc, write_wrapper
from gpuforge.cli import build_report
from gpuforge.errors import ActionError, MissingError
from gpuforge.plan import variables
from gpuforge.toolchains import sccache
from gpuforge.toolchains.sccache import CacheUse

# Prints its arguments, one a line, and the text that it is told to find in what it preprocesses.
COMPILER = '#!/bin/sh\nprintf "%s\\n" "$@"\ncase " $* " in *" -E "*) echo "$TEXT" ;; esac\n'
# What sccache does, from here: calls the compiler, or fails as it is told to.
CACHE = (
    '#!/bin/sh\n[ "$FAIL" ] && { echo "why it failed" >&2; exit "$FAIL"; }\n'
    'echo "cache $SCCACHE_C_CUSTOM_CACHE_BUSTER"\nexec "$@"\n'
)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return program(tmp_path / "sccache", CACHE)


@pytest.fixture
def gxx(tmp_path: Path) -> Path:
    return write_wrapper(program(tmp_path / "real" / "g++", COMPILER), "g++", tmp_path / "bin")


def call(*words: object, cache: object = "", **env: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "GPUFORGE_SCCACHE": str(cache), **env}
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, env=environ)


def test_compilations_ask_the_cache_and_the_rest_does_not(gxx, cache):
    compiled = ["-O2", "-c", "a b.cpp", "-o", "a.o"]
    assert call(gxx, *compiled, cache=cache).stdout.splitlines() == ["cache ", *compiled]
    for others in (["a.o", "-o", "a"], ["-E", "a.cpp"], ["--version"]):
        assert "cache" not in call(gxx, *others, cache=cache).stdout
    assert call(gxx, *compiled).stdout.splitlines() == compiled
    assert call(gxx, *compiled, cache=cache.with_name("gone")).stdout.splitlines() == compiled


@pytest.mark.parametrize(
    "word",
    ["-fmodules-ts", "-fplugin=x.so", "-specs=x", "-fdump-tree-all", "a.s"],
)
def test_what_sccache_does_not_look_into_does_not_reach_it(gxx, cache, word):
    for words in (["-c", word, "x.o"], [word, "-c", "x.o"]):
        assert call(gxx, *words, cache=cache).stdout.splitlines() == words


def test_code_for_this_processor_ends_the_command_or_is_for_the_level_of_the_manifest(gxx, tmp_path):
    done = call(gxx, "-march=native", "-c", "a.c")
    assert (done.returncode, done.stderr) == (
        1,
        "gpuforge: error: g++ -march=native compiles for the processor of this machine\n",
    )
    level = write_wrapper(tmp_path / "real" / "g++", "g++", tmp_path / "level", "x86-64-v2")
    said = call(level, "-mtune=native", "-c", "a.c").stdout
    assert said.splitlines() == ["-march=x86-64-v2", "-c", "a.c"]
    said = call(level, "-shared", "a b.o").stdout
    assert said.splitlines() == ["-march=x86-64-v2", "-shared", "a b.o", "-Wl,-z,x86-64-v2"]


def test_libraries_of_the_toolkit_are_linked_after_the_projects_own(gxx, tmp_path):
    linking = write_wrapper(
        tmp_path / "real" / "g++",
        "g++",
        tmp_path / "linking",
        libraries=Path("/cuda/lib64"),
        rpath=[Path("/store"), Path("/own")],
    )
    said = call(linking, "-shared", "-L/own", "a.o").stdout
    assert said.splitlines() == ["-shared", "-L/own", "a.o", "-L/cuda/lib64", "-Wl,-rpath,/store:/own"]
    assert call(linking, "-c", "a.c").stdout.splitlines() == ["-c", "a.c"]


def test_code_for_newer_processors_is_noted(gxx, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for words in (
        ["-mavx2", "-mfma", f"{source}/a.c"],
        ["-march=x86-64", "b.c"],
        ["c.c", "-msse4.1"],
        ["d.c"],
    ):
        call(gxx, "-c", *words)
    call(gxx, "-mavx", "-c", "conftest.c")
    (source / "CMakeConfigureLog.yaml").write_text(CONFIGURED)
    assert [text.partition(". ")[0] for text in build_notes.of_cpu(tmp_path, source)] == [
        "compiled with -mavx2 -mfma: a.c",
        "compiled with -msse4.1: c.c",
        "CMakeLists.txt:5 ran a program with -mavx2 on this processor; another one may decide otherwise",
    ]


READER = """#!/bin/sh
case "$*" in
    -Wl,--help) echo --dependency-file ;;
    *--dependency-file=*) echo "c.so: /usr/lib/libz.so" >"${{*##*--dependency-file=}}" ;;
    *" -MF "* | *"-MD -c"*) echo "a.o: a.c /usr/include/zlib.h" >a.d ;;
    "-c clang"*) echo ". /usr/include/png.h" >"$CC_PRINT_HEADERS_FILE" ;;
    "-c "*) echo "a.o: a.c {own}/own.h /usr/include/stdio.h" >"$SUNPRO_DEPENDENCIES" ;;
esac
"""
DPKG = """#!/bin/sh
shift
for path; do case "$path" in
    */stdio.h) echo "libc6-dev:amd64: $path" ;;
    /usr/*z*) echo "zlib1g-dev:amd64: $path" ;;
    /usr/*png.h) echo "libpng-dev:amd64: $path" ;;
    */own.h) echo "own: $path" ;;
esac; done
"""


def test_packages_whose_files_a_build_read_are_named(tmp_path, monkeypatch):
    wrapper = write_wrapper(
        program(tmp_path / "real" / "g++", READER.format(own=tmp_path)), "g++", tmp_path / "bin"
    )
    program(tmp_path / "dpkg" / "dpkg", DPKG)
    monkeypatch.setenv("PATH", str(tmp_path / "dpkg"), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    read = tmp_path / build_notes.FILES_READ
    for words in (["-MD", "-MF", "a.d", "-c", "a.c"], ["-MMD", "-c", "a.c", "-o", "a.o"]):
        assert call(wrapper, *words).returncode == 0
        assert build_notes.packages(tmp_path, []) == {"zlib1g-dev": ["zlib.h"]}
        next(read.iterdir()).unlink()
    for words in (["-c", "clang.c"], ["-c", "a.c"], ["-shared", "a.o"], ["--version"]):
        assert call(wrapper, *words).returncode == 0
    used = build_notes.packages(tmp_path, [])
    assert used == {"libpng-dev": ["png.h"], "zlib1g-dev": ["libz.so"]}
    used.pop("libpng-dev")
    build_notes.check(used, ["zlib1g-dev"])
    with pytest.raises(ActionError, match=r"zlib1g-dev \(libz.so\)"):
        build_notes.check(used, [])


CONFIGURED = """
events:
  -
    kind: "try_run-v1"
    backtrace:
      - "/cmake/Modules/CheckCSourceRuns.cmake:91 (cmake_check_source_runs)"
      - "CMakeLists.txt:5 (check_c_source_runs)"
    buildResult:
      stdout: |
        [1/2] /usr/bin/cc -DAVX2_ON_HOST  -mavx2 -o src.c.o -c src.c
    runResult:
      variable: "AVX2_ON_HOST_EXITCODE"
  -
    kind: "try_run-v1"
    runResult:
      variable: "OTHER_EXITCODE"
"""


@pytest.mark.parametrize("status", ["2", "254"])
def test_a_failure_of_the_cache_is_none_of_the_build(gxx, cache, status):
    done = call(gxx, "-c", "a.cpp", cache=cache, FAIL=status)
    assert (done.returncode, done.stdout, done.stderr) == (0, "-c\na.cpp\n", "")


def test_a_failure_of_the_compiler_is_told_once(gxx, cache):
    done = call(gxx, "-c", "a.cpp", cache=cache, FAIL="1")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "why it failed\n")


def test_the_cache_compares_lines_too(gxx):
    behind = {"GPUFORGE_BEHIND_SCCACHE": "1", "TEXT": "int x;"}
    said = call(gxx, "-x", "c++", "-E", "-P", "a b.cpp", **behind).stdout
    assert said.splitlines() == ["-x", "c++", "-E", "a b.cpp", "int x;"]
    assert call(gxx, "-c", "-Wl,-P", "a.cpp", **behind).stdout.splitlines() == ["-c", "-Wl,-P", "a.cpp"]


def test_assembly_that_reads_a_file_is_new_every_time(gxx):
    behind = {"GPUFORGE_BEHIND_SCCACHE": "1", "TEXT": 'asm(".incbin \\"x\\"");'}
    said = {call(gxx, "-E", "-P", "a.cpp", **behind).stdout for _ in range(3)}
    assert len(said) == 3


def test_another_compiler_is_another_wrapper(tmp_path):
    one = program(tmp_path / "one" / "g++", COMPILER)
    other = program(tmp_path / "other" / "g++", COMPILER + "# of another version\n")
    assert compiler_identity(one) != compiler_identity(other)


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """A toolkit in NVIDIA's layout, whose nvcc says by which name it was called."""
    root = tmp_path / "toolkit"
    for name in ("bin/nvcc", "bin/cudafe++", "bin/ptxas", "bin/fatbinary", "nvvm/bin/cicc"):
        program(root / name, f'#!/bin/sh\necho "$0" "$@"\n# {name}\n')
    (root / "bin/nvcc.profile").write_text("TOP = $(_HERE_)/..\nPATH += $(TOP)/nvvm/bin:$(_HERE_):\n")
    (root / "include").mkdir()
    return root


def test_nvcc_finds_its_programs_behind_the_cache(toolkit, tmp_path, cache):
    wrapper = write_nvcc(toolkit / "bin/nvcc", tmp_path / "cuda", tmp_path / "behind")
    own = tmp_path / "behind/bin"
    assert call(wrapper, "-c", "a.cu").stdout == f"{own}/nvcc -c a.cu\n"
    assert (own / "nvcc.profile").read_text() == (
        f"TOP = {toolkit}/bin/..\nPATH += $(TOP)/nvvm/bin:{toolkit}/bin:\nCICC_PATH = {own}\nPATH += {own}:\n"
    )
    links = {path.name: path.readlink() for path in (tmp_path / "behind").rglob("*") if path.is_symlink()}
    assert links == {
        name: toolkit / place
        for name, place in {
            "nvcc": "bin/nvcc",
            "fatbinary": "bin/fatbinary",
            "include": "include",
            "nvvm": "nvvm",
        }.items()
    }
    for name, place in {"cudafe++": "bin/cudafe++", "ptxas": "bin/ptxas", "cicc": "nvvm/bin/cicc"}.items():
        assert call(own / name, "-o", "x").stdout == f"{toolkit / place} -o x\n"
        asked = call(own / name, "-o", "x", cache=cache).stdout.splitlines()
        assert asked == [f"cache {Path.cwd()} -o x", f"{toolkit / place} -o x"]


def test_an_nvcc_in_another_layout_is_called_itself(toolkit, tmp_path):
    (toolkit / "bin/nvcc.profile").unlink()
    wrapper = write_nvcc(toolkit / "bin/nvcc", tmp_path / "cuda", tmp_path / "behind")
    assert call(wrapper, "-c", "a.cu").stdout == f"{toolkit}/bin/nvcc -c a.cu\n"
    assert not (tmp_path / "behind").exists()


def test_the_folder_of_nvcc_is_a_toolkit(toolkit, tmp_path):
    wrapper = write_nvcc(toolkit / "bin/nvcc", tmp_path / "cuda", tmp_path / "behind")
    assert wrapper == tmp_path / "cuda/bin/nvcc"
    assert (wrapper.parent / "../include").resolve() == toolkit / "include"
    assert not wrapper.is_symlink()
    assert (wrapper.parent / "fatbinary").resolve() == toolkit / "bin/fatbinary"


def test_a_build_sees_neither_credentials_nor_the_users_server():
    environ = {
        "PATH": "/usr/bin",
        "CXX": "g++",
        "AWS_SECRET_ACCESS_KEY": "x",
        "https_proxy": "http://p",
        "SCCACHE_DIR": "/cache",
        "SCCACHE_BUCKET": "b",
        "SCCACHE_SERVER_PORT": "4226",
    }
    settings = compiler_cache.take_settings(environ)
    assert environ == {"PATH": "/usr/bin", "CXX": "g++", "SCCACHE_SERVER_PORT": "4226"}
    assert sorted(settings) == ["AWS_SECRET_ACCESS_KEY", "SCCACHE_BUCKET", "SCCACHE_DIR", "https_proxy"]


def test_the_users_configuration_is_found_from_anywhere(tmp_path):
    home = {"HOME": str(tmp_path)}
    place = Path("/cache"), "mine", None
    assert sccache.configured(home, *place) == {**home, "SCCACHE_DIR": "/cache/sccache/mine"}
    file = tmp_path / ".config/sccache/config"
    file.parent.mkdir(parents=True)
    file.write_text("")
    assert sccache.configured(home, *place)["SCCACHE_CONF"] == str(file)
    own = {**home, "SCCACHE_DIR": "/mine", "SCCACHE_CONF": "/other"}
    assert sccache.configured(own, *place) == own


@pytest.mark.parametrize(
    ("store", "environ", "expected"),
    [
        ("/nfs/store", {}, {"SCCACHE_DIR": "/nfs/store/compiled/mine"}),
        ("file:///nfs/store", {}, {"SCCACHE_DIR": "/nfs/store/compiled/mine"}),
        ("/nfs/store", {"SCCACHE_DIR": "/own"}, {"SCCACHE_DIR": "/own"}),
        (
            "s3://bucket/team/",
            {"AWS_REGION": "eu-west-1"},
            {
                "SCCACHE_DIR": "/cache/sccache/mine",
                "SCCACHE_MULTILEVEL_CHAIN": "disk,s3",
                "SCCACHE_MULTILEVEL_WRITE_ERROR_POLICY": "ignore",
                "SCCACHE_BUCKET": "bucket",
                "SCCACHE_S3_KEY_PREFIX": "team/compiled/mine",
                "SCCACHE_REGION": "eu-west-1",
            },
        ),
        (
            "s3://bucket",
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"},
            {
                "SCCACHE_DIR": "/cache/sccache/mine",
                "SCCACHE_MULTILEVEL_CHAIN": "disk,s3",
                "SCCACHE_MULTILEVEL_WRITE_ERROR_POLICY": "ignore",
                "SCCACHE_BUCKET": "bucket",
                "SCCACHE_S3_KEY_PREFIX": "compiled/mine",
                "SCCACHE_REGION": "us-east-1",
                "SCCACHE_ENDPOINT": "127.0.0.1:1",
                "SCCACHE_S3_USE_SSL": "false",
            },
        ),
        (
            "gs://bucket/team",
            {"GOOGLE_APPLICATION_CREDENTIALS": "/key.json"},
            {
                "SCCACHE_DIR": "/cache/sccache/mine",
                "SCCACHE_MULTILEVEL_CHAIN": "disk,gcs",
                "SCCACHE_MULTILEVEL_WRITE_ERROR_POLICY": "ignore",
                "SCCACHE_GCS_BUCKET": "bucket",
                "SCCACHE_GCS_KEY_PREFIX": "team/compiled/mine",
                "SCCACHE_GCS_RW_MODE": "READ_WRITE",
                "SCCACHE_GCS_KEY_PATH": "/key.json",
            },
        ),
        (
            "s3://bucket",
            {"SCCACHE_REDIS_ENDPOINT": "tcp://host"},
            {"SCCACHE_DIR": "/cache/sccache/mine"},
        ),
    ],
)
def test_a_shared_store_has_the_compiler_cache_unless_the_user_set_up_another(store, environ, expected):
    environ = {"HOME": "/none", **environ}
    found = sccache.configured(environ, Path("/cache"), "mine", store)
    assert found == environ | expected
    assert {*found} - {*environ} <= {*variables.build_passes(environ)}


def test_a_configuration_file_can_set_up_a_back_end(tmp_path):
    file = tmp_path / "config"
    for text, expected in (
        ("[cache.redis]\n", str(file)),
        ("[cache.disk]\n", ""),
        ("[", ""),
        ("cache = 1", ""),
    ):
        file.write_text(text)
        assert sccache.back_end({"SCCACHE_CONF": str(file)}) == expected
    assert sccache.back_end({"SCCACHE_CONF": str(tmp_path / "none")}) == ""


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "off (SCCACHE_DIR is not set)"),
        ({"SCCACHE_DIR": "/x", "GPUFORGE_NO_SCCACHE": "1"}, "off (GPUFORGE_NO_SCCACHE)"),
    ],
)
def test_without_a_cache_the_log_says_why(settings, why, tmp_path, capsys):
    with compiler_cache.serving(settings, tmp_path) as variables:
        assert variables == {}
    assert capsys.readouterr().out == f"compiler cache: {why}\n"


def test_counts_are_told_in_one_line_and_summed():
    counts = {
        "cache_hits": {"counts": {"C/C++": 50, "PTX": 10}},
        "cache_misses": {"counts": {"CUBIN": 14}},
        "not_cached": {},
        "requests_not_cacheable": 0,
        "cache_read_errors": 1,
        "cache_timeouts": 1,
        "cache_write_errors": 3,
    }
    one = compiler_cache.counted(counts)
    assert str(one) == "60 of 74 hits, 2 failed reads, 3 failed writes"
    odd = {**counts, "not_cached": {"-M": 2, "@": 1}, "requests_not_cacheable": 3}
    assert str(compiler_cache.counted(odd)).startswith(
        "60 of 74 hits, 3 not cacheable (-M, @), 2 failed reads"
    )
    assert build_report.cache_data(one) == {"hits": 60, "steps": 74, "text": str(one)}
    unused = CacheUse(notes=("not used: why",))
    assert build_report.cache_totals([one, CacheUse(1, 6), unused, unused]) == [
        "61 of 80 hits",
        "2 failed reads, 3 failed writes",
        "not used: why",
    ]


def stub(folder: Path, knows: str) -> Path:
    """A compiler that lists its options on --help and otherwise prints its arguments, one a line."""
    path = folder / "a folder" / "bin" / "nvcc"
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\n[ "$1" = --help ] && echo "{knows}" && exit\nprintf "%s\\n" "$@"\n')
    path.chmod(0o755)
    return path


def called(wrapper: Path, *arguments: str) -> list[str]:
    return subprocess.run(
        [wrapper, *arguments], check=True, capture_output=True, text=True
    ).stdout.splitlines()


def test_each_object_has_its_own_seed(tmp_path):
    nvcc = stub(tmp_path, "--objdir-as-tempdir (-objtemp) --frandom-seed (-frandom-seed)")
    wrapper = write_nvcc(nvcc, tmp_path / "cuda", tmp_path / "behind")
    assert called(wrapper, "-c", "a b.cu", "-o", "x y.o") == [
        "--objdir-as-tempdir", "-frandom-seed=x y.o", "-c", "a b.cu", "-o", "x y.o",
    ]  # fmt: skip
    assert called(wrapper, "--output-file", "z.o")[1] == "-frandom-seed=z.o"
    assert called(wrapper, "--version") == ["--objdir-as-tempdir", "--version"]


def test_an_older_nvcc_gets_no_option_that_it_does_not_know(tmp_path):
    wrapper = write_nvcc(
        stub(tmp_path, "--objdir-as-tempdir (-objtemp)"), tmp_path / "cuda", tmp_path / "behind"
    )
    assert called(wrapper, "-c", "a.cu", "-o", "a.o") == ["--objdir-as-tempdir", "-c", "a.cu", "-o", "a.o"]


def test_no_nvcc(tmp_path):
    with pytest.raises(MissingError, match="does not run"):
        write_nvcc(tmp_path / "nvcc", tmp_path / "cuda", tmp_path / "behind")
