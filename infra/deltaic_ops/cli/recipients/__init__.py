"""Commands for recipients: grants, tokens, invitations, OAuth clients, limits.

`deltaic recipient create alice --expires 90d`, then her first token:

    recipient           create the recipient
    limits              parse --expires, --address and limits of requests
    grant               give her a share
    token, invite       create a token and its profile file, or a link that creates one
    used                show when keys were used last and what expires soon

`federation` manages OAuth clients and policies, `rights` explains access, `cut_off` revokes everything at once.
Nothing here decides what a recipient can read: `deltaic.sharing.rights` does.
"""
