"""Check any Delta Sharing server against the protocol, knowing only a profile file.

One check, "a page token continues the listing", from the command to its result:

    command, profile    read the options and the profile file
    client              send requests as a recipient does, through the bounded HTTP client
    shared              find the shares, schemas and tables that the profile can see
    listings            the check: lists with maxResults=1 and follows nextPageToken
    expect, check       what the answer must look like; the section of the protocol that says so
    run                 run every check in order: passed, failed, or not applicable with the reason

Checks never write, and know nothing of Deltaic.
"""
