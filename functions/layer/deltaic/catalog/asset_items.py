"""Stored items of the shared assets that are not tables: volumes, skills, models and model versions.

Volumes, skills and model versions are folders, of which every file is shared. A model only groups its versions.
"""

from datetime import datetime
from typing import ClassVar, Final, Literal

import msgspec

from deltaic.catalog.items import AccessMode, SchemaEntry

AssetKind = Literal["volume", "skill", "model"]


class Asset(SchemaEntry, frozen=True, kw_only=True):
    """Base class of the assets of a schema: volumes, skills and models."""

    kind: ClassVar[AssetKind]

    comment: str = ""
    created_at: datetime


class Folder(Asset, frozen=True, kw_only=True):
    """Base class of assets that are folders: recipients may read every file below their location."""

    location: str
    access_modes: tuple[AccessMode, ...] = ("url", "dir")
    """url: the server lists the files and signs a URL for each; dir: recipients get credentials for the folder."""

    storage: str = ""
    """Name of the storage of the location; empty: AWS S3, read with the function's role."""

    @property
    def name_in_schema(self) -> str:
        """Name without share and schema, with a model version's number, as request logs contain it."""
        return self.title.rpartition(".")[2]


class Volume(Folder, frozen=True, kw_only=True):
    """A folder with files of any type."""

    kind = "volume"


class Skill(Folder, frozen=True, kw_only=True):
    """A folder with instructions for AI agents; its attributes are copied from its SKILL.md (agentskills.io)."""

    kind = "skill"

    description: str
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    """Names of the tools that the skill may use, separated by spaces."""

    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class Model(Asset, frozen=True, kw_only=True):
    """A registered machine-learning model, which has a name and versions."""

    kind = "model"


class ModelVersion(Folder, frozen=True, kw_only=True):
    """Version of the model `name`: a folder with all files that are necessary to use it."""

    kind = "model"

    version: int
    source: str = ""
    """Where the files come from: a string that recipients see, and that the server does not interpret."""

    run_id: str = ""

    @property
    def key(self) -> str:
        """Sort key in the list of the model's versions."""
        return f"{self.version:019d}"

    @property
    def title(self) -> str:
        """Full name and version, `share.schema.model version`."""
        return f"{self.share}.{self.schema_name}.{self.name} {self.version}"


FOLDERS: Final[tuple[type[Volume | Skill], ...]] = (Volume, Skill)
"""Types of assets that are folders without versions."""
