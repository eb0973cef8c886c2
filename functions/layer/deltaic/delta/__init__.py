"""The Delta log: which files make a version and which changes lie between two. No AWS: I/O is handed in."""
