"""The error that every command of tools/package reports."""


class PackageError(Exception):
    """What happened, where, and what to do: one sentence for the person who called tools/package."""
