"""The name that was meant is told as it is spelled, and none where none is near."""

import pytest
from deltaic_terminal.nearest import did_you_mean


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("lable", ": did you mean label?"),
        ("VACCINE_SHAR", ": did you mean Vaccine_Share?"),
        ("label_of_lot", ": did you mean label?"),
        ("vacc", ": did you mean Vaccine_Share?"),
        ("ident", ""),
        ("xyz", ""),
        ("", ""),
    ],
)
def test_the_nearest_name_is_told_as_it_is_spelled(word: str, told: str) -> None:
    assert did_you_mean(word, ["label", "Vaccine_Share", "id"]) == told
