"""Run the whole product on one machine: an embedded AWS and a gateway that calls the functions.

`GET /shares` to `deltaic serve`:

    stack, state_folder start both servers; lock the state folder
    embedded            MiniStack in a separate process, which enforces signatures and policies (saved_state: its data)
    resources           the template's tables, roles, secrets and a bucket
    http_server         uvicorn receives the request
    gateway, routes     find the route of template.yaml
    authorizer          call the authorizer function and cache its policy
    proxy_event, functions  call the handler with API Gateway's event, stream its response
    aws_limits          the size and rate limits of Lambda

`sample` is the demo's data. Tests use the same server; nothing here runs on AWS.
"""
