"""Measure the cost of responses, with a goal for the most important figures.

`python -m bench`, from tables to a report:

    measured_tables, object_store   Delta logs with 1,000 to 1,000,000 files in SeaweedFS, which counts S3 requests
    serving, http_timing            our server, started like `deltaic serve`, timed over new connections
    scenarios, figures, process     the measured requests, with the goal and the cost of each
    components                      URL signing, JSON rendering and Iceberg manifests without HTTP
    report                          the results as JSON and as a Markdown page

`cold` measures cold starts. No test depends on the results.
"""
