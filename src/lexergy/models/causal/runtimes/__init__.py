"""What feeds tokens to many continuations of one prefix, and which of it fits a model."""
