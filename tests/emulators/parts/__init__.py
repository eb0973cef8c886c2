"""Run functions in LocalStack without Docker: parts inside its process (`python -m`)."""
