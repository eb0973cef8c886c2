"""The name that was meant is told as it is spelled, and none where none is near."""

import pytest
from deltaic_terminal.nearest import did_you_mean


@pytest.mark.parametrize(
    ("misspelled", "expected"),
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
def test_the_nearest_name_is_suggested_in_its_spelling(misspelled: str, expected: str) -> None:
    assert did_you_mean(misspelled, ["label", "Vaccine_Share", "id"]) == expected
