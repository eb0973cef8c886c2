"""Views: one Delta table that holds what a SQL answers for each combination of recipients' properties."""
