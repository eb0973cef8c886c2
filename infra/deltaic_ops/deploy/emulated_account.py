"""Default account and region of the embedded AWS and of ARNs in the template."""

REGION = "us-east-1"
ACCOUNT = "000000000000"
