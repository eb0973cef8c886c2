"""CloudFormation: transform the template before its references are resolved, as AWS does.

The emulators first resolve every reference of a template to find macros inside resources, and refuse references to
resources that only SAM's transform creates, such as `!Ref Authorizer.Alias`. If a template has no macro inside a
resource, this search is skipped.
"""

import json
from typing import Any

from emulators.parts.emulator import Emulator

MACROS = ('"Fn::Transform"', '"Fn::ForEach')


def install(emulator: Emulator) -> None:
    """Skip the search where it cannot find anything."""
    kind = emulator.module("services.cloudformation.engine.v2.change_set_model_transform").ChangeSetModelTransform
    search = kind._execute_local_transforms

    def execute(self: Any) -> None:
        templates = (self._before_template, self._after_template)
        if any(has_macros(template) for template in templates if isinstance(template, dict)):
            search(self)

    kind._execute_local_transforms = execute


def has_macros(template: dict[str, Any]) -> bool:
    """Return whether macros stand inside resources of the template."""
    text = json.dumps(template.get("Resources", {}), default=str)
    return any(macro in text for macro in MACROS)
