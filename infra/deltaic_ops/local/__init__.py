"""Run the whole product on one machine: an embedded AWS, and a gateway that calls the functions.

Example: modules that start `deltaic serve` and handle `GET /shares`.

    stack, state_folder start the embedded AWS and the gateway; lock the state folder
    embedded            runs MiniStack, which enforces signatures and policies; saved_state stores its data
    resources           creates the template's tables, roles and secrets, and a bucket
    http_server         receives the request with uvicorn
    gateway, routes     find the request's route in template.yaml
    authorizer          calls the authorizer function and caches its policy
    proxy_event, functions  call the function's handler with API Gateway's event, and stream its response

`sample` contains the demo's data. Tests use the same server; nothing in this package runs on AWS.
"""
