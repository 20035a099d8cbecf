"""The lookup, held to tests/conformance: which places are looked in, in which order, and why each is used or not."""

import pytest
from conformance_cases import NAMES, check, explained, lay_out


@pytest.mark.parametrize("name", NAMES)
def test_the_runtime_explains_a_case_as_written_down(name, tmp_path):
    case = lay_out(name, tmp_path)
    check(case, name, *explained(case))
