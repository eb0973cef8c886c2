"""The Spark jobs: they publish, build, maintain and refresh what is shared, and collect who read it."""
