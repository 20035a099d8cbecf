"""What holds for all tests: short names, and whether there is an OpenCL device."""

import pytest
from hypothesis import settings
from pocl import needed

settings.register_profile("usual", deadline=None)  # a busy machine exceeds any
settings.load_profile("usual")  # --hypothesis-profile names another
_LONGEST = 200  # characters of a value in a test's name


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a long value by its size: pytest hands a test's name to each program that the test starts, in a variable.

    The kernel refuses variables of more than 128 KiB (MAX_ARG_STRLEN of linux/binfmts.h).
    """
    if isinstance(val, str | bytes) and len(val) > _LONGEST:
        return f"{type(val).__name__} of {len(val)}"
    return None


@pytest.fixture(scope="session")
def pocl() -> None:
    """Skip tests that need an OpenCL device where PoCL is none."""
    needed()
