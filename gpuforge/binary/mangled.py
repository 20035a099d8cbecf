"""Reads mangled names of functions in C++ (Itanium C++ ABI, section 5.1): the name, and the types of the parameters.

It reads what kernels have: namespaces, templates with types, literals and functions as arguments, packs, pointers,
arrays, pointers to functions, local and unnamed classes. It does not read expressions, decltype and operators.
https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_DEEPEST = 64  # types inside of types, and names inside of names
_LONGEST = 4096  # characters of a type or a name: substitutions can double it at each step
_WHOLE = (  # numbers of these types are written without their type
    "w wchar_t, c char, a signed char, h unsigned char, s short, t unsigned short, i int, j unsigned int, l long, "
    "m unsigned long, x long long, y unsigned long long, n __int128, o unsigned __int128, Di char32_t, Ds char16_t, "
    "Du char8_t"
)
_OTHERS = (
    "v void, b bool, f float, d double, e long double, g __float128, z ..., Dh __fp16, Da auto, Dc decltype(auto), "
    "Dn std::nullptr_t, DF16b __bf16, DF16_ _Float16, DF32_ _Float32, DF64_ _Float64"
)
_STANDARD = "Sa allocator, Sb basic_string, Ss string, Si istream, So ostream, Sd iostream"


def _table(text: str, prefix: str = "") -> dict[str, str]:
    rows = (row.partition(" ") for row in text.split(", "))
    return {code: prefix + name for code, _, name in rows}


_INTEGERS, _STD = _table(_WHOLE), _table(_STANDARD, "std::")
_BUILTIN = _INTEGERS | _table(_OTHERS)
_NUMBER, _SEQUENCE = re.compile(r"\d+"), re.compile(r"([0-9A-Z]*)_")
_LITERAL = re.compile(r"(n?)(\d*)E")
_ANONYMOUS = re.compile(r"_GLOBAL_[._$]N|_INTERNAL_|_NV_ANON_NAMESPACE")


class Function(NamedTuple):
    """A function: its name with namespaces and template arguments, and its parameters' types: "const float *".

    `parameters` is None if its name can be read and they cannot.
    """

    name: str
    parameters: tuple[str, ...] | None


class _Type(NamedTuple):
    """A type: the text before and after what is declared. `pack` has the types of a template's parameter pack."""

    left: str
    right: str = ""
    kind: str = ""  # "pointer", or "declarator" for a function or an array
    pack: tuple[_Type, ...] | None = None

    def __str__(self) -> str:
        if self.pack is not None:
            return ", ".join(map(str, self.pack))
        return self.left + self.right


class _UnreadableError(Exception):
    """A name is not mangled, or not in a way that this module reads."""


def function(symbol: str) -> Function | None:
    """Return the function that a symbol names; None if it is not mangled, or cannot be read."""
    for read in (_Reader.function, _Reader.name_alone):
        try:
            return read(_Reader(symbol))
        except _UnreadableError:
            continue
    return None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.substitutions: list[_Type] = []
        self.arguments: tuple[_Type, ...] = ()  # of the last template in the function's name
        self.is_template = False
        self.depth = 0

    def function(self) -> Function:
        self.need("_Z")
        name, types = self.encoding()
        if self.at < len(self.text) or not types:
            raise _UnreadableError
        return Function(name, () if types == ["void"] else tuple(types))

    def name_alone(self) -> Function:
        self.need("_Z")
        return Function(self.name(), None)

    def encoding(self) -> tuple[str, list[str]]:
        """Read a function, or a variable, which has no types of parameters."""
        name = self.name()
        is_template = self.is_template
        if is_template:
            self.type()  # the result
        types: list[_Type] = []
        while self.at < len(self.text) and not self.peek("E"):
            one = self.type()
            types += [one] if one.pack is None else one.pack
        return name, list(map(str, types))

    def take(self, text: str) -> bool:
        found = self.text.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def need(self, text: str) -> None:
        if not self.take(text):
            raise _UnreadableError

    def match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _UnreadableError
        self.at = found.end()
        return found

    def peek(self, characters: str) -> bool:
        return self.at < len(self.text) and self.text[self.at] in characters

    def add(self, found: _Type) -> _Type:
        """Make a type or a name a substitution."""
        if len(str(found)) > _LONGEST:
            raise _UnreadableError
        self.substitutions.append(found)
        return found

    def deeper(self, read: Callable[[], _Type]) -> _Type:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _UnreadableError
        found = read()
        self.depth -= 1
        return found

    def apart(self, read: Callable[[], str]) -> str:
        """Read something whose template arguments are not those of the function."""
        arguments, is_template = self.arguments, self.is_template
        found = read()
        self.arguments, self.is_template = arguments, is_template
        return found

    def name(self) -> str:
        """Read the name of a function or a class, and note whether it is of a template."""
        return str(self.deeper(self._name))

    def _name(self) -> _Type:
        if self.take("N"):
            return self.nested()
        if self.take("Z"):
            return self.local()
        if self.peek("S") and not self.text.startswith("St", self.at):
            found = self.substitution()
        else:
            prefix = "std::" if self.take("St") else ""
            found = _Type(prefix + self.unqualified())
            if self.peek("I"):
                self.add(found)
        self.is_template = False
        if self.peek("I"):
            found = _Type(f"{found}{self.template_arguments()}")
            self.is_template = True
        return found

    def nested(self) -> _Type:
        while self.peek("rVKRO"):  # of member functions
            self.at += 1
        found: _Type | None = None
        is_template = False
        while not self.take("E"):
            if self.peek("I") and found is not None:
                found = _Type(f"{found}{self.template_arguments()}")
                is_template = True
            elif self.peek("S") and found is None and not self.text.startswith("St", self.at):
                found, is_template = self.substitution(), False
                continue  # it is one already
            elif self.peek("T") and found is None:
                found = self.template_parameter()
            elif self.take("St"):
                found = _Type("std")
                continue
            else:
                found = _Type(f"{found}::{self.unqualified()}" if found else self.unqualified())
                is_template = False
            if not self.peek("E"):
                self.add(found)
        if found is None:
            raise _UnreadableError
        self.is_template = is_template
        return found

    def local(self) -> _Type:
        """Read the name of something in a function."""
        outer = self.arguments
        function, types = self.encoding()
        self.need("E")
        self.arguments = outer
        inner = self._name()
        if self.take("_") and not self.take("_"):
            self.match(_NUMBER)
        return _Type(f"{function}({_listed(types)})::{inner}")

    def unqualified(self) -> str:
        if self.take("Ut"):
            return f"{{unnamed type#{self.sequence() + 1}}}"
        if self.take("Ul"):
            types = []
            while not self.take("E"):
                types.append(str(self.type()))
            return f"{{lambda({_listed(types)})#{self.sequence() + 1}}}"
        self.take("L")  # with internal linkage
        name = self.source_name()
        while self.take("B"):
            name += f"[abi:{self.source_name()}]"
        return name

    def source_name(self) -> str:
        length = int(self.match(_NUMBER)[0][:6])
        name = self.text[self.at : self.at + length]
        if not length or len(name) != length:
            raise _UnreadableError
        self.at += length
        return "(anonymous namespace)" if _ANONYMOUS.match(name) else name

    def sequence(self) -> int:
        number = self.match(_SEQUENCE)[1]
        if len(number) > 4:
            raise _UnreadableError
        return int(number, 36) + 1 if number else 0

    def substitution(self) -> _Type:
        known = _STD.get(self.text[self.at : self.at + 2])
        if known:
            self.at += 2
            return _Type(known)
        self.need("S")
        number = self.sequence()
        if number >= len(self.substitutions):
            raise _UnreadableError
        return self.substitutions[number]

    def template_arguments(self) -> str:
        self.need("I")
        found: list[_Type] = []
        while not self.take("E"):
            found.append(self.template_argument())
        self.arguments = tuple(found)
        return f"<{', '.join(text for text in map(str, found) if text)}>"

    def template_argument(self) -> _Type:
        if self.peek("L"):
            return self.literal()
        if self.take("X"):
            self.need("ad")  # the address of a function or a variable
            found = self.literal()
            self.need("E")
            return _Type(f"&{found}")
        if self.take("J"):
            pack = []
            while not self.take("E"):
                pack.append(self.deeper(self.template_argument))
            return _Type("", pack=tuple(pack))
        return self.type()

    def literal(self) -> _Type:
        self.need("L")
        if self.take("_Z"):
            name = self.apart(lambda: self.encoding()[0])
            self.need("E")
            return _Type(name)
        of = str(self.type())
        sign, digits = self.match(_LITERAL).groups()
        if of == "bool" and digits in {"0", "1"}:
            return _Type("true" if digits == "1" else "false")
        if of == "std::nullptr_t":
            return _Type("nullptr")
        if not digits:
            raise _UnreadableError
        number = f"{'-' if sign else ''}{digits}"
        return _Type(number if of in _INTEGERS.values() else f"({of}){number}")

    def template_parameter(self) -> _Type:
        self.need("T")
        number = self.sequence()
        if number >= len(self.arguments):
            raise _UnreadableError
        return self.arguments[number]

    def type(self) -> _Type:
        return self.deeper(self._type)

    def _type(self) -> _Type:
        words = (self.text[self.at : self.at + length] for length in (1, 2, 5))
        builtin = next((word for word in words if word in _BUILTIN), "")
        if builtin:
            self.at += len(builtin)
            return _Type(_BUILTIN[builtin])
        if self.peek("S") and not self.text.startswith("St", self.at):
            found = self.substitution()
            return (
                self.add(_Type(f"{found}{self.apart(self.template_arguments)}")) if self.peek("I") else found
            )
        if self.peek("T"):
            found = self.add(self.template_parameter())
            return (
                self.add(_Type(f"{found}{self.apart(self.template_arguments)}")) if self.peek("I") else found
            )
        for prefix, read in _COMPOUND:
            if self.take(prefix):
                return self.add(read(self))
        return self.add(_Type(self.apart(self.name)))

    def indirect(self, mark: str) -> _Type:
        return _each(self.type(), lambda to: _pointer(to, mark))

    def qualified(self, word: str) -> _Type:
        words = [word]
        while self.peek("VK"):
            words.insert(0, "const" if self.text[self.at] == "K" else "volatile")
            self.at += 1
        of = self.function_type() if self.take("F") else self.type()  # such a function is one type
        return _each(of, lambda each: _qualified(each, " ".join(words)))

    def function_type(self) -> _Type:
        result = self.type()
        types: list[str] = []
        while not self.take("E"):
            if self.text.startswith(("RE", "OE"), self.at):  # of a member function
                self.at += 1
                continue
            types.append(str(self.type()))
        return _Type(result.left, f"({_listed(types)}){result.right}", "declarator")

    def array(self) -> _Type:
        number = "" if self.peek("_") else self.match(_NUMBER)[0]
        self.need("_")
        of = self.type()
        return _Type(of.left, f"[{number}]{of.right}", "declarator")

    def member(self) -> _Type:
        home, member = self.type(), self.type()
        if member.kind == "declarator":
            return _Type(f"{member.left} ({home}::*", f"){member.right}", "pointer")
        return _Type(f"{member} {home}::*", "", "pointer")


# each begins a type that can be substituted
_COMPOUND: tuple[tuple[str, Callable[[_Reader], _Type]], ...] = (
    ("P", lambda reader: reader.indirect("*")),
    ("R", lambda reader: reader.indirect("&")),
    ("O", lambda reader: reader.indirect("&&")),
    ("r", lambda reader: reader.qualified("__restrict__")),
    ("V", lambda reader: reader.qualified("volatile")),
    ("K", lambda reader: reader.qualified("const")),
    ("C", lambda reader: _Type(f"_Complex {reader.type()}")),
    ("u", lambda reader: _Type(reader.source_name())),
    ("F", _Reader.function_type),
    ("DoF", _Reader.function_type),
    ("A", _Reader.array),
    ("M", _Reader.member),
    ("Dp", _Reader.type),
)


def _listed(types: list[str]) -> str:
    return ", ".join([] if types == ["void"] else types)


def _each(of: _Type, change: Callable[[_Type], _Type]) -> _Type:
    """Change a type, or each type of a pack."""
    return change(of) if of.pack is None else of._replace(pack=tuple(map(change, of.pack)))


def _pointer(to: _Type, mark: str) -> _Type:
    if mark == "&&" and to.left.endswith("&"):
        return to  # a reference to a reference is one
    if to.kind == "declarator":
        return _Type(f"{to.left} ({mark}", f"){to.right}", "pointer")
    space = "" if to.left.endswith(("*", "&")) else " "
    return _Type(f"{to.left}{space}{mark}", to.right, "pointer")


def _qualified(of: _Type, words: str) -> _Type:
    if of.kind == "pointer":
        return of._replace(left=f"{of.left}{words}")
    if of.kind == "declarator" and of.right.startswith("("):  # a member function
        return of._replace(right=f"{of.right} {words}")
    return of._replace(left=f"{words} {of.left}")


# tables of a type and thunks before a name, or nothing; then a nested name with its qualifiers
_NESTED = re.compile(r"_Z(T[VTISC]|GV|T[hvc](?:n?\d+_)+|)N[rVK]*[RO]?")
_SPECIAL = {"TV": "vtable of ", "TI": "type of ", "TS": "name of type ", "TT": "VTT of ", "GV": "guard of "}
_PART = re.compile(r"(\d{1,4})")
_STRUCTOR = re.compile(r"(C|D)\d")


def readable(symbol: str) -> str:
    """Return the qualified name of a function: "at::Tensor::size" of `_ZNK2at6Tensor4sizeEl`; others as they are."""
    begin = _NESTED.match(symbol)
    if begin is None:
        return symbol
    names, at = [], begin.end()
    while length := _PART.match(symbol, at):
        start = length.end()
        at = start + int(length[1])
        names.append(symbol[start:at])
    if not names or at > len(symbol):
        return symbol
    if structor := _STRUCTOR.match(symbol, at):
        names.append(("~" if structor[1] == "D" else "") + names[-1])
    return _SPECIAL.get(begin[1], "") + "::".join(names)
