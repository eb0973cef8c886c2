"""Endpoints of the same store have the same name, however they are spelled."""

import pytest
from deltaic.storage.endpoints import AWS, store_name

SPELLINGS = {
    "localhost:9000": """
        http://localhost:9000 http://LOCALHOST:9000/ https://127.0.0.1:9000 http://127.1:9000 http://127.8.0.1:9000
        http://0.0.0.0:9000 http://[::1]:9000 http://[::ffff:127.0.0.1]:9000 http://s3.localhost.:9000/path
    """,
    "localhost": "http://localhost http://127.0.0.1:80 https://localhost:443",
    "minio": "http://minio http://MinIO:80/ https://minio https://minio:443 http://minio./x",
    "10.0.0.1": "http://10.0.0.1 http://10.1 http://[::ffff:10.0.0.1]",
    "minio:9000": "http://minio:9000 https://minio:9000",
    AWS: """
        https://s3.amazonaws.com https://s3.eu-west-1.amazonaws.com. https://s3.cn-north-1.amazonaws.com.cn
        https://bucket.vpce-1a2b.s3.us-east-1.vpce.amazonaws.com
    """,
    "amazonaws.com.example": "https://amazonaws.com.example",
    "evil-amazonaws.com": "https://evil-amazonaws.com",
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_of_a_store_have_one_name(name: str) -> None:
    assert {store_name(endpoint) for endpoint in SPELLINGS[name].split()} == {name}


def test_no_endpoint_is_aws() -> None:
    assert store_name("") == AWS
