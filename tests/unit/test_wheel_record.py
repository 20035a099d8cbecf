"""RECORD is compared with the archive in a stream, in bounded memory, and written."""

import base64
import csv
import io
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from audit_samples import elf, wheel
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.audit import audit
from gpuforge.audit.report.sentences import lines
from gpuforge.binary.window import Budget
from gpuforge.wheel import record
from gpuforge.wheel.archive import Archive, Member
from gpuforge.wheel.record import Record

HASH = base64.urlsafe_b64encode(b"\xff" * 32).rstrip(b"=").decode()
TEXT = (
    "demo/__init__.py,sha256=a,3\r\n"
    '"demo/""x"".py",sha256=b,4\n'
    f'"demo/a,b.so",sha256={HASH},5\n'
    "demo/ö.py,sha256=d,6\n"
    "\n"
    "demo/plugin,sha256=e,8\n"
    "demo/plain.so,,9\n"
    "demo/two.py,sha256=f,1\n"
    "demo/two.py,sha256=f,2\n"
    "demo/gone.py,sha256=g,\n"
    "demo-1.0.dist-info/RECORD,,"
).encode()
SIZES = {
    "demo/__init__.py": 3,
    "demo/a,b.so": 5,
    "demo/ö.py": 7,
    "demo/plugin": 8,
    "demo/plain.so": 9,
    "demo/two.py": 2,
    "demo/new.py": 1,
    "demo-1.0.dist-info/RECORD": 400,
}


def read(chunks: Iterable[bytes]) -> Record:
    members = [Member(name, size, size, 0, 0, 0) for name, size in SIZES.items()]
    return record.compare(chunks, members, Budget(0))


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_only_differences_from_the_archive_are_kept(size):
    found = read(TEXT[at : at + size] for at in range(0, len(TEXT), size))
    assert found == Record(
        unlisted=("demo/new.py",),
        sha256={"demo/a,b.so": "ff" * 32},
        odd={
            'demo/"x".py': ("sha256=b", 4),
            "demo/ö.py": ("sha256=d", 6),
            "demo/plain.so": ("", 9),
            "demo/gone.py": ("sha256=g", None),
            "demo-1.0.dist-info/RECORD": ("", None),
        },
    )


def test_rows_of_no_file_are_counted_beyond_a_limit(monkeypatch):
    monkeypatch.setattr(record, "_MOST", 3)
    found = read([b"".join(b"demo/%d.py,sha256=a,1\n" % n for n in range(10)) + TEXT])
    assert list(found.odd) == [
        *(f"demo/{n}.py" for n in range(3)), "demo/ö.py", "demo/plain.so", "demo-1.0.dist-info/RECORD"
    ]  # fmt: skip
    assert found.more == 9  # the other seven, and two of the text's
    assert found.unlisted == ("demo/new.py",)


@pytest.mark.parametrize("text", [b"x" * 2_000_000, b"a\rb,,\n"])
def test_other_text_is_a_csv_error(text):
    with pytest.raises(csv.Error):
        read([text])


@pytest.mark.parametrize("size", ["9" * 5000, "²", "-1", "x"])
def test_a_size_that_is_not_a_number_is_not_compared(size):
    assert read([f"demo/two.py,sha256=f,{size}\n".encode()]).odd == {}


@pytest.mark.parametrize(
    "digest", ["", "sha256=", "sha256=c", f"sha256={HASH}AAAA", f"md5={HASH}", "sha256=ö"]
)
def test_what_is_no_sha256_is_none(digest):
    assert read([f"demo/plain.so,{digest},9\n".encode()]).sha256 == {}


def test_a_record_that_cannot_be_read_is_a_finding(tmp_path):
    path = wheel(tmp_path, {"demo/a.so": elf()}, record={"demo/a.so": "a\rb,,"})
    subjects = [s for f in audit([path]).findings if f.code == "GF704" for s in lines(f)]
    assert subjects == ["its RECORD is not a list of comma-separated values"]


def test_the_finding_counts_the_rows_that_it_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "_MOST", 2)
    gone = "\n".join(f"demo/{n}.py,sha256=a,1" for n in range(2500))
    path = wheel(tmp_path, {"demo/a.so": elf()}, record={"demo/gone": gone})
    (found,) = (f for f in audit([path]).findings if f.code == "GF703")
    assert found.files == ("demo/0.py", "demo/1.py")
    assert lines(found) == (
        "2,498 more lines of RECORD name files that are not in the wheel",
        "demo/0.py: in RECORD and not in the wheel",
        "demo/1.py: in RECORD and not in the wheel",
    )


@given(st.lists(st.binary(max_size=80), max_size=4))
def test_any_bytes_are_a_list_or_a_csv_error(chunks):
    try:
        found = read(chunks)
    except csv.Error:
        return
    assert set(found.unlisted) <= SIZES.keys()
    assert all(name not in found.unlisted for name in (*found.odd, *found.sha256))


@given(st.lists(st.binary(max_size=9), max_size=5))
def test_a_record_that_is_written_matches_the_files(files):
    with tempfile.TemporaryDirectory() as folder:
        names = {f"f{number}": data for number, data in enumerate(files)}
        for name, data in names.items():
            (Path(folder) / name).write_bytes(data)
        text = record.text(Path(folder), names, "demo-1.0.dist-info/RECORD")
    rows = list(record.rows([text.encode()]))
    assert [(row.name, row.size) for row in rows[:-1]] == [(name, len(data)) for name, data in names.items()]
    members = [Member(name, len(data), len(data), 0, 0, 0) for name, data in names.items()]
    found = record.compare([text.encode()], members, Budget(0))
    assert (found.unlisted, list(found.odd)) == ((), ["demo-1.0.dist-info/RECORD"])


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1, max_size=20))
def test_every_name_is_read_as_it_was_written(name):
    """But one with a carriage return, which csv writes without quotes and does not read."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerow([name, "sha256=x", "1"])
    assert [row.name for row in record.rows([written.getvalue().encode()])] == [name]


def test_hashes_are_compared_on_request(tmp_path):
    files = {"demo/a.py": b"one", "demo/b.so": elf(), "demo/c.txt": b"three"}
    wrong = "sha256=" + "A" * 43
    rows = {"demo/a.py": f"demo/a.py,{wrong},3", "demo/c.txt": "demo/c.txt,md5=x,5"}
    path = wheel(tmp_path, files, record=rows)
    assert not [f for f in audit([path]).findings if f.code == "GF703"]
    (found,) = (f for f in audit([path], hashes=True).findings if f.code == "GF703")
    assert (found.severity, found.files, lines(found)) == ("error", ("demo/a.py",), ("demo/a.py: hash",))
    assert not [f for f in audit([wheel(tmp_path, files)], hashes=True).findings if f.code == "GF703"]


def test_a_file_that_record_lists_often_is_hashed_once(tmp_path, monkeypatch):
    row = f"demo/a.py,sha256={'A' * 43},3\n"
    path = wheel(tmp_path, {"demo/a.py": b"one"}, record={"demo/a.py": row * 1000})
    read: list[str] = []
    chunks = Archive.chunks
    monkeypatch.setattr(Archive, "chunks", lambda self, m: read.append(m.name) or chunks(self, m))
    audit([path], hashes=True)
    assert read.count("demo/a.py") == 1
