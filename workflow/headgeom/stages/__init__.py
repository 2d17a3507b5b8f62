"""Commands of the workflow, one a rule: arguments in, files out."""
