"""What recipients may see, asked of the code that answers them, and by which keys and profile files they come."""
