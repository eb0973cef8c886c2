"""The account and the region that the embedded AWS and the template's ARNs are in, where nothing else is said."""

REGION = "us-east-1"
ACCOUNT = "000000000000"
