"""Whether energies tell machine text from people's, and how far that carries."""
