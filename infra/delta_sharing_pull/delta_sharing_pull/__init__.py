"""Download shared tables and folders from any Delta Sharing server, and keep the copies up to date.

These modules take part when you run `delta-sharing-pull alice.share#sales.eu.orders orders/`:

    command           parses the arguments (`orders/` means a Delta table), and prints the result at the end
    server            reads the profile, sends each request with its token, and retries temporary failures
    responses         decodes responses into typed structs, or rejects them
    snapshot          queries version 4: Delta's protocol and metadata, files a, b and c, and a signed URL for each
    delta_copy        finds version 3 with files a and x in the local folder, so b and c are missing
    table_files       downloads b and c with `downloads`, and renews URLs that expire
    delta_copy        adds b and c and removes x in one commit, which records version 4 of the source

`table_download` runs these steps, `progress` counts for the progress bar. For a Parquet or CSV file, `table_rows` and
`row_files` replace `delta_copy`. Volumes, skills and models use `folder_readers` and `folder_download`. The package
uploads nothing, runs no queries, and trusts no server: see `delta_sharing_conformance.untrusted_http`.
"""
