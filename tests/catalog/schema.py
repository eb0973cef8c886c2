"""The schema of the two DynamoDB tables: the one truth that `template.yaml` mirrors and tests create from.

Both tables have a string partition key `pk` and a string sort key `sk`, no index, on-demand billing. Everything is
found by key or by key prefix; only operators' lists of what all recipients hold scan for it:

    Catalog   pk                    sk                              item
              shares                share/<share>                   a share, with the count of its schemas
              share/<share>         schema/<schema>                 a schema, with the count of its tables
              share/<share>         table/<schema>/<table>          a table
              share/<share>         follow/<schema>                 what a schema follows, and how the last look went
              share/<share>         grant/<recipient id>            a grant, seen from the share
              share/<share>         overlaps                        how often its tables moved and grants got filters
              overlaps              overlaps                        the revision of what is shared by folder or in part
              recipients            recipient/<recipient>           a recipient
              recipient/<id>        recipient                       that the recipient exists, and its name
              recipient/<id>        grant/<share>                   a grant, seen from the recipient
              storages              storage/<storage>               a storage, with the count of tables that use it
              query/<recipient id>  <table id>/<SHA-256 hex>        a submitted query, while its result can be asked for
              lease/<SHA-256 hex>   lease                           who writes to the table at this location
              checkpoint/<SHA-256>  checkpoint                      when this location was looked at for a checkpoint
              version/<SHA-256>     version                         the version at this location that was told last
    Tokens    token/<SHA-256 hex>   token                           a token, as the authorizer reads it
              recipient/<id>        token/<token id>                a token, as the recipient's list shows it
              recipient/<id>        tokens                          the revision of that list
              issuer/<SHA-256 hex>  policy/<SHA-256 hex>            a policy on the JWTs of this issuer
              recipient/<id>        policy/<policy id>              a policy, as the recipient's list shows it
              client/<client id>    client                          a client of ours, with the hash of its secret
              recipient/<id>        client/<0 to 4>                 a client, as the recipient's list shows it

Names stand lower-cased in keys (`keys.segment`); the original spelling is an attribute.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PARTITION_KEY: Final = "pk"
SORT_KEY: Final = "sk"
EXPIRY: Final = "expires"
"""The Tokens table's time-to-live attribute, epoch seconds; of a token, not of its place in a list, also its end, which
readers check too, since deletion lags by days."""

CATALOG_EXPIRY: Final = "expires_at"
"""The Catalog table's, likewise; only queries and their count have it. A lease stays: its fence goes on counting."""


def create(client: "DynamoDBClient", catalog_table: str, tokens_table: str) -> None:
    """Create both tables where no template does it (tests, the embedded AWS); tables that exist are left alone."""
    for name, expiry in ((catalog_table, CATALOG_EXPIRY), (tokens_table, EXPIRY)):
        try:
            client.create_table(
                TableName=name,
                AttributeDefinitions=[
                    {"AttributeName": PARTITION_KEY, "AttributeType": "S"},
                    {"AttributeName": SORT_KEY, "AttributeType": "S"},
                ],
                KeySchema=[
                    {"AttributeName": PARTITION_KEY, "KeyType": "HASH"},
                    {"AttributeName": SORT_KEY, "KeyType": "RANGE"},
                ],
                BillingMode="PAY_PER_REQUEST",
            )
        except client.exceptions.ResourceInUseException:
            continue
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
        client.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": expiry})
