"""Commands that manage recipients, grants, tokens and limits."""
