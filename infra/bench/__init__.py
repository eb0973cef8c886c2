"""Measure the cost of answers, always compared with a competitor or a lower bound in the same run.

`python -m bench`, from tables to a report:

    measured_tables, object_store   logs of 1,000 to 1,000,000 files in SeaweedFS, which counts requests
    serving, http_timing            our server as `deltaic serve` runs it, timed over a raw socket
    scenarios, figures, process     the measured requests, with the goal and the cost of each
    reference, server_comparison    the reference server over the same tables, measured in the same way
    components, rivals              signing and rendering alone, compared with boto3 and deltalake
    report                          JSON and a page

`cold` measures cold starts, and `datasets` measures runs of the pipeline. No test depends on the figures.
"""
