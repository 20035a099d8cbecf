"""The details of subjects: templates that are filled with facts."""

from __future__ import annotations

import pytest

from gpuforge.audit.findings import Subject, facts_of
from gpuforge.audit.report import data, detail, sentences

MANY = ("a", "b", "c", "d", "e")


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (Subject(detail="as it {stands}"), "as it {stands}"),
        (Subject(detail="{line!r}", facts=facts_of(line="{x} of y")), "'{x} of y'"),
        (Subject(detail="{size:MiB} MiB", facts=facts_of(size=3 << 20)), "3 MiB"),
        (Subject(detail="{size:KiB} KiB", facts=facts_of(size=3 << 20)), "3,072 KiB"),
        (Subject(detail="{count:,}", facts=facts_of(count=1234)), "1,234"),
        (Subject(detail="{names}", facts=facts_of(names=MANY)), "a, b, c, d, e"),
        (Subject(detail="{names:3}", facts=facts_of(names=MANY)), "a, b, c and 2 more"),
        (Subject(detail="{names:chain}", facts=facts_of(names=("a", "b"))), "a → b"),
        (Subject(detail="{lines:requirement}", facts=facts_of(lines=("a", "b"))), "'a → b'"),
        (Subject(detail="{sizes:MB}", facts=facts_of(sizes=(("x", 2_000_000),))), "x 2 MB"),
        (Subject(detail="{of:images}", facts=facts_of(of=(("x", 1), ("y", 2)))), "x (1 image), y (2 images)"),
        (Subject(detail="{of:GPUs}", facts=facts_of(of=(("9.0", "Hopper"),))), "9.0 (Hopper)"),
        (
            Subject(detail="{of:drivers}", facts=facts_of(of=(("8.0", "525"), ("9.0", "525"), ("10.0", "")))),
            "8.0, 9.0 with driver 525 or newer; 10.0 with driver of that toolkit or newer",
        ),
    ],
)
def test_a_detail_is_filled_with_its_facts(subject: Subject, text: str) -> None:
    assert detail.text(subject) == sentences.sentence(subject) == text
    assert detail.filled(subject) == Subject(detail=text)


def test_json_has_the_facts_as_values() -> None:
    facts = facts_of(left=5, names=("a",), sizes=(("x", 1),))
    assert detail.data(facts) == {"left": 5, "names": ("a",), "sizes": {"x": 1}}
    facts_schema = data.schema()["$defs"]["subject"]["properties"]["facts"]
    assert facts_schema["type"] == "object"
