"""Pages and what is written beside them, a file for each kind."""
