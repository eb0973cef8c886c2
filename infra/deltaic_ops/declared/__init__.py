"""Keep the catalog as YAML files: export it, compare it, and apply changes.

`deltaic plan catalog/` after a table was added to a file:

    files, model        read the YAML; mistakes are reported with file, line and column
    entries             read the catalog in the same form; compare the two
    steps               the changes in an order that removes rights before it adds any; which let somebody see more
    meaning             what each change means for recipients
    plan                what is printed, and what `apply` carries out

`applying` runs each step with the checks of the single command. Files never hold secrets, keys or ids.
"""
