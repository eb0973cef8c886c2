"""Check any Delta Sharing server against the protocol, with only a profile file.

One check, "a page token continues the listing", from the command to its result:

    command, profile    read the options and the profile file
    client              send requests as a recipient does, through the bounded HTTP client
    catalog             find the shares, schemas and tables that the profile can see
    listings            the check: lists with maxResults=1 and follows nextPageToken
    expect, check       compare the response with the section of the protocol that defines it
    run                 run every check in order: it holds, fails, or is not tried for a reason

Checks never write, and depend on nothing of Deltaic.
"""
