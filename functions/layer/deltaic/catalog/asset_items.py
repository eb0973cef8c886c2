"""Frozen items of shared assets other than tables: volumes, skills, models and their versions.

All except the model itself are folders whose files are all shared.
"""

from datetime import datetime
from typing import ClassVar, Final, Literal

import msgspec

from deltaic.catalog.items import AccessMode, SchemaEntry

AssetKind = Literal["volume", "skill", "model"]


class Asset(SchemaEntry, frozen=True, kw_only=True):
    """A volume, a skill or a model of a schema."""

    kind: ClassVar[AssetKind]

    comment: str = ""
    created_at: datetime


class Folder(Asset, frozen=True, kw_only=True):
    """An asset that is a folder: its recipients may read every file below its location."""

    location: str
    access_modes: tuple[AccessMode, ...] = ("url", "dir")
    """url: the server lists and signs files; dir: credentials for the folder."""

    storage: str = ""
    """Name of the storage of the location; empty: AWS S3, read with the function's role."""

    @property
    def name_in_schema(self) -> str:
        """The name below the schema, with a version's number, as in request logs."""
        return self.title.rpartition(".")[2]


class Volume(Folder, frozen=True, kw_only=True):
    """A folder of any files."""

    kind = "volume"


class Skill(Folder, frozen=True, kw_only=True):
    """A folder that an agent loads; its attributes are copied from its SKILL.md."""

    kind = "skill"

    description: str
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    """Names, separated by spaces."""

    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class Model(Asset, frozen=True, kw_only=True):
    """A registered model: a name for its versions."""

    kind = "model"


class ModelVersion(Folder, frozen=True, kw_only=True):
    """The files of one version of the model `name`, which is ready to use."""

    kind = "model"

    version: int
    source: str = ""
    """Origin of the files, for information."""

    run_id: str = ""

    @property
    def key(self) -> str:
        """The position in the listing of the model's versions."""
        return f"{self.version:019d}"

    @property
    def title(self) -> str:
        """The full name with the version."""
        return f"{self.share}.{self.schema_name}.{self.name} {self.version}"


FOLDERS: Final[tuple[type[Volume | Skill], ...]] = (Volume, Skill)
"""The kinds of assets that are folders without versions."""
