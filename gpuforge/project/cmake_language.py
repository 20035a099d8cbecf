"""CMake's language, as far as a draft needs it: commands, variables with their possible values, and conditions."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
      (?P<long> (?P<hash> \#? ) \[ (?P<level> =* ) \[ )
    | (?P<comment> \#[^\n]* )
    | " (?P<quoted> (?: [^"\\] | \\. )*+ ) "
    | (?P<open> \( ) | (?P<close> \) )
    | (?P<word> (?: [^\s()\#"\\\[] | \\. | \[(?!=*\[) )+ )
    """,
    re.VERBOSE | re.DOTALL,
)


class Command(NamedTuple):
    """A command with its arguments as written, without quotes; brackets within them are arguments, too."""

    name: str  # in lower case
    arguments: tuple[str, ...]
    line: int


class _Token(NamedTuple):
    kind: str  # "open", "close" or "word"
    text: str
    offset: int
    quoted: bool = False


def commands(text: str) -> Iterator[Command]:
    """Yield the commands of a file; anything else is skipped."""
    name, line, depth, arguments = "", 0, 0, list[str]()
    counted, at = 1, 0
    for token in _tokens(text):
        if token.kind == "open":
            depth += 1
            arguments += ["("] * (depth > 1)
        elif token.kind == "close":
            if depth == 1 and name:
                yield Command(name, tuple(arguments), line)
            depth = max(depth - 1, 0)
            arguments += [")"] * (depth > 0)
            name, arguments = (name, arguments) if depth else ("", [])
        elif depth:
            arguments.append(token.text)
        elif not token.quoted:
            counted, at = counted + text.count("\n", at, token.offset), token.offset
            name, line, arguments = token.text.lower(), counted, []


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the words and brackets of a file, without comments."""
    position, unclosed = 0, set[str]()
    while match := _TOKEN.search(text, position):
        position = match.end()
        if match["long"]:
            closing = f"]{match['level']}]"
            end = -1 if closing in unclosed else text.find(closing, position)
            if end < 0:
                unclosed.add(closing)
            elif not match["hash"]:
                yield _Token("word", text[position:end], match.start(), quoted=True)
            position = end + len(closing) if end >= 0 else position
        elif match["quoted"] is not None:
            yield _Token("word", match["quoted"], match.start(), quoted=True)
        elif not match["comment"]:
            kind = match.lastgroup or ""
            yield _Token(kind, match[0], match.start())


Values = tuple[str | None, ...]  # the possible values of a variable; None is an unknown one, () is undefined

_MOST_VALUES = 20
_LONGEST = 200  # words of a condition
_DEEPEST = 20  # brackets and NOTs in each other
_REFERENCE = re.compile(r"\$(ENV|CACHE)?\{(\w{1,200})\}")
_PLACE = r"(CMAKE|PROJECT)_\w*_DIR"  # folders, which the reader of files resolves
_TOP = {f"{before}CMAKE_SOURCE_DIR{after}" for before, after in (("", ""), ("${", "}"))}
_CUDA_VERSION = r"\w*CUDA\w*_VERSION(?P<part>_STRING|_MAJOR|_MINOR)?"
_NUMBER = r"\d{1,9}(?:\.\d{1,9}){0,3}"
_FALSE = {"", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND"}
_TRUE = {"1", "ON", "YES", "TRUE", "Y"}
_ELSEWHERE = ("WIN32", "MSVC", "MINGW", "CYGWIN", "APPLE", "EMSCRIPTEN", "ANDROID", "IOS", "BSD", "XCODE")
_HERE: Mapping[str, Values] = {
    **dict.fromkeys((*_ELSEWHERE, "CMAKE_CROSSCOMPILING"), ("",)),
    **dict.fromkeys(("UNIX", "LINUX"), ("1",)),
    "CMAKE_SYSTEM_NAME": ("Linux",),
    "CMAKE_SYSTEM_PROCESSOR": ("x86_64", "aarch64"),
    "CMAKE_CUDA_COMPILER": ("nvcc",),
    "CMAKE_CUDA_COMPILER_ID": ("NVIDIA",),
    "CMAKE_CUDA_ARCHITECTURES": (None,),  # gpuforge defines it in each build
}
_COMPARISONS = {"LESS": (-1,), "GREATER": (1,), "EQUAL": (0,), "LESS_EQUAL": (-1, 0), "GREATER_EQUAL": (0, 1)}
_BINARY = {
    *_COMPARISONS,
    *(f"{kind}{name}" for kind in ("VERSION_", "STR") for name in _COMPARISONS),
    *("MATCHES", "IN_LIST", "PATH_EQUAL"),
}
_UNARY = {"EXISTS", "DEFINED", "COMMAND", "TARGET", "POLICY", "TEST", "IS_DIRECTORY", "IS_ABSOLUTE"}


class Variables:
    """The variables at one place of the files.

    `fixed` are those of the cache that the user defines. A variable that no command has set or could have set is
    undefined for certain.
    """

    def __init__(
        self, fixed: Mapping[str, str | None], toolkit: str, exists: Callable[[str], bool | None]
    ) -> None:
        """Begin as a build with this toolkit ("13.0") does; `exists` knows the project's files."""
        self.exists = exists
        self.fixed = fixed
        self.mentioned: set[str] = set()  # words of commands that may set a variable of this name
        self.prefixes: set[str] = set()  # of variables that packages set
        self.targets: set[str] = set()  # of the project
        self.is_top = True  # the project is the one that is built, and no part of another
        self._toolkit = toolkit
        self._values: dict[str, Values] = {**_HERE, **{name: (value,) for name, value in fixed.items()}}

    def of(self, name: str) -> Values:
        """Return the possible values of a variable; () if it is undefined."""
        known = name in self.fixed or None not in self._values.get(name, (None,))
        if (match := re.fullmatch(_CUDA_VERSION, name)) and not known:
            major, _, minor = self._toolkit.partition(".")
            return ({"_MAJOR": major, "_MINOR": minor}.get(match["part"], self._toolkit),)
        if name in self._values:
            return self._values[name]
        if name == "PROJECT_IS_TOP_LEVEL":
            return (str(int(self.is_top)),)
        perhaps = name in self.mentioned or name.startswith(("CMAKE_", "PROJECT_", *self.prefixes))
        return (None,) if perhaps else ()

    def set(self, name: str, values: Values, *, sure: bool) -> None:
        """Set a variable; if the command may not run, it may also keep its values."""
        before = () if sure else self._values.get(name, ("",))
        self._values[name] = tuple(dict.fromkeys((*before, *values)))[:_MOST_VALUES]

    def set_cached(self, name: str, values: Values, *, sure: bool) -> None:
        """Set a variable of the cache, unless it is defined already."""
        if name not in self.fixed and (name not in self._values or not sure):
            self.set(name, values, sure=sure)

    def expand(self, word: str) -> Values:
        """Return the possible texts of a word with references to variables; folders stay as they are written."""
        if "$" not in word:
            return (word,)
        pieces: list[Values] = []
        at = 0
        for match in _REFERENCE.finditer(word):
            pieces.append((word[at : match.start()],))
            at = match.end()
            if match[1] == "ENV":
                pieces.append((None,))
            elif re.fullmatch(_PLACE, match[2]) and match[2] not in self._values:
                pieces.append((match[0],))
            else:
                pieces.append(self.of(match[2]) or ("",))
        texts: list[str | None] = []
        for parts in product(*pieces, (word[at:],)):
            known = [part for part in parts if part is not None]
            texts.append("".join(known) if len(known) == len(parts) else None)
            if len(texts) == _MOST_VALUES:
                break
        return tuple(dict.fromkeys(texts))

    def listed(self, words: Sequence[str]) -> Values:
        """Return the possible values of the list that `set` makes of some words."""
        lists: list[tuple[str | None, ...]] = [()]
        for word in words[:_LONGEST]:
            lists = [(*each, text) for each in lists for text in self.expand(word)][:_MOST_VALUES]
        return tuple(None if None in each else ";".join(map(str, each)) for each in lists)

    def holds(self, words: Sequence[str]) -> bool | None:
        """Return whether a condition holds; None if that is unknown, or the condition is too long."""
        return None if len(words) > _LONGEST else _Condition(self, list(words)).value()


def names_in(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a condition that may be variables."""
    for word in words[:_LONGEST]:
        reference = _REFERENCE.fullmatch(word)
        name = reference[2] if reference and not reference[1] else word
        if re.fullmatch(r"[A-Za-z_]\w{0,199}", name) and name not in {*_BINARY, *_UNARY, "AND", "OR", "NOT"}:
            yield name


class _Condition:
    """A condition that is read from left to right: https://cmake.org/cmake/help/latest/command/if.html"""

    def __init__(self, variables: Variables, words: list[str]) -> None:
        self.variables, self.words, self.at, self.depth = variables, words, 0, 0

    def value(self) -> bool | None:
        value = self._either()
        return value if self.at == len(self.words) else None

    def _next(self) -> str:
        self.at += 1
        return self.words[self.at - 1] if self.at <= len(self.words) else ""

    def _peek(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def _either(self) -> bool | None:
        values = [self._both()]
        while self._peek() == "OR":
            self.at += 1
            values.append(self._both())
        return True if True in values else None if None in values else False

    def _both(self) -> bool | None:
        values = [self._one()]
        while self._peek() == "AND":
            self.at += 1
            values.append(self._one())
        return False if False in values else None if None in values else True

    def _one(self) -> bool | None:
        self.depth += 1
        word = self._next()
        value: bool | None
        if self.depth > _DEEPEST:
            self.at, value = len(self.words), None
        elif word == "NOT":
            value = self._one()
            value = None if value is None else not value
        elif word == "(":
            value = self._either()
            self.at += 1
        elif word in _UNARY and self._peek() not in _BINARY:
            value = self._unary(word, self._next())
        elif self._peek() in _BINARY:
            value = self._compared(word, self._next(), self._next())
        else:
            value = self._true(word)
        self.depth -= 1
        return value

    def _unary(self, test: str, word: str) -> bool | None:
        if test == "TARGET":  # one of a package may be there
            is_known = word in self.variables.targets
            return True if is_known else None if "::" in word or "$" in word else False
        if test in {"EXISTS", "IS_DIRECTORY"}:
            texts = self.variables.expand(word)
            return _agreed(None if text is None else self.variables.exists(text) for text in texts)
        if test != "DEFINED":
            return None
        if match := re.fullmatch(r"(ENV|CACHE)\{(\w+)\}", word):
            if match[1] == "ENV":
                return match[2] == "CUDAARCHS"  # gpuforge sets it; others only if the manifest does
            word = match[2]
        values = self.variables.of(word)
        return None if None in values and word != "CMAKE_CUDA_ARCHITECTURES" else bool(values)

    def _true(self, word: str) -> bool | None:
        if word == "CMAKE_CUDA_ARCHITECTURES":
            return True
        return _agreed(map(self._is_true, self.variables.expand(word)))

    def _is_true(self, text: str | None) -> bool | None:
        if text is None:
            return None
        if text.upper() in _TRUE or re.fullmatch(r"\d{0,9}[1-9]\d{0,9}", text):
            return True
        if _is_false(text):
            return False
        values = self.variables.of(text)
        return _agreed(None if each is None else not _is_false(each) for each in values) if values else False

    def _compared(self, left: str, how: str, right: str) -> bool | None:
        if {left, right} & _TOP and how in {"STREQUAL", "PATH_EQUAL"}:
            return self.variables.is_top
        pairs = product(self._operand(left), self._operand(right, how))
        return _agreed(_compare(one, how, other) for one, other in pairs)

    def _operand(self, word: str, how: str = "") -> Values:
        """Return the possible texts of an operand: a variable's values if it is the name of one."""
        if how == "IN_LIST" or ("$" not in word and self.variables.of(word)):
            return self.variables.of(word) or ("",)
        return self.variables.expand(word)


def _agreed(found: Iterable[bool | None]) -> bool | None:
    """Return what all possible values lead to; None if they differ."""
    results = set(found)
    return results.pop() if len(results) == 1 else None


def _is_false(text: str) -> bool:
    return text.upper() in _FALSE or text.upper().endswith("-NOTFOUND")


def _compare(left: str | None, how: str, right: str | None) -> bool | None:
    if left is None or right is None:
        return None
    if how == "IN_LIST":
        return left in right.split(";")
    if how == "MATCHES":
        plain = re.fullmatch(r"(\^?)([\w -]{1,99})(\$?)", right)
        if not plain:
            return None
        begins, ends = left.startswith(plain[2]) or not plain[1], left.endswith(plain[2]) or not plain[3]
        return plain[2] in left and begins and ends
    if how.startswith("STR"):
        sign = (left > right) - (left < right)
        return sign in _COMPARISONS[how.removeprefix("STR")]
    if how == "PATH_EQUAL" or not (re.fullmatch(_NUMBER, left) and re.fullmatch(_NUMBER, right)):
        return None
    one, other = ([*map(int, text.split(".")), 0, 0, 0][:4] for text in (left, right))
    return ((one > other) - (one < other)) in _COMPARISONS[how.removeprefix("VERSION_")]
