"""Run the whole product on one machine: an embedded AWS and a gateway that calls the functions.

`GET /shares` to `deltaic serve`:

    stack, state        start both servers; lock the state folder
    embedded            MiniStack in its own process, with signatures and policies enforced; saved_state keeps its data
    resources           the template's tables, roles, secrets and a bucket
    http_server         uvicorn receives the request
    gateway, routes     find the route of template.yaml
    authorizer          call the authorizer function and cache its policy
    proxy_event, functions  call the handler with API Gateway's event, stream its answer
    aws_limits          the size and rate limits of Lambda and API Gateway

`sample` is the demo's data. Tests use the same server; nothing here runs on AWS.
"""
