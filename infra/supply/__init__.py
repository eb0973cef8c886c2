"""Scripts around what the product ships besides its own code."""
