"""Read the template and the deployed stack; build, deploy and remove it.

`deltaic serve` needs the routes of template.yaml, `deltaic doctor` the parameters of a stack:

    template, api       routes, functions, tables, keys and roles as template.yaml declares them
    intrinsics          resolve !Ref, !Sub, parameters and conditions
    sam                 sam build and sam deploy; what SAM makes of the template, computed offline
    outputs             the outputs by which commands find a stack
    deployed_stack      what CloudFormation says about a stack: parameters, packages, what outlives it; delete it

Nothing here knows shares or recipients.
"""
