"""The version, in a file of its own so that reading it imports nothing."""

__version__ = "1.0.0"
