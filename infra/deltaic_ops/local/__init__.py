"""Running Deltaic on one machine: the embedded AWS and the local gateway."""
