"""Files of the client's machine that an action reads: they go into the store, where every worker finds them."""

import os
import shutil
import sys
import threading
from pathlib import Path

from gpuforge import digest, tree
from gpuforge.errors import ActionError, MissingError
from gpuforge.execute.entry import StoreEntry, survey
from gpuforge.execute.runners.runner import InputPath
from gpuforge.execute.store import Store
from gpuforge.execute.times import now
from gpuforge.execute.work import changed
from gpuforge.plan.action import Action, FileInput
from gpuforge.plan.programs import identities

_FILE, _FOLDER = "file", "folder"  # the name of the output in the store's entry


class Sender:
    """Puts files into a store, each input once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._guard = threading.Lock()
        self._sent: dict[tuple[Path, str], str] = {}

    def send(self, value: FileInput, action: str) -> str:
        """Put an input of an action into the store; return its key there.

        Raises ActionError if a file is not the one in the action's key.
        """
        with self._guard:
            known = (value.path, value.digest)
            if known not in self._sent:
                self._sent[known] = self._put(value, action)
            return self._sent[known]

    def _put(self, value: FileInput, action: str) -> str:
        kind = _FOLDER if value.path.is_dir() else _FILE
        with self._store.scratch() as out:
            target = out / kind
            if kind == _FOLDER:
                tree.copy(value.path, target, value.members)
                _check(value, action)
            else:  # under its own name, which programs may look at
                target.mkdir()
                shutil.copy(value.path, target / value.path.name)
            files = survey(out, [kind])
            found = [(file.path, file.sha256, file.link, file.executable) for file in files]
            key = digest.of_data(["files", digest.of_output(found)])
            if self._store.get(key) is None:
                self._store.commit(key, out, StoreEntry("files", 0.0, now(), (kind,), files))
        return key


def _check(value: FileInput, action: str) -> None:
    """Raise ActionError if a file is not the one in the action's key: it was changed since the plan."""
    known = dict(value.parts)
    for name, now_is in digest.of_each(value.path, [value.path / name for name in known]).items():
        if known[name] != now_is:
            raise ActionError(changed(value.path / name, action))


def received(value: FileInput, key: str, store: Store, action: str) -> InputPath:
    """Return where a worker finds an input that was sent; raises ActionError when it is gone from the store."""
    stored = store.get(key)
    if stored is None:
        message = f"{value.path}, which {action} reads, is no longer in the store"
        raise ActionError.of(message, hint="something removed it while this ran: run the same command again")
    if _FILE in stored.entry.outputs:
        return InputPath(stored.path(_FILE) / value.path.name)
    return InputPath(stored.path(_FOLDER), value.members)


HINT = "install the same programs on every worker, or build in containers: --image"


class UnfitError(MissingError):
    """This machine cannot do an action; another one may be able to."""


def programs_here(action: Action) -> dict[str, InputPath]:
    """Return where the programs among an action's inputs lie on this machine.

    Raises UnfitError for programs that are not here, or are not the same.
    """
    found, problems = {}, []
    for name, value in action.inputs.items():
        if not isinstance(value, FileInput) or value.program is None:
            continue
        if value.program == "gpuforge":  # it is the same, else the worker would not have got the job
            found[name] = InputPath(Path(sys.executable))
            continue
        if value.digest in identities(value.program, value.path):
            found[name] = InputPath(value.path)
        elif not os.path.lexists(value.path):
            problems.append(f"has no {value.path}")
        else:
            problems.append(f"has another {value.path} than the client")
    if problems:
        raise UnfitError.of(" and ".join(problems), hint=HINT)
    return found
