"""Reading objects, signing URLs, vending credentials."""
