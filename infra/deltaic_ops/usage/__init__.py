"""Report who read what, as tables, plots and pages."""
