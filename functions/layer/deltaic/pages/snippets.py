"""Code snippets that a recipient can use to read a shared table, one for each client.

Names come from the provider and are not trusted: each is quoted for its language, so that it cannot inject code.
"""

import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple


class Snippet(NamedTuple):
    """Code or instructions that read a shared table with one client."""

    client: str
    text: str
    note: str = ""


class Example(NamedTuple):
    """Table and profile that the snippets use; the names are empty if no table is shared."""

    endpoint: str
    profile: str
    share: str
    schema: str
    table: str
    explore: str = ""
    """URL of the explore page; empty if the stack has none."""

    version: int | None = None
    timestamp: str = ""
    """Version or time to read; the latest version without both."""


_TOKEN: Final = "PASTE_THE_BEARER_TOKEN_OF_THE_PROFILE"  # noqa: S105 -- a placeholder
_READS_VERSIONS: Final = {"Python with pandas", "polars", "Spark", "R"}
_TOKEN_NOTE: Final = "The bearer token is in the profile, as bearerToken."  # noqa: S105


def snippets(example: Example) -> Sequence[Snippet]:
    """Return a snippet for each client that reads the example's table, and its version if it has one."""
    url = f"{example.profile}#{example.share}.{example.schema}.{example.table}"
    dotted = f"{example.share}.{example.schema}.{example.table}"
    python, sql = _python_literal, _sql_literal
    argument = option = whole = ""
    if example.version is not None:
        argument, option, whole = f", version={example.version}", f'.option("versionAsOf", {example.version})', "L"
    elif example.timestamp:
        time = python(example.timestamp)
        argument, option = f", timestamp={time}", f'.option("timestampAsOf", {time})'
    samples = (
        Snippet(
            "Python with pandas",
            f"# pip install delta-sharing\nimport delta_sharing\n\n"
            f"data = delta_sharing.load_as_pandas({python(url)}{argument})",
        ),
        Snippet(
            "Spark",
            "# spark-submit --packages io.delta:delta-sharing-spark_4.1_2.13:4.2.0\n"
            f'data = spark.read.format("deltaSharing"){option}.load({python(url)})',
        ),
        Snippet(
            "DuckDB",
            "INSTALL delta_sharing FROM community;\nLOAD delta_sharing;\n"
            f"CREATE SECRET (TYPE delta_sharing, PROVIDER config, ENDPOINT {sql(example.endpoint)}, "
            f"BEARER_TOKEN {sql(_TOKEN)});\n"
            f"SELECT * FROM delta_share_read({sql(example.share)}, {sql(example.schema)}, {sql(example.table)});",
            _TOKEN_NOTE,
        ),
        Snippet(
            "polars",
            "# pip install delta-sharing polars\nimport delta_sharing\nimport polars\n\n"
            f"data = polars.from_pandas(delta_sharing.load_as_pandas({python(url)}{argument}))",
        ),
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
            f"data <- sharing$load_as_pandas({python(url)}{argument}{whole})",
        ),
        Snippet(
            "Power BI",
            f"Get data > Delta Sharing\nServer URL: {example.endpoint}\nBearer token: {_TOKEN}\nthen choose {dotted}",
            _TOKEN_NOTE,
        ),
        Snippet(
            "Excel",
            f"Data > Get Data > From Other Sources > Blank Query, then in the formula bar:\n"
            f"= DeltaSharing.Contents({_m_literal(example.endpoint)})",
            "Power Query asks for the bearer token: choose Key and paste it. "
            "Not all versions of Excel have this function; Power BI does.",
        ),
        Snippet("Tableau", f"Connect > To a Server > Delta Sharing by Databricks, then upload {example.profile}"),
        Snippet(
            "Snowflake",
            "CREATE CATALOG INTEGRATION shared\n  CATALOG_SOURCE = DELTA_SHARING TABLE_FORMAT = DELTA\n"
            f"  REST_CONFIG = (CATALOG_URI = {_snowflake_literal(example.endpoint)}\n"
            f"                 CATALOG_NAME = {_snowflake_literal(f'shares/{example.share}')}\n"
            "                 ACCESS_DELEGATION_MODE = VENDED_CREDENTIALS)\n"
            f"  REST_AUTHENTICATION = (TYPE = BEARER BEARER_TOKEN = {sql(_TOKEN)})\n  ENABLED = TRUE;",
            f"Then create a catalog-linked database. Snowflake reads tables with directory access. {_TOKEN_NOTE}",
        ),
    )
    return samples if not argument else [sample for sample in samples if sample.client in _READS_VERSIONS]


def _python_literal(text: str) -> str:
    """Return a string as a literal of Python and R, with invisible and text direction characters escaped."""
    return '"' + "".join(_escape_character(character) for character in text) + '"'


def _escape_character(character: str) -> str:
    if character in {'"', "\\"}:
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def _sql_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _snowflake_literal(text: str) -> str:
    """Return a string literal for Snowflake, where a backslash is an escape character, unlike in standard SQL."""
    return _sql_literal(text.replace("\\", "\\\\"))


def _m_literal(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
