"""What a recipient types to read a shared table, for each client, with the real names in the spelling of its language.

Names are somebody else's text: each is quoted as its language quotes it, so that none can say more than a name.
"""

import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import quote


class Snippet(NamedTuple):
    """How one client reads the table."""

    client: str
    text: str
    note: str = ""


class Example(NamedTuple):
    """The table that snippets read, if the recipient has one yet, and what its profile says."""

    endpoint: str
    profile: str
    """The profile's file name."""
    share: str
    schema: str
    table: str
    is_directory: bool = False
    """Whether the table's own folder may be read."""

    explore: str = ""
    """The address of the page that shows tables in the browser, if there is one."""


_TOKEN: Final = "PASTE_THE_BEARER_TOKEN_OF_THE_PROFILE"  # noqa: S105 -- what stands for it
_TOKEN_NOTE: Final = "The bearer token stands in the profile, as bearerToken."  # noqa: S105


def snippets(example: Example) -> Sequence[Snippet]:
    """Return how each client reads the table."""
    url = f"{example.profile}#{example.share}.{example.schema}.{example.table}"
    three = f"{example.share}.{example.schema}.{example.table}"
    python, sql = _literal, _sql
    return (
        Snippet(
            "Python with pandas",
            f"# pip install delta-sharing\nimport delta_sharing\n\ndata = delta_sharing.load_as_pandas({python(url)})",
        ),
        Snippet(
            "Spark",
            "# spark-submit --packages io.delta:delta-sharing-spark_4.1_2.13:4.2.0\n"
            f'data = spark.read.format("deltaSharing").load({python(url)})',
        ),
        Snippet(
            "DuckDB",
            "INSTALL delta_sharing FROM community;\nLOAD delta_sharing;\n"
            f"CREATE SECRET (TYPE delta_sharing, PROVIDER config, ENDPOINT {sql(example.endpoint)}, "
            f"BEARER_TOKEN {sql(_TOKEN)});\n"
            f"SELECT * FROM delta_share_read({sql(example.share)}, {sql(example.schema)}, {sql(example.table)});",
            _TOKEN_NOTE,
        ),
        *([_polars(example)] if example.is_directory else []),
        Snippet(
            "curl",
            f"curl --header {shlex.quote(f'Authorization: Bearer {_TOKEN}')} \\\n"
            f"  {shlex.quote(f'{example.endpoint}/shares')}",
            _TOKEN_NOTE,
        ),
        Snippet(
            "R",
            '# install.packages("reticulate"); reticulate::py_install("delta-sharing")\n'
            'sharing <- reticulate::import("delta_sharing")\n'
            f"data <- sharing$load_as_pandas({python(url)})",
        ),
        Snippet(
            "Power BI",
            f"Get data > Delta Sharing\nServer URL: {example.endpoint}\nBearer token: {_TOKEN}\nthen choose {three}",
            _TOKEN_NOTE,
        ),
        Snippet(
            "Excel",
            f"Data > Get Data > From Other Sources > Blank Query, then in the formula bar:\n"
            f"= DeltaSharing.Contents({_m(example.endpoint)})",
            "Power Query asks for the bearer token: choose Key and paste it. "
            "Not every Excel has this function; Power BI does.",
        ),
        Snippet("Tableau", f"Connect > To a Server > Delta Sharing by Databricks, then upload {example.profile}"),
        Snippet(
            "Snowflake",
            "CREATE CATALOG INTEGRATION shared\n  CATALOG_SOURCE = DELTA_SHARING TABLE_FORMAT = DELTA\n"
            f"  REST_CONFIG = (CATALOG_URI = {_snowflake(example.endpoint)}\n"
            f"                 CATALOG_NAME = {_snowflake(f'shares/{example.share}')}\n"
            "                 ACCESS_DELEGATION_MODE = VENDED_CREDENTIALS)\n"
            f"  REST_AUTHENTICATION = (TYPE = BEARER BEARER_TOKEN = {sql(_TOKEN)})\n  ENABLED = TRUE;",
            f"Then make a catalog-linked database of it. Snowflake reads tables with directory access. {_TOKEN_NOTE}",
        ),
    )


def _polars(example: Example) -> Snippet:
    names = (quote(name, safe="") for name in (example.share, example.schema, example.table))
    path = "/shares/{}/schemas/{}/tables/{}/temporary-table-credentials".format(*names)
    return Snippet(
        "polars",
        "# pip install polars deltalake\nimport json, urllib.request\nimport polars\n\n"
        f"profile = json.load(open({_literal(example.profile)}))\n"
        f"ask = urllib.request.Request(profile['endpoint'] + {_literal(path)}, data=b'{{}}',\n"
        "    headers={'Authorization': 'Bearer ' + profile['bearerToken'], 'Content-Type': 'application/json'})\n"
        "answer = json.load(urllib.request.urlopen(ask))['credentials']\n"
        "keys = answer['awsTempCredentials']\n"
        "options = {'AWS_ACCESS_KEY_ID': keys['accessKeyId'], 'AWS_SECRET_ACCESS_KEY': keys['secretAccessKey'],\n"
        "           'AWS_SESSION_TOKEN': keys['sessionToken'], 'AWS_REGION': answer['region']}\n"
        "if 'endpoint' in answer:\n"
        "    options |= {'AWS_ENDPOINT_URL': answer['endpoint'], 'AWS_ALLOW_HTTP': 'true'}\n"
        "data = polars.read_delta(answer['location'], storage_options=options)",
        "Not for tables with column mapping, nor for partition values with escaped letters: read those with pandas.",
    )


def _literal(text: str) -> str:
    """Return a text as Python and R write it; what cannot be seen, or reorders what is read, is escaped."""
    return '"' + "".join(_letter(one) for one in text) + '"'


def _letter(one: str) -> str:
    if one in {'"', "\\"}:
        return f"\\{one}"
    return one if one.isprintable() else f"\\U{ord(one):08x}"


def _sql(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _snowflake(text: str) -> str:
    """Return a text of Snowflake's SQL, to which a backslash says something, as it does not in the standard."""
    return _sql(text.replace("\\", "\\\\"))


def _m(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
