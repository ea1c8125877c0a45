"""The page on which people judge, with a server or as a file."""
