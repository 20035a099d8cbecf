"""The readable form of C++ symbols: their qualified names, without parameters (Itanium C++ ABI, "Mangling")."""

import re

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
