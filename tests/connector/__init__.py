"""A package, unlike the other folders of tests, so that the Spark session ends with its last test."""
