"""The details of subjects: templates that are filled with facts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_reports import SCHEMA

import gpuforge.audit
from gpuforge.audit.findings import Subject, facts_of
from gpuforge.audit.report import data, sentences


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (Subject(detail="as it stands"), "as it stands"),
        (Subject(detail="of {provider}", provider="{x}"), "of {x}"),
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
        (Subject(detail="{sizes:sizes}", facts=facts_of(sizes=(("x", 2_000_000),))), "x 2 MiB"),
        (Subject(detail="{of:images}", facts=facts_of(of=(("x", 1), ("y", 2)))), "x (1 image), y (2 images)"),
        (Subject(detail="{of:GPUs}", facts=facts_of(of=(("9.0", "Hopper"),))), "9.0 (Hopper)"),
        (
            Subject(detail="{of:drivers}", facts=facts_of(of=(("8.0", "525"), ("9.0", "525"), ("10.0", "")))),
            "8.0, 9.0 with driver 525 or newer; 10.0 with driver of that toolkit or newer",
        ),
        (Subject(detail="in {place:short}", facts=facts_of(place="a " * 25)), f'in "{"a " * 24}…"'),
    ],
)
def test_a_detail_is_filled_with_its_facts(subject: Subject, text: str) -> None:
    assert sentences.detail(subject) == sentences.sentence(subject) == text
    assert sentences.filled(subject) == subject._replace(detail=text, facts=())


def _templates(nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """Yield what is written as a subject's detail."""
    yield from (n.value for n in nodes if isinstance(n, ast.keyword) and n.arg == "detail")
    yield from (n.value for n in nodes if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "detail")


def test_templates_have_no_values_in_them() -> None:
    """A brace in a value would be taken for a field."""
    for module in Path(gpuforge.audit.__file__).parent.rglob("*.py"):
        for template in _templates([*ast.walk(ast.parse(module.read_text()))]):
            assert not any(isinstance(node, ast.JoinedStr) for node in ast.walk(template)), module


def test_json_has_the_facts_as_values() -> None:
    facts = facts_of(size=3 << 20, names=("x", "y"), sizes=(("x", 2_000_000),))
    subject = Subject(detail="{size:MiB} MiB of {names}: {sizes:sizes}", facts=facts)
    assert data._subject(subject) == {
        "detail": "3 MiB of x, y: x 2 MiB",
        "facts": {"size": 3 << 20, "names": ("x", "y"), "sizes": {"x": 2_000_000}},
    }
    properties = SCHEMA["$defs"]["subject"]["properties"]
    assert properties["facts"]["additionalProperties"] == {
        "type": ["string", "integer", "array", "object"],
        "items": {"type": "string"},
        "additionalProperties": {"type": ["string", "integer"]},
    }
