"""The proofs of an audit: their values (`proof`), and the conditions of each (`prove`; `beside` for other packages)."""
