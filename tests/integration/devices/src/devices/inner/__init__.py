"""The extension lies deeper than the package, as RUNPATH must know."""
