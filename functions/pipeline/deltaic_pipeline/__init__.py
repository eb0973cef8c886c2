"""The Spark jobs: publish, narrow and maintain what is shared."""
