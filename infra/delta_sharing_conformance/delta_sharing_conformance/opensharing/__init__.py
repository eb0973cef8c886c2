"""What OpenSharing adds to Delta Sharing: formats of tables, assets that are folders, a door for Iceberg's clients."""
