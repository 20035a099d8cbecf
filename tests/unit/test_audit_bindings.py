"""What must not be proved of an import whose libraries are all found: what these define, and static TLS."""

import shutil
import struct
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from audit_samples import elf, wheel, with_ident
from proof_samples import MODULE

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines
from gpuforge.binary.elf.file import opened
from gpuforge.binary.elf.header import DT_GNU_HASH, DT_HASH, DT_SYMTAB
from gpuforge.binary.elf.symbols import gnu_hash

LIBRARY = "demo.libs/libx.so.1"
INIT = "void *PyInit_ext(void) { return 0; }\n"


def withheld(path: Path) -> str:
    """Return why it is not proved that the import of a wheel works; "" if it is proved."""
    report = audit([path]).wheels[0]
    (text,) = (p.text for p in (*report.proofs, *report.withheld) if p.topic == "providers")
    start = "every NEEDED library is found, but "
    assert text.startswith(start) == (not [p for p in report.proofs if p.topic == "providers"])
    return text.removeprefix(start) if text.startswith(start) else ""


def test_the_hash_of_a_symbol():
    assert [gnu_hash(name) for name in ("", "printf", "flapenguin.me")] == [0x1505, 0x156B2BB8, 0x8AE9F18E]


def ours(*undefined: str, needed: Sequence[str] = ("libx.so.1",)) -> bytes:
    return elf(
        needed=needed,
        runpath="$ORIGIN/../first:$ORIGIN/../demo.libs",
        strings=["PyInit_ext"],
        undefined=undefined,
    )


@pytest.mark.parametrize(
    ("module", "defined", "reason"),
    [
        (ours("x_old"), ["x_old", "x_new"], ""),
        (ours("x_old"), ["x_new"], "nothing that is loaded with {} defines x_old"),
        (ours("fmod"), [], ""),  # of libm, which every Python has loaded
        (ours("memfd_create"), [], "nothing that is loaded with {} defines memfd_create"),  # of glibc 2.27
        (ours("x_new", needed=["libx.so.1", "libz.so.1"]), [], ""),  # libz has functions without a version
        (ours("PyList_Append"), [], ""),
        (ours("PyErr_GetRaisedException"), [], "{} needs functions that CPython 3.11 does not have: "
                                               "PyErr_GetRaisedException"),
        (ours("PyFoo_Bar"), [], "nothing that is loaded with {} defines PyFoo_Bar"),
        (ours("PyFoo_Bar"), ["PyFoo_Bar"], ""),
        (ours("_PyUnicode_Ready"), [], ""),
    ],
)  # fmt: skip
def test_functions_that_are_defined(tmp_path, module, defined, reason):
    path = wheel(tmp_path, {MODULE: module, LIBRARY: elf(soname="libx.so.1", defined=defined)})
    assert withheld(path) == reason.format(MODULE.rpartition("/")[2])


OF_LATER = "functions of Pythons other than CPython up to 3.13"


@pytest.mark.parametrize(
    ("name", "tag", "reason", "unjudged"),
    [
        ("_PyUnicode_Ready", "cp311-cp311", "", False),  # until 3.11
        ("_PyUnicode_Ready", "cp312-cp312", "CPython 3.12 does not have", False),
        ("_PyUnicode_Ready", "py3-none", "not every CPython has", False),
        ("PyFoo_Bar", "cp313-cp313", "defines PyFoo_Bar", False),
        ("PyFoo_Bar", "cp313-cp313t", "", True),
        ("PyFoo_Bar", "cp314-cp314", "", True),
        ("PyPyList_Append", "pp311-pypy311_pp73", "", True),
    ],
)
def test_functions_that_a_python_of_the_tags_does_not_have(tmp_path, name, tag, reason, unjudged):
    path = wheel(
        tmp_path,
        {"demo/ext.so": ours(name), LIBRARY: elf(soname="libx.so.1")},
        name=f"demo-1.0-{tag}-manylinux_2_17_x86_64.whl",
    )
    assert reason in withheld(path)
    assert bool(reason) == bool(withheld(path))
    (proof,) = (p for w in audit([path]).wheels for p in (*w.proofs, *w.withheld) if p.topic == "providers")
    assert (OF_LATER in proof.text) == unjudged


def compiled(folder: Path, name: str, source: str, *flags: str, script: str = "") -> Path:
    (folder / f"{name}.c").write_text(source)
    if script:
        (folder / f"{name}.map").write_text(script)
        flags = (*flags, f"-Wl,--version-script={name}.map")
    command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", f"{name}.c", "-o", name, *flags]
    subprocess.run(command, check=True, cwd=folder)
    return folder / name


OLD, NEW = "int old(void) { return 1; }\n", "int old(void) { return 1; }\nint new(void) { return 2; }\n"
TWO_NODES = "X_1 { global: old; local: *; }; X_2 { global: new; } X_1;"


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize(
    ("scripts", "flags", "reason"),
    [
        (("", ""), [], "nothing that is loaded with {} defines new"),
        (("", ""), ["-Wl,--hash-style=sysv"], "nothing that is loaded with {} defines new"),
        ((TWO_NODES, "X_1 { global: old; local: *; };"), [], "libx.so.1 does not define X_2, which {} needs; "
                                                             "nothing that is loaded with {} defines new@X_2"),
        (("X_1 { global: old; new; };", "X_1 { global: old; };"), [], "nothing that is loaded with {} defines new@X_1"),
        ((TWO_NODES, "X_1 { global: old; new; }; X_2 {};"), [], "nothing that is loaded with {} defines new@X_2"),
    ],
    ids=["no versions", "DT_HASH", "a version", "a function of a version", "a function at another version"],
)  # fmt: skip
def test_an_older_release_of_a_grafted_library(tmp_path, scripts, flags, reason):
    newer = compiled(tmp_path, "libx.so.1", NEW, *flags, script=scripts[0]).read_bytes()
    source = f"{INIT}int new(void); int use(void) {{ return new(); }}\n"
    rpath = ["./libx.so.1", "-Wl,-rpath,$ORIGIN/../demo.libs"]
    module = compiled(tmp_path, "ext.so", source, *rpath, *flags).read_bytes()
    older = compiled(
        tmp_path, "libx.so.1", NEW if "new" in scripts[1] else OLD, *flags, script=scripts[1]
    ).read_bytes()
    assert withheld(wheel(tmp_path, {MODULE: module, LIBRARY: newer})) == ""
    name = MODULE.rpartition("/")[2]
    assert withheld(wheel(tmp_path, {MODULE: module, LIBRARY: older})) == reason.format(name, name)


X_IS = "{} uses x as a %s, and libx.so.1 defines it as a %s"
PER_THREAD = "thread-local variable"
LOST_X = "nothing that is loaded with {} defines x"
FUNCTION, VARIABLE, TLS_VARIABLE = "int x(void) { return 1; }\n", "int x = 1;\n", "__thread int x = 1;\n"
OF_IFUNC = 'static int y(void) { return 1; }\nvoid *z(void) { return y; }\nint x(void) __attribute__((ifunc("z")));\n'
CALLS, READS = "int x(void);\nint use(void) { return x(); }\n", "extern int x;\nint use(void) { return x; }\n"
READS_TLS = "extern __thread int x;\nint use(void) { return x; }\n"
CALLS_WEAK = "int x(void) __attribute__((weak));\nint use(void) { return x(); }\n"
MAY_CALL = "int x(void) __attribute__((weak));\nint use(void) { return x ? x() : 0; }\n"
LATER = '__asm__(".symver y, x@X_%d");\nint y(void) { return 1; }\n'
NODES = "X_1 {}; X_2 {}; X_3 { global: y; };"


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize(("linked", "use", "library", "script", "reason"), [
    (FUNCTION, CALLS, FUNCTION, "", ""),
    (FUNCTION, CALLS, OF_IFUNC, "", ""),
    (FUNCTION, CALLS, VARIABLE, "", X_IS % ("function", "variable")),
    (FUNCTION, CALLS, TLS_VARIABLE, "", X_IS % ("function", PER_THREAD)),
    (VARIABLE, READS, VARIABLE, "", ""),
    (VARIABLE, READS, FUNCTION, "", X_IS % ("variable", "function")),
    (VARIABLE, READS, TLS_VARIABLE, "", X_IS % ("variable", PER_THREAD)),
    (TLS_VARIABLE, READS_TLS, TLS_VARIABLE, "", ""),
    (TLS_VARIABLE, READS_TLS, VARIABLE, "", X_IS % (PER_THREAD, "variable")),
    (FUNCTION, CALLS_WEAK, FUNCTION, "", ""),
    (FUNCTION, CALLS_WEAK, "int other;\n", "", LOST_X),
    (FUNCTION, MAY_CALL, "int other;\n", "", ""),
    (FUNCTION, CALLS, LATER % 3, NODES, LOST_X),
    (FUNCTION, CALLS, LATER % 1, NODES.replace("X_1 {}; X_2 {}; X_3", "X_1"), ""),
])  # fmt: skip
def test_what_a_symbol_is(tmp_path, linked, use, library, script, reason):
    compiled(tmp_path, "libx.so.1", linked)
    rpath = ["-Wl,--no-as-needed", "./libx.so.1", "-Wl,-rpath,$ORIGIN/../demo.libs"]
    module = compiled(tmp_path, "ext.so", f"{INIT}{use}", *rpath).read_bytes()
    other = compiled(tmp_path, "libx.so.1", library, script=script).read_bytes()
    assert withheld(wheel(tmp_path, {MODULE: module, LIBRARY: other})) == reason.format(
        MODULE.rpartition("/")[2]
    )


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize(("tag", "reason"), [
    ("cp314-cp314", "{} does not define PyInit_ext"), ("cp315-cp315t", ""), ("cp315-abi3.abi3t", ""),
    ("cp314.cp315-none", "{} does not define PyInit_ext"),
])  # fmt: skip
def test_what_newer_pythons_look_for_in_a_module(tmp_path, tag, reason):
    module = compiled(tmp_path, "ext.so", INIT.replace("PyInit_", "PyModExport_")).read_bytes()
    path = wheel(tmp_path, {"demo/ext.so": module}, name=f"demo-1.0-{tag}-manylinux_2_17_x86_64.whl")
    assert withheld(path) == reason.format("ext.so")


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize(("source", "script", "reason"), [
    ("int PyInit_ext = 1;\n", "", "PyInit_ext is a variable of {}"),
    ("__thread int PyInit_ext = 1;\n", "", "PyInit_ext is a thread-local variable of {}"),
    (INIT, "X_1 { global: PyInit_ext; };", ""),
    ('__asm__(".symver y, PyInit_ext@X_1");\n' + INIT.replace("PyInit_ext", "y"), "X_1 { global: y; };",
     "{} does not define PyInit_ext"),
])  # fmt: skip
def test_what_python_looks_for_in_a_module(tmp_path, source, script, reason):
    module = compiled(tmp_path, "ext.so", source, script=script).read_bytes()
    assert withheld(wheel(tmp_path, {MODULE: module})) == reason.format(MODULE.rpartition("/")[2])


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize("style", ["gnu", "sysv"])
@pytest.mark.parametrize("change", ["", "buckets", "name"])
def test_a_hash_table_that_does_not_lead_to_a_function(tmp_path, style, change):
    source = "".join(f"int x_{number}(void) {{ return {number}; }}\n" for number in range(40))
    path = compiled(tmp_path, "libx.so.1", source, f"-Wl,--hash-style={style}")
    use = f"{INIT}int x_7(void);\nint use(void) {{ return x_7(); }}\n"
    rpath = ["./libx.so.1", "-Wl,-rpath,$ORIGIN/../demo.libs"]
    module = compiled(tmp_path, "ext.so", use, *rpath).read_bytes()
    data = bytearray(path.read_bytes())
    with opened(path) as file:
        assert file is not None
        start = file.dynamic.place(DT_GNU_HASH if style == "gnu" else DT_HASH)
    count, _, blooms = struct.unpack_from("<3I", data, start)
    place = start + (16 + 8 * blooms if style == "gnu" else 8)
    if change == "buckets":
        data[place : place + 4 * count] = data[place + 4 : place + 4 * count] + data[place : place + 4]
    changed = bytes(data).replace(b"\0x_7\0", b"\0y_7\0") if change == "name" else bytes(data)
    reason = f"nothing that is loaded with {MODULE.rpartition('/')[2]} defines x_7"
    assert withheld(wheel(tmp_path, {MODULE: module, LIBRARY: changed})) == reason * bool(change)


@pytest.mark.parametrize(("place", "root", "reason"), [
    ("demo-1.0.data/platlib/demo.libs/libx.so.1", False, ""),
    ("demo-1.0.data/purelib/demo.libs/libx.so.1", True, ""),
    ("demo-1.0.data/purelib/demo.libs/libx.so.1", False,
     "where purelib and platlib differ, as on Fedora, {} does not find demo-1.0.data/purelib/demo.libs/libx.so.1"),
    ("other-1.0.data/platlib/demo.libs/libx.so.1", False, "installers do not agree on the content of libx.so.1"),
])  # fmt: skip
def test_where_installers_put_a_library(tmp_path, place, root, reason):
    path = wheel(tmp_path, {MODULE: ours(), place: elf(soname="libx.so.1")}, purelib=root)
    assert withheld(path) == reason.format(MODULE.rpartition("/")[2])


def test_a_library_that_is_twice_in_the_archive(tmp_path):
    path = wheel(tmp_path, {MODULE: ours(), LIBRARY: elf(soname="libx.so.1")})
    assert withheld(path) == ""
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(LIBRARY, b"INPUT(libx.so.2)")
    assert withheld(path) == "installers do not agree on the content of libx.so.1"


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("demo/two.cpython-311-x86_64-linux-gnu.so", b"ext.so", "{} is no library that the dynamic linker loads"),
        ("demo/two.abi3.so", with_ident(elf(), 17, 0xFE), "{} is no library that the dynamic linker loads"),
        ("demo/two.so", b"INPUT(libx.so.1)", ""),
        ("demo.libs/libc.so.6", elf(soname="libc.so.6"), "Python has loaded the system's {} before demo.libs/{}"),
        ("demo.libs/libc-1.so.6", elf(soname="libc-1.so.6"), ""),
    ],
)  # fmt: skip
def test_files_that_are_not_what_is_loaded(tmp_path, file, content, reason):
    name = file.rpartition("/")[2]
    module = ours(needed=["libc.so.6"])
    assert withheld(wheel(tmp_path, {MODULE: module, file: content})) == reason.format(name, name)


def with_symbol(path: Path, name: str, field: int, value: int) -> bytes:
    """Return a library with another byte, or at 8 another address, in one of its dynamic symbols."""
    data = bytearray(path.read_bytes())
    with opened(path) as file:
        assert file is not None
        at, names = file.dynamic.place(DT_SYMTAB), file.dynamic.strings
        while names.text(int.from_bytes(data[at : at + 4], "little")) != name:
            at += 24
    size = 8 if field == 8 else 1
    data[at + field : at + field + size] = value.to_bytes(size, "little")
    return bytes(data)


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize(("field", "value", "found"), [
    (4, 0x12, True), (4, 0x22, True), (4, 0x02, False), (4, 0x13, False), (5, 3, True), (5, 2, False), (8, 0, False),
    (8, 1 << 30, False),
], ids=["global", "weak", "local", "a section", "protected", "hidden", "no value", "nowhere"])  # fmt: skip
def test_symbols_that_the_dynamic_linker_passes_over(tmp_path, field, value, found):
    path = compiled(tmp_path, "ext.so", INIT, "-Wl,--build-id=none")
    reason = withheld(wheel(tmp_path, {MODULE: with_symbol(path, "PyInit_ext", field, value)}))
    assert reason == "" if found else reason.endswith(" does not define PyInit_ext")


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize("kind", [0x12, 0x10, 0x1A], ids=["function", "label", "chooser"])
def test_a_function_that_is_no_code(tmp_path, kind):
    source = "int x(void) { return 1; }\nint y = 1;\n"
    library = compiled(tmp_path, "libx.so.1", source, "-nostdlib", "-Wl,--build-id=none")
    uses = f"{INIT}int x(void);\nint use(void) {{ return x(); }}\n"
    rpath = "-Wl,-rpath,$ORIGIN/../demo.libs"
    module = compiled(tmp_path, "ext.so", uses, "./libx.so.1", rpath).read_bytes()
    library.write_bytes(with_symbol(library, "x", 4, kind))
    assert withheld(wheel(tmp_path, {MODULE: module, LIBRARY: library.read_bytes()})) == ""
    data = with_symbol(library, "x", 8, 64)  # among the program headers
    reason = (X_IS % ("function", "variable")).format(MODULE.rpartition("/")[2])
    assert withheld(wheel(tmp_path, {MODULE: module, LIBRARY: data})) == reason


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_imports_that_no_linker_writes(tmp_path):
    uses = f'{INIT}int printf(const char *, ...);\nint use(int n) {{ return printf("%d", n); }}\n'
    module = compiled(tmp_path, "ext.so", uses)
    data = bytearray(module.read_bytes())
    assert withheld(wheel(tmp_path, {MODULE: bytes(data)})) == ""
    with opened(module) as file:
        assert file is not None
        versions, count = file.dynamic.place(0x6FFFFFF0), file.dynamic.values[5] - file.dynamic.values[6]
    data[versions : versions + count // 24 * 2] = b"\x55\0" * (count // 24)
    hidden = with_symbol(module, "printf", 5, 2)
    for changed, what in ((bytes(data), "at a version that it does not name"), (hidden, "as a hidden one")):
        report = audit([wheel(tmp_path, {MODULE: changed})])
        (finding,) = (f for f in report.findings if f.code == "GF705")
        assert what in lines(finding)[0]
        assert not [p for p in report.wheels[0].proofs if p.topic == "providers"]


@pytest.mark.parametrize(
    ("file", "function", "reason"),
    [
        ("demo/ext.so", "PyInit_ext", ""),
        ("demo/größe.so", "PyInitU_gre_6ka8i", ""),
        ("demo/größe.so", "PyInit_größe", "größe.so does not define PyInitU_gre_6ka8i"),
        ("demo/__init__.so", "PyInit_demo", ""),
        ("demo/__init__.so", "PyInit_other", "__init__.so does not define PyInit_demo"),
    ],
)
@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_the_function_that_python_looks_for(tmp_path, file, function, reason):
    module = compiled(tmp_path, "ext.so", INIT.replace("PyInit_ext", function)).read_bytes()
    assert withheld(wheel(tmp_path, {file: module})) == reason


@pytest.mark.parametrize(
    ("names", "tag", "lost"),
    [
        (["ext.pypy310-pp73-x86_64-linux-gnu.so"], "cp311-cp311", True),
        (["ext.pypy310-pp73-x86_64-linux-gnu.so"], "pp310-pypy310_pp73", False),
        (
            ["ext.pypy310-pp73-x86_64-linux-gnu.so", "ext.cpython-311-x86_64-linux-gnu.so"],
            "cp311-cp311",
            False,
        ),
        (["ext.cpython-311-x86_64-linux-gnu.so"], "pp310-pypy310_pp73", True),
        (["ext.cpython-311-x86_64-linux-musl.so"], "cp311-cp311", True),
        (["ext.linux.so"], "cp311-cp311", True),
        (["ext.so"], "cp311-cp311", False),
        (["ext.abi3.so"], "cp311-abi3", False),
        (["ext.abi3-x86_64-linux-gnu.so"], "cp314-abi3", True),
        (["ext.abi3-x86_64-linux-gnu.so"], "cp315-abi3", False),
        (["ext.abi3t.so"], "cp314-abi3", True),
        (["ext.abi3t.so"], "cp315-abi3.abi3t", False),
        (["ext.abi3t-x86_64-linux-gnu.so"], "cp315-abi3t", False),
        (["ext.abi3t-x86_64-linux-musl.so"], "cp315-abi3t", True),
    ],
)
def test_a_module_that_python_does_not_look_for(tmp_path, names, tag, lost):
    files = {f"demo/{name}": elf(strings=["PyInit_ext"]) for name in names}
    path = wheel(tmp_path, files, name=f"demo-1.0-{tag}-manylinux_2_17_x86_64.whl")
    assert withheld(path) == f"Python does not look for {names[0]}" * lost


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize("script", ["", TWO_NODES])
def test_names_of_versions_that_an_old_patchelf_wrote_over(tmp_path, script):
    versioned = compiled(tmp_path, "libx.so.1", NEW, script=TWO_NODES).read_bytes()
    compiled(tmp_path, "libx.so.1", NEW, script=script)
    source = f"{INIT}int new(void); int use(void) {{ return new(); }}\n"
    module = compiled(
        tmp_path, "ext.so", source, "./libx.so.1", "-Wl,-rpath,$ORIGIN/../demo.libs"
    ).read_bytes()
    damaged = versioned.replace(b"\0X_2\0", b"\0XXX\0")
    assert ("does not define X_2" in withheld(wheel(tmp_path, {MODULE: module, LIBRARY: damaged}))) == bool(
        script
    )
    assert withheld(wheel(tmp_path, {MODULE: module, LIBRARY: versioned})) == ""


@pytest.mark.parametrize(("folder", "hidden"), [
    ("demo.libs/glibc-hwcaps/x86-64-v3", True), ("demo.libs/tls/x86_64", True), ("demo.libs/other", False),
    ("other.libs/glibc-hwcaps/x86-64-v3", False), ("first/glibc-hwcaps/x86-64-v2", True),
])  # fmt: skip
def test_a_library_for_some_processors_hides_the_one_that_was_judged(tmp_path, folder, hidden):
    library = elf(soname="libx.so.1")
    reason = withheld(wheel(tmp_path, {MODULE: ours(), LIBRARY: library, f"{folder}/libx.so.1": library}))
    assert reason == f"on some processors glibc loads {folder}/libx.so.1 instead of {LIBRARY}" * hidden


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_a_library_that_exports_nothing_can_be_read(tmp_path):
    empty = compiled(tmp_path, "libx.so.1", "static int one(void) { return 1; }\nint (*volatile two)(void) = one;\n",
                     "-fvisibility=hidden").read_bytes()  # fmt: skip
    path = wheel(tmp_path, {MODULE: ours(), LIBRARY: empty})
    assert withheld(path) == ""
    assert "GF705" not in {finding.code for finding in audit([path]).findings}


ABI_NOTE = (
    '__asm__(".section .note.ABI-tag, \\"a\\", @note\\n.align 4\\n"\n'
    '".long 4,16,1\\n.asciz \\"GNU\\"\\n.long %s\\n.previous");\n'
)


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize(("source", "flags", "change", "reason"), [
    (INIT, [], {}, ""),
    (INIT.replace("ext", "other"), [], {}, "{} does not define PyInit_ext"),
    (INIT, [], {16: 2}, "{} can only be loaded as a program"),
    (INIT, ["-Wl,-z,x86-64-v3"], {}, "glibc refuses {} on processors below x86-64-v3"),
    (INIT + '__asm__("vpaddd %ymm0, %ymm0, %ymm0");\n', ["-nostdlib", "-Wa,-mx86-used-note=yes"], {},
     "{} has code for x86-64-v3, by GNU properties"),
    (INIT, [], {7: 9}, "glibc refuses {}, which is for x86_64 (OS ABI 9)"),
    (INIT + ABI_NOTE % "0,3,2,0", [], {}, ""),
    (INIT + ABI_NOTE % "0,99,0,0", [], {}, "{} demands Linux 99.0.0, and some releases of glibc ignore it elsewhere"),
])  # fmt: skip
def test_what_python_cannot_import(tmp_path, source, flags, change, reason):
    module = bytearray(compiled(tmp_path, "ext.so", source, *flags).read_bytes())
    for place, value in change.items():
        module[place] = value
    assert withheld(wheel(tmp_path, {MODULE: bytes(module)})) == reason.format(MODULE.rpartition("/")[2])


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_a_bloom_filter_that_hides_a_function(tmp_path):
    path = compiled(tmp_path, "ext.so", INIT)
    module = bytearray(path.read_bytes())
    with opened(path) as file:
        assert file is not None
        start = file.dynamic.place(DT_GNU_HASH)
    words = int.from_bytes(module[start + 8 : start + 12], "little")
    module[start + 16 : start + 16 + 8 * words] = b"\1\0\0\0\0\0\0\0" * words
    assert withheld(wheel(tmp_path, {MODULE: bytes(module)})).endswith("does not define PyInit_ext")
    module[start + 8 : start + 12] = b"\3\0\0\0"  # glibc asserts a power of two
    assert "GF705" in {finding.code for finding in audit([wheel(tmp_path, {MODULE: bytes(module)})]).findings}


TLS = (
    '__thread char many[{}] __attribute__((aligned({}), tls_model("initial-exec")));\n'
    "char *use(int n) {{ return many + n; }}\n"
)


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize(
    ("size", "align", "proved"), [(600, 1, True), (64, 64, True), (800, 1, False), (8, 128, False)]
)
def test_static_tls_of_two_modules(tmp_path, size, align, proved):
    module = compiled(tmp_path, "ext.so", INIT + TLS.format(size, align)).read_bytes()
    other = compiled(tmp_path, "two.so", INIT.replace("ext", "two") + TLS.format(size, align)).read_bytes()
    reason = withheld(wheel(tmp_path, {MODULE: module, MODULE.replace("ext.", "two."): other}))
    assert (not reason) == proved
    assert proved or "static TLS" in reason


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize(("size", "model", "proved"), [
    (1000, "initial-exec", True), (4000, "initial-exec", False), (4000, "global-dynamic", True),
])  # fmt: skip
def test_static_tls(tmp_path, size, model, proved):
    variable = f'__thread char many[{size}] __attribute__((tls_model("{model}")));\n'
    source = f"{INIT}{variable}char *use(int n) {{ return many + n; }}\n"
    module = compiled(tmp_path, "ext.so", source).read_bytes()
    unflagged = module.replace(struct.pack("<QQ", 30, 0x10), struct.pack("<QQ", 30, 0))  # DF_STATIC_TLS
    assert (unflagged == module) == (model == "global-dynamic")
    for each in (module, unflagged):
        reason = withheld(wheel(tmp_path, {MODULE: each}))
        assert reason.endswith("of glibc keep 1,520 free") == (not proved)
        assert bool(reason) == (not proved)
