"""Keep the catalog as YAML files: export it, compare it, and apply changes.

Modules that carry out `deltaic plan catalog/`, in order:

    declaration_files, declaration  read and validate the YAML; errors have file, line and column
    differences                     read the catalog into the same model; compare files and catalog
    steps                           order the changes: rights are removed before any are added
    effects                         describe what recipients gain or lose
    plan                            combine differences, steps and effects into the printed plan

`plan_execution` carries out each step, with the checks of other commands. Files contain no secrets, keys or ids.
"""
