"""Load CSV, Excel, JSON lines and Parquet files into Delta tables, without Spark."""
