"""What is known of a deployed stack: its outputs, its template."""
