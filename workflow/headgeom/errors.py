"""The one exception that is meant for the user's eyes."""


class UserError(Exception):
    """Bad input. The message is one sentence or two: what is wrong, where, and how to mend it."""
