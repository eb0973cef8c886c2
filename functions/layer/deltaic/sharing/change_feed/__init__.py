"""Return the changes of a table in a range of versions, for queries and for the change data feed."""
