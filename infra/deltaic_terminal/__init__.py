"""Terminal output, progress of steps and YAML files that people write: what the command line and the jobs share."""
