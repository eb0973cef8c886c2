"""Code of the scheduled functions that check followed sources and send notices, and the list of expirations."""
