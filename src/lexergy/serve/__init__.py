"""HTTP apps and their pages."""
