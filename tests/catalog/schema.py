"""Create the two DynamoDB tables without a template; `template.yaml` must have the same schema."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PARTITION_KEY: Final = "pk"
SORT_KEY: Final = "sk"
EXPIRY: Final = "expires"
"""The time-to-live attribute of the Tokens table, in epoch seconds."""

CATALOG_EXPIRY: Final = "expires_at"
"""The time-to-live attribute of the Catalog table, which only queries and their counts have."""


def create(client: "DynamoDBClient", catalog_table: str, tokens_table: str) -> None:
    """Create both tables, unless they exist."""
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
