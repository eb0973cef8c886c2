"""The template on LocalStack: an emulator of AWS on this machine, and what `sam deploy` makes there."""
