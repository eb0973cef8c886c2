"""Read the server's secrets from AWS Secrets Manager."""

from deltaic.errors import Unavailable
from deltaic.storage.aws_client import control_client


def server_secret(name: str, region: str, endpoint: str = "") -> str:
    """Return the value of a secret of the server.

    All errors of AWS raise Unavailable, because recipients cannot fix them; the cause is in the log.
    """
    try:
        answer = control_client("secretsmanager", region, endpoint).get_secret_value(SecretId=name)
        return str(answer["SecretString"])
    except Unavailable:
        raise
    except Exception as error:
        raise Unavailable("the server cannot use one of its keys at the moment; try again") from error
