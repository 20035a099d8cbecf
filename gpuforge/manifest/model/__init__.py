"""The manifest as written: one frozen model per table of `gpuforge.toml`.

The JSON schema and `docs/manifest.md` are generated from these classes and the docstrings under their fields.
Conditions between keys are in `gpuforge.manifest.relations`, which reads the raw data, so that all errors are reported
at once.
"""
