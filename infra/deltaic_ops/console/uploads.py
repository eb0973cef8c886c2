"""Save the file of a form on this machine, while the browser sends it."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from starlette.types import Receive

_FIELD: Final = re.compile(rb'name="(\w+)"\r\n\r\n(.*?)\r\n--', re.DOTALL)
_FILE: Final = re.compile(rb'name="file"; filename="([^"\r\n]*)"(?:\r\n[^\r\n]+)*\r\n\r\n')
_MAX_HEAD_BYTES: Final = 64 << 10


async def read_upload(receive: Receive, content_type: str, form_token: str, folder: str) -> dict[str, str] | None:
    """Read a multipart form, save its last field `file` in `folder`, and return the fields with the file's path.

    Saves nothing if the fields before the file lack the session's form token. Returns None if the form is incomplete.
    """
    chunks = _chunks(receive)
    head = b""
    while (start := _FILE.search(head)) is None and len(head) < _MAX_HEAD_BYTES:
        try:
            head += await anext(chunks)
        except StopAsyncIteration:
            return None
    if start is None:
        return None
    fields = {name.decode(): value.decode("utf-8", "replace") for name, value in _FIELD.findall(head[: start.start()])}
    if fields.get("token") != form_token:
        return fields
    name = Path(start[1].decode("utf-8", "replace").replace("\\", "/")).name or "file"
    path = Path(mkdtemp(dir=folder), name)
    end = f"\r\n--{content_type.partition('boundary=')[2]}--\r\n".encode()
    with path.open("wb+") as file:  # noqa: ASYNC230 -- one operator waits for it, and each write is short
        file.write(head[start.end() :])
        async for chunk in chunks:
            file.write(chunk)
        size = file.tell() - len(end)
        file.seek(max(size, 0))
        is_complete = file.read() == end
        file.truncate(max(size, 0))
    return {**fields, "file": str(path)} if is_complete else None


async def _chunks(receive: Receive) -> AsyncIterator[bytes]:
    message = await receive()
    while message["type"] != "http.disconnect":
        yield message.get("body", b"")
        if not message.get("more_body"):
            return
        message = await receive()
