"""The wire half of an answer: its head lines, the lines of files and of changes, and those that are kept."""
