"""Serve the operator's console: web pages on this machine, rendered on the server.

A click on "Revoke" next to a token, from the request to the page:

    guard                       refuses requests from other machines, pages and programs, and those without a session
    application                 finds the route
    recipient_pages             shows the page with the link
    page_actions, plans         show the form, then the plan with its command, and run this command once
    console_context, provider   render templates; read the catalog, tables and usage with the operator's credentials

`background_jobs` runs what takes longer than a page. The rules and checks are those of the command line.
"""
