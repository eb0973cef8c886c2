"""The texts of the server's own secrets."""

from deltaic.errors import Unavailable
from deltaic.storage.aws_client import control_client


def server_secret(name: str, region: str, endpoint: str = "") -> str:
    """Return the text of a secret of the server itself.

    Raises Unavailable whatever AWS says: it is nothing that a recipient could correct, and the cause goes to the log.
    """
    try:
        answer = control_client("secretsmanager", region, endpoint).get_secret_value(SecretId=name)
        return str(answer["SecretString"])
    except Unavailable:
        raise
    except Exception as error:
        raise Unavailable("the server cannot get at one of its own keys at the moment; try again") from error
