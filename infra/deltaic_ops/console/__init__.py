"""Serve the operator's console: web pages on this machine, rendered on the server.

A click on "Revoke token", from the request to the page:

    guard               only this machine, only with the key that the terminal printed
    application         the route
    recipients          the page with the button
    acting, plans       the form; the plan in words, with the command that does the same, carried out once as shown
    desk, provider      templates; the catalog, tables and usage by the operator's own rights

`works` runs what takes longer than a page. Rules and checks are those of the command line; the console adds none.
"""
