"""The copies of the project that tests of the workflow share."""

from projects import finished, fresh, project, real

__all__ = ["finished", "fresh", "project", "real"]
