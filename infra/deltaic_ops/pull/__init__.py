"""What a recipient takes home from any Delta Sharing or OpenSharing server: tables as files, folders as folders."""
