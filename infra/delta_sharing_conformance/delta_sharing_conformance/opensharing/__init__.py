"""Checks of OpenSharing: table formats, volumes, skills, models and the Iceberg REST catalog."""
