"""Print text, show progress and read YAML files, for the command line and for Spark jobs."""
