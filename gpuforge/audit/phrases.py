"""The phrases that older baselines and fingerprints have for the kind of a subject and what it is about."""

from collections.abc import Mapping

_ALL = {"package": "{0}", "system": "{0}"}  # of every rule
_PHRASES: Mapping[str, Mapping[str, str]] = {
    "GF301": {"RPATH": "RPATH {0}", "RUNPATH": "RUNPATH {0}"},
    "GF601": {"GPU code": "{0}", "needs": "needs {0}", "wants": "wants {0}", "made by": "made by {0}"},
    "GF701": {
        "missing": "{all} is missing",
        "not declared": "{all} is not declared",
        "not listed": "{all} is not listed",
        "ABI": "ABI of {0}",
    },
    "GF702": {"missing": "{0} is missing", "differs": "{0} differs"},
    "GF704": {
        "Requires-Dist": "Requires-Dist: {0}",
        "name": "name: {0}: {1}",
        "no file": "no {0}",
        "no name": "no name: {0}",
        "no version": "no version: {0}",
        "version": "version: {0}",
    },
    "GF709": {"shared files": "{0} and {1}"},
    "GF710": {"CUDA release": "CUDA {0} and {1} of {2}", "requires": "requires {0}"},
    "GF711": {
        "version": "version of {0}",
        "missing": "{0} of {1} is missing",
        "interface": "interface of {0} of {1}",
    },
}


def of_schema_3(code: str, kind: str, about: tuple[str, ...]) -> str:
    """Return what a baseline of schema 3 has as the kind of such a subject."""
    if not about:
        return kind
    if code == "GF510":
        return f"{about[0]}, {kind}"
    if kind in {"packages", "calls"}:
        return ", ".join(about)
    phrase = _PHRASES.get(code, _ALL).get(kind, kind).format(*about, all=" ".join(about))
    return f"{phrase} in {about[1]}" if code == "GF601" and len(about) > 1 else phrase
