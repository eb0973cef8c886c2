"""Check whether variables name an AWS; nothing of the embedded one is imported to find out."""

from collections.abc import Mapping

_NAMING = (
    "AWS_ENDPOINT_URL",
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def names_aws(variables: Mapping[str, str]) -> bool:
    """Tell whether the ordinary AWS variables name an AWS to use."""
    return any(variables.get(name) for name in _NAMING)
