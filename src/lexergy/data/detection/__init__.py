"""What a detector may see of a text, who wrote which sentence, and what is done to fool it."""
