"""Test the format of times in messages."""

import pytest
from deltaic.timestamps import format_ms


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (253_370_764_800_000, "9999-01-01 00:00:00.0"),
        (1_651_272_635_000, "2022-04-29 22:50:35.0"),
        (1_651_272_635_120, "2022-04-29 22:50:35.12"),
        (1_651_272_635_007, "2022-04-29 22:50:35.007"),
        (-62_135_596_800_000, "0001-01-01 00:00:00.0"),
        (-62_135_596_799_877, "0001-01-01 00:00:00.123"),
        (10**18, "1000000000000000000 ms since 1970"),
    ],
)
def test_times_are_formatted_in_utc(milliseconds: int, text: str) -> None:
    assert format_ms(milliseconds) == text
