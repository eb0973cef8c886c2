"""What recipients may see, asked of the code that answers them: never a second reading of the rules."""
