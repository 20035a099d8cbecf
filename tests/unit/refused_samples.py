"""Small wheels that somebody refuses, each with the kind that the audit must report, and their nearest twins.

`tests/integration/test_refused_wheels.py` gives them to pip and uv, which must do what `refusals.toml` says.
"""

import bz2
import struct
import tarfile
import zlib
from collections.abc import Callable
from typing import NamedTuple

from archive_samples import (
    BZIP2,
    CODE,
    DEFLATED,
    ENCRYPTED,
    INFO,
    METADATA,
    TAGS,
    UTF8,
    WHEEL,
    Entry,
    metadata,
    zip_file,
)  # fmt: skip

INFO_FILES = metadata()
SOUND = [CODE, *INFO_FILES]
EVIL = Entry(b"demo/evil.py", b"answer = 666\n")
BOTH = 0xFFFFFFFF
_SIZE = len(CODE.data)


class Sample(NamedTuple):
    """A wheel, its file name, and the kind of refusal; "" for the twin that nobody refuses."""

    kind: str
    made: bytes | Callable[[], bytes]  # large ones are made when they are used, not when tests are collected
    name: str = WHEEL

    @property
    def data(self) -> bytes:
        """The wheel's bytes."""
        return self.made if isinstance(self.made, bytes) else self.made()


def _with(*entries: Entry) -> bytes:
    return zip_file([*SOUND, *entries])


def _scripts(lines: str, section: str = "console_scripts") -> bytes:
    return _entry_points(f"[{section}]\n{lines}\n")


def _entry_points(text: str) -> bytes:
    return zip_file([CODE, *metadata(**{"entry_points.txt": text})])


def _described(text: str, *more: Entry) -> bytes:
    return zip_file([CODE, *metadata(METADATA=text), *more])


def _first(**change: object) -> bytes:
    return zip_file([CODE._replace(**change), *INFO_FILES])  # type: ignore[arg-type]


def _zip64(*values: int) -> bytes:
    return struct.pack(f"<HH{len(values)}Q", 1, 8 * len(values), *values)


def _second_name(name: bytes) -> bytes:
    """Return Info-ZIP's field with a member's name in UTF-8."""
    return struct.pack("<HHBI", 0x7075, 5 + len(name), 1, zlib.crc32(CODE.name)) + name


_OTHER, _SAME = _second_name(b"demo/other.py"), _second_name(CODE.name)


def _tar_first() -> bytes:
    """A tar file of one empty member, whose end is followed by a zip file."""
    header = tarfile.TarInfo("pyproject.toml").tobuf(tarfile.USTAR_FORMAT)
    return zip_file(SOUND, before=header + bytes(1024))


def _overlapping() -> bytes:
    """Two members in the same bytes: the local header of one is the data of the other, as zip bombs have them."""
    inner = zip_file([EVIL])[: 30 + len(EVIL.name) + len(EVIL.data)]
    outer = Entry(b"demo/outer.bin", inner)
    start = 30 + len(outer.name)
    return zip_file([outer, EVIL._replace(listed_at=start), *SOUND])


def _packed_with_bzip2() -> bytes:
    fields = {"size": _SIZE, "crc": zlib.crc32(CODE.data)}
    return _first(method=BZIP2, data=bz2.compress(CODE.data), local=fields, central=fields)


def _renamed(folder: str, version: str = "1.0") -> bytes:
    """Return a wheel whose .dist-info folder is `folder`."""

    def changed(data: bytes) -> bytes:
        return data.replace(b"demo-1.0", folder.encode())

    entries = [e._replace(name=changed(e.name), data=changed(e.data)) for e in INFO_FILES]
    return zip_file(
        [
            CODE,
            *(
                e._replace(data=e.data.replace(b"\nVersion: 1.0", f"\nVersion: {version}".encode()))
                for e in entries
            ),
        ]
    )


def _without_section() -> bytes:
    return _entry_points("demo = demo:main\n")


_FIRST_LOCAL = {"packed": BOTH, "size": BOTH, "extra": _zip64(_SIZE, _SIZE)}
_LICENSED = f"{METADATA}License-File: LICENSE\n"
_OTHER_CRC = {"crc": 1}

SAMPLES: dict[str, Sample] = {
    # the archive
    "no header where the directory looks": Sample("no local header", _first(central={"offset": 7})),
    "a header of another name": Sample("local name", _first(local={"name": b"demo/__main__.py"})),
    "a header of another size": Sample("local sizes", _first(local={"size": _SIZE + 1})),
    "a header of another checksum": Sample("local checksum", _first(local=_OTHER_CRC)),
    "a header of another method": Sample("local method", _first(local={"method": DEFLATED})),
    "a header that says encrypted": Sample("local flags", _first(local={"flags": ENCRYPTED})),
    "sizes behind the data": Sample("data descriptor", _first(method=DEFLATED, descriptor=True)),
    "two ZIP64 fields": Sample("doubled field", _first(local={**_FIRST_LOCAL, "extra": _zip64(_SIZE, _SIZE) * 2})),
    "a ZIP64 field of five numbers": Sample(
        "ZIP64 field", _first(local={**_FIRST_LOCAL, "extra": _zip64(_SIZE, _SIZE, 0, 0, 0)})
    ),
    "other extra fields twice": Sample(
        "repeated field", _first(local={"extra": struct.pack("<HHHH", 0x5455, 0, 0x5455, 0)})
    ),
    "extra fields that end early": Sample("doubled field", _first(local={"extra": b"\1\0\4\0x"})),
    "bytes before": Sample("data before", zip_file(SOUND, before=b"#!/bin/sh\n")),
    "bytes put before a finished archive": Sample("data before", zip_file(SOUND, before=b"#!/bin/sh\n", shifted=False)),
    "bytes between members": Sample(
        "data between", zip_file([CODE, INFO_FILES[0]._replace(before=b"gap"), *INFO_FILES[1:]])
    ),
    "bytes before the directory": Sample("data between", zip_file(SOUND, between=b"gap")),
    "a member inside another": Sample("overlap", _overlapping()),
    "bytes behind": Sample("data behind", zip_file(SOUND, after=b"more")),
    "an archive behind another": Sample("hidden member", zip_file([EVIL]) + zip_file(SOUND)),
    "a member that is not listed": Sample("hidden member", zip_file([CODE, EVIL._replace(hidden=True), *INFO_FILES])),
    "an older member of the same name": Sample(
        "hidden member", zip_file([CODE._replace(data=b"old", hidden=True), *SOUND])
    ),
    "a wrong number of members": Sample("end record", zip_file(SOUND, counted=1)),
    "ZIP64 with more data": Sample("ZIP64 end", zip_file(SOUND, zip64={"length": 45})),
    "a ZIP64 locator that leads astray": Sample("ZIP64 locator", zip_file(SOUND, zip64={"led": 4})),
    "a comment on a member": Sample("member comment", _first(central={"comment": b"hello"})),
    "a comment with control characters": Sample("archive comment", zip_file(SOUND, comment=b"\1x")),
    "packed with bzip2": Sample("method", _packed_with_bzip2()),
    "encrypted": Sample("encrypted", _first(flags=ENCRYPTED)),
    "80 MiB of zeros": Sample("ratio", lambda: _with(Entry(b"demo/zeros.bin", bytes(80 << 20), DEFLATED))),
    "a tar file at once": Sample("zip and tar", _tar_first()),
    # names
    "a name twice": Sample("duplicate", _with(CODE._replace(data=b"answer = 43\n"))),
    "an absolute name": Sample("path", _with(EVIL._replace(name=b"/tmp/index-evil.py"))),
    "a name that leads out": Sample("path", _with(EVIL._replace(name=b"demo/../../evil.py"))),
    "a name that leads back": Sample("roundabout path", _with(EVIL._replace(name=b"demo/../demo/evil.py"))),
    "a name with a drive": Sample("path on Windows", _with(EVIL._replace(name=b"C:/evil.py"))),
    "a name with backslashes": Sample("path on Windows", _with(EVIL._replace(name=b"demo\\evil.py"))),
    "a name with a line feed": Sample("control characters", _with(EVIL._replace(name=b"demo/a\nb.py"))),
    "a name that turns around": Sample(
        "unprintable", _with(EVIL._replace(name="demo/a\u202eyp.py".encode(), flags=UTF8))
    ),
    "a name in no known encoding": Sample("encoding", _with(EVIL._replace(name=b"demo/\x84.py"))),
    "names that differ in case": Sample("case", _with(EVIL._replace(name=b"demo/__INIT__.py"))),
    "a file that is a folder": Sample("file and folder", _with(EVIL._replace(name=b"demo/__init__.py/evil.py"))),
    "a symbolic link": Sample("link", _with(Entry(b"demo/link.py", b"__init__.py", mode=0o120777))),
    "a file for any user": Sample("special mode", _with(EVIL._replace(mode=0o104755))),
    "a second name in UTF-8": Sample("other name", _first(local={"extra": _OTHER}, central={"extra": _OTHER})),
    "a folder with data": Sample("folder with data", _with(Entry(b"demo/x/", b"data", mode=0o40755))),
    # what the metadata promise
    "a wheel of version 2": Sample("wheel version", zip_file([CODE, *metadata(WHEEL=TAGS.replace("1.0", "2.0"))])),
    "a wheel of no version": Sample("wheel version", zip_file([CODE, *metadata(WHEEL=TAGS.partition("\n")[2])])),
    "a script that leads out": Sample("script path", _scripts("../../x = demo:main")),
    "a script with a space": Sample("script name", _scripts("my demo = demo:main")),
    "a script without a function": Sample("script target", _scripts("demo = demo")),
    "a script of two lines": Sample("script target", _scripts("demo =\n    demo:main")),
    "a script with arguments": Sample("script form", _scripts("demo = demo:main()")),
    "a script named as a folder": Sample("script folder", _scripts(".. = demo:main")),
    "a script named python": Sample("script reserved", _scripts("python = demo:main")),
    "entry points that are no list": Sample("entry points", _without_section()),
    "an entry point in two lines": Sample("entry points for pip", _entry_points("[demo]\nx = y\n z\n")),
    "a licence that is not there": Sample("license file", _described(_LICENSED)),
    "a folder spelled otherwise": Sample("folder name", _renamed("Demo-1.0")),
    "a project spelled otherwise": Sample("file name", _renamed("Demo-1.0"), "Demo-1.0-py3-none-any.whl"),
    "a local version": Sample(
        "local version", _renamed("demo-1.0+cu13", "1.0+cu13"), "demo-1.0+cu13-py3-none-any.whl"
    ),
    "a tag of no policy": Sample("platform tag", zip_file(SOUND), "demo-1.0-py3-none-linux_x86_64.whl"),
    "a label": Sample(
        "variant", _with(Entry(f"{INFO}/variant.json".encode(), b"{}")), "demo-1.0-py3-none-any-cu13.whl"
    ),
    "a requirement by URL": Sample("requirement by URL", _described(f"{METADATA}Requires-Dist: other @ https://example.org/o.whl\n")),
    "data of an unknown scheme in another folder": Sample("other data scheme", _with(Entry(b"x.data/bin/x", b"x"))),
    "data of a scheme in another folder": Sample("other data folder", _with(Entry(b"x.data/data/x", b"x"))),
    "data of an unknown scheme": Sample("data scheme", _with(Entry(b"demo-1.0.data/bin/x", b"x"))),
    "a script for pip alone": Sample("script for pip", _entry_points("[[console_scripts]]\n../../x = demo:main\n")),
    "a script behind another end of line": Sample(
        "script for pip", _entry_points("[demo]\nx = y\u2028[console_scripts]\u2028../../x = demo:main\n")
    ),
    "a script in what looks like more of a value": Sample(
        "script for pip", _entry_points("[demo]\nx = y\n [console_scripts]\n ../../x = demo:main\n")
    ),
    "names of another form": Sample(
        "case", _with(*(EVIL._replace(name=f"demo/{name}.py".encode(), flags=UTF8) for name in ("\xe9", "e\u0301")))
    ),
    "a second name in the local header alone": Sample("other local name", _first(local={"extra": _OTHER})),
    "a second name with control characters": Sample(
        "other name's characters", _first(local={"extra": _second_name(b"demo/a\1b.py")})
    ),
    "a file over another": Sample("installed twice", _with(Entry(b"demo-1.0.data/purelib/demo/__init__.py", b"x"))),
    "two scripts in one place": Sample(
        "installed twice", _with(Entry(b"demo-1.0.data/scripts/x", b"x"), Entry(b"demo-1.0.data/data/bin/x", b"x"))
    ),
    "another package": Sample("other package", _with(Entry(b"demo-1.0.data/purelib/pip-1.0.dist-info/METADATA", b"x"))),
    "a script in the place of python": Sample("interpreter", _with(Entry(b"demo-1.0.data/scripts/python3", b"x"))),
    "data in the place of python": Sample("interpreter", _with(Entry(b"demo-1.0.data/data/bin/python3.12", b"x"))),
    "code at each start, moved": Sample("start file", _with(Entry(b"demo-1.0.data/purelib/x.pth", b"import demo\n"))),
    "code at each start, as data": Sample(
        "start file", _with(Entry(b"demo-1.0.data/data/lib/python3.12/site-packages/x.pth", b"import demo\n"))
    ),
    "code behind a carriage return": Sample("start file", _with(Entry(b"demo.pth", b"x\rimport demo\n"))),
    "code behind a megabyte": Sample("start file", _with(Entry(b"demo.pth", b"#" * (1 << 20) + b"\nimport demo\n"))),
    "a module that Python imports by itself": Sample("start file", _with(Entry(b"sitecustomize.py", b""))),
    "code at each start": Sample("start file", _with(Entry(b"demo.pth", b"import demo\n"))),
}  # fmt: skip

TWINS: dict[str, Sample] = {
    "as it should be": Sample("", zip_file(SOUND)),
    "deflated": Sample("", _first(method=DEFLATED)),
    "how hard it was deflated": Sample("", _first(method=DEFLATED, local={"flags": 2}, central={"flags": 4})),
    "ZIP64 sizes": Sample("", _first(local=_FIRST_LOCAL)),
    "the same name in UTF-8": Sample("", _first(local={"extra": _SAME}, central={"extra": _SAME})),
    "a wheel of version 1.9": Sample("", zip_file([CODE, *metadata(WHEEL=TAGS.replace("1.0", "1.9"))])),
    "other extra fields": Sample("", _first(local={"extra": struct.pack("<HHHH", 0x5455, 0, 0x7875, 0)})),
    "a ZIP64 end": Sample("", zip_file(SOUND, zip64={})),
    "a comment on the archive": Sample("", zip_file(SOUND, comment=b"made by hand")),
    "members in another order": Sample("", zip_file([*INFO_FILES, CODE])),
    "folders": Sample("", zip_file([Entry(b"demo/", mode=0o40755), *SOUND])),
    "80 MiB of zeros, and 2 MiB that are stored": Sample(
        "", lambda: _with(Entry(b"demo/z", bytes(80 << 20), DEFLATED), Entry(b"demo/n", bytes(2 << 20)))
    ),
    "60 MiB of zeros": Sample("", lambda: _with(Entry(b"demo/z", bytes(60 << 20), DEFLATED))),
    "dots in a name": Sample("", _with(EVIL._replace(name=b"demo/..evil..py"))),
    "a name in UTF-8": Sample("", _with(EVIL._replace(name="demo/ä.txt".encode(), flags=UTF8))),
    "a name with a space": Sample("", _with(EVIL._replace(name=b"demo/a b.txt"))),
    "equal names in two folders": Sample(
        "", _with(EVIL._replace(name=b"demo/A/x.py"), EVIL._replace(name=b"demo/B/x.py"))
    ),
    "a file whose name begins a folder's": Sample(
        "", _with(EVIL._replace(name=b"demo/x"), EVIL._replace(name=b"demo/x.d/y.py"))
    ),
    "an executable file": Sample("", _with(EVIL._replace(mode=0o100755))),
    "no mode at all": Sample("", _with(EVIL._replace(mode=0))),
    "scripts": Sample("", _scripts("demo-x.y_z = demo.x:main.it [extra]")),
    "an odd name in another group": Sample("", _scripts("my demo/x = demo", "demo.plugins")),
    "a licence": Sample("", _described(_LICENSED, Entry(f"{INFO}/licenses/LICENSE".encode(), b"free"))),
    "a licence of old metadata": Sample("", _described(_LICENSED.replace("2.4", "2.1"))),
    "a build tag": Sample("", zip_file(SOUND), "demo-1.0-1-py3-none-any.whl"),
    "data of a known scheme": Sample("", _with(Entry(b"demo-1.0.data/data/x", b"x"))),
    "another script of the .data folder": Sample("", _with(Entry(b"demo-1.0.data/scripts/python-demo", b"#!python\n"))),
    "a file of the .data folder beside another": Sample(
        "", _with(Entry(b"demo-1.0.data/purelib/demo/x.py"), Entry(b"demo-1.0.data/data/demo/__init__.py"))
    ),
    "paths that Python adds at each start": Sample("", _with(Entry(b"demo-1.0.data/purelib/x.pth", b"a\nimports\n"))),
    "a module that is named alike": Sample("", _with(Entry(b"demo/sitecustomize.py", b""))),
    "entry points of other groups in odd lines": Sample("", _entry_points("[[demo]]\n../../x = demo:main\n")),
    "an entry point in two lines with a sign in each": Sample("", _entry_points("[demo]\nx = y\n z = y\n")),
    "a sound script that pip alone sees": Sample("", _entry_points("[[console_scripts]]\nx = demo:main\n")),
    "accents": Sample("", _with(*(EVIL._replace(name=f"demo/{n}.py".encode(), flags=UTF8) for n in ("\xe9", "\xe8")))),
    "a .pth in a folder": Sample("", _with(Entry(b"demo/demo.pth", b"x"))),
}  # fmt: skip
