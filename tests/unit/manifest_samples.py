"""How manifests of tests begin."""

PACKAGE = """\
schema = 1
[package]
name = "demo"
python = ["3.11"]
"""
WITH_CUDA = (
    PACKAGE
    + """\
[cuda.13]
toolkit = "13.0"
archs = ["80"]
"""
)
