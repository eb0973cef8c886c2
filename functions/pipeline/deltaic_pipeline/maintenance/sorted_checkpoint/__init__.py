"""A v2 checkpoint whose files lie by partition and clustering: a reader of few of them reads few of its rows."""
