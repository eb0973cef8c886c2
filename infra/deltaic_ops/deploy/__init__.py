"""Read the template and the deployed stack; build, deploy and delete a stack.

`deltaic serve` needs the routes of template.yaml, `deltaic doctor` the parameters of a stack:

    sam_template, api   read routes, functions, tables, keys and roles from template.yaml
    intrinsics          resolve !Ref, !Sub, parameters and conditions
    sam                 run sam build and sam deploy; transform the template offline, like SAM does
    outputs             read the outputs of a stack, which commands use to find it
    deployed_stack      read parameters, packages and retained resources of a stack; delete it

This package does not know shares and recipients.
"""
