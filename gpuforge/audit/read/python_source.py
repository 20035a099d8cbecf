"""Python code of a wheel, parsed: its text without comments, docstrings and sentences."""

import ast
import re
import warnings
from collections.abc import Iterator
from typing import NamedTuple

# The cost of parsing is about proportional to the tokens. For each expression in an f-string, CPython 3.11 searches the
# string from its beginning, so many expressions in a long string cost the product of both.
_TOKEN = rb"\w+|[^\w\s]"
_BUDGET = 400_000  # tokens that are parsed per wheel: torch has 260,000 in 20 files
_LARGEST = 100_000  # tokens per file, which take 100 MB
_PER_TOKEN = 5_000  # bytes of an f-string that are searched in the time of one token
_COMMENT = rb"#[^\n]*"
_LIBRARY = r"\S*\.so\S*"  # a string with a name among words is prose; a list of names is not
_IMPORT = re.compile(rb"(?m)(?:^|[:;])[ \t]*import[ \t]+([^\n;#]+)")
_FROM = re.compile(rb"(?m)(?:^|[:;])[ \t]*from[ \t]+(\w[\w.]*)[ \t]+import\b[ \t]*(\([^)]*\)|[^\n;#]*)")
_COMPUTED = re.compile(
    rb"\b(?:__import__|import_module|find_spec)\([ \t]*(?:name[ \t]*=[ \t]*)?[\"'](\w[\w.]*)[\"']"
)


def imported_names(text: bytes) -> Iterator[str]:
    """Yield what Python code may import, conditional or not: "nvidia.nccl" for `from nvidia import nccl`."""
    for names in _IMPORT.findall(text):
        found = (re.fullmatch(rb"\s*(\w[\w.]*)(?:\s+as\s+\w+)?\s*", name) for name in names.split(b","))
        yield from (match[1].decode() for match in found if match)  # others are prose
    for module, names in _FROM.findall(text):
        yield from (f"{module.decode()}.{name.decode()}" for name in re.findall(rb"\w+", names))
    yield from (name.decode() for name in _COMPUTED.findall(text))


class Source(NamedTuple):
    """A Python file: its text in UTF-8, and its tree; None if it was not parsed."""

    text: bytes
    tree: ast.Module | None = None

    def code(self) -> bytes:
        """Return the text without comments, docstrings and sentences; all of it if it was not parsed."""
        return _without_prose(self.text, self.tree) if self.tree else self.text


class Parser:
    """Parses the files of one wheel, up to a total number of tokens."""

    def __init__(self, budget: int = _BUDGET) -> None:
        """Start with the whole budget."""
        self._budget = budget

    def parse(self, text: bytes) -> Source | None:
        """Return a file; None if Python cannot import it. A file that is too long is not parsed."""
        cost = len(re.findall(_TOKEN, text)) + text.count(b"{") * len(text) // _PER_TOKEN
        if cost > min(self._budget, _LARGEST):
            return Source(text)
        self._budget -= cost
        decoded = text.decode("utf-8-sig", "replace")  # coding lines are ignored: some codecs are slow
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the file's own escapes and comparisons
                tree = ast.parse(decoded)
        except (SyntaxError, ValueError):
            return None
        except (RecursionError, MemoryError):
            return Source(text)
        return Source(decoded.encode(), tree)


def _without_prose(text: bytes, tree: ast.Module) -> bytes:
    """Remove comments, strings that are statements, and strings with words in them."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    parts, end = [], 0
    for node in sorted(_strings(tree), key=lambda n: (n.lineno, n.col_offset)):
        start = starts[node.lineno - 1] + node.col_offset
        if start < end:
            continue  # inside of an f-string
        parts.append(re.sub(_COMMENT, b"", text[end:start]))
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        parts.append(b'""' if _is_prose(node) else text[start:end])
    return b"".join((*parts, re.sub(_COMMENT, b"", text[end:])))


def walk(*nodes: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes of trees, in any order; it takes half the time of `ast.walk`."""
    left = list(nodes)
    while left:
        node = left.pop()
        yield node
        for value in node.__dict__.values():
            if isinstance(value, ast.AST):
                if value.__dict__:  # not the nodes of operators and contexts
                    left.append(value)
            elif isinstance(value, list):
                left += [each for each in value if isinstance(each, ast.AST)]


def last_name(node: ast.AST | None) -> str:
    """Return "environ" of `os.environ` and of `environ`; "" for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def dotted(node: ast.AST) -> str:
    """Return the whole name of an expression that is one, "sys.platform"; else ""."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _strings(tree: ast.Module) -> Iterator[ast.JoinedStr | ast.Constant | ast.Expr]:
    for node in walk(tree):
        string = node.value if isinstance(node, ast.Expr) else node
        if isinstance(string, ast.JoinedStr) or (
            isinstance(string, ast.Constant) and isinstance(string.value, str | bytes)
        ):
            yield node if isinstance(node, ast.Expr) else string


def _is_prose(node: ast.JoinedStr | ast.Constant | ast.Expr) -> bool:
    if isinstance(node, ast.Expr):
        return True
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [p.value if isinstance(p, ast.Constant) else "x" for p in parts]
    words = "".join(t.decode("latin-1") if isinstance(t, bytes) else str(t) for t in texts).split()
    return len(words) > 1 and not all(re.fullmatch(_LIBRARY, word) for word in words)
