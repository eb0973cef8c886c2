"""The dataset file: what it may say, where it says it, and what is wrong with it. Nothing here starts Spark."""
