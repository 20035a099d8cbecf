"""The manifest as written: gpuforge.toml read into frozen values, every error at once."""
