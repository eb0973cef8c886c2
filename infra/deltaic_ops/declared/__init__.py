"""Keep the catalog as YAML files: export it, compare it, and apply changes.

`deltaic plan catalog/` after a table was added to a file:

    declaration_files, declaration  read the YAML; mistakes are reported with file, line and column
    differences                     read the catalog in the same form; compare the two
    steps                           order the changes: rights are removed before any are added
    effects                         describe what each change means for recipients
    plan                            collect the steps and effects that are printed

`plan_execution` runs each step with the checks of the single command. Files never hold secrets, keys or ids.
"""
