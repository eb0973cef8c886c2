"""The `deltaic` command: one module per noun."""
