"""The exceptions that are meant for the user's eyes."""


class UserError(Exception):
    """Bad input. The message is one sentence or two: what is wrong, where, and how to mend it."""


class InvariantError(UserError):
    """A measurement that contradicts its definition; the message has the record's address."""
