"""The details of subjects: templates that are filled with facts."""

from __future__ import annotations

import pytest

from gpuforge.audit.findings import Subject, facts_of
from gpuforge.audit.report import data, detail, sentences


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (Subject(detail="as it {stands}"), "as it {stands}"),
        (Subject(detail="{line!r}", facts=facts_of(line="{x} of y")), "'{x} of y'"),
        (Subject(detail="{size:MiB} MiB", facts=facts_of(size=3 << 20)), "3 MiB"),
        (Subject(detail="{size:KiB} KiB", facts=facts_of(size=3 << 20)), "3,072 KiB"),
        (Subject(detail="{names}", facts=facts_of(names=("a", "b", "c"))), "a, b, c"),
        (Subject(detail="{names}", facts=facts_of(names=())), ""),
        (Subject(detail="{names:2}", facts=facts_of(names=("a", "b", "c"))), "a, b and 1 more"),
        (Subject(detail="{by:lines}", facts=facts_of(by=("a>1", "b"))), "'a>1 → b'"),
        (Subject(detail="{count:,}", facts=facts_of(count=1234)), "1,234"),
        (Subject(detail="{0} of {size:MiB} MiB", about=("x",), facts=facts_of(size=3 << 20)), "x of 3 MiB"),
        (Subject(detail="{0} of {1}", about=("x", "{y}")), "x of {y}"),
        (Subject(detail="{names:chain}", facts=facts_of(names=("a", "b"))), "a → b"),
        (Subject(detail="in {place:short}", facts=facts_of(place="a.o")), "in a.o"),
        (Subject(detail="in {place:short}", facts=facts_of(place="a " * 25)), f'in "{"a " * 24}…"'),
    ],
)
def test_a_detail_is_filled_with_its_facts(subject: Subject, text: str) -> None:
    assert detail.text(subject) == sentences.sentence(subject) == text
    assert detail.filled(subject) == Subject(detail=text, about=subject.about)


def test_json_has_the_facts_as_values() -> None:
    subject = Subject(detail="{size:MiB} MiB of {names}", facts=facts_of(size=3 << 20, names=("x", "y")))
    assert data._filled(subject) == {
        "detail": "3 MiB of x, y",
        "facts": {"size": 3 << 20, "names": ("x", "y")},
    }
    properties = data.schema()["$defs"]["subject"]["properties"]
    assert properties["facts"]["additionalProperties"] == {
        "type": ["string", "integer", "array"],
        "items": {"type": "string"},
    }
