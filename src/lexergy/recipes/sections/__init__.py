"""What recipes are made of; a recipe itself is a file of the folder above."""
