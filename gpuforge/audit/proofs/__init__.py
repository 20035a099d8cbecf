"""What an audit proves of a wheel: the values (`proof`), and what has to hold for each (`prove`)."""
