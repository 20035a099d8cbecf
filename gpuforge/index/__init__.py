"""Package indexes: pip's settings for them, what uv chooses from them, and wheels on them read by byte ranges."""
