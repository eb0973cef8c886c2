"""The items of what is shared beside tables: volumes, skills, models and their versions; all frozen.

All but the model itself are folders of files, which are shared whole.
"""

from datetime import datetime
from typing import ClassVar, Final, Literal

import msgspec

from deltaic.catalog.items import AccessMode, InSchema

AssetKind = Literal["volume", "skill", "model"]


class Asset(InSchema, frozen=True, kw_only=True):
    """What has a name beside the tables of a schema."""

    kind: ClassVar[AssetKind]

    comment: str = ""
    created_at: datetime


class Folder(Asset, frozen=True, kw_only=True):
    """An asset that is a folder: whoever may read it may read all that lies below its location."""

    location: str
    access_modes: tuple[AccessMode, ...] = ("url", "dir")
    """url: files are listed and signed by the server; dir: credentials for the folder."""

    storage: str = ""
    """Name of the storage that holds the location; empty: AWS S3, read as the function itself."""

    @property
    def name_in_schema(self) -> str:
        """Its name below the schema, of a model's version with the number: as logs of requests have it."""
        return self.title.rpartition(".")[2]


class Volume(Folder, frozen=True, kw_only=True):
    """A folder of any files."""

    kind = "volume"


class Skill(Folder, frozen=True, kw_only=True):
    """A folder that an agent loads; what is said of it stands in its SKILL.md, from which it was copied."""

    kind = "skill"

    description: str
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    """Names with blanks between."""

    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class Model(Asset, frozen=True, kw_only=True):
    """A registered model: a name for its versions."""

    kind = "model"


class ModelVersion(Folder, frozen=True, kw_only=True):
    """The files of one version of the model `name`; only versions that are ready are entered."""

    kind = "model"

    version: int
    source: str = ""
    """Where the files came from, for information."""

    run_id: str = ""

    @property
    def key(self) -> str:
        """The position in the listing of the model's versions."""
        return f"{self.version:019d}"

    @property
    def title(self) -> str:
        """Its name as one types it."""
        return f"{self.share}.{self.schema_name}.{self.name} {self.version}"


FOLDERS: Final[tuple[type[Volume | Skill], ...]] = (Volume, Skill)
"""The kinds of assets that are folders themselves."""
