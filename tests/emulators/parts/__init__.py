"""What LocalStack's open source lacks without Docker, as parts that run inside its process (`python -m`)."""
