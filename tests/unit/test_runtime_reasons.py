"""Every reason that the runtime or the C header makes has a sentence, with the facts that the sentence needs."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from source_samples import parsed

from gpuforge.runtime.more_reasons import SENTENCES as MORE
from gpuforge.runtime.more_reasons import WITHOUT
from gpuforge.runtime.values import LAST
from gpuforge.runtime.values import SENTENCES as OF_CUDA

SENTENCES = {**OF_CUDA, **MORE}
ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "gpuforge" / "runtime"
MODULES = sorted(RUNTIME.rglob("*.py"))
HEADER = "".join(path.read_text() for path in sorted((RUNTIME / "c").glob("*.h")))


def code(path: Path) -> ast.Module:
    """A module without what is assigned at its top level, such as the sentences."""
    module = parsed(path)
    if path.name not in {"values.py", "more_reasons.py"}:
        return module
    return ast.Module([each for each in module.body if not isinstance(each, ast.Assign)], [])


def constants(node: ast.AST) -> set[str]:
    """The texts in an expression: both of `"a" if x else "b"`, none of a name."""
    if isinstance(node, ast.IfExp):
        return constants(node.body) | constants(node.orelse)
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


def facts_in(function: ast.AST, node: ast.expr | None) -> set[str] | None:
    """The keys of a call's facts, a table or the name of one in the same function; None if they cannot be read."""
    if node is None:
        return set()
    tables = [node]
    added: set[str] = set()
    if isinstance(node, ast.Name):
        assigned = [each for each in ast.walk(function) if isinstance(each, ast.Assign)]
        tables = [each.value for each in assigned for to in each.targets if ast.dump(to) == stored(node.id)]
        added = {key for each in assigned for to in each.targets for key in put_into(node.id, to)}
    if len(tables) != 1 or not isinstance(tables[0], ast.Dict) or None in tables[0].keys:
        return None
    return added.union(*(constants(key) for key in tables[0].keys if key))


def stored(name: str) -> str:
    return ast.dump(ast.Name(name, ast.Store()))


def put_into(name: str, target: ast.expr) -> set[str]:
    """The key of `name[key] = …`."""
    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == name:
        return constants(target.slice)
    return set()


def made() -> Iterator[tuple[str, str, set[str] | None]]:
    """The place, the kind and the facts of each reason that Python makes; None for facts that cannot be read."""
    for path in MODULES:
        functions = [each for each in ast.walk(code(path)) if isinstance(each, ast.FunctionDef)]
        for function in functions:
            for call in ast.walk(function):
                if (
                    isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Name)
                    and call.func.id == "Reason"
                ):
                    facts = facts_in(function, call.args[1] if len(call.args) > 1 else None)
                    for kind in constants(call.args[0]):
                        yield f"{path.relative_to(RUNTIME)}:{call.lineno}", kind, facts


def needed(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name}


@pytest.mark.thorough
def test_a_reason_has_a_sentence_and_its_facts():
    reasons = list(made())
    assert len(reasons) > 60
    assert [(place, kind) for place, kind, _ in reasons if kind not in SENTENCES] == []
    assert [
        (place, kind, lacking)
        for place, kind, facts in reasons
        if facts is not None and (lacking := needed(WITHOUT.get(kind, SENTENCES[kind])) - facts)
    ] == []


def test_the_header_makes_only_reasons_that_have_a_sentence():
    kinds = re.findall(r'gpuf_(?:because|simply)\(\s*"([^"]+)"', HEADER)
    assert len(kinds) > 30
    assert set(kinds) <= SENTENCES.keys()


@pytest.mark.thorough
def test_each_sentence_is_of_a_reason_that_is_made():
    texts = {text for path in MODULES for node in ast.walk(code(path)) for text in constants(node)}
    assert SENTENCES.keys() - texts == set()
    assert {*WITHOUT, *LAST} <= SENTENCES.keys()
