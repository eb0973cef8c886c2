"""Check whether any Delta Sharing server conforms to the protocol; the only input is a profile file.

These modules take part in one check, "a page token continues the listing":

    command, profile    read the options and the profile file
    client              send requests with the recipient's token; `untrusted_http` limits the size of responses
    catalog             find the shares, schemas and tables that are shared with the recipient
    listings            the check: list with maxResults=1 and follow nextPageToken
    expect, check       compare the response with the section of the protocol that defines it
    run                 run every check in order; the result is "holds", "fails" or "not tried", with a reason

Checks write nothing to the server, and use no code of Deltaic.
"""
