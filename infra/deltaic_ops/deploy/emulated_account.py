"""Default account and region for the embedded AWS, and for ARNs in the resolved template."""

REGION = "us-east-1"
ACCOUNT = "000000000000"
