"""Run a plan: engine, runners, store and ledger. Knows nothing of CUDA, wheels or docker."""
