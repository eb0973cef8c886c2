"""Spark as jobs run it: its session, jars, Java, access to storage, errors, SQL and shown progress."""
