"""Read the template and the deployed stack; build, deploy and delete a stack.

For example, `deltaic serve` needs the routes in template.yaml, and `deltaic doctor` the parameters of a stack:

    sam_template, api   read routes, functions, tables, keys and roles from template.yaml
    intrinsics          resolve !Ref, !Sub, parameters and conditions
    sam                 run sam build and sam deploy; apply SAM's transform to the template offline
    outputs             read the outputs of a stack: endpoint, table names, ARNs
    deployed_stack      read parameters, packages and retained resources of a stack; delete it

This package does not depend on shares and recipients.
"""
