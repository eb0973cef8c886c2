"""Measure the cost of responses, always compared with a competitor or a lower bound in the same run.

`python -m bench`, from tables to a report:

    measured_tables, object_store   Delta logs with 1,000 to 1,000,000 files in SeaweedFS, which counts S3 requests
    serving, http_timing            our server, started like `deltaic serve`, timed over new connections
    scenarios, figures, process     the measured requests, with the goal and the cost of each
    reference, server_comparison    the reference Delta Sharing server over the same tables, measured in the same way
    components, rivals              URL signing and JSON rendering without HTTP, compared with boto3 and deltalake
    report                          the results as JSON and as a Markdown page

`cold` measures cold starts, and `datasets` measures runs of the pipeline. No test depends on the results.
"""
