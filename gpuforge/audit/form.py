"""The forms of an input, and the sets of them that readers, the graph and rules distinguish."""

from typing import Literal, get_args

Form = Literal["wheel", "nested", "unpacked", "installed", "folder", "file"]

EVERY_INPUT: frozenset[Form] = frozenset(get_args(Form))
SEVERAL_FILES = EVERY_INPUT - {"file"}  # not a single binary
PACKAGES = SEVERAL_FILES - {"folder"}  # with metadata; binaries alone declare nothing
AS_BUILT = PACKAGES - {"installed"}  # with the tags and the RECORD of the wheel: installers rewrite RECORD
ARCHIVES = AS_BUILT - {"unpacked"}  # one file, as it is uploaded
FOLDERS = SEVERAL_FILES - ARCHIVES
