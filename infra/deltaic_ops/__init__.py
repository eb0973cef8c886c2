"""The operator's side of Deltaic: command line, local running, deployment, verification."""
