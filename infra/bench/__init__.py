"""Measure what answers cost, always beside a rival or a floor in the same run.

`python -m bench`, from tables to a report:

    tables, objects     logs of 1,000 to 1,000,000 files in SeaweedFS, which counts requests
    serving, client     our server as `deltaic serve` runs it, timed over a raw socket
    scenarios, figures  the requests that are measured, and the goal of each
    reference, beside   the reference server over the same tables, measured in the same way
    ours, rivals        signing and rendering alone, beside boto3 and deltalake
    report              JSON and a page

`cold` measures cold starts and `datasets` runs of the pipeline. Figures are ratios; no test depends on them.
"""
