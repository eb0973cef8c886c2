"""A Delta table as jobs read and write it: sources, rows, lease, properties and its catalog entry."""
