"""`[test]`: how each wheel is tested."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpuforge.manifest import forms
from gpuforge.manifest.model.table import Table
from gpuforge.manifest.validators import Distinct


class Test(Table):
    """How each built wheel is tested, in an environment of its own.

    The wheel is installed with its declared dependencies only, then imported, then the command runs. GPUs are hidden
    except with `--gpu`. The machine's CUDA is hidden where the system allows it: toolkits, libraries and variables;
    with `linkage = "system"` the toolkit stays visible. The test fails if a Python process of the environment has
    loaded a CUDA library from elsewhere. A wheel that fails is not copied to `dist/`.
    """

    __test__ = False  # pytest must not take it for a test class

    image: forms.Text | None = Field(default=None, examples=["python:3.13-slim"])
    """Container image for the test with `--runner docker`; like users' machines, it should have neither compilers nor
    CUDA. Default: the test image of the build's image in `gpuforge images list`, or the build's image itself if there
    is none or it lacks the Python. A Python that an image named here lacks is an error."""
    extras: Annotated[tuple[forms.ExtraName, ...], Distinct] = Field(default=(), examples=[["plots"]])
    """Extras of the wheel that are installed for the command. With `[cuda] requires = "extra"`, the CUDA extra is
    always among them. The wheel is also installed and imported without extras, with each extra named for its CUDA major
    (`cuda13`, `cu13`), and with each extra listed here. Without extras, missing CUDA libraries are not a failure if
    such an extra provides them; the result lists them."""
    imports: Annotated[tuple[forms.ImportName, ...], Distinct] = Field(
        default=(), examples=[["pycuda.driver"]]
    )
    """Modules to import after the package, each in a process of its own. Without `--gpu`, `libcuda.so.1` is then a stub
    whose functions return `CUDA_ERROR_NO_DEVICE`, so that modules which link with the driver can be loaded."""
    requires: tuple[forms.PythonRequirement, ...] = Field(default=(), examples=[["pytest"]])
    """Further packages for the command, as wheels. They are installed after the wheel was imported without them."""
    sources: Annotated[tuple[forms.Text, ...], Distinct] = Field(default=(), examples=[["tests"]])
    """Files and folders beside the manifest that are copied into the command's working folder, which is otherwise
    empty. Unlike tests run from `{project}`, tests copied here cannot import the source tree by accident."""
    command: tuple[str, ...] = Field(default=(), examples=[["pytest", "-q", "{project}/tests"]])
    """The command, as a list of words; no shell is involved. `{project}` is a copy of the source tree that the wheel
    was built from. Default: the wheel is only imported."""
