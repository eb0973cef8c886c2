"""The embedded AWS keeps what was written although its process is killed."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import boto3
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_ops.local.keeper import SAVE_SECONDS


def table(aws: EmbeddedAws) -> Any:
    known = aws.environment
    session = boto3.Session(known["AWS_ACCESS_KEY_ID"], known["AWS_SECRET_ACCESS_KEY"], region_name=known["AWS_REGION"])
    return session.resource("dynamodb", endpoint_url=aws.endpoint).Table("kept")


def test_a_write_outlives_the_process(tmp_path: Path) -> None:
    with EmbeddedAws(tmp_path) as first:
        table(first).meta.client.create_table(
            TableName="kept",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        )
        table(first).put_item(Item={"pk": "a"})
        time.sleep(SAVE_SECONDS + 1)
        os.kill(first.pid, signal.SIGKILL)
    with EmbeddedAws(tmp_path) as second:
        assert table(second).get_item(Key={"pk": "a"})["Item"] == {"pk": "a"}
