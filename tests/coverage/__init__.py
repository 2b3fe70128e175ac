"""`make coverage`: lines and branches of Python and C that tests execute."""
