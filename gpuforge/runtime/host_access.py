"""What a kernel may do with an array in the CPU's memory, which it gets itself and not as a copy."""

from __future__ import annotations

import re

from .signature import QUALIFIER, HostArray, Parameter, refuse_gaps


def pointee_of(array: HostArray) -> int:
    """Return the address that a kernel gets for an array; raises ValueError for gaps and wrong alignment."""
    if array.strides is not None:
        refuse_gaps(array.value, array.shape, array.strides, array.itemsize)
    kind, alignment = array.dtype[1:2], array.itemsize & -array.itemsize
    if (
        array.size
        and kind in set("iufc")
        and array.address % min(alignment, 8 if kind != "c" else alignment // 2)
    ):
        raise ValueError(
            f"{array.name} is at an address that is not a multiple of its elements' size: pass a copy"
        )
    return array.address


def refuse_read_only(array: HostArray, parameter: Parameter) -> None:
    """Raise ValueError for a read-only array, unless a kernel only reads what the parameter points to."""
    if array.size and not array.writable and not reads_only(parameter):
        raise ValueError(
            f"{array.name} is read-only, {written(parameter)}: pass a copy that can be written, bytearray(…) or "
            "numpy.array(…)"
        )


def written(parameter: Parameter) -> str:
    """Return why a kernel may write into what a parameter points to, for an error."""
    if parameter.type:
        return f"and the parameter is {parameter.type}, not const"
    return "and the kernel may write into it"


def reads_only(parameter: Parameter) -> bool:
    """Return whether a parameter is a pointer through which a kernel cannot write, `const float *`."""
    pointee = re.sub(rf"(?:{QUALIFIER})+$", "", parameter.type).strip()
    if not pointee.endswith("*"):
        return False
    element = pointee[:-1].strip()
    if "*" in element:
        return element.endswith("const")
    return bool(re.search(r"\bconst\b", element.partition("<")[0]))
