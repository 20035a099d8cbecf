"""Tables that are made from packages still say what the packages on the index say."""

from pathlib import Path

import pytest
import tomli

ROOT = Path(__file__).parents[2]
CARRIERS = tomli.loads((ROOT / "gpuforge" / "cuda" / "data" / "carriers.toml").read_text())
SAMPLE = [
    "torch",
    "jax",
    "jax-cuda13-plugin",
    "librmm-cu12",
    "cutensornet-cu13",
    "rapids-logger",
    "libcuml-cu13",
]


@pytest.mark.network
def test_a_sample_of_the_carriers_is_what_the_index_says():
    import refresh_carriers as script

    assert set(SAMPLE) <= {row["package"] for _, row in script.rows(CARRIERS)}
    assert [str(difference) for difference in script.compare(CARRIERS, SAMPLE)] == []
