"""`[test]`: how each wheel is tested."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpuforge.manifest import forms
from gpuforge.manifest.model.table import Table
from gpuforge.manifest.validators import Distinct


class Test(Table):
    """How each built wheel is tested, in an environment of its own.

    The wheel is installed there with what it declares and nothing else, and imported where no GPU is to be seen (but
    with `--gpu`), and no CUDA of the machine but, with `linkage = "system"`, the toolkit: toolkits, libraries and
    variables are hidden where the system allows it, and a CUDA library from elsewhere that a Python of the environment
    has loaded when it ends fails the test everywhere. Then the command is run. A wheel that fails is kept back."""

    __test__ = False  # no test class, whatever pytest thinks of its name

    image: forms.Text | None = Field(default=None, examples=["python:3.13-slim"])
    """Container image of the test, for `--runner docker`: one without compilers and CUDA, as users have. Left out, the
    test image that `gpuforge images list` has beside the image of the build, or else that image itself."""
    extras: Annotated[tuple[forms.ExtraName, ...], Distinct] = Field(default=(), examples=[["plots"]])
    """Extras of the wheel that are installed with it for the command. Where `[cuda] requires` is `extra`, the CUDA
    extra is too. The wheel is also installed and imported bare, with each extra named for its CUDA major (`cuda13`,
    `cu13`), and with each of these. Bare, it may lack CUDA libraries that such an extra brings; the result says so."""
    requires: tuple[forms.PythonRequirement, ...] = Field(default=(), examples=[["pytest"]])
    """Packages that the command needs besides, as wheels; they come after the wheel was imported without them."""
    sources: Annotated[tuple[forms.Text, ...], Distinct] = Field(default=(), examples=[["tests"]])
    """Files and folders beside the manifest that are copied into the folder that the command runs in. Left out,
    that folder is empty. So the tests do not import the source tree, as those in `{project}` may."""
    command: tuple[str, ...] = Field(default=(), examples=[["pytest", "-q", "{project}/tests"]])
    """The command, as a list of words; no shell reads them. `{project}` is a copy of the source tree that the wheel
    was built from. Left out, the wheel is imported and nothing more."""
