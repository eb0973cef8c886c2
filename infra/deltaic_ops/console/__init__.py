"""Serve the operator's console: web pages for one operator, on a loopback port, rendered on the server.

Modules that handle a click on "Revoke" next to a token, in order:

    guard                       rejects requests from other machines, sites and programs, and requests without a session
    application                 routes the request to its handler
    recipient_pages             renders the page with the "Revoke" link
    page_actions, plans         show the form, then the plan with its command, and run this command once
    console_context, provider   render templates; read the catalog, tables and usage with the operator's credentials

`background_jobs` runs slow reads and commands outside of requests. Every change runs a `deltaic` command.
"""
