"""GF3xx: RPATH and RUNPATH."""
