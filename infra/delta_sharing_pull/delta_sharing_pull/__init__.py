"""Downloads shared tables and folders from any Delta Sharing server, and keeps the copies up to date.

One table on its way into a folder, `delta-sharing-pull alice.share#sales.eu.orders orders/`:

    command        finds out that the target is a Delta table, and prints the result at the end
    server         reads the profile, sends each request with its token, and repeats what failed for a moment
    answers        decodes the answer into typed structs, or refuses it
    snapshot       version 4: Delta's protocol and metadata, files a, b and c, and a signed URL for each
    delta_copy     the folder has version 3 with files a and x, so b and c are missing
    table_files    downloads b and c, `fetching` byte for byte, and renews URLs that expire
    delta_copy     adds b and c and removes x in one commit, which names version 4 of the source

`tables` runs these steps, `tally` counts for the progress bar. A Parquet or CSV file takes `reading` and `row_files` in
place of `delta_copy`; volumes, skills and models take `shared_folders` and `folders`. It uploads nothing, runs no
queries, and trusts no server: see `delta_sharing_conformance.untrusted_http`.
"""
