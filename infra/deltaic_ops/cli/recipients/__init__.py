"""Commands for recipients: grants, tokens, invitations, OAuth clients, limits.

`deltaic recipient create alice`, her grant and her first token:

    recipient           create the recipient
    limit_options       parse --ends, --address and request limits
    grant               grant her a share
    token, invite       create a token and its profile file, or a link that creates them
    credential_use      show when credentials were last used and what expires soon

`federation` manages OAuth clients and policies, `access` explains access, `cut_off` ends all access at once.
`deltaic.sharing.rights` decides what a recipient can read, not these modules.
"""
