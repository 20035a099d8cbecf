"""From facts to the link graph: where each NEEDED library comes from, and how the dynamic linker finds it."""
