"""Not typed but for the tables that it gives: used at the edges only."""

from typing import Any

from pyarrow import Table

def __getattr__(name: str) -> Any: ...
def read_table(source: object, **options: Any) -> Table: ...
