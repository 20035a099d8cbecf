"""`[audit]`: what is audited with the wheel, and the findings that are accepted."""

from __future__ import annotations

from pydantic import Field

from gpuforge.manifest import forms
from gpuforge.manifest.model.table import Table


class Ignore(Table):
    """A finding of the audit that is accepted, with the reason."""

    rule: forms.RuleCode = Field(examples=["GF205"])
    """Code of the rule, as the audit prints it."""
    file: forms.Text = Field(default="*", examples=["libexample*.so*"])
    """Pattern of the files in the wheel for which the finding is accepted. `*` also matches `/`."""
    reason: forms.Text = Field(examples=["loaded only by the profiler, never beside libcudart"])
    """Why the finding is accepted; shown in the report."""


class Audit(Table):
    """Settings for the audit of the wheels."""

    beside: tuple[forms.PythonRequirement, ...] = Field(default=(), examples=[["jax[cuda12]"]])
    """Packages that must work in the same process as this one. `build` resolves each together with the wheel and audits
    both. Packages for another CUDA major are skipped (`jax[cuda12]` for a CUDA 13 wheel)."""
    ignore: tuple[Ignore, ...] = Field(
        default=(), examples=[[{"rule": "GF205", "file": "*", "reason": "why it is accepted"}]]
    )
    """Findings that are accepted."""
