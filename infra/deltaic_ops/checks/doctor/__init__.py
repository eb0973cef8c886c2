"""What is looked at in a deployed stack, one thing a module; nothing of it is changed."""
