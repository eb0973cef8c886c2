"""Writes Iceberg metadata for versions of a Delta table, whose data files stay where they are.

    table_version       what is handed in: one version's metadata and live files, and where to read and put
    table_schema        columns with field ids, partitions, name mapping; refuses what Iceberg clients would misread
    generation          a version's new manifests and manifest list, made from those of another version
    file_index          what was made and of which files: the next version starts from it, signing looks files up in it
    table_document      the table as Iceberg's metadata has it, of the versions that an index lists

Manifests hold a thousand files each and are named by their content, so that a commit makes a few of them anew and all
others serve on. Nothing here knows AWS; reading and putting are handed in.
"""
