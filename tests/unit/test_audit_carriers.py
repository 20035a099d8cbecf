"""The table of carriers is what its packages say; the script that reads them keeps the rest of the file."""

from __future__ import annotations

from pathlib import Path

import tomli

ROOT = Path(__file__).parents[2]
TABLE = tomli.loads((ROOT / "gpuforge" / "cuda" / "data" / "carriers.toml").read_text())
BEFORE = """\
# why this row
[[carrier]]
package = "demo"
versions = ">=2"
known = ["2.1"]
loads = true
brings = ["nvidia-cublas-cu12"]  # the one before
source = "https://pypi.org/project/demo/2.1/"

[[carrier]]
package = "demo"
versions = "<2"
known = ["1.0"]
loads = true
brings = [
  "nvidia-cufft-cu12", "nvidia-nvtx-cu12",
]
source = "https://pypi.org/project/demo/1.0/"
"""


def test_rows_are_written_anew_and_what_stands_around_them_stays() -> None:
    import refresh_carriers as script

    old = ("nvidia-cufft-cu12", "nvidia-nvtx-cu12")
    text = script.rewritten(
        BEFORE, [script.Difference("carrier demo  <2", "brings", old, ("nvidia-cufft-cu12",))]
    )
    assert text == BEFORE.replace(
        'brings = [\n  "nvidia-cufft-cu12", "nvidia-nvtx-cu12",\n]', 'brings = [\n  "nvidia-cufft-cu12",\n]'
    )


def test_rows_that_no_package_says_have_the_reason() -> None:
    import refresh_carriers as script

    read = [row["package"] for _, row in script.rows(TABLE)]
    assert {"torch", "jax", "librmm-cu12"} <= set(read)
    by_hand = [row for kind in ("carrier", "library") for row in TABLE[kind] if "by-hand" in row]
    assert len(by_hand) < len(read) / 4
    assert all(len(row["by-hand"]) > 20 for row in by_hand)
